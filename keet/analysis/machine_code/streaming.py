"""Decides whether a launch reads its data from DRAM once or several times.

Compares the measured DRAM bytes with the bound on distinct bytes. For streaming kernels both are
equal: on the casebook's work families, 145 of 213 launches that read each byte once get the
verdict "once", and none gets "several".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from keet.analysis.machine_code.analyses.reuse import SECTOR, Basis, PointerReuse
from keet.analysis.machine_code.instructions.instruction import Instruction
from keet.analysis.machine_code.instructions.opcodes import GLOBAL, LOCAL, SHARED, Role
from keet.analysis.machine_code.launch_code import MachineCode
from keet.analysis.parameters import FEW_BYTES, NEARLY_ALL, READ_AGAIN, Parameter
from keet.profile import Launch

Verdict = Literal["once", "several", "between", "unknown"]

READ_ONCE = Parameter(1.2, "the same: read once; streaming kernels have 0.9 to 1.2", "fit")
REACHED_BOUND = Parameter(0.85, "the same: if smaller, the bound is not reached", "judgement")


class Streaming(NamedTuple):
    """Bytes read from DRAM, compared with the distinct bytes that the loads can touch."""

    verdict: Verdict
    dram_bytes: int | None
    distinct_bytes: int | None
    """Upper bound in whole sectors, over all pointers that have a bound."""
    covered: float
    """Share of the load sectors whose pointers have a bound."""
    basis: Basis | None
    reason: str = ""
    """Why the verdict is `unknown`."""

    @property
    def times(self) -> float | None:
        if not self.dram_bytes or not self.distinct_bytes:
            return None
        return self.dram_bytes / self.distinct_bytes


def streaming(launch: Launch, code: MachineCode) -> Streaming:
    measured = launch.get("dram_bytes_read")
    dram = int(measured.value) if measured else None
    if dram is not None and code.l2_read_bytes is not None:
        dram = min(dram, code.l2_read_bytes)  # the rest fills partially written sectors
    return verdict_of(dram, code.reuse, others=_other_readers(code, dram or 0))


def _other_readers(code: MachineCode, dram: int) -> str:
    """Other instructions that may have read DRAM; empty if only the analysed loads did."""
    if sum((code.local_sectors or {}).values()):
        return "local memory is read from DRAM too"
    ran = [code.program.code[position] for position in code.program.ran]
    if any(_reads_otherwise(instruction) for instruction in ran):
        return "textures or bulk copies read DRAM too"
    atomics = sum(
        (code.sectors or {}).get(instruction.address, 0) * SECTOR
        for instruction in ran
        if instruction.role is Role.ATOMIC and instruction.opcode in GLOBAL
    )
    return "atomics read DRAM too" if atomics > (1 - NEARLY_ALL) * dram else ""


def _reads_otherwise(instruction: Instruction) -> bool:
    """Loads and copies that `reuse` does not analyse: textures, surfaces, TMA."""
    is_plain = instruction.opcode in (*GLOBAL, *SHARED, *LOCAL)
    return instruction.role in (Role.LOAD, Role.COPY) and not is_plain


def verdict_of(
    dram_bytes: int | None, rows: Sequence[PointerReuse], *, others: str = ""
) -> Streaming:
    asked = sum(row.l1_bytes or 0 for row in rows)
    bounded = [row for row in rows if row.sector_bytes_at_most is not None]
    covered = sum(row.l1_bytes or 0 for row in bounded) / asked if asked else 0.0
    distinct = sum(row.sector_bytes_at_most or 0 for row in bounded) if bounded else None
    basis: Basis | None = None
    if bounded:
        basis = "bound" if all(row.basis == "bound" for row in bounded) else "estimate"

    overlaps = any(r.may_overlap for r in bounded if (r.l1_bytes or 0) > (1 - NEARLY_ALL) * asked)
    obstacle = _obstacle(dram_bytes, distinct, covered)
    verdict: Verdict = "unknown"
    if not obstacle:
        times = (dram_bytes or 0) / (distinct or 1)
        verdict = "several" if times >= READ_AGAIN else "once" if times <= READ_ONCE else "between"
        worst = sum(row.worst_sector_bytes or row.sector_bytes_at_most or 0 for row in bounded)
        if verdict == "several" and (dram_bytes or 0) / worst < READ_AGAIN:
            obstacle = "rows may begin within a sector"
        if verdict == "several" and any(row.is_ragged for row in bounded):
            obstacle = "loops differ widely in length between warps"
        if verdict == "several" and others:
            obstacle = others
        if verdict != "several" and overlaps:
            obstacle = "rows at an unknown distance may overlap"
    verdict = "unknown" if obstacle else verdict
    return Streaming(verdict, dram_bytes, distinct, covered, basis, obstacle)


def _obstacle(dram_bytes: int | None, distinct: int | None, covered: float) -> str:
    """Why the bytes can't be compared; empty if they can."""
    if dram_bytes is None:
        return "the report does not have the bytes read from DRAM"
    if not distinct or covered < NEARLY_ALL:
        return "not all addresses have a bound"
    if distinct < FEW_BYTES:
        return "the data is small"
    if dram_bytes / distinct < REACHED_BOUND:
        return "the addresses could touch more than DRAM read"
    return ""
