"""Finds series: captures of one kernel in which one coordinate (the knob) varies.

Each capture has coordinates, in this order: numbers in names, template arguments, block, cluster,
shared memory, grid, registers. Earlier ones are chosen by people, later ones follow from them. A
coordinate is a knob if it has three values in three files, while all coordinates of its rank or
before are constant or change in step with it. Later coordinates may vary freely.

Numbers in file names that only count files (`opt_1` to `opt_4` are edits) are not knobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from keet.corpus.insights.knob_names import Family, family_of, function_of
from keet.corpus.insights.points import Point

LEAST_VALUES = 3
"""Fewest values of a knob; two points are a comparison (`keet diff`), not a curve."""


class Coordinate(NamedTuple):
    """A parameter that may vary between captures."""

    rank: int
    """Lower ranks are chosen first; higher ranks follow from them."""
    name: str
    source: str


class Capture(NamedTuple):
    """A point with its coordinates."""

    point: Point
    at: Mapping[Coordinate, float]
    group: tuple[str, ...]
    """Captures are compared only within the same group (and on the same GPU)."""
    folder: str
    """The folder if the file name has a knob: sweeps in different folders are different sweeps."""


class Series(NamedTuple):
    """Captures sorted by the value of the knob; each value has one or more files."""

    knob: Coordinate
    tied: tuple[Coordinate, ...]
    """Coordinates of the same rank that change in step with the knob."""
    values: tuple[tuple[float, tuple[Point, ...]], ...]
    fixed: tuple[tuple[Coordinate, float], ...]
    follows: tuple[Coordinate, ...]
    """Coordinates of higher rank that change with the knob."""
    left: tuple[tuple[float, Point, str], ...] = ()
    """Files with the knob in their name that are not in a sweep: value, point and reason."""

    @property
    def points(self) -> list[Point]:
        return [point for _, points in self.values for point in points]


def captures_of(points: Iterable[Point]) -> list[Capture]:
    """One capture per point. Several shapes of a kernel in a file are matched by their order."""
    by_file: dict[tuple[str, ...], list[Capture]] = defaultdict(list)
    for point in points:
        capture = _capture(point)
        by_file[point.sha256, *capture.group, point.device].append(capture)
    several = _counts(by_file)
    return [
        capture._replace(group=(*capture.group, f"shape {place}"))
        for key, captures in by_file.items()
        for place, capture in enumerate(sorted(captures, key=lambda c: c.point.launch))
        if several[key[1:]] == len(captures)
    ]


def _counts(by_file: Mapping[tuple[str, ...], Sequence[Capture]]) -> dict[tuple[str, ...], int]:
    """Number of shapes of a group per file; -1 if files differ, since they can't be matched."""
    counts: dict[tuple[str, ...], int] = {}
    for key, captures in by_file.items():
        before = counts.setdefault(key[1:], len(captures))
        if before != len(captures):
            counts[key[1:]] = -1
    return counts


def find_series(captures: Iterable[Capture], points: Sequence[Point] = ()) -> list[Series]:
    """Per GPU. `points`: all points, also those without a capture."""
    buckets: dict[tuple[str, ...], list[Capture]] = defaultdict(list)
    for capture in captures:
        buckets[*capture.group, capture.folder, capture.point.device].append(capture)
    names = names_in(points)
    found = [series for bucket in buckets.values() for series in _in_bucket(bucket, names)]
    return [_with_left_out(series, found, points) for series in found]


def _with_left_out(series: Series, every: Sequence[Series], points: Sequence[Point]) -> Series:
    """Only for knobs in file names, which show that the file was meant to be a point."""
    if series.knob.rank > 0:
        return series
    used = frozenset(p.sha256 for each in every if each.knob == series.knob for p in each.points)
    fixed = {c.name: value for c, value in series.fixed if c.rank == 0}
    return series._replace(
        left=tuple(left_out(series.knob.name, series.points, fixed, points, used))
    )


def _in_bucket(captures: Sequence[Capture], names: Names) -> Iterator[Series]:
    """Low ranks first; captures that are in a series are not used for another knob."""
    left = list(captures)
    for rank in sorted({coordinate.rank for capture in captures for coordinate in capture.at}):
        found = list(_at_rank(left, rank, names)) if _files(left) >= LEAST_VALUES else []
        yield from found
        used = {id(point) for series in found for point in series.points}
        left = [capture for capture in left if id(capture.point) not in used]


def _at_rank(captures: Sequence[Capture], rank: int, names: Names) -> Iterator[Series]:
    varying = _varying(captures)
    for knob, tied in _classes(captures, [c for c in varying if c.rank == rank]):
        others = [c for c in varying if c.rank <= rank and c != knob and c not in tied]
        alone = not tied and not any(c.rank == 0 for c in others)
        for members in _split(captures, others):
            for series in _series(knob, tied, members):
                counts = alone and knob.source == "file name"
                if not (counts and only_counts(knob.name, series.values, names)):
                    yield series


def _series(
    knob: Coordinate, tied: tuple[Coordinate, ...], members: Sequence[Capture]
) -> Iterator[Series]:
    """Split further until all other coordinates follow from the knob."""
    below = [c for c in _varying(members) if c.rank > knob.rank]
    free = next((c for c in below if not _follows(members, knob, c)), None)
    if free is not None:
        for part in _split(members, [free]):
            yield from _series(knob, tied, part)
        return
    values = _by_value(members, knob)
    if len(values) < LEAST_VALUES or _files(members) < LEAST_VALUES:
        return
    constant = [c for c in members[0].at if c not in (knob, *tied, *below)]
    fixed = tuple((c, members[0].at[c]) for c in sorted(constant))
    yield Series(knob, tied, values, fixed, tuple(below))


