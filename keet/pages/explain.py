"""The page of `keet explain`: verdict, where the time goes, what to change where.

A report with several launches begins with its program; the launches that take most of the time
follow, in as much detail as fits into a few lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.coverage import report_cautions
from keet.analysis.time_model import WORTH
from keet.explanation.capture_hints import caution_about
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.program import program_of
from keet.formatting import count_noun, first_sentence, listed, times_text
from keet.pages.blocks import (
    Anchors,
    Block,
    Cell,
    Column,
    Command,
    Fold,
    Foot,
    Gap,
    Heading,
    Item,
    Items,
    Notice,
    Page,
    Part,
    Reader,
    RooflineFigure,
    Span,
    Text,
    Words,
    joined,
    plain,
    table_of,
)
from keet.pages.capture import capture_part, captured_text, describe_device, workload_count
from keet.pages.launch import Detail, Shown, first_change, launch_blocks, launch_section
from keet.pages.listings import COPY_CONTEXT, Listings, PageRoom, launch_name, page_room
from keet.pages.program import detail_text, gain_text, linked_name, program_blocks, shown_launches
from keet.profile.launch import file_name
from keet.safe_text import one_line, shortened
from keet.units import Quantity
from keet.version import __version__

if TYPE_CHECKING:
    from keet.comparison.result import Difference

MOST_LINES = 80
"""Lines of a page that leaves launches out, at most."""
_SCREEN, _SCREEN_OF_SEVERAL = 45, 32
"""Lines for a launch that a model explains in a terminal, if it is the only one, and if not."""
_COLUMNS = 100
"""A narrower terminal gets as many words on more lines."""
_NAMED = 3
"""Launches that the bar of an HTML page links to."""
_OTHERS = 300
"""Launches that an HTML page has in brief."""
_WITH_CHARTS = 50
"""Launches of an HTML page that have their own charts, which take about 20 kB each."""
_LONGEST_TITLE = 200
_LONGEST_ENTRY = 80
"""Characters of a kernel's name in the list beside the page."""
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
    several: bool = False
    """Whether several reports were asked for: an HTML page begins with an index."""
    unread: Sequence[str] = ()
    """Why other files could not be read, for that index."""
    editor: bool = False
    """Whether source lines of an HTML page are links to an editor."""


def explain_page(
    explanations: Sequence[Explanation], reader: Reader, asked: Asked | None = None
) -> Page:
    asked = asked or Asked()
    if reader.format == "html":
        return _html_page(explanations, reader._replace(has_links=asked.editor), asked)
    blocks: list[Block] = []
    for explanation in explanations:
        blocks += [Gap(), Gap()] if blocks else []
        blocks += _report(explanation, reader, asked)
    if asked.compared:
        blocks += _changes(asked.compared, reader, asked.changed_kernels, Anchors())
    return Page(blocks)


def _changes(compared: Difference, reader: Reader, top: int, anchors: Anchors) -> Sequence[Block]:
    if forbidden := compared.forbidden:  # a terminal has it above, as an error
        text = f"What changed can't be told: {forbidden[0].text}; see: keet diff --help"
        heading = Heading("What changed", 2)
        part = Part([heading, Notice(text)], anchor=anchors.top("diff"), only=("markdown", "html"))
        return [part]
    from keet.pages.diff import diff_page, diff_part

    if reader.format == "html":
        return [diff_part(compared, reader, top, anchors)]
    return [Gap(), *diff_page(compared, reader, top).blocks]


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
    blocks = [*_head(explanation, reader)]
    if program and is_first:
        blocks += program_blocks(program, reader, first=[*first_change(program, reader)])
    for each, detail in zip(shown, details, strict=True):
        blocks += launch_blocks(Shown(each, program, reader, detail))
    blocks += _not_checked(own, reader)
    return Page([*blocks, *([Text(caution)] if caution else []), *_foot(explanation)])


