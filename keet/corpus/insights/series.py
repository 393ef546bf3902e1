"""Finds series: captures of one kernel in which one coordinate varies (the knob), or the GPU, or a
version.

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
from typing import Literal, NamedTuple

from keet.corpus.insights.points import Family, Point, family_of, function_of

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
    values: tuple[tuple[float | str, tuple[Point, ...]], ...]
    moves_with: tuple[str, ...] = ()
    """What changes together with the knob."""
    fixed: tuple[tuple[Coordinate, float], ...] = ()
    left: tuple[tuple[float, Point, str], ...] = ()
    """Files with the knob in their name that are not in a sweep: value, point and reason."""
    kind: Literal["number", "gpu", "version"] = "number"
    """What the values are. The launches of a series of GPUs or versions are the same."""

    @property
    def points(self) -> list[Point]:
        return [point for _, points in self.values for point in points]


def captures_of(points: Iterable[Point]) -> list[Capture]:
    """One capture per point. Several shapes of a kernel in a file are matched by their order."""
    by_file: dict[tuple[str, ...], list[Capture]] = defaultdict(list)
    for point in points:
        capture = _capture(point)
        by_file[point.sha256, *capture.group, point.device].append(capture)
    shapes_per_file: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for (_, *group), captures in by_file.items():
        shapes_per_file[tuple(group)].add(len(captures))
    return [
        capture._replace(group=(*capture.group, f"shape {place}"))
        for (_, *group), captures in by_file.items()
        for place, capture in enumerate(sorted(captures, key=lambda c: c.point.launch))
        if len(shapes_per_file[tuple(group)]) == 1  # else they can't be matched
    ]


def find_series(captures: Iterable[Capture], points: Sequence[Point] = ()) -> list[Series]:
    """Per GPU. `points`: all points, also those without a capture."""
    buckets: dict[tuple[str, ...], list[Capture]] = defaultdict(list)
    for capture in captures:
        buckets[*capture.group, capture.folder, capture.point.device].append(capture)
    names = names_in(points)
    every = [series for bucket in buckets.values() for series in _in_bucket(bucket, names)]
    return [_with_left_out(series, every, points) for series in every]


def _with_left_out(series: Series, every: Sequence[Series], points: Sequence[Point]) -> Series:
    """Only for knobs in file names, which show that the file was meant to be a point."""
    if series.knob.rank > 0:
        return series
    used = {p.sha256 for other in every if other.knob == series.knob for p in other.points}
    fixed = {c.name: value for c, value in series.fixed if c.rank == 0}
    like, left = series.points[0], {}
    for point in points:
        value = _value(point, series.knob.name)
        if value is not None and point.sha256 not in used and _is_akin(point, like, fixed):
            left[point.sha256] = (value, point, _difference(point, like))
    in_order = sorted(left.values(), key=lambda entry: (entry[0], entry[1].path))
    return series._replace(left=tuple(in_order))


def _in_bucket(captures: Sequence[Capture], names: Names) -> Iterator[Series]:
    """Low ranks first; captures that are in a series are not used for another knob."""
    left = list(captures)
    for rank in sorted({coordinate.rank for capture in captures for coordinate in capture.at}):
        at_rank = list(_at_rank(left, rank, names)) if _files(left) >= LEAST_VALUES else []
        yield from at_rank
        used = {id(point) for series in at_rank for point in series.points}
        left = [capture for capture in left if id(capture.point) not in used]


def _at_rank(captures: Sequence[Capture], rank: int, names: Names) -> Iterator[Series]:
    varying = _varying(captures)
    for knob, tied in _classes(captures, [c for c in varying if c.rank == rank]):
        others = [c for c in varying if c.rank <= rank and c != knob and c not in tied]
        alone = not tied and not any(c.rank == 0 for c in others)
        for members in _split(captures, others):
            for series in _series(knob, tied, members):
                may_count = alone and knob.source == "file name"
                if not (may_count and only_counts(series, names)):
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
    by_value: dict[float, list[Point]] = defaultdict(list)
    for capture in members:
        by_value[capture.at[knob]].append(capture.point)
    if len(by_value) < LEAST_VALUES or _files(members) < LEAST_VALUES:
        return
    constant = sorted(c for c in members[0].at if c not in (knob, *tied, *below))
    yield Series(
        knob,
        tuple((value, tuple(by_value[value])) for value in sorted(by_value)),
        moves_with=tuple(c.name for c in (*tied, *below)),
        fixed=tuple((c, members[0].at[c]) for c in constant),
    )


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


def _files(captures: Sequence[Capture]) -> int:
    return len({capture.point.sha256 for capture in captures})


# --- coordinates


def _capture(point: Point) -> Capture:
    """The group includes which coordinates the report has: a missing one is not zero."""
    family = _family(point.full_name)
    at = dict(_coordinates(point, family))
    has = " ".join(f"{c.rank} {c.name}" for c in sorted(at))
    group = (family.name, point.control, point.naming.skeleton, has)
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
    values: dict[tuple[str, str], set[float]] = defaultdict(set)
    for point in points:
        for named in point.naming.named:
            if named.source == "file name":
                values[point.naming.folder, named.name].add(named.value)
    return {key: frozenset(some) for key, some in values.items()}


def only_counts(series: Series, names: Names) -> bool:
    """Whether the number in the file names only counts files: neither a launch parameter nor what
    the compiler makes of the code goes with it."""
    points = [some[0] for _, some in series.values]
    known = names.get((points[0].naming.folder, series.knob.name), frozenset())
    numbers = sorted({*known, *(value for value, _ in series.values if isinstance(value, float))})
    if any(after - before != 1 for before, after in pairwise(numbers)):
        return False
    launched = (
        (*p.block, *p.grid, p.number("cluster_size"), p.number("shared_memory_dynamic"))
        for p in points
    )
    compiled = (map(p.number, _COMPILED) for p in points)
    return not any(map(_is_in_order, zip(*launched))) and not (
        len(points) >= _LEAST_IN_ORDER and any(_is_in_order(c, _STEP) for c in zip(*compiled))
    )


def _is_in_order(values: Sequence[float | None], step: float = 1.0) -> bool:
    """Whether the values strictly rise or fall; false if a point lacks its value."""
    known = [value for value in values if value is not None]
    up = all(after > before * step for before, after in pairwise(known))
    down = all(before > after * step for before, after in pairwise(known))
    return len(known) == len(values) > 1 and (up or down)


def _value(point: Point, name: str) -> float | None:
    return next((named.value for named in point.naming.named if named.name == name), None)


def _is_akin(point: Point, like: Point, fixed: Mapping[str, float]) -> bool:
    """Whether a file belongs beside those of a sweep. `fixed`: names with constant values there."""
    return (
        function_of(point.full_name) == function_of(like.full_name)
        and point.device == like.device
        and point.naming.folder == like.naming.folder
        and all(_value(point, name) == value for name, value in fixed.items())
    )


def _difference(point: Point, like: Point) -> str:
    if point.control != like.control:
        return "other clock or cache control"
    if point.naming.skeleton != like.naming.skeleton:
        return "another command line"
    if family_of(point.full_name).name != family_of(like.full_name).name:
        return "other parameters of the kernel"
    for what in ("block", "grid"):
        if point.texts[what] != like.texts[what]:
            return f"{what} `{point.texts[what]}`"
    return "more than this differs"


# --- the same launch on several GPUs, or with several versions

_VERSIONS = (
    ("driver", "driver_version"),
    ("CUDA version", "cuda_version"),
    ("ncu version", "ncu_version"),
)
_LEAST_FILES_PER_VERSION = 2
"""A single file may differ for other reasons."""


def alike(captures: Iterable[Capture], *, across_devices: bool) -> list[list[Point]]:
    """Captures with the same coordinates, except for registers: the compiler chooses them, and they
    differ between GPUs and versions."""
    groups: dict[tuple[object, ...], list[Point]] = defaultdict(list)
    for capture in captures:
        chosen = (each for each in capture.at.items() if each[0].name != "registers per thread")
        device = "" if across_devices else capture.point.device
        groups[capture.group, tuple(sorted(chosen)), device].append(capture.point)
    return list(groups.values())


def gpu_series(captures: Sequence[Capture]) -> list[Series]:
    groups = alike(captures, across_devices=True)
    made = (_by_text("GPU", "gpu", ((p.device, p) for p in points)) for points in groups)
    return [series for series in made if len(series.values) > 1]


def version_series(captures: Sequence[Capture]) -> list[Series]:
    """By the first of driver, CUDA and ncu that varies; the others are said to change with it."""
    every = []
    for points in alike(captures, across_devices=False):
        varying = {
            name: column
            for name, column in _VERSIONS
            if len({point.texts[column] for point in points} - {None}) > 1
        }
        if varying:
            (name, column), *others = varying.items()
            series = _by_text(name, "version", ((p.texts[column], p) for p in points))
            if all(len(files) >= _LEAST_FILES_PER_VERSION for _, files in series.values):
                every.append(series._replace(moves_with=tuple(other for other, _ in others)))
    return every


def _by_text(
    knob: str, kind: Literal["gpu", "version"], points: Iterable[tuple[str | None, Point]]
) -> Series:
    """`points`: each with its value; those without one are left out."""
    by_value: dict[str, list[Point]] = defaultdict(list)
    for value, point in points:
        if value is not None:
            by_value[value].append(point)
    values = tuple((value, tuple(by_value[value])) for value in sorted(by_value, key=_version_key))
    return Series(Coordinate(0, knob, "report"), values, kind=kind)


def _version_key(text: str) -> list[tuple[int, str]]:
    """`9.2` before `10.1`."""
    return [(int(part) if part.isdigit() else -1, part) for part in text.split(".")]
