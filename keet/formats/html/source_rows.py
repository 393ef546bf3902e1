"""Rows of a source listing: which lines it shows, stall reasons as bars, what a row costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.account import KINDS
from keet.analysis.code_names import function_start, line_text, sass_text
from keet.analysis.hotspots.examined import NO_CODE, RowCode, code_by_row, first_wait, row_key
from keet.analysis.hotspots.source_lines import (
    Hotspots,
    InstructionTable,
    RowWait,
    Spot,
    source_lines,
)
from keet.catalog import stalls
from keet.diagnosis.finding import Finding
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.markup import Content, Html, element, escaped, heat_class
from keet.formatting import listed, share_cell, share_text
from keet.pages.blocks import Anchors, around
from keet.pages.hotspots import stall_reasons, waits_for
from keet.pages.launch import place_shares
from keet.profile import Absent, Location
from keet.profile.launch import file_name
from keet.safe_text import one_line, shortened

if TYPE_CHECKING:
    from keet.analysis.hotspots.line_facts import CodeByLine
    from keet.analysis.machine_code.instructions.instruction import Instruction
    from keet.analysis.machine_code.launch_code import MachineCode


# --- which lines are shown

TAB = 4
_WHOLE_FILE = 5_000
"""Most lines of a file that is shown in full. A judgement: generated code and headers have more."""
_CUT_RADII = (30, 3)
"""Lines around executed ones that are shown of a file that is not shown in full, and if there is
still less room."""
OF_ID = 80
"""Bytes of the anchor of a line that can be linked to."""
_OF_FILE, _OF_LINE, _OF_GAP = 1_000, 10, 60
"""Bytes besides the text: of a file its heading and the names of the columns, of a line its
element, and what is said of lines left out before an executed one."""


class ShownLines(NamedTuple):
    """What a listing shows of one file."""

    numbers: Sequence[int]
    """Of the lines, in order."""
    note: str = ""
    """Says which part of the text is shown; empty if it is all of it."""


class FileLines(NamedTuple):
    """One file of a listing."""

    text: Sequence[str]
    """Empty if the text is not available."""
    executed: Sequence[int]
    """Line numbers, those with the most samples first."""
    named: Collection[int]
    """Lines that findings name."""

    def extents(self) -> Iterator[ShownLines]:
        """From the whole file to the executed lines alone."""
        length = len(self.text)
        must = {*self.executed, *self.named}
        if length <= _WHOLE_FILE:
            yield ShownLines(sorted({*must, *range(1, length + 1)}))
        note = f"{length:,} lines, of which the text near executed lines is shown"
        for radius in _CUT_RADII:
            yield ShownLines(sorted({*must, *around(must, radius, length)}), note)
        yield ShownLines(sorted(must), f"{length:,} lines, of which the executed ones are shown")

    def hottest(self, room: int) -> ShownLines:
        """As many of the executed lines as there is room for."""
        kept: list[int] = []
        room -= _OF_FILE
        for number in dict.fromkeys((*self.named, *self.executed)):
            room -= self._written([number]) + OF_ID + _OF_GAP
            if room < 0:
                break
            kept.append(number)
        return ShownLines(sorted(kept), "only the hottest lines are shown")

    def size(self, numbers: Sequence[int]) -> int:
        """Bytes of these lines on a page, about."""
        linked = len({*self.executed, *self.named}.intersection(numbers))
        return _OF_FILE + self._written(numbers) + (OF_ID + _OF_GAP) * linked

    def _written(self, numbers: Sequence[int]) -> int:
        length = len(self.text)
        shown = "\n".join([self.text[n - 1] for n in numbers if n <= length])
        text = escaped(shown.expandtabs(TAB))
        return len(text.encode("utf-8", "backslashreplace")) + _OF_LINE * len(numbers)


def extents_within(files: Mapping[str, FileLines], room: int) -> tuple[dict[str, ShownLines], int]:
    """What fits, starting with the first file, and how many bytes it takes. A file for which not
    even one line fits is left out."""
    extents: dict[str, ShownLines] = {}
    used = 0
    for path, file in files.items():
        left = room - used
        fitting = (extent for extent in file.extents() if file.size(extent.numbers) <= left)
        chosen = next(fitting, None) or file.hottest(left)
        if chosen.numbers:
            extents[path] = chosen
            used += file.size(chosen.numbers)
    return extents, used


# --- stall reasons

LABELS = {
    "memory": "global, local and texture memory",
    "shared": "shared memory, special functions and other MIO instructions",
    "sync": "barriers and memory fences",
    "math": "math pipes and tensor cores",
    "latency": "fixed latency",
    "constant": "constant cache",
    "fetch": "instruction fetch, branches",
    "other": "other",
    "issue": "not stalled",
}
"""Groups in the order in which bars and legends have them. There is a colour for each in
source.css."""
_KINDS = {
    "memory": "memory stores textures",
    "shared": "shared",
    "sync": "barrier membar",
    "math": "pipe tensor",
    "latency": "fixed",
    "constant": "constants",
    "fetch": "fetch branch",
}
"""Kinds of waits, as the account of the launch's time calls them."""
_GROUP_OF = {kind: group for group, own in _KINDS.items() for kind in own.split()}


