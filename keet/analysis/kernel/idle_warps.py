"""Warps that exit without a memory access: the grid is larger than the data.

A warp that loads and stores nothing has no result. Two things look alike: warps that compute much
and leave the only store to another one (their instructions are arithmetic on data), and reports
that do not count the accesses. Those of the basic set tell for how many cycles L1 sends requests to
L2: every store is one, so that fewer cycles than warps mean the same.
"""

from __future__ import annotations

from typing import NamedTuple

from keet.analysis.kernel.work_per_warp import FEW_INSTRUCTIONS, WARP, instructions_per_warp
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.evidence import Evidence
from keet.units import Quantity

_ACCESSES = ("LD", "ST", "ATOM", "RED", "SULD", "SUST", "TEX", "TLD", "UTMA", "UBLKCP")
_NO_ACCESSES = ("LDC", "LDGDEPBAR", "LDTM", "REDUX", "STTM")
_SHARED = ("LDS", "STS", "ATOMS", "UTMA", "UBLKCP")
_REQUESTS = (
    "global_load_requests",
    "global_store_requests",
    "local_load_requests",
    "local_store_requests",
    "texture_requests",
)


class IdleWarps(NamedTuple):
    share: Evidence
    """Percent of the launched warps, at least: an access counts as another warp's."""
    wasted: float
    """Share of all instructions that these warps execute, 0 to 1."""


@cached_per_view
def idle_warps(view: LaunchView) -> IdleWarps | None:
    """None if every warp may access memory, or the report does not say."""
    grid, block = view.get("grid_size"), view.get("block_size")
    accesses = _accesses(view)
    counted = view.get("inst_by_opcode") or view.get("global_store_requests")
    label = "of the warps access no memory"
    if accesses is None:
        accesses, counted = _sent_to_l2(view), view.get("l1_to_crossbar_pct")
        label = "of the warps send nothing to L2, neither a store nor a load"
    if grid is None or block is None or not grid.value or not block.value or accesses is None:
        return None
    warps = float(grid.value) * -(-float(block.value) // WARP)
    idle = 1 - accesses / warps
    no_result = _no_result(view)
    if idle <= 0 or no_result <= 0:
        return None
    sources = [each for each in (grid, block, counted) if each is not None]
    share = view.ledger.derived("idle_warps", Quantity(100 * idle, "%"), label, *sources)
    return IdleWarps(share, idle * no_result)


def _accesses(view: LaunchView) -> float | None:
    """Memory accesses of warps, by opcode or by requests: an instruction whose predicate is off in
    all threads makes none. None: not counted."""
    counted = [_requests(view)]
    if view.opcodes:
        counted.append(view.executed(*_ACCESSES) - view.executed(*_NO_ACCESSES))
    return min((count for count in counted if count is not None), default=None)


def _sent_to_l2(view: LaunchView) -> float | None:
    """Cycles in which L1 sends to L2, over all SMs: no more requests than that."""
    busy, elapsed = view.value("l1_to_crossbar_pct"), view.value("elapsed_cycles")
    sms = view.launch.device.sm_count
    if busy is None or elapsed is None or not sms:
        return None
    return busy / 100 * elapsed * sms


def _requests(view: LaunchView) -> float | None:
    """Those to shared memory by opcode; by wavefronts, which are more, if opcodes were not
    counted."""
    counts = [view.launch.number(metric) for metric in _REQUESTS]
    shared = view.launch.number("shared_wavefronts")
    if view.opcodes:
        shared = view.executed(*_SHARED)
    if shared is None or None in counts[:2]:
        return None
    return shared + sum(count for count in counts if count is not None)


def _no_result(view: LaunchView) -> float:
    """Share of the instructions that are not arithmetic on data. Without the machine code: all or
    none, by whether a warp executes few."""
    if view.code is not None:
        value = sum(share for kind, share in view.code.mix if kind.value in ("value", "unknown"))
        return 1 - value
    each = instructions_per_warp(view)
    return 1.0 if each is not None and each.value <= FEW_INSTRUCTIONS else 0.0
