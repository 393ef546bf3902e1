"""The numbers of `keet hotspots --line`, as named values for `keet verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from keet.analysis.source_lines import Hotspots, Spot
from keet.catalog import stalls
from keet.profile import Location
from keet.profile.names import file_name
from keet.units import Quantity
from keet.verification.text.source_places import NO_LINE, RowKey
from keet.verification.values.named_values import ComputedValue, content_words

if TYPE_CHECKING:
    from keet.analysis.sass.machine_code import MachineCode

_WAITING = content_words("other line wait")


def row_key(location: Location | None) -> RowKey:
    """`("", NO_LINE)` for the row of all instructions without a source line."""
    return (file_name(location.file), location.line) if location else ("", NO_LINE)


def stall_values(spot: Spot, row: RowKey) -> Iterator[ComputedValue]:
    """`Short Scoreboard 1 for the load at 0x00d0`, below the row of an instruction or a line."""
    for reason, count in spot.samples_by_reason.items():
        label = stalls()[reason].label
        words = content_words(label)
        yield ComputedValue(f"{label} samples", Quantity(count, "sample"), words, "window", row)


def executed_shares(found: Hotspots) -> Iterator[ComputedValue]:
    """`18,874,368 executed warp instructions (39.1% of all)`."""
    total = sum(spot.executed or 0 for spot in found.rows)
    words = content_words("instruction")
    for spot in found.rows if total and found.by == "line" else ():
        share = Quantity(100 * (spot.executed or 0) / total, "%")
        row = row_key(spot.location)
        yield ComputedValue("share of the executed instructions", share, words, "window", row)


def wait_values(code: MachineCode) -> Iterator[ComputedValue]:
    """`110 samples (41.7%) at other lines wait for this line: slow.cu:9 110 (Drain)`."""
    total = sum(wait.samples for wait in code.waits)
    sums: dict[RowKey, Counter[tuple[RowKey, str]]] = {}
    for wait in code.waits:
        if wait.producers and stalls()[wait.reason].counts_as_stall:
            address = code.program.code[wait.position].address
            waiting = row_key(code.locations.get(address))
            producer = row_key(code.location(wait.producers[0]))
            if waiting != producer:
                sums.setdefault(producer, Counter())[waiting, wait.reason] += wait.samples
    for row, counts in sums.items():
        label, count = "samples at other lines that wait for it", counts.total()
        yield ComputedValue(label, Quantity(count, "sample"), _WAITING, "sentence", row)
        yield ComputedValue(
            f"share of {label}", Quantity(100 * count / total, "%"), _WAITING, "sentence", row
        )
        for (waiting, reason), own in counts.items():
            words = content_words(stalls()[reason].label)
            yield ComputedValue(label, Quantity(own, "sample"), words, "sentence", waiting)


def access_values(code: MachineCode, entries: Iterable[int]) -> Iterator[ComputedValue]:
    """`0x0120 load, 4 B`, and its lane stride."""
    from keet.analysis.sass.analyses.address_patterns import lane_stride

    starts = sorted(entries)
    for access in code.accesses:
        address = code.program.code[access.position].address
        row = address - max((start for start in starts if start <= address), default=0)
        words = content_words(access.kind)
        yield ComputedValue(
            "bytes per thread", Quantity(access.width, "byte"), words, "window", row
        )
        if (stride := lane_stride(access.offset)) is not None:
            words = content_words("lane stride")
            yield ComputedValue("lane stride", Quantity(stride, "byte"), words, "window", row)


def loop_values(code: MachineCode) -> Iterator[ComputedValue]:
    """`loop1 from 0x0460: 244 iterations per entry, 58 instructions per iteration`."""
    for loop in code.program.flow.loops:
        if loop.trips is not None:
            yield _of_loop("iterations per entry", loop.trips, "", "iteration entry")
    for chains in code.chains:
        yield _of_loop("instructions per iteration", chains.instructions, "inst", "iteration")
        yield _of_loop("share of the loop", 100 * chains.share, "%", "iteration entry")
        yield _of_loop("loads per iteration", chains.loads, "", "load iteration")
        yield _of_loop(
            "independent loads", round(chains.independent_loads, 1), "", "flight together"
        )
        yield _of_loop("loads in a row", chains.load_depth, "", "load iteration wait")
        if chain := chains.recurrence:
            length = len(chain.positions)
            yield _of_loop("instructions of a chain", length, "inst", "chain iteration")
            yield _of_loop("loads of a chain", chain.loads, "", "chain load")


def _of_loop(label: str, value: float, unit: str, words: str) -> ComputedValue:
    return ComputedValue(label, Quantity(value, unit), content_words(words), "sentence")
