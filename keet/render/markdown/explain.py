"""`keet explain --format markdown`: for pull requests and chats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from keet.analysis.capture.report_document import report_cautions
from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.explanation.capture_hints import caution_about
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_figures import figures_text
from keet.explanation.ncu_rules import precedes_findings
from keet.explanation.program import ProgramExplanation, program_of
from keet.formatting import shape_parts
from keet.pages.device import describe_device
from keet.pages.source_text import around, indentation, language, runs, source_lines
from keet.render.common.detail import (
    FINDINGS,
    MOST_LINES,
    NAMED,
    PLACES,
    Detail,
    details_that_fit,
    plans_of,
)
from keet.render.common.finding import (
    all_fixed_text,
    certainty_of,
    forecast_of,
    nearest_changes,
    new_remarks,
)
from keet.render.common.model_explanation import edit_replaces_advice, model_explanations
from keet.render.common.places import place_shares, unplaced_shares
from keet.render.common.program import (
    finding_text,
    hidden_text,
    is_cut,
    shown_launches,
    stands_for_text,
    verified_text,
    whose_text,
)
from keet.render.common.whole_run import stands_for
from keet.render.markdown.account import account_line_markdown, account_markdown
from keet.render.markdown.markup import code, fence, prose, unlinked
from keet.render.markdown.model_explanation import (
    author_markdown,
    edits_markdown,
    headline_markdown,
    model_markdown,
    why_markdown,
)
from keet.render.markdown.program import program_markdown
from keet.render.markdown.whole_run import replay_markdown, unlike_markdown
from keet.version import __version__

_RADIUS = 2
"""Lines of code before and after the important ones."""


def explain_markdown(
    explanation: Explanation, *, everything: bool = False, verbose: bool = False
) -> str:
    """`everything`: each launch in full. Otherwise the program and the most important launches.

    `verbose`: the whole account of each launch that is printed in full, with evidence ids, and what
    a model expected before it saw any numbers.
    """
    program = program_of(explanation)
    shown = shown_launches(explanation, program, everything=everything)
    head = [*_heading(explanation), *(program_markdown(program) if program else ())]

    closing = [*_not_judged(explanation), *_closing(explanation)]

    @cache
    def block(place: int, detail: Detail) -> list[str]:
        return list(_launch(shown[place], program, detail, verbose=verbose))

    def foot(count: int) -> list[str]:
        hidden = hidden_text(explanation, shown[:count])
        return [prose(f"{hidden}."), *closing] if hidden else closing

    details: Sequence[Detail] = ["full"] * len(shown)
    if is_cut(explanation, shown):
        room = MOST_LINES - _lines(*head, *foot(len(shown)))
        details = details_that_fit(len(shown), lambda *which: _lines(*block(*which)), room)
    blocks = [text for which in enumerate(details) for text in block(*which)]
    return "\n\n".join([*head, *blocks, *foot(len(details))]) + "\n"


def page_markdown(
    explanation: Explanation, shown: Sequence[LaunchExplanation], room: int, *, is_first: bool
) -> str:
    """A page of an explanation, for a tool with pages: all of the given launches, in as much detail
    as fits into `room` characters. The first page begins with the program."""
    program = program_of(explanation)
    if program and not is_first:
        program = replace(program, cross_launch=())  # this page has no program above the launches
    head = [*_heading(explanation), *(program_markdown(program) if program and is_first else ())]
    own = explanation._replace(launches=tuple(shown))
    caution = caution_about(own.capture_hints.command)
    foot = [*_not_judged(own), *([caution] if caution else ()), *_closing(explanation)]
    text = ""
    for details in plans_of(len(shown)):
        blocks = [
            block
            for each, detail in zip(shown, details, strict=True)
            for block in _launch(each, program, detail, verbose=False)
        ]
        text = "\n\n".join([*head, *blocks, *foot]) + "\n"
        if len(text) <= room:
            break
    return text


def _lines(*blocks: str) -> int:
    """Each block, followed by a blank line."""
    return sum(block.count("\n") + 2 for block in blocks)


def _stands_for(each: LaunchExplanation, program: ProgramExplanation | None) -> str:
    if program and program.run:
        return stands_for(each)
    return stands_for_text(program, each).removeprefix("; ")


def _heading(explanation: Explanation) -> Iterator[str]:
    profile = explanation.profile
    yield f"## keet: {code(profile.provenance.path)}"
    yield prose(", ".join(describe_device(device) for device in profile.devices))
    yield from map(prose, report_cautions(profile))


def _launch(
    each: LaunchExplanation, program: ProgramExplanation | None, detail: Detail, *, verbose: bool
) -> Iterator[str]:
    # "#3" would be a link to an issue.
    yield f"### Launch {each.launch.id}: {code(each.launch.kernel)}"
    yield from unlike_markdown(each.in_run)
    if each.replay:
        yield from replay_markdown(each.replay)
    yield from headline_markdown(each)
    yield _facts(each, _stands_for(each, program))
    if each.model_explanation:
        yield from _with_model(each, program, verbose=verbose)
    else:
        yield from _account(each, detail, verbose=verbose)
        if precedes_findings(each.second_opinion) and detail != "brief":
            yield prose(each.second_opinion or "")
        yield from _findings(each, program, detail, set())
    if detail != "full":
        return
    if each.minor_defect:
        yield prose(each.minor_defect)
    if each.healthy:
        yield "**Looks good:**\n\n" + "\n".join(f"- {prose(note.text)}" for note in each.healthy)
    if each.second_opinion and (
        each.model_explanation or not precedes_findings(each.second_opinion)
    ):
        yield prose(each.second_opinion)


def _with_model(
    each: LaunchExplanation, program: ProgramExplanation | None, *, verbose: bool
) -> Iterator[str]:
    """The first cause and how to fix it, then everything else."""
    printed: set[str] = set()
    yield from _findings(each, program, "full", printed, slice(1))
    yield from edits_markdown(each)
    yield from _account(each, "full", verbose=verbose)
    yield from _findings(each, program, "full", printed, slice(1, None))
    yield from model_markdown(each, verbose=verbose)


def _account(each: LaunchExplanation, detail: Detail, *, verbose: bool) -> Iterator[str]:
    if detail == "brief":
        yield from account_line_markdown(each)
    else:
        yield from account_markdown(each, verbose=verbose)


def _findings(
    each: LaunchExplanation,
    program: ProgramExplanation | None,
    detail: Detail,
    printed: set[str],
    which: slice = slice(None),
) -> Iterator[str]:
    """`printed`: remarks printed for this launch so far. `which`: selects from the findings of this
    level of detail."""
    in_full = FINDINGS[detail]
    lines = source_lines(each.launch) if detail != "brief" else {}
    for rank, finding in list(enumerate(each.findings[:in_full], 1))[which]:
        forecast, sure = prose(forecast_of(each, finding)), certainty_of(each, finding)
        yield f"#### {rank}. {prose(finding.title)}: {forecast}, cause {sure}"
        yield prose(unlinked(finding_text(finding, program)))
        yield from _places(finding, lines, detail)
        if not edit_replaces_advice(each, finding.id):
            yield f"**Do:** {prose(finding.action)}"
        if detail != "brief":
            yield from _remarks(finding, each, printed)
        yield from why_markdown(each, finding.id)
    named = [
        f"- {prose(finding.title)}: {prose(forecast_of(each, finding))}"
        for finding in each.findings[in_full:][:NAMED]
    ]
    if named:
        yield "\n".join(["Also:", "", *named])
    if (every := all_fixed_text(each)) and which.stop is None:
        yield prose(every)


def _facts(each: LaunchExplanation, stands_for: str) -> str:
    launch = each.launch
    duration = launch.get("duration")
    facts = [
        *shape_parts(grid=launch.grid, block=launch.block),
        str(duration) if duration else "duration not measured",
        stands_for,
    ]
    figures = figures_text(each.view)
    return prose(". ".join(filter(None, (", ".join(filter(None, facts)), figures))))


def _places(finding: Finding, lines: Mapping[str, Sequence[str]], detail: Detail) -> Iterator[str]:
    places = finding.places[: PLACES[detail]]
    if places:
        shares = zip(places, place_shares(places))
        rows = [
            f"- {code(place.where)}" + (f": {prose(share)}" if share else "")
            for place, share in shares
        ]
        rows += [f"- no source line: {prose(share)}" for share in unplaced_shares(places)]
        yield "\n".join(rows)
    for file in dict.fromkeys(place.file for place in places):
        yield from _excerpt(file, places, lines.get(file, ()))


def _remarks(finding: Finding, each: LaunchExplanation, printed: set[str]) -> Iterator[str]:
    """`printed`: remarks printed for this launch so far; none is repeated."""
    if remarks := new_remarks(finding, each, printed):
        yield prose(" ".join(remarks))
    if changes := nearest_changes(finding, each):
        yield fence(changes, "diff")


def _excerpt(file: str, places: Sequence[Place], text: Sequence[str]) -> Iterator[str]:
    """The given lines of one file, marked, with the lines around them."""
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
    """What all launches lack is printed once."""
    lacking: dict[tuple[str, str], list[int]] = {}
    for each in explanation.launches:
        for skipped in each.skipped:
            lacking.setdefault((skipped.check, skipped.reason), []).append(each.launch.id)
    if not lacking:
        return
    yield "### Not checked"
    yield "\n".join(
        f"- {prose(check)}{whose_text(ids, explanation)}: {prose(reason)}"
        for (check, reason), ids in lacking.items()
    )
    hints = explanation.capture_hints
    if hints.command:
        yield prose(hints.introduction)
        yield fence([hints.command], "sh")
    if hints.sentences:
        yield prose(" ".join(hints.sentences))


def _closing(explanation: Explanation) -> Iterator[str]:
    author, verified = explanation.author, verified_text(explanation)
    if author:
        yield from author_markdown(author, verified, answered=bool(model_explanations(explanation)))
        return
    yield f"*{verified} keet {__version__}, no model*"
