"""Captures that are alike in all that was chosen, on several GPUs or with several versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from keet.corpus.insights.points import Point
from keet.corpus.insights.series import Capture
from keet.records import NamedTuple

_VERSIONS = (
    ("driver", "driver_version"),
    ("CUDA version", "cuda_version"),
    ("ncu version", "ncu_version"),
)

_LEAST_EACH = 2
"""Files with each version: a single one may differ for any reason, its code first."""


class Alternatives(NamedTuple):
    """The same launch under different circumstances."""

    knob: str
    kind: str
    """`gpu` or `version`."""
    values: tuple[tuple[str, tuple[Point, ...]], ...]
    moves_with: tuple[str, ...] = ()


def alike(captures: Iterable[Capture], *, across_devices: bool) -> list[list[Point]]:
    """Captures with the same coordinates."""
    groups: dict[tuple[object, ...], list[Point]] = defaultdict(list)
    for capture in captures:
        chosen = tuple(sorted((c, v) for c, v in capture.at.items() if not _is_compiled(c.name)))
        device = "" if across_devices else capture.point.device
        groups[capture.group, chosen, device].append(capture.point)
    return list(groups.values())


def _is_compiled(name: str) -> bool:
    """A compiler gives another GPU, and another version, other registers for the same launch."""
    return name == "registers per thread"


def gpu_alternatives(captures: Sequence[Capture]) -> list[Alternatives]:
    groups = alike(captures, across_devices=True)
    made = (_by("GPU", "gpu", group, lambda point: point.device) for group in groups)
    return [found for found in made if found]


def version_alternatives(captures: Sequence[Capture]) -> list[Alternatives]:
    """By the first of driver, CUDA and ncu that varies; the others are said to move with it."""
    found = (_by_version(group) for group in alike(captures, across_devices=False))
    return [each for each in found if each]


def _by_version(points: Sequence[Point]) -> Alternatives | None:
    varying = [
        (name, column)
        for name, column in _VERSIONS
        if len({point.texts[column] for point in points} - {None}) > 1
    ]
    if not varying:
        return None
    (name, column), *rest = varying
    known = [point for point in points if point.texts[column] is not None]
    made = _by(name, "version", known, lambda point: point.texts[column] or "")
    if made is None or any(len(files) < _LEAST_EACH for _, files in made.values):
        return None
    return made._replace(moves_with=tuple(other for other, _ in rest))


def _by(
    knob: str, kind: str, points: Sequence[Point], value: Callable[[Point], str]
) -> Alternatives | None:
    values: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        values[value(point)].append(point)
    if len(values) < 2:
        return None
    ordered = sorted(values, key=_version_key)
    return Alternatives(knob, kind, tuple((v, tuple(values[v])) for v in ordered))


def _version_key(text: str) -> list[tuple[int, str]]:
    """`9.2` before `10.1`."""
    return [(int(part) if part.isdigit() else -1, part) for part in text.split(".")]
