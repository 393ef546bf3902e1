"""Whether a launch reads its data from DRAM once or several times: measured bytes over distinct.

For kernels that stream, the bound on distinct bytes is the traffic: on the casebook's work
families, 140 of 140 launches that read each byte once have DRAM reads within 20 % of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from keet.analysis.sass.machine_code import MachineCode
from keet.analysis.sass.reuse import Basis, PointerReuse
from keet.profile import Launch

Verdict = Literal["once", "several", "between", "unknown"]

SEVERAL, ONCE = 1.5, 1.2
"""DRAM bytes read over distinct bytes. A prototype on 154 reports gave the same answers for limits
from 1.15 to 1.9; streaming kernels of the casebook lie between 0.9 and 1.2."""
LEAST = 0.85
"""Below, the bound on distinct bytes is not reached, so that it proves nothing."""
COVERED = 0.9
"""Judgement: share of the load sectors that need a bound before anything is said."""
LEAST_BYTES = 1_000_000
"""Judgement: below, instructions and constants are a notable part of what DRAM reads."""


class Streaming(NamedTuple):
    """What DRAM read for a launch, beside what its loads can touch."""

    verdict: Verdict
    dram_bytes: int | None
    distinct_bytes: int | None
    """At most, in whole sectors, over all pointers that have a bound."""
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
    dram = int(measured.value) if measured and math.isfinite(measured.value) else None
    local = sum((code.local_sectors or {}).values())
    return judged(dram, code.reuse, has_local_memory=local > 0)


def judged(
    dram_bytes: int | None, rows: Sequence[PointerReuse], *, has_local_memory: bool = False
) -> Streaming:
    asked = sum(row.l1_bytes or 0 for row in rows)
    bounded = [row for row in rows if row.sector_bytes_at_most is not None]
    covered = sum(row.l1_bytes or 0 for row in bounded) / asked if asked else 0.0
    distinct = sum(row.sector_bytes_at_most or 0 for row in bounded) if bounded else None
    basis: Basis | None = None
    if bounded:
        basis = "bound" if all(row.basis == "bound" for row in bounded) else "estimate"

    overlaps = any(r.may_overlap for r in bounded if (r.l1_bytes or 0) > (1 - COVERED) * asked)
    obstacle = _obstacle(dram_bytes, distinct, covered)
    verdict: Verdict = "unknown"
    if not obstacle:
        times = (dram_bytes or 0) / (distinct or 1)
        verdict = "several" if times >= SEVERAL else "once" if times <= ONCE else "between"
        if verdict == "several" and has_local_memory:
            obstacle = "local memory is read from DRAM too"
        if verdict != "several" and overlaps:
            obstacle = "rows at an unknown distance may overlap"
    verdict = "unknown" if obstacle else verdict
    return Streaming(verdict, dram_bytes, distinct, covered, basis, obstacle)


def _obstacle(dram_bytes: int | None, distinct: int | None, covered: float) -> str:
    """Why the bytes cannot be compared; empty where they can."""
    if dram_bytes is None:
        return "the report does not say what DRAM read"
    if not distinct or covered < COVERED:
        return "not all addresses have a bound"
    if distinct < LEAST_BYTES:
        return "the data is small"
    if dram_bytes / distinct < LEAST:
        return "the addresses could touch more than DRAM read"
    return ""