def group_of(reason: str) -> str:
    if not stalls()[reason].counts_as_stall:
        return "issue"
    return _GROUP_OF.get(KINDS.get(reason, ""), "other")


def parts(counts: Mapping[str, int]) -> dict[str, int]:
    """Samples by group, in the order of the legend."""
    sums: Counter[str] = Counter()
    for reason, samples in counts.items():
        sums[group_of(reason)] += samples
    return {group: sums[group] for group in LABELS if sums[group]}


def stall_bar(spot: Spot, most: int) -> Html | None:
    """A bar as long as the row's samples are of `most`, split by group of reasons.

    It repeats what the text says, so screen readers skip it.
    """
    split = parts(spot.samples_by_reason)
    if not split or not most:
        return None
    marks, at = [], 0.0
    for group, samples in split.items():
        width = 100 * samples / most
        if width >= _THINNEST:
            marks.append(_mark(group, at, width))
        at += width
    if not marks:  # what is there can be seen
        marks = [_mark(max(split, key=lambda group: split[group]), 0.0, _THINNEST)]
    told = [reason_text(spot, stall.reason) for stall in spot.stalls]
    title = element("title", listed(told, _TOLD))
    return element("svg", title, marks, class_="stalls", aria_hidden="true")


_THINNEST = 1.0
"""Percent of the bar's column, about a pixel."""
_TOLD = 3
"""Reasons that a tooltip lists."""


def _mark(group: str, at: float, width: float) -> Html:
    start = f"{at:.4g}%" if at else None
    return element("rect", class_=group, x=start, width=f"{width:.3g}%", height="100%")


FEW_IN_ROW = 10
"""Samples of a row below which no share is printed: one sample would move it by over 10 points."""


def reason_text(spot: Spot, reason: str) -> str:
    """`Long Scoreboard 92%`; of few samples the reason alone."""
    label = stalls()[reason].label
    if not spot.samples or spot.samples < FEW_IN_ROW:
        return label
    return f"{label} {share_text(spot.samples_by_reason[reason] / spot.samples)}"


@cache
def swatch(group: str) -> Html:
    mark = element("rect", class_=group, width="100%", height="100%")
    return element("svg", mark, class_="swatch stalls", aria_hidden="true")


def legend(spots: Iterable[Spot]) -> Html | None:
    """The groups that occur, with the share of all samples that each has."""
    by_reason: Counter[str] = Counter()
    for spot in spots:
        by_reason.update(spot.samples_by_reason)
    split = parts(by_reason)
    whole = sum(split.values())
    if not whole:
        return None
    items = [
        element("li", swatch(group), f" {LABELS[group]} {share_text(samples / whole)}")
        for group, samples in split.items()
    ]
    said = element("p", "Warps wait for (of all samples; a bar is as long as its row has samples):")
    return element("div", said, element("ul", items), class_="stall-legend")


