"""Results of the machine-code analysis for each row of `keet hotspots`, and for each pointer.

A row is one that `find_hotspots` returned: all instructions of a source line, or one instruction.
So the samples of its waits are part of the samples of the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.hotspots.source_lines import (
    Grouping,
    Hotspots,
    RowWait,
    Spot,
    source_line,
    source_lines,
)
from keet.catalog import stalls
from keet.documents.document import live
from keet.documents.hotspots import HotspotsLaunch, PointerDocument, PurposeShare
from keet.documents.shared_types import Skipped
from keet.profile import Absent, Launch, Location
from keet.profile.metric import IMPORT_SOURCE, SECTION_OF_CODE, ProfileAgain

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.blame import Link
    from keet.analysis.machine_code.analyses.purpose import Purpose
    from keet.analysis.machine_code.analyses.reuse import Access, PointerReuse
    from keet.analysis.machine_code.launch_code import MachineCode


class Examined(Hotspots):
    """The code of one launch in `keet hotspots`, with the analysis of its machine code."""

    code: MachineCode | None = live()
    """None: switched off, or not possible."""

    @property
    def opaque(self) -> Skipped | None:
        """Why the machine code is not shown, unless that was asked for."""
        by_check = {reason.check: reason for reason in self.skipped}
        missing = by_check.get("machine_code")
        return by_check.get("disassembly") if missing == _SWITCHED_OFF else missing


_NOT_COUNTED = Absent(
    "the report does not say how often each instruction was executed",
    ProfileAgain(SECTION_OF_CODE, IMPORT_SOURCE),
)
_SWITCHED_OFF = Skipped(
    check="machine_code", reason="switched off with --no-sass", remedy="leave out --no-sass"
)


def examined(
    launch: Launch, hotspots: Hotspots | Absent, *, has_sass: bool, which: slice = slice(None)
) -> Examined | HotspotsLaunch:
    """`which`: the rows that are printed, with their code. Without numbers per instruction the
    result has no rows."""
    from keet.analysis.machine_code.launch_code import MachineCode, machine_code

    code: MachineCode | Absent | None = None
    if has_sass:
        code = hotspots if isinstance(hotspots, Absent) else machine_code(launch)
        if isinstance(code, MachineCode) and not code.program.executed:
            code = _NOT_COUNTED
    skipped = [_SWITCHED_OFF] if code is None else []
    if isinstance(code, Absent):
        skipped, code = [_skipped("machine_code", code)], None
    if isinstance(hotspots, Absent):
        return HotspotsLaunch(
            id=launch.id,
            kernel=launch.kernel,
            by=None,
            ranked_by=None,
            total=None,
            rows_total=0,
            rows=(),
            instruction_mix=None,
            reuse=None,
            skipped=[_skipped("hotspots", hotspots), *skipped],
        )
    if hotspots.partial:
        partial = Absent(hotspots.partial.text, hotspots.partial.remedy)
        skipped.insert(0, _skipped("sampling", partial))
    texts = launch.disassembly if hotspots.by == "instruction" else {}
    if isinstance(texts, Absent):
        skipped.insert(0, _skipped("disassembly", texts))
        texts = {}
    lines, by_row = source_lines(launch), code_by_row(code, hotspots.by)
    rows = [*hotspots.rows]
    rows[which] = [
        replace(
            spot,
            source=source_line(spot, lines),
            sass=None if spot.address is None else texts.get(spot.address),
            **by_row.get(row_key(spot), NO_CODE)._asdict(),
        )
        for spot in rows[which]
    ]
    added = {
        "rows": tuple(rows),
        "instruction_mix": purpose_shares(code.mix) if code else None,
        "reuse": pointer_rows(code) if code else None,
        "skipped": skipped,
    }
    return Examined(**{**vars(hotspots), **added}, code=code)


def _skipped(check: str, absent: Absent) -> Skipped:
    return Skipped(check=check, reason=absent.reason, remedy=absent.remedy)


RowKey = Location | int | None
"""A source line, an address, or `None` for all instructions without a line."""


class RowCode(NamedTuple):
    purposes: Sequence[PurposeShare]
    """The largest first."""
    waits: Sequence[RowWait]
    """Most samples first. Samples of issuing warps are left out."""


NO_CODE = RowCode((), ())


def row_key(spot: Spot) -> RowKey:
    return spot.location if spot.address is None else spot.address


def code_by_row(code: MachineCode | None, by: Grouping) -> dict[RowKey, RowCode]:
    """Empty without an analysis."""
    if code is None:
        return {}
    waits, purposes = _waits_by_row(code, by), _purposes_by_row(code, by)
    keys = (*purposes, *(key for key in waits if key not in purposes))
    return {key: RowCode(purposes.get(key, []), waits.get(key, [])) for key in keys}


def _key_of(code: MachineCode, position: int, by: Grouping) -> RowKey:
    address = code.program.code[position].address
    return code.locations.get(address) if by == "line" else address


def _purposes_by_row(code: MachineCode, by: Grouping) -> dict[RowKey, list[PurposeShare]]:
    counted: dict[RowKey, Counter[Purpose]] = {}
    for position in code.program.ran:
        counts = counted.setdefault(_key_of(code, position, by), Counter())
        counts[code.purposes[position]] += code.program.counts[position]
    return {key: shares(counts) for key, counts in counted.items()}


def shares(counted: Counter[Purpose]) -> list[PurposeShare]:
    total = counted.total() or 1
    return purpose_shares((purpose, count / total) for purpose, count in counted.most_common())


def purpose_shares(purposes: Iterable[tuple[Purpose, float]]) -> list[PurposeShare]:
    return [PurposeShare(purpose=purpose.value, share=share) for purpose, share in purposes]


def _waits_by_row(code: MachineCode, by: Grouping) -> dict[RowKey, list[RowWait]]:
    states = stalls()
    groups: dict[tuple[RowKey, str, Location | None, Link], Counter[int | None]] = {}
    for wait in code.waits:
        if wait.reason not in states or not states[wait.reason].counts_as_stall:
            continue
        producer = wait.producers[0] if wait.producers else None
        line = code.location(producer) if producer is not None else None
        key = (_key_of(code, wait.position, by), wait.reason, line, wait.link)
        groups.setdefault(key, Counter())[producer] += wait.samples
    by_row: dict[RowKey, list[RowWait]] = {}
    for (row, reason, line, link), counted in groups.items():
        leading = counted.most_common(1)[0][0]
        of_row = RowWait(
            reason=reason,
            samples=counted.total(),
            producer=line,
            link=link,
            producer_position=leading,
        )
        by_row.setdefault(row, []).append(of_row)
    for waits in by_row.values():
        waits.sort(key=lambda wait: -wait.samples)
    return by_row


def first_wait(waits: Iterable[RowWait], reason: str) -> RowWait | None:
    """The wait with most samples for this stall reason."""
    return next((wait for wait in waits if wait.reason == reason), None)


def pointer_rows(code: MachineCode) -> list[PointerDocument]:
    """Rows for every pointer that is read, most requested bytes first."""
    return [
        PointerDocument(
            pointer=code.pointer_name(row.pointer),
            parameter=row.pointer if row.pointer.startswith("param+") else None,
            requested_bytes=row.requested_bytes,
            distinct_bytes_at_most=row.distinct_bytes_at_most,
            basis=row.basis,
            times=row.times,
            l1_bytes=row.l1_bytes,
            l2_bytes=row.l2_bytes,
            l2_basis=row.l2_basis,
            lines=_lines_of(code, row),
            why_unknown=why_unbounded(row.accesses) if row.distinct_bytes_at_most is None else None,
        )
        for row in code.reuse
    ]


def _lines_of(code: MachineCode, row: PointerReuse) -> list[Location]:
    sizes: Counter[Location] = Counter()
    for access in row.accesses:
        if (line := code.location(access.position)) is not None:
            sizes[line] += access.requested_bytes or 0
    return [line for line, _ in sizes.most_common()]


def why_unbounded(accesses: Sequence[Access]) -> str:
    """Why the distinct bytes of accesses through one pointer are not known."""
    from keet.analysis.machine_code.analyses.reuse import LOADED

    if any(access.pointer == LOADED for access in accesses):
        return "the pointer itself is loaded from memory"
    if any(access.is_gather for access in accesses if access.shape is None):
        return "the address depends on loaded data"
    return "the address is too complex"
