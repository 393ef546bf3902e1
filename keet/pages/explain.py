"""The page of `keet explain`: verdict, where the time goes, what to change where.

A report with several launches begins with its program; the launches that take most of the time
follow, in as much detail as fits into a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.capture.report_document import report_cautions
from keet.explanation.capture_hints import caution_about
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.program import ProgramExplanation, program_of
from keet.pages.blocks import (
    Block,
    Command,
    Fold,
    Foot,
    Gap,
    Heading,
    Item,
    Items,
    Notice,
    Page,
    Reader,
    Span,
    Text,
    plain,
)
from keet.pages.device import describe_device
from keet.pages.launch import Detail, Shown, launch_blocks
from keet.pages.program import program_blocks, shown_launches
from keet.version import __version__

if TYPE_CHECKING:
    from keet.comparison.result import Difference

MOST_LINES = 60
"""Lines of a page that leaves launches out, at most."""
_SCREEN, _SCREEN_OF_SEVERAL = 45, 32
"""Lines for a launch that a model explains in a terminal, if it is the only one, and if not."""
_COLUMNS = 100
"""A narrower terminal gets as many words on more lines."""
_IDS = 10
"""Launches that are named as lacking a measurement."""


class Asked(NamedTuple):
    """What a page has of its explanations."""

    everything: bool = False
    """Each launch in full. Otherwise the program and the most important launches."""
    verbose: bool = False
    """The whole account of each launch that is printed in full, with evidence ids, and everything
    that a model wrote."""
    compared: Difference | None = None
    """What changed since another report, with so many kernels in full:"""
    changed_kernels: int = 5


def explain_page(
    explanations: Sequence[Explanation], reader: Reader, asked: Asked | None = None
) -> Page:
    asked = asked or Asked()
    blocks: list[Block] = []
    for explanation in explanations:
        blocks += [Gap(), Gap()] if blocks else []
        blocks += _report(explanation, reader, asked)
    if asked.compared:
        blocks += [Gap(), *_changes(asked.compared, reader, asked.changed_kernels)]
    return Page(blocks)


def _changes(compared: Difference, reader: Reader, top: int) -> Sequence[Block]:
    if forbidden := compared.forbidden:  # a terminal has it above, as an error
        text = f"What changed can't be told: {forbidden[0].text}; see: keet diff --help"
        return [Notice(text, only=("markdown", "html"))]
    from keet.pages.diff import diff_page

    return diff_page(compared, reader, top).blocks


def explain_part(
    explanation: Explanation,
    shown: Sequence[LaunchExplanation],
    details: Sequence[Detail],
    reader: Reader,
    *,
    is_first: bool,
) -> Page:
    """A part of an explanation, for a tool with pages: the given launches, each in the given
    detail. The first part begins with the program."""
    program = program_of(explanation)
    if program and not is_first:
        program = replace(program, cross_launch=())  # this part has no program above the launches
    own = explanation._replace(launches=tuple(shown))
    caution = caution_about(own.capture_hints.command)
    blocks = [*_head(explanation, program if is_first else None, reader)]
    for each, detail in zip(shown, details, strict=True):
        blocks += launch_blocks(Shown(each, program, reader, detail))
    blocks += _not_checked(own, reader)
    return Page([*blocks, *([Text(caution)] if caution else []), *_foot(explanation)])


def _report(explanation: Explanation, reader: Reader, asked: Asked) -> list[Block]:
    program, verbose = program_of(explanation), asked.verbose
    shown = shown_launches(explanation, program, everything=asked.everything)
    head = list(_head(explanation, program, reader))
    told = any(each.model_explanation for each in shown)
    is_screen = told and reader.format == "terminal" and not verbose

    def foot(count: int, launches: Sequence[Block] = ()) -> list[Block]:
        hidden = len(explanation.asked) - count
        return [
            Gap(),
            *([Text(hidden_text(hidden))] if hidden else []),
            *_not_checked(explanation, reader),
            *_without_code(explanation, shown[:count]),
            *_foot(explanation, launches, is_screen=is_screen),
        ]

    @cache
    def launch(place: int, detail: Detail) -> list[Block]:
        one = Shown(shown[place], program, reader, detail, verbose)
        if not one.each.model_explanation:
            return [Gap(), *launch_blocks(one)]
        from keet.pages.model import model_blocks, screen_blocks

        if not is_screen:
            return [Gap(), *model_blocks(one)]
        lines = _SCREEN_OF_SEVERAL
        if program is None:  # one launch, and no table before it
            lines = _SCREEN - reader.lines([*head, Gap(), *foot(1)])
        return [Gap(), *screen_blocks(one, lines * max(_COLUMNS, reader.width) // reader.width)]

    details: Sequence[Detail] = ["full"] * len(shown)
    if len(shown) < len(explanation.asked) and not told:
        room = MOST_LINES - reader.lines([*head, *foot(len(shown))])
        details = details_that_fit(len(shown), lambda *which: reader.lines(launch(*which)), room)
    launches = [block for which in enumerate(details) for block in launch(*which)]
    return [*head, *launches, *foot(len(details), launches)]


def details_that_fit(
    launches: int, lines: Callable[[int, Detail], int], room: int
) -> tuple[Detail, ...]:
    """The level of detail of each launch, the most important launch first.

    `lines`: number of lines of the launch at this position. Launches are only left out if they do
    not fit in brief; one launch is always printed.
    """
    counted = cache(lines)
    plans = (plan for count in range(launches, 0, -1) for plan in plans_of(count))
    for plan in plans:
        totals = accumulate(counted(place, detail) for place, detail in enumerate(plan))
        if all(total <= room for total in totals):  # stops counting when the limit is reached
            return plan
    return ("brief",)


def plans_of(count: int) -> Iterator[tuple[Detail, ...]]:
    """Possible details of so many launches, the most detailed first."""
    full: Detail = "full"
    brief: Detail = "brief"
    others = [brief] * (count - 1)
    yield tuple([full] * count)
    yield (full, *others)
    yield ("middle", *others)
    yield (brief, *others)


# --- the beginning and the end


def _head(
    explanation: Explanation, program: ProgramExplanation | None, reader: Reader
) -> Iterator[Block]:
    """A path that does not fit is not wrapped, so that it can be copied."""
    profile = explanation.profile
    path = Span(profile.provenance.path, "name")
    devices = f"on {', '.join(map(describe_device, profile.devices))}"
    if len(path.text) + 1 + len(devices) <= reader.width:
        yield Heading((path, f" {devices}"), look="", mark="keet:")
    else:
        yield Heading(path, look="", mark="keet:", is_unbroken=True)
        yield Text(devices)
    yield from map(Notice, report_cautions(profile))
    if program:
        yield from (Gap(), *program_blocks(program, reader))


def _not_checked(explanation: Explanation, reader: Reader) -> Iterator[Block]:
    hints = explanation.capture_hints
    if hints.lacking:
        yield Notice(hints.lacking_text)
    if reader.format != "terminal":
        lacking: dict[tuple[str, str], list[int]] = {}
        for each in explanation.launches:
            for skipped in each.skipped:
                lacking.setdefault((skipped.check, skipped.reason), []).append(each.launch.id)
        rows = [
            Item(f"{check}{whose_text(ids, explanation)}: {reason}")
            for (check, reason), ids in lacking.items()
        ]
        if rows:
            yield Fold("What was not checked, and why", [Items(rows)])
    if hints.command:
        yield Text(hints.introduction)
        yield Command(hints.command)
    yield from map(Notice, hints.sentences)


def _without_code(explanation: Explanation, shown: Sequence[LaunchExplanation]) -> Iterator[Block]:
    if text := without_code_text(explanation, shown):
        yield Text(text, "muted")


def _foot(
    explanation: Explanation, launches: Sequence[Block] = (), *, is_screen: bool = False
) -> Iterator[Block]:
    """`launches`: what is printed of them; a model's sentences in it may be marked."""
    verified, author = verified_text(explanation), explanation.author
    if author is None:
        yield Foot(f"{verified} keet {__version__}, no model.")
        return
    from keet.evidence import UNCHECKED
    from keet.pages.model import author_blocks

    texts = (plain(block.words) for block in launches if isinstance(block, Text))
    unchecked = sum(text.count(UNCHECKED) for text in texts)
    unchecked += sum(
        plain(item.words).count(UNCHECKED)
        for block in launches
        if isinstance(block, Items)
        for item in block.items
    )
    if is_screen:
        yield Text("Everything the model wrote, and the numbers it refers to: --verbose", "muted")
    answered = any(each.model_explanation for each in explanation.launches)
    yield from author_blocks(author, unchecked, verified, answered=answered, part="part")


