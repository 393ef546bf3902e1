"""The purpose of the executed instructions, as far as opcodes show it, and how much of a launch is
in routines outside of the kernel's own code.

Device malloc and free, printf and assert are routines of the driver that a kernel calls. Their
instructions are not in the kernel's machine code, but warps are sampled in them.
"""

from __future__ import annotations

import math
from functools import lru_cache

from keet.analysis.hotspots.source_lines import LEAST_SAMPLES
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.limits import NOTABLE_PART
from keet.analysis.machine_code.instructions.opcodes import Role, role_of
from keet.evidence import Evidence
from keet.units import Quantity

PURPOSES = {
    "value": "arithmetic on data",
    "memory": "loads and stores",
    "address": "addresses and indices",
    "control": "conditions and loops",
    "conversion": "conversions",
    "move": "moves, shuffles and spills",
    "sync": "synchronisation",
    "unknown": "instructions that keet does not know",
}
_KINDS = {
    "value": (Role.FLOAT, Role.TENSOR),
    "memory": (Role.LOAD, Role.STORE, Role.ATOMIC, Role.COPY),
    "control": (Role.BRANCH, Role.CONVERGENCE, Role.PREDICATE, Role.NOTHING),
    "conversion": (Role.CONVERSION,),
    "move": (Role.MOVE, Role.SHUFFLE),
    "sync": (Role.SYNC,),
    "unknown": (Role.UNKNOWN,),
}
"""As in the machine code (analyses/purpose.py), which also shows what the others are for: integers,
constants and special registers."""


def opcode_mix(view: LaunchView) -> list[tuple[str, str, float]]:
    """Shares by purpose, used without machine code: integer arithmetic may have any purpose."""
    executed = {opcode: n for opcode, n in view.opcodes.items() if 0 < n < math.inf}
    every = sum(executed.values())
    counts = dict.fromkeys((*_KINDS, "integer"), 0.0)
    for opcode, count in executed.items():
        counts[_kind(opcode)] += count
    labels = PURPOSES | {"integer": "integer arithmetic (values or addresses)"}
    rows = [(kind, labels[kind], count / every) for kind, count in counts.items() if count]
    return sorted(rows, key=lambda row: -row[2])


@lru_cache(maxsize=1024)
def _kind(opcode: str) -> str:
    role = role_of(opcode)
    return next((kind for kind, roles in _KINDS.items() if role in roles), "integer")


_EVERY = ("smsp__inst_executed.sum", "sm__inst_executed.sum", "smsp__inst_executed_sum")
"""Counters of the SMs, which also count called routines."""


@cached_per_view
def called_part(view: LaunchView) -> float:
    """Share of the samples outside of the kernel's code, 0 to 1; 0 if the report does not show
    it."""
    samples = view.table.samples or {}
    every = sum(samples.values())
    if every < LEAST_SAMPLES or not runs_more(view) or view.code is None:
        return 0.0
    of_kernel = {instruction.address for instruction in view.code.program.code if instruction.text}
    inside = sum(count for address, count in samples.items() if address in of_kernel)
    return 1 - inside / every


def called_share(view: LaunchView) -> Evidence | None:
    """The same as evidence; None if there is no such code."""
    part = called_part(view)
    if not part:
        return None
    label = "of the samples are in routines outside of the kernel's code"
    return view.ledger.derived("called_code", Quantity(100 * part, "%"), label)


def runs_more(view: LaunchView) -> bool:
    """Whether the SMs executed notably more instructions than the kernel's code has. Most kernels
    call nothing, so that their code need not be read."""
    in_kernel = view.value("inst_executed")
    counts = (view.launch.metric(name) for name in _EVERY)
    every = max((float(count.number or 0) for count in counts if count), default=0.0)
    return in_kernel is not None and in_kernel < (1 - NOTABLE_PART) * every
