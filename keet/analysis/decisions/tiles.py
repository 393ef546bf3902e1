"""What several results per thread save: one effect on all units that the loads keep busy."""

from __future__ import annotations

from keet.analysis.candidate import part_of
from keet.analysis.instruction_removal import removed_part
from keet.analysis.kernel.register_tiles import LOADS, exchanges
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import INDIRECT, SHARPNESS, Effect, TimeModel

_EXCHANGE = (*LOADS, "STS", "BAR")
_KEPT = ("value", "unknown")
_HALVES = ("HFMA2", "HMUL2", "HADD2")
_INTEGER_PRODUCTS, _FLOAT_PRODUCTS = ("IMAD", "XMAD"), ("FFMA", "FMUL", "FADD", *_HALVES)


def tiled(view: LaunchView, model: TimeModel, beside: float, left: float) -> Effect:
    """The share `left` of the loads is enough. Addresses, conditions and waiting serve several
    results, too, so that L1, the issue slots and the integer pipes have less to do together.
    `beside`: the share of the instructions that are not arithmetic on data."""
    others = INDIRECT * (1 - left)
    units = _with_code(view, 1 - left, others)
    if not units:
        loads = part_of(view, *LOADS)
        removed = (1 - left) * loads + others * max(0.0, beside - loads)
        units = dict.fromkeys(("issue", "ALU"), 1 - removed)
        units["FMA"] = 1 - others * _integer_part(view)
    units["ADU"] = units["issue"]
    units |= dict.fromkeys(("L1", "LSU"), left)
    return Effect(units, every_wait=1 - others * model.pressure**SHARPNESS)


def _integer_part(view: LaunchView) -> float:
    """Share of the FMA pipe's instructions that are integer multiplications, 0 to 1: of indices,
    where floats are the data."""
    integers, floats = part_of(view, *_INTEGER_PRODUCTS), part_of(view, *_FLOAT_PRODUCTS)
    return integers / (integers + floats) if floats else 0.0


def _with_code(view: LaunchView, of_loads: float, of_others: float) -> dict[str, float]:
    """Shares of the units' work that are left, by the instructions that go; empty without the
    machine code."""
    if view.code is None:
        return {}
    code, purposes = view.code.program.code, view.code.purposes
    moved = _EXCHANGE if exchanges(view) else LOADS
    gone = {
        each: of_loads if code[each].opcode in moved else of_others
        for each in view.code.program.ran
        if purposes[each].value not in _KEPT
    }
    return {unit: 1 - removed_part(view, gone, unit) for unit in ("issue", "ALU", "FMA")}
