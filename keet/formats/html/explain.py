"""`keet explain --format html`: one page for a report, or for several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.capture.report_document import report_cautions
from keet.analysis.time_model import WORTH
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_groups import LaunchGroup
from keet.explanation.program import program_of
from keet.formats.html.blocks import html_part, reader
from keet.formats.html.data_table import Cell, Column, data_table
from keet.formats.html.explain_listings import Listings, PageRoom, listing_owners, page_room
from keet.formats.html.launch import LaunchParts, brief_entry, launch_name, launch_section, link_to
from keet.formats.html.markup import Content, Html, element, fragment, joined, prose
from keet.formats.html.page import bar, page
from keet.formats.html.program import MOST_ROWS, program_section
from keet.formats.html.roofline import roofline_figure
from keet.formatting import times_text
from keet.pages.anchors import Anchors
from keet.pages.blocks import Part
from keet.pages.capture import capture_part
from keet.pages.device import captured_text, describe_device, workload_count
from keet.pages.explain import _not_checked, _without_code, verified_text
from keet.pages.program import gain_text, shown_launches
from keet.profile import Launch, Profile
from keet.profile.names import file_name
from keet.safe_text import one_line, shortened
from keet.units import Quantity
from keet.version import __version__

if TYPE_CHECKING:
    from keet.comparison.compare import Difference

_NAMED = 3
"""Launches that the bar links to."""
_LONGEST_TITLE = 200
_SELF_CONTAINED = "This page is one file: it loads nothing and sends nothing."


class _Report:
    """One explained report and its place on the page."""

    def __init__(self, explanation: Explanation, anchors: Anchors, *, everything: bool) -> None:
        self.explanation, self.anchors = explanation, anchors
        self.profile = explanation.profile
        self.program = program_of(explanation)
        self.shown = shown_launches(explanation, self.program, everything=everything)
        groups = self.program.groups if self.program else ()
        self.groups = {each.launch.id: group for group in groups for each in group.members}
        self.owners = listing_owners(self.shown, self.groups)

    @property
    def name(self) -> str:
        return one_line(file_name(self.profile.provenance.path))

    @property
    def first(self) -> LaunchExplanation:
        """The launch in the page's title: of those shown in full, the one that takes most time."""
        in_full = {each.launch.id for each in self.shown}
        most = [
            x
            for x in (self.program.shown_launches if self.program else ())
            if x.launch.id in in_full
        ]
        return next(iter((*most, *self.shown)))

    @cached_property
    def others(self) -> list[LaunchGroup]:
        """Groups of launches of which none is shown in full, those with most time first."""
        full = {each.launch.id for each in self.shown}
        groups = self.program.groups if self.program else ()
        return [g for g in groups if not full.intersection(e.launch.id for e in g.members)]

    @property
    def listed_others(self) -> list[LaunchGroup]:
        """Those that have an entry on the page."""
        return self.others[:MOST_ROWS]

    def listings(self, room: PageRoom) -> Listings:
        return Listings(self.explanation, self.owners, self.anchors, room, self.groups)

    @cached_property
    def placed(self) -> list[Launch]:
        """Launches that have a section of their own on the page."""
        firsts = [group.first for group in self.listed_others]
        return [each.launch for each in (*self.shown, *firsts)]


class Compared(NamedTuple):
    """What changed since another report."""

    difference: Difference
    top: int
    """Rows of each of its lists."""


def explain_page(
    explanation: Explanation, *, everything: bool = False, compared: Compared | None = None
) -> str:
    """One report. `everything`: each launch in full, instead of those that matter."""
    report = _Report(explanation, Anchors(), everything=everything)
    # So that the history of a browser tells what was found.
    title = shortened(f"{report.name}: {report.first.verdict.headline}", _LONGEST_TITLE)
    listings = report.listings(page_room(len(explanation.launches), len(report.shown)))
    key = report.anchors.launch(listings.largest, "context")
    copy = element("button", "Copy prompt context", type="button", data_copy=key, hidden=True)
    return page(
        title,
        bar(report.name, [*_launch_links(report, is_compared=compared is not None)], copy),
        _report(report, listings, "h1", compared),
        footer=_footer([report]),
    )


