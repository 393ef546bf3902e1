"""Recognises code that was compiled for debugging (`nvcc -G`)."""

from __future__ import annotations

from keet.analysis.launch_view import LaunchView
from keet.analysis.view_cache import cached_per_view

_FEWEST_OPCODES = 5
"""Different opcodes: a kernel of a few instructions shows nothing."""


@cached_per_view
def is_debug_build(view: LaunchView) -> bool:
    """Whether the code has many moves and no fused multiply-adds.

    In optimised code seen so far, moves are below 15 % of the instructions; in debug builds, 47 to
    54 %.
    """
    if len(view.opcodes) < _FEWEST_OPCODES:
        return False
    moved, every = view.executed("MOV"), view.all_executed
    unfused = view.executed("FADD") > 0 and view.executed("FMUL") > 0
    fused = view.executed("FFMA") > 0
    return moved >= 0.4 * every > 0 or (moved >= 0.3 * every > 0 and unfused and not fused)
