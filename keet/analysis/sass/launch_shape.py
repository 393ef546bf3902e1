"""The shape of a launch, and its place in constant bank 0, where the code reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchShape:
    """The shape of a launch, and the offsets of its constants in bank 0."""

    grid: Dim3 | None
    block: Dim3 | None
    constants: Mapping[int, int]
    """Values of constant bank 0 by offset, as far as they are known."""
    parameters: int
    """Offset of the first kernel parameter in constant bank 0."""


def launch_shape(grid: Dim3 | None, block: Dim3 | None, capability: str | None) -> LaunchShape:
    """The offsets depend on the architecture; they were found in the code of each."""
    major = int(float(capability)) if capability and capability[:1].isdigit() else 9
    if major >= 10:
        shape_at, grid_at, parameters = 0x360, 0x370, 0x380
    else:
        shape_at, grid_at, parameters = 0x0, 0xC, 0x210 if major == 9 else 0x160
    words: dict[int, int] = {}
    for start, sizes in ((shape_at, block), (grid_at, grid)):
        for axis, size in enumerate(sizes or ()):
            words[start + 4 * axis] = size
    return LaunchShape(grid, block, words, parameters)