def reports_page(
    explanations: Sequence[Explanation], *, everything: bool = False, unread: Sequence[str] = ()
) -> str:
    """Several reports with an index. `unread`: why other files could not be read."""
    reports = [
        _Report(each, Anchors(f"r{number}"), everything=everything)
        for number, each in enumerate(explanations, 1)
    ]
    launches = sum(len(each.launches) for each in explanations)
    in_full = sum(len(report.shown) for report in reports)
    room = page_room(launches, in_full).among(len(reports))
    count = f"{len(reports)} reports" if len(reports) > 1 else "1 report"
    return page(
        f"{count} explained by keet",
        bar(count, [*_report_links(reports)]),
        _index(count, reports, unread),
        [_report(report, report.listings(room), "h2") for report in reports],
        footer=_footer(reports),
    )


# --- the bar, and the index of several reports


Links = Iterator[tuple[str, str]]
"""Ids of parts of the page, and what the bar calls them."""


def _report_links(reports: Sequence[_Report]) -> Links:
    yield "reports", "Reports"
    for report in reports[:_NAMED]:
        yield report.anchors.top("report"), report.name


def _launch_links(report: _Report, *, is_compared: bool) -> Links:
    anchors = report.anchors
    if report.program:
        yield anchors.top("program"), "Program"
    if is_compared:
        yield anchors.top("diff"), "What changed"
    yield anchors.top("roofline"), "Roofline"
    yield anchors.top("capture"), "Capture"
    if report.others:
        yield anchors.top("others"), "Others"
    for each in report.shown[:_NAMED]:  # last: there may be too many for the bar
        yield anchors.launch(each.launch.id), launch_name(each)


_COLUMNS = (
    Column("Report", first="ascending"),
    Column("GPU", first="ascending"),
    Column("Time", is_number=True),
    Column("Kernel that matters most", first="ascending"),
    Column("Answer", first="ascending"),
    Column("Gain", is_number=True),
)


def _index(count: str, reports: Sequence[_Report], unread: Sequence[str]) -> Html:
    return element(
        "section",
        element("h1", count),
        data_table("Reports", _COLUMNS, [_index_cells(report) for report in reports]),
        _unread(unread),
        id="reports",
    )


def _index_cells(report: _Report) -> list[Cell]:
    path = one_line(report.profile.provenance.path)
    total = sum(launch.rank_time for launch in report.explanation.asked)
    gain, likely = _gain(report)
    link = element("a", path, href=f"#{report.anchors.top('report')}", class_="break")
    return [
        Cell(link, path),
        Cell(", ".join(device.name or "not recorded" for device in report.profile.devices)),
        Cell(str(Quantity(total, "ns")) if total else "-", total or ""),
        Cell(link_to(report.first, report.anchors)),
        Cell(prose(report.first.verdict.headline), report.first.verdict.headline),
        Cell(gain, likely or ""),
    ]


def _gain(report: _Report) -> tuple[str, float]:
    """For a report with several kernels, the gain of the whole; else that of the first finding."""
    row = report.program.rows[0] if report.program and len(report.program.rows) == 1 else None
    if row is not None:
        return gain_text(row), row.gain.likely if row.gain and gain_text(row) else 0.0
    gain = report.program.gain if report.program else None
    likely = gain.likely if gain else 0.0
    if report.program is None and report.first.findings and not report.first.replay:
        likely = report.first.findings[0].forecast.likely
    return (times_text(likely), likely) if likely >= WORTH else ("", 0.0)


def _unread(unread: Sequence[str]) -> Html | None:
    if not unread:
        return None
    count = "1 file" if len(unread) == 1 else f"{len(unread)} files"
    return element(
        "div",
        element("p", element("strong", f"{count} could not be read:")),
        element("ul", [element("li", one_line(each), class_="break") for each in unread]),
        class_="note warn",
    )


# --- one report


def _report(
    report: _Report, listings: Listings, level: str, compared: Compared | None = None
) -> Html:
    return element(
        "div",
        _heading(report.profile, level),
        [element("p", each, class_="note warn") for each in report_cautions(report.profile)],
        _problem(report.explanation),
        _program(report),
        [launch_section(each, _surroundings(report, each, listings)) for each in report.shown],
        _others(report),
        _changed(compared, report.anchors) if compared else None,
        _roofline(report),
        html_part([_capture(report)], report.anchors.top("capture-")),
        id=report.anchors.top("report"),
        class_="report",
    )


