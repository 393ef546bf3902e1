"""The data of a listing of one launch's code, and the links between its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.code_names import function_start, line_text, sass_text
from keet.analysis.examined import NO_CODE, RowCode, code_by_row, row_key, source_lines
from keet.analysis.source_lines import Hotspots, InstructionTable, RowWait, Spot
from keet.diagnosis.finding import Finding
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.markup import Content, Html, element
from keet.formats.html.source.shown_lines import FileLines, ShownLines, extents_of
from keet.formatting import share_text
from keet.pages.anchors import Anchors
from keet.pages.hotspots import waits_for
from keet.pages.launch import place_shares
from keet.profile import Absent, Location
from keet.profile.names import file_name
from keet.safe_text import one_line, shortened

if TYPE_CHECKING:
    from keet.analysis.line_facts import CodeByLine
    from keet.analysis.sass.instructions.instruction import Instruction
    from keet.analysis.sass.machine_code import MachineCode

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


class SourceData:
    """The code of one launch: costs, text, machine code and findings, by line."""

    def __init__(self, each: LaunchExplanation, found: Hotspots, anchors: Anchors) -> None:
        self.each, self.launch, self.found, self.anchors = each, each.launch, found, anchors
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
        found: dict[tuple[str, int], list[Mention]] = {}
        for number, finding in enumerate(self.each.findings, 1):
            for at, share in enumerate(place_shares(finding.places)):
                place = finding.places[at]
                mention = Mention(number, finding, share, at == 0)
                found.setdefault((place.file, place.line), []).append(mention)
        return found

    # --- files

    @cached_property
    def spots_by_file(self) -> Mapping[str, Mapping[int, Spot]]:
        """The executed lines of each file by number, the file with most samples first."""
        found: dict[str, dict[int, Spot]] = {}
        for line, spot in self.spots.items():
            found.setdefault(line.file, {})[line.line] = spot
        shares = {path: total_share(spots) for path, spots in found.items()}
        return {path: found[path] for path in sorted(found, key=lambda path: -shares[path])}

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
        return extents_of(self.files)

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
        from keet.analysis.line_facts import CodeByLine

        return CodeByLine(self.launch, self.code)

    @cached_property
    def addresses(self) -> Mapping[Location | None, list[int]]:
        """Instructions of each line, in the order of the code."""
        located, found = self.launch.locations, dict[Location | None, list[int]]()
        for address in self.table.addresses:
            found.setdefault(located.get(address), []).append(address)
        return found

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
        return frozenset(
            (path, number)
            for path, extent in self.extents.items()
            for number in {*self.files[path].executed, *self.files[path].named}.intersection(
                extent.numbers
            )
        )

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
        before, found, after = text.rpartition(one_line(place))
        return [before, link, after] if found and after in ("", ")") else text

    def finding_link(self, mention: Mention, content: Content, **attributes: object) -> Html:
        href = f"#{self.anchors.finding(self.launch.id, mention.number)}"
        return element("a", content, href=href, **attributes)


def total_share(spots: Mapping[int, Spot]) -> float:
    return sum(spot.share or 0.0 for spot in spots.values())
