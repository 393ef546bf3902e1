"""`keet explain --format markdown`: for pull requests and chats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keet.analysis.findings import Finding, Place
from keet.explanation.analyst import Explanation, LaunchExplanation
from keet.profile import Dim3
from keet.render.excerpt import around, indentation, language, runs
from keet.render.markdown import code, fence, prose, table
from keet.render.show import describe_device
from keet.render.source_text import source_lines
from keet.render.statement_markdown import (
    author_markdown,
    dropped_markdown,
    statement_markdown,
    why_markdown,
)
from keet.render.statement_text import dropped_claims, numbers_told, statements
from keet.render.whole_run import (
    confidence_of,
    forecast_of,
    replay_markdown,
    run_markdown,
    stands_for,
    unlike_markdown,
)
from keet.version import __version__

_UNITS = 5
_LEAST = 0.05
"""Units below this share of their peak say nothing."""
_PLACES = 3
_RADIUS = 2
"""Lines of code before and after those that matter."""


def explain_markdown(explanation: Explanation) -> str:
    blocks = [*_heading(explanation)]
    if explanation.whole_run:
        blocks += run_markdown(explanation.whole_run)
    for each in explanation.launches:
        blocks += _launch(each, in_run=explanation.whole_run is not None)
        if explanation.author:
            blocks += statement_markdown(each, explanation.author)
    blocks += [*_not_judged(explanation), *_closing(explanation)]
    return "\n\n".join(blocks) + "\n"


def _heading(explanation: Explanation) -> Iterator[str]:
    profile = explanation.profile
    yield f"## keet: {code(profile.provenance.path)}"
    yield prose(", ".join(describe_device(device) for device in profile.devices))


def _launch(each: LaunchExplanation, *, in_run: bool) -> Iterator[str]:
    # "#3" would be a link to an issue.
    yield f"### Launch {each.launch.id}: {code(each.launch.kernel)}"
    yield from unlike_markdown(each.in_run)
    if each.replay:
        yield from replay_markdown(each.replay)
    yield f"**{prose(each.verdict.headline)}**"
    yield _facts(each, in_run=in_run)
    rows = [[c.name, f"{c.reached:.0f}"] for c in each.ceilings[:_UNITS] if c.share >= _LEAST]
    if rows:
        yield table(["unit", "of its peak"], rows)
    lines = source_lines(each.launch)
    for rank, finding in enumerate(each.findings, 1):
        yield from _finding(rank, finding, each, lines)
        yield from why_markdown(each, finding.id)
    if each.healthy:
        yield "**Well:**\n\n" + "\n".join(f"- {prose(note.text)}" for note in each.healthy)
    if each.second_opinion:
        yield prose(each.second_opinion)


def _facts(each: LaunchExplanation, *, in_run: bool) -> str:
    launch = each.launch
    duration = launch.get("duration")
    facts = [
        f"grid {_shape(launch.grid)}" if launch.grid else None,
        f"block {_shape(launch.block)}" if launch.block else None,
        str(duration) if duration else "duration not measured",
        stands_for(each) if in_run else None,
    ]
    return prose(", ".join(fact for fact in facts if fact))


def _shape(size: Dim3) -> str:
    return "×".join(str(n) for i, n in enumerate(size) if n > 1 or i == 0)


def _finding(
    rank: int, finding: Finding, each: LaunchExplanation, lines: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    forecast, confidence = prose(forecast_of(each, finding)), confidence_of(each, finding)
    yield f"#### {rank}. {prose(finding.title)}: {forecast}, confidence {confidence}"
    yield prose(finding.text)
    places = finding.places[:_PLACES]
    if places:
        yield "\n".join(
            f"- {code(place.where)}: {place.share:.0%} of the {prose(place.of)}" for place in places
        )
    for file in dict.fromkeys(place.file for place in places):
        yield from _excerpt(file, places, lines.get(file, ()))
    yield f"**Do:** {prose(finding.action)}"


def _excerpt(file: str, places: Sequence[Place], text: Sequence[str]) -> Iterator[str]:
    """The lines of one file, marked, with those around them."""
    marked = {place.line for place in places if place.file == file and place.line <= len(text)}
    shown = around(marked, _RADIUS, len(text))
    if not shown:
        return
    indent = indentation(text[n - 1] for n in shown)
    width = len(str(shown[-1]))
    rows: list[str] = []
    for run in runs(shown):
        rows += ["..."] if rows else []
        for n in run:
            mark = ">" if n in marked else " "
            rows.append(f"{mark} {n:{width}}  {text[n - 1].expandtabs(4)[indent:]}".rstrip())
    yield fence(rows, language(file))


def _not_judged(explanation: Explanation) -> Iterator[str]:
    """What all launches lack is said once."""
    lacking: dict[tuple[str, str], list[int]] = {}
    for each in explanation.launches:
        for skipped in each.skipped:
            lacking.setdefault((skipped.check, skipped.reason), []).append(each.launch.id)
    if not lacking:
        return
    yield "### Not judged"
    yield "\n".join(
        f"- {prose(check)}{_whose(ids, explanation)}: {prose(reason)}"
        for (check, reason), ids in lacking.items()
    )
    remedies = dict.fromkeys(s.remedy for each in explanation.launches for s in each.skipped)
    commands = [remedy for remedy in remedies if remedy.startswith(("ncu ", "keet "))]
    if commands:
        yield "To judge the rest:"
        yield fence(commands[:1], "sh")


def _whose(ids: Sequence[int], explanation: Explanation) -> str:
    if len(ids) == len(explanation.launches):
        return ""
    return f" (launch {', '.join(map(str, ids))})"


def _closing(explanation: Explanation) -> Iterator[str]:
    grounding, author = explanation.grounding, explanation.author
    yield from dropped_markdown((*grounding.dropped, *dropped_claims(explanation)))
    if author:
        answered = bool(statements(explanation))
        yield from author_markdown(author, numbers_told(explanation), answered=answered)
        return
    told = f"{grounding.verified} of {grounding.numbers} numbers verified against the report"
    told += " and the table of the run" if explanation.whole_run else ""
    yield f"*{told}; keet {__version__}, no model*"
