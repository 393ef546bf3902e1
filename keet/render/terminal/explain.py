"""The view of `keet explain` for a terminal: verdict, where the time goes, what to change where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from keet.analysis.capture.report_document import report_cautions
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_figures import figures_text
from keet.explanation.ncu_rules import precedes_findings
from keet.explanation.program import ProgramExplanation, program_of
from keet.formatting import shape_parts
from keet.pages.device import describe_device
from keet.render.common.detail import FINDINGS, MOST_LINES, NAMED, PLACES, Detail, details_that_fit
from keet.render.common.finding import all_fixed_text
from keet.render.common.program import (
    finding_text,
    hidden_text,
    is_cut,
    shown_launches,
    stands_for_text,
    verified_text,
    without_code_text,
)
from keet.render.common.whole_run import stands_for
from keet.render.terminal.account import account_line, account_view
from keet.render.terminal.console import to_text
from keet.render.terminal.finding import (
    action_view,
    indented,
    nearest_view,
    only_possible_view,
    places_view,
    remarks_view,
    title_view,
)
from keet.render.terminal.layout import Group, Renderable, Text
from keet.render.terminal.line_count import line_count
from keet.render.terminal.program import program_view
from keet.render.terminal.whole_run import replay_view, unlike_view

_SCREEN, _COLUMNS = 45, 100
"""Lines for one launch that a model explains, and the columns of the terminal that this is computed
for."""
_SEVERAL = 32
"""Lines per launch if a model explains several."""


def explain_view(
    explanation: Explanation, width: int, *, everything: bool = False, verbose: bool = False
) -> Group:
    """`everything`: each launch in full. Otherwise the program and the most important launches.

    `verbose`: the whole account of each launch that is printed in full, with evidence ids, and
    everything that a model wrote.
    """
    program = program_of(explanation)
    shown = shown_launches(explanation, program, everything=everything)
    if any(each.model_explanation for each in shown):
        return _with_model(explanation, program, shown, width, verbose=verbose)
    head = _head(explanation, program, width)
    missing = _model_closing(explanation)
    foot = ["", *_closing(explanation, shown, width), *missing]

    def block(place: int, detail: Detail) -> list[Renderable]:
        return ["", *_launch(shown[place], width, program, detail, verbose=verbose)]

    details: Sequence[Detail] = ["full"] * len(shown)
    if is_cut(explanation, shown):
        room = MOST_LINES - line_count([*head, *foot], width)
        details = details_that_fit(
            len(shown), lambda *which: line_count(block(*which), width), room
        )
        if len(details) < len(shown):
            printed = shown[: len(details)]
            foot = ["", *_closing(explanation, printed, width), *missing]
    blocks = [part for which in enumerate(details) for part in block(*which)]
    return Group(*head, *blocks, *foot)


def _with_model(
    explanation: Explanation,
    program: ProgramExplanation | None,
    shown: Sequence[LaunchExplanation],
    width: int,
    *,
    verbose: bool,
) -> Group:
    """Each launch that a model explains gets a screen; with `verbose`, everything is printed."""
    head = _head(explanation, program, width)
    unchecked = sum(
        len(each.model_explanation.unchecked) for each in shown if each.model_explanation
    )
    foot = ["", *_closing(explanation, shown, width)]
    by_model = _model_closing(explanation, unchecked, verbose=verbose)
    room = _SEVERAL
    if program is None:  # one launch, and no table before it
        room = _SCREEN - line_count([*head, "", *foot, *by_model], max(width, _COLUMNS))
    blocks: list[Renderable] = []
    for each in shown:
        blocks.append("")
        if each.model_explanation and not verbose:
            blocks += _screen(each, program, room, width)
        else:
            blocks += _launch(each, width, program, "full", verbose=verbose)
    if unchecked and not verbose:  # some launches may be in parts that are not printed
        unchecked = to_text(Group(*blocks), _COLUMNS).count("[unchecked]")
        by_model = _model_closing(explanation, unchecked)
    return Group(*head, *blocks, *foot, *by_model)


def _screen(
    each: LaunchExplanation, program: ProgramExplanation | None, lines: int, width: int
) -> list[Renderable]:
    from keet.render.terminal.model_screen import first_screen

    title = list(_heading_of(each, program))
    lines -= line_count(title, max(width, _COLUMNS))
    return [*title, *first_screen(each, program, lines, width, _COLUMNS)]


def _head(
    explanation: Explanation, program: ProgramExplanation | None, width: int
) -> list[Renderable]:
    heading = _heading(explanation, width)
    return [*heading, *(["", *program_view(program, width)] if program else [])]


def _stands_for(each: LaunchExplanation, program: ProgramExplanation | None) -> str:
    in_run = f"; {stands_for(each)}." if program and program.run else ""
    return in_run or stands_for_text(program, each)


def _heading(explanation: Explanation, width: int) -> list[Renderable]:
    """A path that does not fit is not wrapped, so that it can be copied."""
    profile = explanation.profile
    devices = ", ".join(describe_device(device) for device in profile.devices)
    path = Text(profile.provenance.path, "bold", no_wrap=True, overflow="ignore")
    whole = Text.assemble(path, f" on {devices}")
    lines = [whole] if whole.cell_len <= width else [path, Text(f"on {devices}")]
    return [*lines, *(Text(each, style="yellow") for each in report_cautions(profile))]


def _launch(
    each: LaunchExplanation,
    width: int,
    program: ProgramExplanation | None,
    detail: Detail,
    *,
    verbose: bool,
) -> Iterator[Renderable]:
    yield from _heading_of(each, program)
    yield from _verdict(each)
    if detail == "brief":
        yield from account_line(each)
    elif account := list(account_view(each, width, verbose=verbose)):
        yield from ["", *account]
    if precedes_findings(each.second_opinion) and detail != "brief":
        yield ""
        yield Text(each.second_opinion or "")
    in_full = FINDINGS[detail]
    printed: set[str] = set()
    for number, finding in enumerate(each.findings[:in_full], 1):
        yield ""
        yield from title_view(number, finding, each, width)
        yield indented(Text(finding_text(finding, program)))
        yield from places_view(finding, each, PLACES[detail], width)
        yield action_view(finding)
        if detail == "brief":
            yield from only_possible_view(finding, each)
        else:
            yield from remarks_view(finding, each, printed)
            yield from nearest_view(finding, each) if verbose else ()
        if each.model_explanation:
            from keet.render.terminal.model_verbose import why_view

            yield from why_view(each, finding.id)
    for number, finding in enumerate(each.findings[in_full:][:NAMED], in_full + 1):
        yield from title_view(number, finding, each, width)
    if every := all_fixed_text(each):
        yield indented(Text(every))
    if each.model_explanation:
        from keet.render.terminal.model_verbose import model_view

        yield from model_view(each)
    if detail == "full":
        yield from _rest(each)


def _heading_of(
    each: LaunchExplanation, program: ProgramExplanation | None
) -> Iterator[Renderable]:
    """The figures are of the replay, so what the run differs by comes before them."""
    yield _title(each, _stands_for(each, program))
    yield from unlike_view(each.in_run)
    if each.replay:
        yield from replay_view(each.replay)
    if figures := figures_text(each.view):
        yield indented(Text(figures, style="dim"), 2)


def _verdict(each: LaunchExplanation) -> Iterator[Renderable]:
    if each.model_explanation is None:
        yield indented(Text(each.verdict.headline, style="bold"), 2)
        return
    from keet.render.terminal.model_explanation import headline_view, summary_view

    yield headline_view(each)
    if each.model_explanation.summary:
        yield summary_view(each.model_explanation.summary)


def _title(each: LaunchExplanation, stands_for: str) -> Text:
    """`stands_for`: the other launches that this one represents."""
    launch = each.launch
    duration = launch.get("duration")
    facts = [*shape_parts(grid=launch.grid, block=launch.block)]
    facts += [str(duration)] if duration else []
    details = f": {', '.join(facts)}" if facts else ""
    return Text.assemble(
        (f"#{launch.id} ", "dim"), (launch.kernel, "bold"), f"{details}{stands_for}"
    )


def _rest(each: LaunchExplanation) -> Iterator[Renderable]:
    opinion = None if precedes_findings(each.second_opinion) else each.second_opinion
    if each.healthy or opinion or each.minor_defect:
        yield ""
    if each.minor_defect:
        yield Text(each.minor_defect)
    if each.healthy:
        healthy = "; ".join(note.text for note in each.healthy)
        yield Text.assemble(("Looks good: ", "green"), f"{healthy}.")
    if opinion:
        yield Text(opinion, style="dim")


def _closing(
    explanation: Explanation,
    shown: Sequence[LaunchExplanation],
    width: int,
) -> list[Renderable]:
    hidden = hidden_text(explanation, shown)
    lines: list[Renderable] = [Text(f"{hidden}.")] if hidden else []
    lines.append(Text(verified_text(explanation), style="dim"))
    lines += _not_checked(explanation, width)
    return [*lines, *_without_code(explanation, shown)]


def _model_closing(
    explanation: Explanation, unchecked: int = 0, *, verbose: bool = False
) -> list[Renderable]:
    """`unchecked`: number of printed sentences with that mark."""
    if explanation.author is None:
        return []
    from keet.render.terminal.model_explanation import model_closing

    return list(model_closing(explanation, explanation.author, unchecked, verbose=verbose))


def _not_checked(explanation: Explanation, width: int) -> Iterator[Renderable]:
    hints = explanation.capture_hints
    if hints.lacking:
        yield Text(hints.lacking_text, style="yellow")
    if hints.command:
        yield Text(hints.introduction)
        yield from command_view(hints.command, width)
    yield from (Text(sentence, style="yellow") for sentence in hints.sentences)


def _without_code(explanation: Explanation, shown: Sequence[LaunchExplanation]) -> list[Renderable]:
    text = without_code_text(explanation, shown)
    return [Text(text, style="dim")] if text else []


def command_view(command: str, width: int) -> list[Renderable]:
    """A command on separate lines, so that it can be copied."""
    # A word longer than the terminal is not wrapped by keet, so that it can be copied.
    return [
        Text(line, style="cyan", no_wrap=True, overflow="ignore")
        for line in _shell_lines(command, width)
    ]


def _shell_lines(command: str, width: int) -> list[str]:
    """Breaks a long command at places where a shell continues it, so that it can be copied."""
    lines: list[str] = []
    line = " "
    for word in _WORD.findall(command):
        if len(line) + 1 + len(word) > width - 2 and line.strip():
            lines.append(f"{line} \\")
            line = "     "
        line += f" {word}"
    return [*lines, line]


_WORD = re.compile(
    r"""--(?:section|set|import-source)\ \S+ | (?: "[^"]*" | '[^']*' | [^\s"'] )+ | \S+""",
    re.VERBOSE,
)
"""A word of a command: quoted text stays together, and an option keeps its value."""