def _classes(
    captures: Sequence[Capture], coordinates: Sequence[Coordinate]
) -> Iterator[tuple[Coordinate, tuple[Coordinate, ...]]]:
    """Coordinates that change in step are one knob, named after the first."""
    left = list(coordinates)
    while left:
        first, *rest = left
        tied = tuple(c for c in rest if _in_step(captures, first, c))
        left = [c for c in rest if c not in tied]
        yield first, tied


def _in_step(captures: Sequence[Capture], one: Coordinate, other: Coordinate) -> bool:
    """Whether one strictly rises or falls with the other."""
    pairs = sorted({(capture.at[one], capture.at[other]) for capture in captures})
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(pairs)]
    rising = all(dx > 0 and dy > 0 for dx, dy in steps)
    return rising or all(dx > 0 and dy < 0 for dx, dy in steps)


def _follows(captures: Sequence[Capture], knob: Coordinate, other: Coordinate) -> bool:
    """Whether the value of the knob determines the other."""
    seen: dict[float, float] = {}
    return all(seen.setdefault(c.at[knob], c.at[other]) == c.at[other] for c in captures)


def _varying(captures: Sequence[Capture]) -> list[Coordinate]:
    """Sorted by rank."""
    shared = set(captures[0].at) if captures else set()
    return sorted(c for c in shared if len({capture.at[c] for capture in captures}) > 1)


def _split(captures: Sequence[Capture], by: Sequence[Coordinate]) -> list[list[Capture]]:
    parts: dict[tuple[float, ...], list[Capture]] = defaultdict(list)
    for capture in captures:
        parts[tuple(capture.at[c] for c in by)].append(capture)
    return list(parts.values())


def _by_value(
    captures: Sequence[Capture], knob: Coordinate
) -> tuple[tuple[float, tuple[Point, ...]], ...]:
    values: dict[float, list[Point]] = defaultdict(list)
    for capture in captures:
        values[capture.at[knob]].append(capture.point)
    return tuple((value, tuple(values[value])) for value in sorted(values))


def _files(captures: Sequence[Capture]) -> int:
    return len({capture.point.sha256 for capture in captures})


# --- coordinates


def _capture(point: Point) -> Capture:
    """The group includes which coordinates the report has: a missing one is not zero."""
    family = _family(point.texts["kernel_full"] or point.kernel)
    at = dict(_coordinates(point, family))
    group = (family.name, point.control, point.naming.skeleton, _names(tuple(sorted(at))))
    return Capture(point, at, group, point.naming.folder)


def _coordinates(point: Point, family: Family) -> Iterator[tuple[Coordinate, float]]:
    for named in point.naming.named:
        yield _coordinate(0, named.name, named.source), named.value
    for place, number in enumerate(family.numbers, 1):
        yield _coordinate(1, f"template argument #{place}", "kernel name"), number
    for (rank, name), size in zip(_AXES, (*point.block, *point.grid)):
        if size is not None:
            yield _coordinate(rank, name, "launch"), size
    for rank, column, name in _LAUNCH:
        value = point.number(column)
        if value is not None:
            yield _coordinate(rank, name, "launch"), value


@lru_cache(maxsize=4096)
def _names(coordinates: tuple[Coordinate, ...]) -> str:
    return " ".join(f"{c.rank} {c.name}" for c in coordinates)


_AXES = tuple(
    (rank, f"{what} {axis}") for rank, what in ((2, "block"), (5, "grid")) for axis in "xyz"
)
_LAUNCH = (
    (3, "cluster_size", "cluster size"),
    (4, "shared_memory_dynamic", "dynamic shared memory"),
    (6, "registers_per_thread", "registers per thread"),
)
_family = lru_cache(maxsize=4096)(family_of)
_coordinate = lru_cache(maxsize=4096)(Coordinate)


Names = Mapping[tuple[str, str], frozenset[float]]
"""Values of each name in each folder."""

_COMPILED = ("registers_per_thread", "shared_memory_static", "inst_executed_total")
"""Values that edits change too, by chance perhaps in order."""
_LEAST_IN_ORDER = 4
_STEP = 1.01


def names_in(points: Iterable[Point]) -> Names:
    """Of all files, also of those that are left out of a series."""
    found: dict[tuple[str, str], set[float]] = defaultdict(set)
    for point in points:
        for named in point.naming.named:
            if named.source == "file name":
                found[point.naming.folder, named.name].add(named.value)
    return {key: frozenset(values) for key, values in found.items()}


def only_counts(name: str, values: Sequence[tuple[float, tuple[Point, ...]]], names: Names) -> bool:
    """Whether the number in the file names only counts files."""
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
    """Launch parameters."""
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
    """Empty if a point lacks the value."""
    found = [float(value) for value in values if value is not None]
    return found if len(found) == len(values) else []


def _is_in_order(values: Sequence[float], step: float = 1.0) -> bool:
    """Whether the values strictly rise or fall."""
    up = all(after > before * step for before, after in pairwise(values))
    down = all(before > after * step for before, after in pairwise(values))
    return len(values) > 1 and (up or down)


# --- files that are left out


def left_out(
    knob: str,
    inside: Sequence[Point],
    fixed: Mapping[str, float],
    points: Iterable[Point],
    used: frozenset[str],
) -> list[tuple[float, Point, str]]:
    """Files with the knob in their name that are not in a sweep. `fixed`: names with constant
    values; `used`: files that are in a sweep over this knob."""
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