def hidden_text(hidden: int) -> str:
    """How to see the launches that are not explained above."""
    if hidden == 1:
        return "1 more launch: use --all or --launch N."
    return f"{hidden:,} more launches: use --all for all of them, --launch N for one."


def whose_text(ids: Sequence[int], explanation: Explanation) -> str:
    """Which launches lack something; empty if all launches of the report do."""
    if len(ids) == len(explanation.launches):
        return " (in the launches that are explained)" if explanation.is_sample else ""
    more = ", …" if len(ids) > _IDS else ""
    return f" (launch {', '.join(map(str, ids[:_IDS]))}{more})"


def verified_text(explanation: Explanation) -> str:
    """What is true of the numbers in all texts: sentences print them from evidence only."""
    table = " and the run table" if explanation.whole_run else ""
    return f"All measured numbers in these texts come from the report{table}; gains are estimates."


def without_code_text(explanation: Explanation, shown: Sequence[LaunchExplanation]) -> str:
    """Which launches were explained with their machine code, if only some were."""
    counted = [each.view for each in shown if not each.view.lacks_counts]
    off = sum(view.code_state == "off" for view in counted)
    if not off or not explanation.reads_code:
        return ""
    read = len(counted) - off
    return (
        f"The machine code was analysed for {read} of these {len(shown)} launches: one "
        "for each kernel and shape that takes most of the time. For another one: --launch N."
    )
