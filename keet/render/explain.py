"""`keet explain` on a terminal: the verdict, the ceilings as bars, what to change and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from keet.analysis.ceilings import Ceiling
from keet.analysis.findings import Finding, Place
from keet.explanation.analyst import NO_REMEDY, Explanation, LaunchExplanation
from keet.profile import Dim3
from keet.render.show import describe_device
from keet.render.source_text import source_lines
from keet.render.whole_run import (
    confidence_of,
    forecast_of,
    replay_view,
    run_view,
    stands_for,
    unlike_view,
)

_BARS = 5
_LEAST = 0.05
"""Units below this share of their peak say nothing."""
_PLACES = 3
_STYLE = {"high": "bold green", "medium": "bold yellow", "low": "bold"}


def explain_view(explanation: Explanation, width: int) -> Group:
    parts: list[RenderableType] = [_heading(explanation)]
    if explanation.whole_run:
        parts += ["", *run_view(explanation.whole_run)]
    for each in explanation.launches:
        parts += ["", *_launch(each, width, in_run=explanation.whole_run is not None)]
        if explanation.author:
            from keet.render.statement import statement_view

            parts += statement_view(each, explanation.author)
    parts += ["", *_closing(explanation)]
    return Group(*parts)


def _heading(explanation: Explanation) -> Text:
    profile = explanation.profile
    devices = ", ".join(describe_device(device) for device in profile.devices)
    return Text.assemble((profile.provenance.path, "bold"), f" on {devices}")


def _launch(
    each: LaunchExplanation, width: int, *, in_run: bool = False
) -> Iterator[RenderableType]:
    yield _title(each, in_run=in_run)
    yield from unlike_view(each.in_run)
    if each.replay:
        yield from replay_view(each.replay)
    yield Padding(Text(each.verdict.headline, style="bold"), (0, 0, 0, 2), expand=False)
    yield ""
    for place, ceiling in enumerate(each.ceilings[:_BARS]):
        if ceiling.share >= _LEAST or place == 0:
            yield _bar(ceiling, width)
    for number, finding in enumerate(each.findings, 1):
        yield ""
        yield from _finding(number, finding, each)
        if each.statement:
            from keet.render.statement import why_view

            yield from why_view(each, finding.id)
    yield from _rest(each)


def _title(each: LaunchExplanation, *, in_run: bool) -> Text:
    """`in_run`: whether the run is known, in which it stands for something."""
    launch = each.launch
    duration = launch.get("duration")
    shape = f"grid {_shape(launch.grid)}, block {_shape(launch.block)}"
    took = f", {duration}" if duration else ""
    stands = f"; {stands_for(each)}." if in_run else ""
    return Text.assemble(
        (f"#{launch.id} ", "dim"), (launch.kernel, "bold"), f": {shape}{took}{stands}"
    )


def _shape(size: Dim3 | None) -> str:
    if size is None:
        return "unknown"
    kept = [n for i, n in enumerate(size) if n > 1 or i == 0]
    return "×".join(f"{n}" for n in kept)


def _bar(ceiling: Ceiling, width: int) -> Text:
    room = max(10, min(40, width - 40))
    full = min(room, round(room * ceiling.share))
    style = "red" if ceiling.share >= 0.6 else "cyan"
    return Text.assemble(
        f"  {ceiling.name:>7} ", ("█" * full, style), ("░" * (room - full), "dim"),
        f" {ceiling.reached:.0f}",
    )  # fmt: skip


def _finding(number: int, finding: Finding, each: LaunchExplanation) -> Iterator[RenderableType]:
    yield Text.assemble(
        f"{number}. ", (finding.title, _STYLE[finding.confidence]),
        f"  {forecast_of(each, finding)}", (f"  confidence: {confidence_of(each, finding)}", "dim"),
    )  # fmt: skip
    yield Padding(Text(finding.text), (0, 0, 0, 3), expand=False)
    lines = source_lines(each.launch)
    for place in finding.places[:_PLACES]:
        yield Padding(_place(place, lines), (0, 0, 0, 3), expand=False)
    yield Padding(Text.assemble(("→ ", "bold"), finding.action), (0, 0, 0, 3), expand=False)


def _place(place: Place, lines: Mapping[str, Sequence[str]]) -> Text:
    text = lines.get(place.file, ())
    code = text[place.line - 1].strip() if 1 <= place.line <= len(text) else ""
    if code == "}":  # the compiler counts subroutines of its own there
        code = "} (end of the function, or a routine of the compiler)"
    head = f"{place.share:4.0%} of the {place.of}  "
    return Text.assemble((head, "dim"), (place.where, "cyan"), "  ", (code, "italic"))


def _rest(each: LaunchExplanation) -> Iterator[RenderableType]:
    if each.healthy:
        yield ""
        yield Text.assemble(("Well: ", "green"), "; ".join(note.text for note in each.healthy))
    if each.second_opinion:
        yield Text(each.second_opinion, style="dim")


def _closing(explanation: Explanation) -> list[RenderableType]:
    skipped = {s.check: s for each in explanation.launches for s in each.skipped}
    lines = [*_verified(explanation)]
    if skipped:
        lines.append(Text(f"Not judged, for want of: {', '.join(skipped)}", style="yellow"))
        remedies = [s.remedy for s in skipped.values() if s.remedy != NO_REMEDY]
        lines += [Text(f"To judge that too: {remedy}") for remedy in remedies[:1]]
    return [*lines, *_without_code(explanation)]


def _without_code(explanation: Explanation) -> list[RenderableType]:
    """Which launches were explained with their machine code, where only some were."""
    states = [each.view.code_state for each in explanation.launches]
    off = states.count("off")
    if off in (0, len(states)):
        return []
    which = "longest of" if explanation.whole_run is None else "launches that matter most of"
    text = (
        f"The machine code was looked at for the {len(states) - off} {which} {len(states)} "
        "launches; choose others with --launch N."
    )
    return [Text(text, style="dim")]


def _verified(explanation: Explanation) -> Iterator[RenderableType]:
    if explanation.author:
        from keet.render.statement import model_closing

        yield from model_closing(explanation, explanation.author)
        return
    grounding = explanation.grounding
    told = f"{grounding.verified} of {grounding.numbers} numbers verified against the report"
    told += " and the table of the run" if explanation.whole_run else ""
    yield Text(told, style="dim")
