"""`keet explain` on a terminal: the verdict, where the time goes, what to change and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from keet.analysis.findings import Finding, Place
from keet.explanation.analyst import Explanation, LaunchExplanation
from keet.explanation.confidence import why_low
from keet.explanation.precedents import precedents_text
from keet.explanation.program import Program, program_of
from keet.profile import shape_text
from keet.render.account import account_line, account_view
from keet.render.detail import (
    FINDINGS,
    MOST_LINES,
    NAMED,
    PLACES,
    Detail,
    details_that_fit,
)
from keet.render.line_count import line_count
from keet.render.places import place_shares, unplaced_shares
from keet.render.program import (
    cases_text,
    finding_text,
    hidden_text,
    is_cut,
    program_view,
    shown_launches,
    stands_for_text,
    verified_text,
)
from keet.render.show import command_view, describe_device
from keet.render.source_text import source_lines
from keet.render.whole_run import (
    confidence_of,
    forecast_of,
    replay_view,
    stands_for,
    unlike_view,
)

_INDENT = 3
_LEAST_CODE = 12
"""Characters of a source line that are worth printing."""
_STYLE = {"high": "bold green", "medium": "bold yellow", "low": "bold"}


def explain_view(
    explanation: Explanation, width: int, *, everything: bool = False, verbose: bool = False
) -> Group:
    """`everything`: each launch in full. Otherwise the program, and the launches that matter.

    `verbose`: the whole account of each launch that is printed in full, with evidence ids.
    """
    program = program_of(explanation)
    shown = shown_launches(explanation, program, everything=everything)
    head: list[RenderableType] = _heading(explanation, width)
    head += ["", *program_view(program, width)] if program else []
    foot = ["", *_closing(explanation, program, shown, width)]

    def block(place: int, detail: Detail) -> list[RenderableType]:
        each = shown[place]
        parts = ["", *_launch(each, width, program, detail, verbose=verbose)]
        if explanation.author:
            from keet.render.statement import statement_view

            parts += statement_view(each, explanation.author)
        return parts

    details: Sequence[Detail] = ["full"] * len(shown)
    if is_cut(explanation, shown):
        room = MOST_LINES - line_count([*head, *foot], width)
        details = details_that_fit(
            len(shown), lambda *which: line_count(block(*which), width), room
        )
        if len(details) < len(shown):
            foot = ["", *_closing(explanation, program, shown[: len(details)], width)]
    blocks = [part for which in enumerate(details) for part in block(*which)]
    return Group(*head, *blocks, *foot)


def _stands_for(each: LaunchExplanation, program: Program | None) -> str:
    in_run = f"; {stands_for(each)}." if program and program.run else ""
    return in_run or stands_for_text(program, each)


def _heading(explanation: Explanation, width: int) -> list[RenderableType]:
    """A path that does not fit stays whole, so that it can be copied."""
    profile = explanation.profile
    devices = ", ".join(describe_device(device) for device in profile.devices)
    path = Text(profile.provenance.path, "bold", no_wrap=True, overflow="ignore")
    whole = Text.assemble(path, f" on {devices}")
    return [whole] if whole.cell_len <= width else [path, Text(f"on {devices}")]


def _launch(
    each: LaunchExplanation, width: int, program: Program | None, detail: Detail, *, verbose: bool
) -> Iterator[RenderableType]:
    yield _title(each, _stands_for(each, program))
    yield from unlike_view(each.in_run)
    if each.replay:
        yield from replay_view(each.replay)
    yield Padding(Text(each.verdict.headline, style="bold"), (0, 0, 0, 2), expand=False)
    if detail == "brief":
        yield from account_line(each)
    elif account := list(account_view(each, width, verbose=verbose)):
        yield from ["", *account]
    told = FINDINGS[detail]
    said: set[str] = set()
    for number, finding in enumerate(each.findings[:told], 1):
        yield ""
        yield _name(number, finding, each)
        yield _indented(Text(finding_text(finding, program)))
        yield from _remedy(finding, each, detail, width)
        if detail != "brief":
            yield from _remarks(finding, each, said)
        if each.statement:
            from keet.render.statement import why_view

            yield from why_view(each, finding.id)
    for number, finding in enumerate(each.findings[told:][:NAMED], told + 1):
        yield _name(number, finding, each)
    if detail == "full":
        yield from _rest(each)


def _title(each: LaunchExplanation, stands_for: str) -> Text:
    """`stands_for`: what else the launch is an example of."""
    launch = each.launch
    duration = launch.get("duration")
    sizes = {"grid": launch.grid, "block": launch.block}
    facts = [f"{name} {shape_text(size)}" for name, size in sizes.items() if size]
    facts += [str(duration)] if duration else []
    told = f": {', '.join(facts)}" if facts else ""
    return Text.assemble((f"#{launch.id} ", "dim"), (launch.kernel, "bold"), f"{told}{stands_for}")


def _remedy(
    finding: Finding, each: LaunchExplanation, detail: Detail, width: int
) -> Iterator[RenderableType]:
    """Where to change what."""
    lines = source_lines(each.launch)
    places = finding.places[: PLACES[detail]]
    for place, share in zip(places, place_shares(places)):
        yield _indented(_place(place, share, lines, width))
    for share in unplaced_shares(places):
        yield _indented(Text.assemble((f"{share}  ", "dim"), "no source line"))
    yield _indented(Text.assemble(("→ ", "bold"), finding.action))


def _remarks(finding: Finding, each: LaunchExplanation, said: set[str]) -> Iterator[RenderableType]:
    """Why the confidence is low, where it is, and what the same fix gained in measured cases.

    `said`: of the same launch; nothing is said twice.
    """
    for text in (why_low(finding, each.view, each.account), precedents_text(finding)):
        if text and text not in said:
            said.add(text)
            yield _indented(Text(text, style="dim"))


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, _INDENT), expand=False)


def _name(number: int, finding: Finding, each: LaunchExplanation) -> Text:
    return Text.assemble(
        f"{number}. ", (finding.title, _STYLE[finding.confidence]),
        f"  {forecast_of(each, finding)}", (f"  confidence: {confidence_of(each, finding)}", "dim"),
    )  # fmt: skip


def _place(place: Place, share: str, lines: Mapping[str, Sequence[str]], width: int) -> Text:
    """On one line: code that does not fit is cut."""
    text = lines.get(place.file, ())
    code = text[place.line - 1].strip() if 1 <= place.line <= len(text) else ""
    if code == "}":  # the compiler counts subroutines of its own there
        code = "} (end of the function, or a routine of the compiler)"
    where = Text.assemble((f"{share}  ", "dim"), (place.where, "cyan"))
    room = width - where.cell_len - _INDENT - 2
    if not code or room < _LEAST_CODE:
        return where
    shown = Text(code, "italic")
    shown.truncate(room, overflow="ellipsis")
    return Text.assemble(where, "  ", shown)


def _rest(each: LaunchExplanation) -> Iterator[RenderableType]:
    if each.healthy or each.second_opinion:
        yield ""
    if each.healthy:
        healthy = "; ".join(note.text for note in each.healthy)
        yield Text.assemble(("Looks good: ", "green"), healthy)
    if each.second_opinion:
        yield Text(each.second_opinion, style="dim")


def _closing(
    explanation: Explanation,
    program: Program | None,
    shown: Sequence[LaunchExplanation],
    width: int,
) -> list[RenderableType]:
    hidden = hidden_text(explanation, shown)
    lines: list[RenderableType] = [Text(f"{hidden}.")] if hidden else []
    lines += _verified(explanation, program, shown)
    lines += _not_checked(explanation, width)
    return [*lines, *_without_code(explanation, shown)]


def _not_checked(explanation: Explanation, width: int) -> Iterator[RenderableType]:
    hints = explanation.capture_hints
    if hints.lacking:
        text = f"Not checked, because the report does not have it: {', '.join(hints.lacking)}."
        yield Text(text, style="yellow")
    if hints.command:
        yield Text(hints.introduction)
        yield from command_view(hints.command, width)
    yield from (Text(sentence, style="yellow") for sentence in hints.sentences)


def _without_code(
    explanation: Explanation, shown: Sequence[LaunchExplanation]
) -> list[RenderableType]:
    """Which launches were explained with their machine code, where only some of these were."""
    off = sum(each.view.code_state == "off" for each in shown)
    if not off or not explanation.reads_code:
        return []
    text = (
        f"The machine code was analysed for {len(shown) - off} of these {len(shown)} launches: one "
        "for each kernel and shape that takes most of the time. For another one: --launch N."
    )
    return [Text(text, style="dim")]


def _verified(
    explanation: Explanation, program: Program | None, shown: Sequence[LaunchExplanation]
) -> Iterator[RenderableType]:
    told = f"{verified_text(explanation, program)} {cases_text(shown)}".rstrip()
    yield Text(told, style="dim")
    if explanation.author:
        from keet.render.statement import model_closing

        yield from model_closing(explanation, explanation.author)
