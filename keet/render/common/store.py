"""Words about a store of many reports: counts, and for how many the whole run is known."""

from __future__ import annotations


def known_runs_text(runs: int, placed: int, of_all: str) -> str:
    """`placed`: those of the runs in which the profiled launches have a time."""
    part = f", the part that was profiled for {f'{placed:,}' if placed else 'none'}"
    return f"the whole run is known for {runs:,} of {of_all}{part if placed < runs else ''}"
