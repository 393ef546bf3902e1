"""Results of the machine-code analysis for each row of `keet hotspots`, and for each pointer.

A row is one that `find_hotspots` returned: all instructions of a source line, or one instruction.
So the samples of its waits are part of the samples of the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.source_lines.hotspots import Grouping, Hotspots, Spot
from keet.catalog import stalls
from keet.profile import Absent, Launch, Location

if TYPE_CHECKING:
    from keet.analysis.sass import MachineCode
    from keet.analysis.sass.analyses.blame import Link
    from keet.analysis.sass.analyses.purpose import Purpose
    from keet.analysis.sass.analyses.reuse import Access, PointerReuse


class Examined(NamedTuple):
    """One launch, and the analysis of its machine code."""

    launch: Launch
    spots: Hotspots | Absent
    code: MachineCode | Absent | None = None
    """`None`: the analysis is switched off."""


_NOT_COUNTED = Absent(
    "the report does not say how often each instruction was executed",
    "profile again with: ncu --section SourceCounters --import-source yes",
)


def examined(launch: Launch, spots: Hotspots | Absent, *, has_sass: bool) -> Examined:
    from keet.analysis.sass import machine_code

    if not has_sass:
        return Examined(launch, spots)
    if isinstance(spots, Absent):  # without numbers per instruction the listing is not useful
        return Examined(launch, spots, spots)
    code = machine_code(launch)
    if not isinstance(code, Absent) and not code.program.executed:
        code = _NOT_COUNTED
    return Examined(launch, spots, code)


RowKey = Location | int | None
"""A source line, an address, or `None` for all instructions without a line."""


class RowWait(NamedTuple):
    """Samples of a row with the same stall reason that wait for instructions of the same line."""

    reason: str
    samples: int
    producer: Location | None
    producer_position: int | None
    """`None`: it waits for its own unit, or the producer is not known."""
    link: Link


class RowCode(NamedTuple):
    purposes: list[tuple[Purpose, float]]
    """Shares of the row's executed warp instructions, the largest first."""
    waits: list[RowWait]
    """Most samples first. Samples of issuing warps are left out."""


NO_CODE = RowCode([], [])


def row_key(spot: Spot) -> RowKey:
    return spot.location if spot.address is None else spot.address


def code_by_row(code: MachineCode | Absent | None, by: Grouping) -> dict[RowKey, RowCode]:
    """Empty without an analysis."""
    if code is None or isinstance(code, Absent):
        return {}
    waits = _waits_by_row(code, by)
    return {
        key: RowCode(purposes, waits.pop(key, []))
        for key, purposes in _purposes_by_row(code, by).items()
    } | {key: RowCode([], left) for key, left in waits.items()}


def _key_of(code: MachineCode, position: int, by: Grouping) -> RowKey:
    address = code.program.code[position].address
    return code.locations.get(address) if by == "line" else address


def _purposes_by_row(code: MachineCode, by: Grouping) -> dict[RowKey, list[tuple[Purpose, float]]]:
    counted: dict[RowKey, Counter[Purpose]] = {}
    for position in code.program.ran:
        own = counted.setdefault(_key_of(code, position, by), Counter())
        own[code.purposes[position]] += code.program.counts[position]
    return {key: shares(own) for key, own in counted.items()}


def shares(counted: Counter[Purpose]) -> list[tuple[Purpose, float]]:
    total = counted.total() or 1
    return [(purpose, count / total) for purpose, count in counted.most_common()]


def _waits_by_row(code: MachineCode, by: Grouping) -> dict[RowKey, list[RowWait]]:
    known = stalls()
    groups: dict[tuple[RowKey, str, Location | None, Link], Counter[int | None]] = {}
    for wait in code.waits:
        if wait.reason not in known or not known[wait.reason].counts_as_stall:
            continue
        producer = wait.producers[0] if wait.producers else None
        line = code.location(producer) if producer is not None else None
        key = (_key_of(code, wait.position, by), wait.reason, line, wait.link)
        groups.setdefault(key, Counter())[producer] += wait.samples
    found: dict[RowKey, list[RowWait]] = {}
    for (row, reason, line, link), counted in groups.items():
        leading = counted.most_common(1)[0][0]
        found.setdefault(row, []).append(RowWait(reason, counted.total(), line, leading, link))
    for waits in found.values():
        waits.sort(key=lambda each: -each.samples)
    return found


def first_wait(waits: Iterable[RowWait], reason: str) -> RowWait | None:
    """The wait with most samples for this stall reason."""
    return next((wait for wait in waits if wait.reason == reason), None)


class PointerRow(NamedTuple):
    """The data that is read through one pointer argument."""

    reuse: PointerReuse
    name: str
    parameter: str | None
    """For example `param+0x10`; `None` for pointers that are not arguments."""
    lines: list[Location]
    """Lines of its loads, most requested bytes first."""
    why_unknown: str
    """Why the distinct bytes are not known; empty if they are."""


def pointer_rows(code: MachineCode) -> list[PointerRow]:
    """Rows for every pointer that is read, most requested bytes first."""
    return [
        PointerRow(
            row,
            code.pointer_name(row.pointer),
            row.pointer if row.pointer.startswith("param+") else None,
            _lines_of(code, row),
            _why_unknown(row),
        )
        for row in code.reuse
    ]


def _lines_of(code: MachineCode, row: PointerReuse) -> list[Location]:
    sizes: Counter[Location] = Counter()
    for access in row.accesses:
        line = code.location(access.position)
        if line is not None:
            sizes[line] += access.requested_bytes or 0
    return [line for line, _ in sizes.most_common()]


def _why_unknown(row: PointerReuse) -> str:
    return "" if row.distinct_bytes_at_most is not None else why_unbounded(row.accesses)


def why_unbounded(accesses: Sequence[Access]) -> str:
    """Why the distinct bytes of accesses through one pointer are not known."""
    from keet.analysis.sass.analyses.reuse import LOADED

    if any(access.pointer == LOADED for access in accesses):
        return "the pointer itself is loaded from memory"
    if any(access.is_gather for access in accesses if access.shape is None):
        return "the address depends on loaded data"
    return "the address is too complex"


def executed_share(code: MachineCode, positions: Sequence[int]) -> float:
    """Share of the launch's executed warp instructions."""
    total = sum(code.program.counts) or 1
    return sum(code.program.counts[each] for each in positions) / total
