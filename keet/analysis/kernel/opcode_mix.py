"""The purpose of the executed instructions, as far as opcodes show it."""

from __future__ import annotations

import math
from functools import lru_cache

from keet.analysis.launch_view import LaunchView

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
    "value": ("FFMA", "FADD", "FMUL", "DFMA", "DADD", "DMUL", "H", "MUFU", "FMNMX", "FSEL"),
    "memory": ("LD", "ST", "ATOM", "RED", "TEX", "UTMA"),
    "control": ("BRA", "ISETP", "FSETP", "DSETP", "PLOP", "EXIT", "BSSY", "BSYNC", "CALL", "RET"),
    "conversion": ("I2F", "F2I", "F2F", "I2I", "F2FP"),
    "move": ("MOV", "SHFL", "PRMT", "UMOV", "S2R", "CS2R"),
    "sync": ("BAR", "MEMBAR", "DEPBAR", "WARPSYNC", "NANOSLEEP"),
}


def opcode_mix(view: LaunchView) -> list[tuple[str, str, float]]:
    """Shares by purpose, used without machine code: integer arithmetic may have any purpose."""
    executed = {opcode: n for opcode, n in view.opcodes.items() if 0 < n < math.inf}
    every = sum(executed.values())
    counts = dict.fromkeys((*_KINDS, "integer"), 0.0)
    for opcode, count in executed.items():
        counts[_kind(opcode)] += count
    labels = PURPOSES | {"integer": "integer arithmetic (values or addresses)"}
    found = [(kind, labels[kind], count / every) for kind, count in counts.items() if count]
    return sorted(found, key=lambda row: -row[2])


@lru_cache(maxsize=1024)
def _kind(opcode: str) -> str:
    return next((kind for kind, names in _KINDS.items() if opcode.startswith(names)), "integer")