def _heading(profile: Profile, level: str) -> Html:
    path, name = (
        one_line(x) for x in (profile.provenance.path, file_name(profile.provenance.path))
    )
    programs = dict.fromkeys(file_name(each.process) for each in profile.launches if each.process)
    facts = [
        ", ".join(describe_device(device) for device in profile.devices),
        ", ".join(one_line(program) for program in programs),
        workload_count(profile.launches),
        captured_text(profile.provenance.created) if profile.provenance.created else "",
    ]
    folder = path.removesuffix(name)
    stem, dot, ending = name.rpartition(".")
    stem, ending = (stem, dot + ending) if stem else (ending, "")
    beside = [" ", element("small", f"in {folder}", class_="muted path")] if folder else None
    return fragment(
        element(level, stem, element("span", ending, class_="ending"), beside, class_="break"),
        element("p", joined(filter(None, facts), " · "), class_="muted"),
    )


def _problem(explanation: Explanation) -> Html | None:
    """Says that the model failed, above the answer, which is then the analyst's."""
    author = explanation.author
    if author is None or not author.problem:
        return None
    told = any(each.model_explanation for each in explanation.launches)
    lacking = "incomplete" if told else "missing"
    text = f"The model's part is {lacking}: {' '.join(author.problem.split())}"
    return element("p", one_line(text), class_="note warn")


def _program(report: _Report) -> Html | None:
    if report.program is None:
        return None
    targets = {launch.id for launch in report.placed}
    return program_section(report.program, report.anchors, targets)


def _surroundings(report: _Report, each: LaunchExplanation, listings: Listings) -> LaunchParts:
    found = listings.of(each)
    return LaunchParts(
        report.anchors,
        report.program,
        found.lines,
        found.source,
        found.context,
    )


def _others(report: _Report) -> Html | None:
    """Launches that do not matter, one entry per kernel and shape."""
    others = report.others
    if not others:
        return None
    launches = sum(len(group.members) for group in others)
    count = "1 more launch" if launches == 1 else f"{launches:,} more launches"
    of = "1 kernel and shape" if len(others) == 1 else f"{len(others):,} kernels and shapes"
    listed = report.listed_others
    cut = f"; the {len(listed)} that take most time are listed" if len(listed) < len(others) else ""
    entries = [
        brief_entry(group.first, LaunchParts(report.anchors, report.program)) for group in listed
    ]
    return element(
        "section",
        element("h2", "Launches that matter less"),
        element(
            "details",
            element("summary", f"{count} of {of}{cut}"),
            entries,
            class_="fold",
        ),
        id=report.anchors.top("others"),
    )


def _capture(report: _Report) -> Part:
    lacking = [
        *_not_checked(report.explanation, reader()),
        *_without_code(report.explanation, report.shown),
    ]
    return capture_part(report.explanation, report.shown, report.anchors, lacking)


def _changed(compared: Compared, anchors: Anchors) -> Html:
    difference = compared.difference
    if not difference.forbidden:
        from keet.pages.diff import diff_part

        return html_part([diff_part(difference, reader(), compared.top, anchors)])
    text = f"What changed can't be told: {difference.forbidden[0].text}; see: keet diff --help"
    return element(
        "section",
        element("h2", "What changed"),
        element("p", text, class_="note warn"),
        id=anchors.top("diff"),
    )


def _roofline(report: _Report) -> Html:
    """Identical launches have one mark."""
    firsts = [group.first for group in report.others]
    launches = [each.launch for each in (*report.shown, *firsts)]
    placed = [launch.id for launch in report.placed]
    return element(
        "section",
        element("h2", "Roofline"),
        roofline_figure(launches, report.anchors, placed),
        id=report.anchors.top("roofline"),
    )


# --- the end


def _footer(reports: Sequence[_Report]) -> list[Content]:
    """What was checked. No date except those of the reports, so that pages can be compared."""
    parts: list[Content] = []
    for report in reports:
        parts += [
            element("p", verified_text(report.explanation)),
            _model_footer(report.explanation) if report.explanation.author else None,
        ]
    without = "" if any(report.explanation.author for report in reports) else ", no model"
    return [*parts, element("p", f"{_SELF_CONTAINED} keet {__version__}{without}.")]


def _model_footer(explanation: Explanation) -> Html | None:
    from keet.formats.html.model_explanation import model_footer

    return model_footer(explanation)
