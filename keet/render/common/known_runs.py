"""The sentence that says how many files have a run table, for `keet batch` and `keet top`."""

from __future__ import annotations


def known_runs_text(runs: int, timed: int, of_all: str) -> str:
    """`timed`: number of these run tables that have times of the profiled launches."""
    have = f"{runs:,} of {of_all} {'has' if runs == 1 else 'have'} a run table"
    if timed == runs:
        return have
    if not timed:
        return f"{have}, without times of the profiled launches"
    return f"{have}, {timed:,} of them with times of the profiled launches"
