"""Candidate causes: one from each kind of waste and each limit on what runs at a time."""

from __future__ import annotations

from keet.analysis.candidates import (
    global_memory,
    instructions,
    latency_hiding,
    memory,
    parallelism,
    pipes,
    precision,
    reuse,
)
from keet.analysis.candidates.candidate import Candidate, Maker

__all__ = ["MAKERS", "Candidate"]

MAKERS: tuple[Maker, ...] = (
    *global_memory.MAKERS,
    *memory.MAKERS,
    *reuse.MAKERS,
    *parallelism.MAKERS,
    *latency_hiding.MAKERS,
    *instructions.MAKERS,
    *precision.MAKERS,
    *pipes.MAKERS,
)