def _report(explanation: Explanation, reader: Reader, asked: Asked) -> list[Block]:
    program, verbose = program_of(explanation), asked.verbose
    shown = shown_launches(explanation, program, everything=asked.everything)
    head = list(_head(explanation, reader))
    if program:
        first = [*first_change(program, reader)]
        head += [Gap(), *program_blocks(program, reader, first=first)]
    told = any(each.model for each in shown)
    is_screen = told and reader.format == "terminal" and not verbose

    def foot(count: int, launches: Sequence[Block] = ()) -> list[Block]:
        hidden = len(explanation.asked) - count
        return [
            Gap(),
            *([Text(hidden_text(hidden))] if hidden else []),
            *_not_checked(explanation, reader, verbose=verbose),
            *_without_code(explanation, shown[:count]),
            *_foot(explanation, launches, is_screen=is_screen),
        ]

    @cache
    def launch(place: int, detail: Detail) -> list[Block]:
        one = Shown(shown[place], program, reader, detail, verbose)
        if not one.each.model:
            return [Gap(), *launch_blocks(one)]
        from keet.pages.model import model_blocks, screen_blocks

        if not is_screen:
            return [Gap(), *model_blocks(one)]
        lines = _SCREEN_OF_SEVERAL
        if program is None:  # one launch, and no table before it
            lines = _SCREEN - reader.lines([*head, Gap(), *foot(1)])
        return [Gap(), *screen_blocks(one, lines * max(_COLUMNS, reader.width) // reader.width)]

    details: Sequence[Detail] = ["full"] * len(shown)
    if len(shown) < len(explanation.asked) and not (told or verbose):
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
    firsts: tuple[Detail, ...] = ("full", "middle", "brief")
    full, _, brief = firsts
    yield (full,) * count
    yield from ((first, *(brief,) * (count - 1)) for first in firsts)


# --- the beginning and the end


def _head(explanation: Explanation, reader: Reader) -> Iterator[Block]:
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


def _not_checked(
    explanation: Explanation, reader: Reader, *, verbose: bool = False
) -> Iterator[Block]:
    hints = explanation.capture_hints
    if verbose and hints.command:
        hints = hints._replace(command=hints.command.in_full)
    if hints.lacking:
        yield Notice(hints.lacking_text)
    if reader.format != "terminal":
        lacking: dict[tuple[str, str], list[int]] = {}
        for launch in explanation.launches:
            for skipped in launch.skipped:
                lacking.setdefault((skipped.check, skipped.reason), []).append(launch.launch.id)
        rows = [
            Item(f"{check}{whose_text(ids, explanation)}: {reason}")
            for (check, reason), ids in lacking.items()
        ]
        if rows:
            yield Fold("What was not checked, and why", [Items(rows)])
    for introduction, command in hints.commands:
        yield Text(introduction)
        yield from (Command(command), Gap())
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
    from keet.pages.model import author_blocks

    if is_screen:
        yield Text("Everything the model wrote, and the numbers it refers to: --verbose", "muted")
    answered = any(launch.model for launch in explanation.launches)
    yield from author_blocks(author, _texts(launches), verified, answered=answered, part="part")


def _texts(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Part | Fold):
            yield from _texts(block.blocks)
        elif isinstance(block, Items):
            yield from (plain(item.words) for item in block.items)
        elif isinstance(block, Text):
            yield plain(block.words)


def hidden_text(hidden: int) -> str:
    """How to see the launches that are not explained above."""
    if hidden == 1:
        return "1 more launch: use --all or --launch N."
    return f"{hidden:,} more launches: use --all for all of them, --launch N for one."


def whose_text(ids: Sequence[int], explanation: Explanation) -> str:
    """Which launches lack something; empty if all launches of the report do."""
    if len(ids) == len(explanation.launches):
        return " (in the launches that are explained)" if explanation.is_sample else ""
    return f" (launch {listed([*map(str, ids)], _IDS)})"


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
        f"The machine code was analysed for {read} of these {len(shown)} launches, of the kernels "
        "and shapes that take most of the time. For another one: --launch N."
    )


# --- in HTML


class _Report:
    """One explained report and its place on an HTML page."""

    def __init__(self, explanation: Explanation, anchors: Anchors, *, everything: bool) -> None:
        self.explanation, self.anchors = explanation, anchors
        self.profile = explanation.profile
        self.program = program_of(explanation)
        self.shown = shown_launches(explanation, self.program, everything=everything)
        groups = self.program.groups if self.program else ()
        self.groups = {member.launch.id: group for group in groups for member in group.members}
        in_full = {each.launch.id for each in self.shown}
        self.others = [
            g for g in groups if not in_full & {member.launch.id for member in g.members}
        ]
        """Groups of launches of which none is shown in full, those with most time first."""
        self.placed = in_full | {group.first.launch.id for group in self.others[:_OTHERS]}
        """Launches that have a place on the page."""
        ranked = self.program.shown_launches if self.program else ()
        leading = (each for each in ranked if each.launch.id in in_full)
        self.first = next(leading, self.shown[0])
        """The launch in the page's title: of those shown in full, the one that takes most time."""

    @property
    def name(self) -> str:
        return one_line(file_name(self.profile.provenance.path))

    def listings(self, room: PageRoom) -> Listings:
        return Listings(self.explanation, self.shown, self.groups, room, self.anchors)

    def part(self, reader: Reader, listings: Listings, asked: Asked, level: int) -> Part:
        explanation, anchors = self.explanation, self.anchors
        firsts = [group.first for group in self.others]
        links = {number: anchors.launch(number) for number in self.placed}
        blocks = [*self._head(level), *map(Notice, report_cautions(self.profile))]
        if (author := explanation.author) and author.problem:  # the answer is then the analyst's
            from keet.pages.model_words import problem_text

            answered = any(launch.model for launch in explanation.launches)
            blocks.append(Notice(problem_text(author.problem, answered=answered)))
        if self.program:
            first = first_change(self.program, reader, anchors, listings.owner)
            rows = [*program_blocks(self.program, reader, links, [*first])]
            blocks.append(Part(rows, "program", anchors.top("program")))
        for place, each in enumerate(self.shown):
            owner = listings.owner(each)
            one = Shown(each, self.program, reader, anchors=anchors, listed_by=owner)
            one.has_charts = place < _WITH_CHARTS
            model: Iterable[Block] = ()
            if each.model:
                from keet.pages.model import model_section

                model = model_section(one)
            section = [*launch_section(one, listings.blocks(each), model)]
            blocks.append(Part(section, "launch", one.anchor()))
        blocks += self._less(reader)
        if asked.compared:
            blocks += _changes(asked.compared, reader, asked.changed_kernels, anchors)
        marks = [each.launch for each in (*self.shown, *firsts)]
        if len(marks) > 1:  # one launch has its own above
            figure = RooflineFigure(marks, anchors, self.placed)
            blocks.append(Part([Heading("Roofline", 2), figure], anchor=anchors.top("roofline")))
        lacking = [*_not_checked(explanation, reader), *_without_code(explanation, self.shown)]
        blocks.append(capture_part(explanation, self.shown, anchors, lacking))
        return Part(blocks, "report", anchors.top("report"), tag="div")

    def _head(self, level: int) -> Iterator[Block]:
        profile, name = self.profile, self.name
        programs = dict.fromkeys(file_name(x.process) for x in profile.launches if x.process)
        facts = [
            ", ".join(map(describe_device, profile.devices)),
            ", ".join(map(one_line, programs)),
            workload_count(profile.launches),
            captured_text(profile.provenance.created),
        ]
        folder = one_line(profile.provenance.path).removesuffix(name)
        stem, dot, ending = name.rpartition(".")
        words = (stem or ending, Span(f"{dot}{ending}" if stem else "", "ending"))
        beside = Span(f" in {folder}" if folder else "", "muted path")
        heading = Heading((*words, beside), level, "break")
        yield Part([heading, Text(joined(facts, " · "), "muted")], "head", tag="div")

    def _less(self, reader: Reader) -> Iterator[Block]:
        """Launches that matter less, one entry per kernel and shape."""
        if not self.others:
            return
        launches = count_noun(sum(len(g.members) for g in self.others), "more launch")
        of = count_noun(len(self.others), "kernel and shape", "kernels and shapes")
        listed = self.others[:_OTHERS]
        is_cut = len(listed) < len(self.others)
        cut = f"; the {len(listed)} that take most time are listed" if is_cut else ""
        entries = []
        for group in listed:
            one = Shown(group.first, self.program, reader, "brief", anchors=self.anchors)
            entries.append(Part([*launch_blocks(one)], "brief", one.anchor(), tag="article"))
        fold = Fold(f"{launches} of {of}{cut}", entries)
        heading = Heading("Launches that matter less", 2)
        yield Part([heading, fold], anchor=self.anchors.top("others"))

    def links(self, *, is_compared: bool) -> Iterator[tuple[str, str]]:
        """Parts of the page, and what the bar calls them."""
        anchors, is_single = self.anchors, len(self.shown) == 1
        if self.program:
            yield anchors.top("program"), "Program"
        if is_compared:
            yield anchors.top("diff"), "What changed"
        if is_single:
            (each,) = self.shown
            parts = {"findings": "Findings", "source": "Source"}
            if each.main_amounts:
                parts["amounts"] = "How much work"
            yield from ((anchors.launch(each.launch.id, key), name) for key, name in parts.items())
        if not is_single or self.others:
            yield anchors.top("roofline"), "Roofline"
        if self.others:
            yield anchors.top("others"), "Others"
        yield anchors.top("capture"), "Capture"

    def entries(self, where: str = "") -> Iterator[_Entry]:
        """One per kernel and shape. `where`: the report, on a page with several."""
        if self.program is None:
            first, gain = self.first.launch, _gain(self)
            name = Span(first.kernel, "name", self.anchors.launch(first.id))
            saved = first.rank_time * (1 - 1 / gain) if gain else 0.0
            yield _Entry(name, where, first.rank_time, saved, times_text(gain) if gain else "")
            return
        links = {number: self.anchors.launch(number) for number in self.placed}
        repeated = Counter(row.kernel for row in self.program.rows)
        for row in self.program.rows[:_OTHERS]:
            name = linked_name(row, one_line(row.kernel), links)
            below = ", ".join(filter(None, (detail_text(row, repeated), where)))
            time = float(row.evidence[2].value)
            yield _Entry(name, below, time, row.saved_ns, gain_text(row))


class _Entry(NamedTuple):
    """A row of the list beside the page. Times in nanoseconds; 0: not measured."""

    name: Span
    below: str
    time: float
    saved: float
    """If the first finding were fixed."""
    gain: str
    """Empty: too small to print."""


def _launch_list(reports: Sequence[_Report]) -> Iterator[Block]:
    """One report's as on the page, those of several by the time that a fix saves; nothing if there
    is one."""
    entries: list[_Entry] = []
    for report in reports:  # many reports have the same name, in different folders
        path = one_line(report.profile.provenance.path)
        entries += report.entries("/".join(path.split("/")[-2:]) if len(reports) > 1 else "")
    if len(entries) < 2:
        return
    if len(reports) > 1:
        entries.sort(key=lambda entry: -entry.saved if entry.gain else 0.0)
    total = sum(entry.time for entry in entries) or 1.0
    rows: list[dict[Column, Words | Cell]] = []
    for entry in entries:
        time = str(Quantity(entry.time, "ns")) if entry.time else "-"
        saved = Cell("-", value="")
        if entry.gain:
            words = (str(Quantity(entry.saved, "ns")), Span(f" ({entry.gain})", "muted"))
            saved = Cell(words, value=entry.saved, share=entry.saved / total)
        name, half = entry.name.text, _LONGEST_ENTRY // 2
        # Ends of names distinguish templates.
        text = name if len(name) <= _LONGEST_ENTRY else f"{name[:half]}…{name[-half:]}"
        rows.append({
            Column("Kernel", look="name"): Cell(entry.name._replace(text=text), entry.below, name),
            Column("Time", is_number=True): Cell(time, value=entry.time or ""),
            Column("Saves", is_number=True): saved,
        })  # fmt: skip
    caption = "Saves: if the first finding of the kernel were fixed (an estimate)."
    title = "Kernels by time saved" if len(reports) > 1 else "Kernels"
    yield Fold(title, [table_of(rows, caption, "Kernels")], is_open=True)


def _html_page(explanations: Sequence[Explanation], reader: Reader, asked: Asked) -> Page:
    several = asked.several
    reports = [
        _Report(each, Anchors(f"r{n}" if several else ""), everything=asked.everything)
        for n, each in enumerate(explanations, 1)
    ]
    launches = sum(len(explanation.launches) for explanation in explanations)
    room = page_room(launches, sum(len(report.shown) for report in reports), len(reports))
    listings = [report.listings(room) for report in reports]
    level = 2 if several else 1
    parts: list[Block] = [
        report.part(reader, own, asked, level) for report, own in zip(reports, listings)
    ]
    feet = [block for each, part in zip(explanations, parts) for block in _foot(each, [part])]
    feet.append(Foot("This page is one file: it loads nothing and sends nothing."))
    if several:
        count = count_noun(len(reports), "report")
        links = [("reports", "Reports")]
        links += [(each.anchors.top("report"), each.name) for each in reports[:_NAMED]]
        index = _index(count, reports, asked.unread)
        title, beside = f"{count} explained by keet", [*_launch_list(reports)]
        return Page([index, *parts, *feet], title, count, links, beside=beside)
    (report,) = reports
    # So that the history of a browser tells what was found.
    limit, _ = first_sentence(report.first.verdict.headline)
    title = shortened(f"{report.name}: {limit}", _LONGEST_TITLE)
    links = [*report.links(is_compared=asked.compared is not None)]
    copies = (listings[0].context_anchor, COPY_CONTEXT)
    return Page([*parts, *feet], title, report.name, links, copies, [*_launch_list(reports)])


def _index(count: str, reports: Sequence[_Report], unread: Sequence[str]) -> Part:
    rows: list[dict[Column, Words | Cell]] = []
    for report in reports:
        path, first = report.profile.provenance.path, report.first
        total = sum(launch.rank_time for launch in report.explanation.asked)
        gain = _gain(report)
        devices = (device.name or "not recorded" for device in report.profile.devices)
        time = Cell(str(Quantity(total, "ns")) if total else "-", value=total or "")
        link = Span(launch_name(first), "", report.anchors.launch(first.launch.id))
        rows.append({
            Column("Report", look="name"):
                Cell(Span(path, "name", report.anchors.top("report")), value=path),
            Column("GPU"): ", ".join(devices),
            Column("Time", is_number=True): time,
            Column("Kernel that matters most"): link,
            Column("Answer"): first_sentence(first.verdict.headline)[0],
            Column("Gain", is_number=True):
                Cell(times_text(gain) if gain else "", value=gain or ""),
        })  # fmt: skip
    blocks: list[Block] = [Heading(count), table_of(rows, name="Reports")]
    if unread:
        files = count_noun(len(unread), "file")
        blocks.append(Notice(f"{files} could not be read:", "strong warn"))
        blocks.append(Items([Item(Span(each, "break")) for each in unread]))
    return Part(blocks, anchor="reports")


def _gain(report: _Report) -> float:
    """For a report with several kernels, the gain of the whole; else that of the first finding. 0:
    too small to print."""
    program, first = report.program, report.first
    if program:
        gain = program.rows[0].gain if len(program.rows) == 1 else program.gain
    else:
        gain = first.findings[0].forecast if first.findings and not first.replay else None
    return gain.likely if gain and gain.likely >= WORTH else 0.0