# --- what is known of the code


_LONGEST = 200
"""Characters of an instruction: the longest seen have about 100."""

_NEARLY_ALL = 0.9
"""Share of a row's samples with one stall reason. If fewer of them wait for the named instruction,
their share is printed."""


class Mention(NamedTuple):
    """A finding that names a line."""

    number: int
    """Its rank, from 1."""
    finding: Finding
    share: str
    """`41% of all samples`; empty where nothing was measured."""
    is_first: bool
    """Whether the line is the first place of the finding."""


def _stalled(spot: Spot) -> int | None:
    counted = (stall for stall in spot.stalls if stalls()[stall.reason].counts_as_stall)
    return spot.samples and sum(each.samples for each in counted)


def _sectors(spot: Spot) -> int | None:
    measured = [each for each in (spot.sectors_global, spot.sectors_local) if each is not None]
    return sum(measured) if measured else None


COLUMNS: Mapping[str, Callable[[Spot], int | None]] = {
    "samples": lambda spot: spot.samples,
    "waits": _stalled,
    "instructions": lambda spot: spot.executed,
    "sectors": _sectors,
    "excess sectors": lambda spot: spot.sectors_global_excess,
    "shared wavefronts": lambda spot: spot.wavefronts_shared,
    "excess wavefronts": lambda spot: spot.wavefronts_shared_excess,
}
"""What rows can be coloured by."""


