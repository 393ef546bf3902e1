"""Candidate causes: functions that each propose a finding, with its evidence and the effect of a
fix.

One module per kind of waste or limit; each lists its functions in `MAKERS`. Candidates import the
time model and the launch view, never the diagnosis or the advice.
"""

from __future__ import annotations

from keet.analysis.candidate import Candidate, Maker
from keet.analysis.candidates import (
    global_memory,
    latency_hiding,
    memory,
    parallelism,
    reuse,
)

__all__ = ["MAKERS", "Candidate"]

MAKERS: tuple[Maker, ...] = (
    *global_memory.MAKERS,
    *memory.MAKERS,
    *reuse.MAKERS,
    *parallelism.MAKERS,
    *latency_hiding.MAKERS,
)
