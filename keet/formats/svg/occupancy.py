"""A curve of occupancy: warps per SM over registers, shared memory or block size, in steps."""

from __future__ import annotations

from collections.abc import Iterator

from keet.documents.occupancy import OccupancyCurve, OccupancyDocument
from keet.formats.svg.markup import Box, tag

WIDTH, HEIGHT = 220, 132
_AREA = Box(22, 8, 206, 112)
_TICKS = {
    "registers": (0, 64, 128, 192),
    "shared_memory": (0, 50_000, 100_000, 150_000, 200_000),
    "block_size": (0, 256, 512, 768, 1024),
}


def curve_drawing(document: OccupancyDocument, curve: OccupancyCurve) -> str:
    """The steps, what lets more warps in, and the launch's own value on top."""
    return "".join([*_frame(document, curve), *_steps(document, curve)])


def _x(curve: OccupancyCurve, value: float) -> float:
    return _AREA.left + value / curve.steps[-1].most * (_AREA.right - _AREA.left)


def _y(document: OccupancyDocument, warps: float) -> float:
    return _AREA.bottom - warps / document.most_warps * (_AREA.bottom - _AREA.top)


def _frame(document: OccupancyDocument, curve: OccupancyCurve) -> Iterator[str]:
    left, top, right, bottom = _AREA
    yield tag("rect", x=left, y=top, width=right - left, height=bottom - top, class_="area")
    for warps in (0, document.most_warps // 2, document.most_warps):
        y = _y(document, warps)
        yield tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid")
        yield tag("text", str(warps), x=left - 4, y=y + 4, class_="muted right")
    unit = 1000 if curve.of == "shared_memory" else 1
    for value in _TICKS[curve.of]:
        if value <= curve.steps[-1].most:
            x = _x(curve, value)
            yield tag("text", str(value // unit), x=x, y=bottom + 14, class_="muted middle")


def _steps(document: OccupancyDocument, curve: OccupancyCurve) -> Iterator[str]:
    """`V` to the height of a step, `H` to its end."""
    path = "".join(
        f"{'V' if place else 'M' + str(_AREA.left) + ' '}{_y(document, step.warps):.1f}"
        f"H{_x(curve, step.most):.1f}"
        for place, step in enumerate(curve.steps)
    )
    yield tag("path", d=path, class_="curve")
    for step in curve.better(document.warps):
        x, y = _x(curve, step.most), _y(document, step.warps)
        yield tag("circle", cx=x, cy=y, r=2.5, class_="step")
    now, y = _x(curve, curve.now), _y(document, document.warps)
    yield tag("line", x1=now, x2=now, y1=y, y2=_AREA.bottom, class_="own")
    yield tag("circle", cx=now, cy=y, r=4.5, class_="now")