class SourceData:
    """The code of one launch: costs, text, machine code and findings, by line."""

    def __init__(self, each: LaunchExplanation, hotspots: Hotspots, anchors: Anchors) -> None:
        self.each, self.launch, self.found, self.anchors = each, each.launch, hotspots, anchors
        self.text: Mapping[str, Sequence[str]] = source_lines(each.launch)
        self.table: InstructionTable = each.view.table

    @cached_property
    def spots(self) -> Mapping[Location, Spot]:
        """The executed lines, those with the most samples first."""
        return {spot.location: spot for spot in self.found.rows if spot.location}

    @cached_property
    def file_names(self) -> Counter[str]:
        """How many files with executed lines have the same name, without folders."""
        return Counter(file_name(path) for path in {line.file for line in self.spots})

    @cached_property
    def unplaced(self) -> Spot | None:
        """The instructions that have no source line."""
        return next((spot for spot in self.found.rows if spot.location is None), None)

    @property
    def shares_of(self) -> str:
        """The base of the shares: samples, or executed instructions."""
        return "samples" if self.found.ranked_by == "samples" else "executed instructions"

    @cached_property
    def most(self) -> int:
        """Samples of the hottest row: the longest bar."""
        return max((spot.samples or 0 for spot in self.found.rows), default=0)

    @cached_property
    def mentions(self) -> Mapping[tuple[str, int], list[Mention]]:
        mentions: dict[tuple[str, int], list[Mention]] = {}
        for number, finding in enumerate(self.each.findings, 1):
            for at, share in enumerate(place_shares(finding.locations)):
                place = finding.locations[at]
                mention = Mention(number, finding, share, at == 0)
                mentions.setdefault((place.file, place.line), []).append(mention)
        return mentions

    # --- columns

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """What rows can be coloured by, with the sum over the launch; the default comes first."""
        rows = self.found.rows
        sums = {name: sum(value(s) or 0 for s in rows) for name, value in COLUMNS.items()}
        return {name: total for name, total in sums.items() if total}

    def values(self, spot: Spot) -> str:
        """Of all columns. An empty value was not measured."""
        values = [COLUMNS[name](spot) for name in self.columns]
        return ",".join(["" if value is None else str(value) for value in values])

    # --- files

    @cached_property
    def spots_by_file(self) -> Mapping[str, Mapping[int, Spot]]:
        """The executed lines of each file by number, the file with most samples first."""
        by_file: dict[str, dict[int, Spot]] = {}
        for line, spot in self.spots.items():
            by_file.setdefault(line.file, {})[line.line] = spot
        shares = {path: total_share(spots) for path, spots in by_file.items()}
        return {path: by_file[path] for path in sorted(by_file, key=lambda path: -shares[path])}

    @cached_property
    def files(self) -> Mapping[str, FileLines]:
        named: dict[str, list[int]] = {}
        for path, number in self.mentions:
            if 1 <= number <= len(self.text.get(path, ())):
                named.setdefault(path, []).append(number)
        return {
            path: FileLines(self.text.get(path, ()), [*spots], named.get(path, ()))
            for path, spots in self.spots_by_file.items()
        }

    @cached_property
    def extents(self) -> Mapping[str, ShownLines]:
        """The lines that are shown of each file; reduced if there is not enough room for all."""
        return {path: next(file.extents()) for path, file in self.files.items()}

    # --- machine code

    @cached_property
    def code(self) -> MachineCode | None:
        """The analysed code; None for a launch that `explain` did not analyse."""
        view = self.each.view
        code = view.code if view.code_state == "analysed" else None
        return code if code is not None and code.program.executed else None

    @cached_property
    def by_line(self) -> CodeByLine | None:
        if self.code is None:
            return None
        from keet.analysis.hotspots.line_facts import CodeByLine

        return CodeByLine(self.launch, self.code)

    @cached_property
    def addresses(self) -> Mapping[Location | None, list[int]]:
        """Instructions of each line, in the order of the code."""
        located, addresses = self.launch.locations, dict[Location | None, list[int]]()
        for address in self.table.addresses:
            addresses.setdefault(located.get(address), []).append(address)
        return addresses

    @cached_property
    def sass(self) -> Mapping[int, str] | Absent:
        """The text of the instructions. Reading it takes a second if `explain` has not done so."""
        if self.each.view.code_state == "off":
            command = f"keet hotspots REPORT --launch {self.launch.id} --by instruction"
            return Absent("the machine code of this launch was not read", f"to see it: {command}")
        return self.launch.disassembly

    @cached_property
    def _rows(self) -> Mapping[Location | int | None, RowCode]:
        return code_by_row(self.code, self.found.by)

    def row(self, spot: Spot) -> RowCode:
        return self._rows.get(row_key(spot), NO_CODE)

    @cached_property
    def _starts(self) -> Sequence[int]:
        return self.launch.function_starts

    def sass_line(self, each: Instruction) -> str:
        """Its text on one line; the targets of branches are offsets, as in the rows."""
        return shortened(one_line(sass_text(each, self._starts)), _LONGEST)

    def offset(self, address: int) -> str:
        """From the start of its function, as in cuobjdump."""
        return f"{address - function_start(self._starts, address):#06x}"

    # --- links

    @cached_property
    def anchored(self) -> frozenset[tuple[str, int]]:
        """Lines that have an anchor: of the shown lines, those that were executed or that a finding
        names."""
        lines: set[tuple[str, int]] = set()
        for path, extent in self.extents.items():
            linked = {*self.files[path].executed, *self.files[path].named}
            lines |= {(path, number) for number in linked.intersection(extent.numbers)}
        return frozenset(lines)

    def line_anchor(self, file: str, line: int) -> str:
        return self.anchors.line(self.launch.id, file, line)

    def address_anchor(self, address: int) -> str:
        """The anchor in a listing by instruction. Addresses are unique, offsets are not."""
        return self.anchors.launch(self.launch.id, f"at-{address:x}")

    def line_link(self, line: Location | None) -> Content:
        """`k.cu:31`, linked to its row where it has one."""
        text = one_line(line_text(line))
        if line is None or (*line,) not in self.anchored:
            return text
        return element("a", text, href=f"#{self.line_anchor(*line)}")

    def address_link(self, address: int) -> Content:
        is_listed = self.found.by == "instruction" and address in self.listed
        text = self.offset(address)
        return element("a", text, href=f"#{self.address_anchor(address)}") if is_listed else text

    listed: frozenset[int] = frozenset()
    """The addresses that a listing by instruction shows; set when the listing is made."""

    def awaits(self, wait: RowWait | None, spot: Spot) -> str:
        """` for the load at slow.cu:19`, as `keet hotspots` says it. `, 44% of that for …` where
        other samples of the same reason wait for something else."""
        if self.code is None or wait is None:
            return ""
        offset = None if spot.address is None else self.offset
        text = one_line(waits_for(self.code, wait, spot.location, offset))
        of_reason = spot.samples_by_reason.get(wait.reason, wait.samples)
        if not text or wait.samples >= _NEARLY_ALL * of_reason:
            return text
        return f", {share_text(wait.samples / of_reason)} of that{text}"

    def linked_awaits(self, wait: RowWait | None, spot: Spot) -> Content:
        """The same, with a link where the producer is named."""
        text = self.awaits(wait, spot)
        if not text or wait is None or wait.producer_position is None or self.code is None:
            return text
        if spot.address is None:
            place, link = line_text(wait.producer), self.line_link(wait.producer)
        else:
            address = self.code.program.code[wait.producer_position].address
            place, link = self.offset(address), self.address_link(address)
        before, separator, after = text.rpartition(one_line(place))
        return [before, link, after] if separator and after in ("", ")") else text

    def finding_link(self, mention: Mention, content: Content, **attributes: object) -> Html:
        href = f"#{self.anchors.finding(self.launch.id, mention.number)}"
        return element("a", content, href=href, **attributes)


