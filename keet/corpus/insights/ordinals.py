"""Numbers in file names that only count: `opt_1` to `opt_4` are edits, not values of a knob.

A name is believed where its values are no mere 1, 2, 3; where another name varies beside it; or
where something of the launch goes up or down with it all the way. And files that carry a knob's
name but are not among its points are told, with what is different about them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from keet.corpus.insights.families import family_of, function_of
from keet.corpus.insights.points import Point

Names = Mapping[tuple[str, str], frozenset[float]]
"""Values of each name in each folder."""

_COMPILED = ("registers_per_thread", "shared_memory_static", "inst_executed_total")
"""What edits move too: a few of them may do so in order by chance."""
_LEAST_IN_ORDER = 4
_STEP = 1.01


def names_in(points: Iterable[Point]) -> Names:
    """Of all files: a value whose file is left out of a series counts on with the others."""
    found: dict[tuple[str, str], set[float]] = defaultdict(set)
    for point in points:
        for named in point.naming.named:
            if named.source == "file name":
                found[point.naming.folder, named.name].add(named.value)
    return {key: frozenset(values) for key, values in found.items()}


def only_counts(name: str, values: Sequence[tuple[float, tuple[Point, ...]]], names: Names) -> bool:
    """Whether a name of files does no more than number them."""
    points = [each[0] for _, each in values]
    known = names.get((points[0].naming.folder, name), frozenset())
    if not _is_consecutive(known | {value for value, _ in values}):
        return False
    return not any(_is_in_order(each) for each in _launched(points)) and not any(
        len(each) >= _LEAST_IN_ORDER and _is_in_order(each, _STEP) for each in _compiled(points)
    )


def _is_consecutive(values: frozenset[float]) -> bool:
    return all(after - before == 1 for before, after in pairwise(sorted(values)))


def _launched(points: Sequence[Point]) -> Iterator[list[float]]:
    """What somebody has to give a launch."""
    for axis in range(3):
        yield from (
            _known([point.block[axis] for point in points]),
            _known([point.grid[axis] for point in points]),
        )
    for column in ("cluster_size", "shared_memory_dynamic"):
        yield _known([point.number(column) for point in points])


def _compiled(points: Sequence[Point]) -> Iterator[list[float]]:
    for column in _COMPILED:
        yield _known([point.number(column) for point in points])


def _known(values: Sequence[float | None]) -> list[float]:
    """Of every point, or none."""
    found = [float(value) for value in values if value is not None]
    return found if len(found) == len(values) else []


def _is_in_order(values: Sequence[float], step: float = 1.0) -> bool:
    """Strictly up, or strictly down."""
    up = all(after > before * step for before, after in pairwise(values))
    down = all(before > after * step for before, after in pairwise(values))
    return len(values) > 1 and (up or down)


# --- what is left out


def left_out(
    knob: str,
    inside: Sequence[Point],
    fixed: Mapping[str, float],
    points: Iterable[Point],
    used: frozenset[str],
) -> list[tuple[float, Point, str]]:
    """Files with the knob in their name that are no points; `fixed`: names that stay the same;
    `used`: files that are points of a sweep over this knob."""
    like = inside[0]
    found = {}
    for point in points:
        value = _value(point, knob)
        if value is None or point.sha256 in used or not _is_akin(point, like, fixed):
            continue
        found[point.sha256] = (value, point, _difference(point, like))
    return sorted(found.values(), key=lambda each: (each[0], each[1].path))


def _value(point: Point, name: str) -> float | None:
    return next((named.value for named in point.naming.named if named.name == name), None)


def _is_akin(point: Point, like: Point, fixed: Mapping[str, float]) -> bool:
    same = _function(point) == _function(like) and point.device == like.device
    return (
        same
        and point.naming.folder == like.naming.folder
        and all(_value(point, name) == value for name, value in fixed.items())
    )


def _function(point: Point) -> str:
    return function_of(point.texts["kernel_full"] or point.kernel)


def _difference(point: Point, like: Point) -> str:
    if point.control != like.control:
        return "other clock or cache control"
    if point.naming.skeleton != like.naming.skeleton:
        return "another command line"
    if (
        family_of(point.texts["kernel_full"] or "").name
        != family_of(like.texts["kernel_full"] or "").name
    ):
        return "other parameters of the kernel"
    for what in ("block", "grid"):
        if point.texts[what] != like.texts[what]:
            return f"{what} `{point.texts[what]}`"
    return "more than this differs"
