"""The code of a launch whose instructions have no source lines: the instructions themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby

from keet.analysis.hotspots.source_lines import Spot
from keet.analysis.machine_code.flow.control_flow import Loop
from keet.analysis.machine_code.instructions.instruction import parse
from keet.catalog import stalls
from keet.evidence import Sentence, counted
from keet.formats.html.markup import Content, Html, element
from keet.formats.html.source_lines import (
    Fact,
    awaited_fact,
    cost_facts,
    facts_list,
    threads_text,
    traffic_facts,
)
from keet.formats.html.source_rows import SourceData, cells, heads, opening_row
from keet.formatting import share_cell
from keet.pages.blocks import around
from keet.pages.hotspots_line import BEHIND_EXIT, is_behind_exit, loop_item
from keet.profile import Absent
from keet.safe_text import one_line

_MOST_INSTRUCTIONS = 400
"""Instructions that are listed: those near the hottest ones. A judgement: nobody reads more."""
_FEWEST = 40
"""Instructions that are listed of any kernel, room or not."""
_OF_ROW = 600
"""Bytes of a row that is closed: 514 to 619 in listings of 24 to 40 rows, of seven launches in
reports of the tests and the corpus."""
_ROWS = 0.8
"""Share of the room that closed rows may take. A judgement."""
_CONTEXT = 4
"""Instructions around a hot one that are not folded."""
_HOT = 0.005
"""Share of the samples from which an instruction, and those around it, are not folded."""
_FOLDED_FROM = 6
_DEEPEST = 4
"""Nested loops that are shown by indentation; deeper ones are not indented further."""


class InstructionListing:
    def __init__(self, data: SourceData, room: int) -> None:
        self._data = data
        self._spots: Mapping[int, Spot] = {
            spot.address: spot for spot in data.found.rows if spot.address is not None
        }
        self._order = sorted(self._spots)
        rows = max(_FEWEST, min(_MOST_INSTRUCTIONS, round(room * _ROWS) // _OF_ROW))
        data.listed = frozenset(self._chosen(rows))
        self._panels = self._with_room(room - len(data.listed) * _OF_ROW)

    def _chosen(self, most: int) -> set[int]:
        """All instructions of a short kernel; of a long one, the hottest and those around them."""
        if len(self._order) <= most:
            return set(self._order)
        at = {address: n for n, address in enumerate(self._order)}
        chosen: set[int] = set()
        for address in self._spots:  # the hottest first
            near = around([at[address] + 1], _CONTEXT, len(self._order))
            new = {self._order[n - 1] for n in near}
            if len(chosen | new) > most:
                break
            chosen |= new
        return chosen

    def drawn(self) -> tuple[Html, str]:
        """The listing, and what was left out."""
        shown = [address for address in self._order if address in self._data.listed]
        rows = list(self._stretches(shown))
        top = heads("offset", self._data.found.ranked_by, "instruction")
        whole = element(
            "div", top, rows, class_="rows by-instruction", role="group", aria_label="Instructions"
        )
        section = element("section", element("h4", "Instructions (SASS)"), whole, class_="file")
        return section, self._left_out(len(self._order) - len(shown))

    def _left_out(self, left: int) -> str:
        parts = []
        if left:
            listed = self._data.listed
            shares = [s.share or 0.0 for a, s in self._spots.items() if a not in listed]
            share = share_cell(sum(shares))
            parts.append(f"{left:,} instructions ({share} of all {self._data.shares_of})")
        if closed := len(self._data.listed) - len(self._panels):
            parts.append(f"details of {closed:,} instructions")
        if not parts:
            return ""
        command = f"keet hotspots REPORT --launch {self._data.launch.id} --by instruction"
        return f"Left out for the size of the page: {' and '.join(parts)}. To see them: {command}"

    # --- rows

    def _stretches(self, shown: Sequence[int]) -> Iterator[Content]:
        """Cold stretches of more than a few instructions are folded."""
        hot = [n for n, a in enumerate(shown, 1) if (self._spots[a].share or 0.0) >= _HOT]
        seen = {shown[n - 1] for n in around(hot, _CONTEXT, len(shown))}
        for is_seen, own in groupby(shown, seen.__contains__):
            addresses = list(own)
            body = [(self._loop_text(address), self._row(address)) for address in addresses]
            if is_seen or len(addresses) <= _FOLDED_FROM:
                yield body
                continue
            share = sum(self._spots[each].share or 0.0 for each in addresses)
            text = f"{len(addresses)} instructions ({share_cell(share)} of {self._data.shares_of})"
            yield element("details", element("summary", text), body, class_="cold")

    def _row(self, address: int) -> Html:
        data, spot = self._data, self._spots[address]
        key, panel = data.address_anchor(address), self._panels.get(address)
        raw = "" if isinstance(data.sass, Absent) else data.sass.get(address, "")
        text = data.sass_line(parse(address, raw))
        code = element(
            "span", text, class_=f"deep-{depth}" if (depth := self._depth(address)) else None
        )
        row = cells(data, spot, data.offset(address), code)
        is_open = address == next(iter(self._panels), None)
        return opening_row(row, panel, key, data.values(spot), is_open=is_open)

    # --- loops

    @cached_property
    def _loop_starts(self) -> Mapping[int, Loop]:
        code = self._data.code
        if code is None:
            return {}
        flow = code.program.flow
        return {
            code.program.code[flow.blocks[loop.header].start].address: loop for loop in flow.loops
        }

    def _loop_text(self, address: int) -> Content:
        """Of the loop that begins there."""
        by_line, loop = self._data.by_line, self._loop_starts.get(address)
        if by_line is None or loop is None:
            return None
        label, text = loop_item(by_line.loop(loop), self._data.offset, has_line=False)
        return element("p", element("b", label), f" {text}", class_="gap")

    def _position(self, address: int) -> int | None:
        return self._data.code.program.positions.get(address) if self._data.code else None

    def _depth(self, address: int) -> int:
        code, position = self._data.code, self._position(address)
        if code is None or position is None:
            return 0
        flow = code.program.flow
        return min(len(flow.loops_around(flow.block_of[position])), _DEEPEST)

    # --- what rows show when they are opened

    def _with_room(self, room: int) -> dict[int, Html]:
        panels: dict[int, Html] = {}
        for address, spot in self._spots.items():
            if address not in self._data.listed:
                continue
            panel = element("div", facts_list(self._facts(address, spot)), class_="inside")
            size = len(panel.encode())
            if size > room:
                break
            room -= size
            panels[address] = panel
        return panels

    def _facts(self, address: int, spot: Spot) -> Iterator[Fact]:
        yield from cost_facts(self._data, spot)
        code, position = self._data.code, self._position(address)
        is_drained = "drain" in spot.samples_by_reason
        if is_drained and code and position is not None and is_behind_exit(code, position):
            yield "Drain", BEHIND_EXIT
        if waiting := self._awaited.get(address):
            listed = [
                (self._data.address_link(where), reason, samples)
                for (where, reason), samples in waiting.most_common()
            ]
            yield awaited_fact(self._data, listed, "instructions")
        if spot.executed is not None:
            text = Sentence(
                "{times} (warp instructions){threads}",
                times=counted(spot.executed, "time"),
                threads=threads_text(spot),
            )
            yield "Executed", text
        for purpose in self._data.row(spot).purposes:
            yield "Purpose", one_line(purpose.purpose)
        yield from traffic_facts(spot)

    @cached_property
    def _awaited(self) -> Mapping[int, Counter[tuple[int, str]]]:
        """By instruction: which others wait for it, and why."""
        code, known = self._data.code, stalls()
        awaited: dict[int, Counter[tuple[int, str]]] = {}
        for wait in code.waits if code else ():
            if code is None or not wait.producers or not known[wait.reason].counts_as_stall:
                continue
            producer = code.program.code[wait.producers[0]].address
            waiting = code.program.code[wait.position].address
            if producer != waiting:
                awaited.setdefault(producer, Counter())[waiting, wait.reason] += wait.samples
        return awaited