def total_share(spots: Mapping[int, Spot]) -> float:
    return sum(spot.share or 0.0 for spot in spots.values())


# --- rows


def spot_share(spot: Spot | None) -> str:
    """Empty if there are no samples, as on most lines."""
    return share_cell(spot.share) if spot and spot.share else ""


def cells(data: SourceData, spot: Spot, number: str, code: Content) -> list[Content]:
    """All cells of a row with costs. The columns are those of `.listing .row` in source.css."""
    why = waiting(data, spot)
    return [
        element("span", number, class_="n"),
        element("span", spot_share(spot), class_=f"share {heat_class(spot.share) or ''}".rstrip()),
        element("span", stall_bar(spot, data.most), class_="bar-of"),
        element("code", code, element("span", why, class_="why") if why else None),
    ]


def opening_row(
    row: Sequence[Content],
    panel: Html | None,
    key: str | None,
    values: str,
    *,
    is_open: bool = False,
) -> Html:
    """A row, and what it shows when it is opened. `values`: see `SourceData.values`."""
    if panel is None:
        return element("div", row, class_="line row", id=key, data_v=values)
    summary = element("summary", row, class_="row")
    return element("details", summary, panel, class_="line", id=key, data_v=values, open=is_open)


def heads(number: str, costs: str, code: str) -> Html:
    """The names of the columns."""
    names = {"n": number, "share": costs, "code-head": code}
    spans = [element("span", name, class_=column) for column, name in names.items()]
    return element("div", spans, class_="row heads")


def waiting(data: SourceData, spot: Spot) -> str:
    """The largest stall reason, its share of the row's samples, and what it waits for."""
    largest = next(iter(stall_reasons(spot)), None)
    if largest is None:
        return ""
    awaited = data.awaits(first_wait(data.row(spot).waits, largest), spot)
    return f"{reason_text(spot, largest)}{awaited}"


def badges(data: SourceData, mentions: Sequence[Mention]) -> list[Html]:
    """Links to the findings that name the row; where it is their first place, they stand out."""
    links = []
    for mention in mentions:
        look = "badge warn" if mention.is_first else "badge"
        title = f"Finding {mention.number}: {one_line(mention.finding.title)}"
        link = data.finding_link(mention, f"finding {mention.number}", class_=look, title=title)
        links.append(link)
    return links
