"""Recognises code that was compiled for debugging (`nvcc -G`)."""

from __future__ import annotations

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parameters import Parameter

FEWEST_OPCODES = Parameter(5, "fewest opcodes of a recognisable debug build", "judgement")
DEBUG_MOVES = Parameter(
    0.4, "share of moves in a debug build; 0.47 to 0.54 were seen, 0.15 elsewhere", "judgement"
)
DEBUG_MOVES_UNFUSED = Parameter(
    0.3, "the same without fused multiply-adds, or with tables for a debugger", "judgement"
)


@cached_per_view
def is_debug_build(view: LaunchView) -> bool:
    """Whether the code has many moves and no fused multiply-adds. Without counts of opcodes:
    whether it has tables for a debugger. With them, the counts decide: `-G -dopt=on` writes such
    tables for optimised code."""
    tables = view.launch.is_for_debugging
    if len(view.opcodes) < FEWEST_OPCODES:
        return tables
    moved, every = view.executed("MOV"), view.all_executed
    unfused = view.executed("FADD") > 0 and view.executed("FMUL") > 0
    fused = view.executed("FFMA") > 0
    least = DEBUG_MOVES_UNFUSED if tables or (unfused and not fused) else DEBUG_MOVES
    return moved >= least * every > 0
