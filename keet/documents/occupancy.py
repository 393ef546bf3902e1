"""The theoretical occupancy of a launch if it used other registers, shared memory or blocks."""

from __future__ import annotations

from typing import Literal, NamedTuple

from keet.documents.document import Document

Changed = Literal["registers", "shared_memory", "block_size"]
"""Registers per thread, bytes of shared memory per block without the driver's, or threads per
block."""


class OccupancyStep(NamedTuple):
    """Values from `least` to `most` have the same number of warps."""

    least: int
    most: int
    warps: int
    """Per SM; 0: a block does not fit."""


class OccupancyCurve(Document):
    of: Changed
    now: int
    """The launch's own value."""
    steps: tuple[OccupancyStep, ...]
    """By ascending values, without gaps."""

    def better(self, warps: int) -> list[OccupancyStep]:
        """Steps with more warps, those nearest to the launch's own value first."""
        steps = [step for step in self.steps if step.warps > warps]
        return sorted(steps, key=lambda step: abs(step.most - self.now))


class OccupancyDocument(Document):
    warps: int
    """That an SM can hold of this launch."""
    most_warps: int
    """That an SM can hold at all."""
    limited_by: tuple[str, ...]
    """Resources that let no more blocks in: registers, shared, warps, blocks or barriers."""
    curves: tuple[OccupancyCurve, ...]
