"""What insights are made of: points of the store, the knobs in their names, and the facts of
texts.

A point is one launch for each kernel and shape in each file. A file that launches a kernel a
thousand times gives one point, the median launch: a row of the store that a user can look up, not a
mean that was never measured.

A name with a number (`BLOCK_0128.ncu-rep`, `--tile=64`, `gemm<128>`) is a candidate for a knob; it
is one if it varies in the set and nothing else does. Names that count captures (`run3`) or are not
parameters (`seed`) are not knobs.

Every number in the texts of an insight is recorded in its `FactBook` before it is printed.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain, count, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from keet.analysis.hardware.ceilings import spoken_unit
from keet.catalog import metrics
from keet.corpus.store.reader import UNKNOWN_GPU, QueryResult, literal
from keet.corpus.store.schema import METRICS
from keet.documents.insights import Fact, InsightDocument, MovedDocument
from keet.evidence import Evidence, Reference, Sentence, slug_of

_VALUE = r"\d+(?:\.\d+)?"
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9])([A-Za-z]+(?:[_-][A-Za-z]+)*)(=|_|-)?({_VALUE})(?![A-Za-z0-9.]*[A-Za-z0-9])"
)
"""In a name: `BLOCK_0128`, `tile=64`, `M128`, and all of `M_128_N_64`."""
_OPTION = re.compile(rf"-{{1,2}}D?([A-Za-z][\w.-]*)[=:]({_VALUE})$|([A-Za-z_][\w.-]*)=({_VALUE})$")
_BARE_OPTION = re.compile(r"-{1,2}([A-Za-z][\w-]*)$")
_BARE_VALUE = re.compile(rf"{_VALUE}$")
_DIGITS = re.compile(r"\d+")
_ENDINGS = re.compile(
    r"\.(?:ncu-repz?|keet\.json|csv|txt|log|nsight-cuprof-report)$", re.IGNORECASE
)
_CAPTURES = """
run runs rep reps repeat repeats repetition iteration iterations iter iters trial trials try attempt
round capture profile profiles report reports ncu output out file test case sample id seed device
gpu gpus rank node job task part shard pid tid process stream warmup warmups sm cc v rtx gtx
sxm cuda driver version ver rev build commit day date time night nightly week month year release pr
issue step chapter page pg exercise ex hw lab
"""
_NO_KNOBS = frozenset(_CAPTURES.split())
_GPUS = frozenset(("a", "b", "gb", "gh", "h", "l", "t", "v"))
"""Letters that name a GPU if a number follows directly: `H200`, `T4`."""
CONTROL_OPTIONS = r"--(?:clock-control|cache-control)[= ]\S+"
LONGEST_COMMAND = 2000
"""Characters at the end of a command line that are searched for the program."""
_CONTROL = re.compile(r"--(clock-control|cache-control)[= ](\S+)")
_DEFAULTS = {"clock-control": "base", "cache-control": "all"}


class NamedNumber(NamedTuple):
    """A name with a number, from a file name or a command line."""

    name: str
    value: float
    source: str
    """`file name` or `command line`."""


class Naming(NamedTuple):
    """The named numbers of a file and its command line, and both without the numbers."""

    named: tuple[NamedNumber, ...]
    skeleton: str
    """The command line without numbers: equal for the same program with other numbers."""
    folder: str
    """The folder without the values of knobs; empty if the path has no knob."""


@lru_cache(maxsize=256)
def naming_of(path: str, process: str | None, command_line: str | None) -> Naming:
    command = program_part(process, command_line)
    from_command = list(_from_command(command))
    known = {named.name.lower(): named for named in from_command}
    known |= {named.name.lower(): named for named in _from_path(path)}
    # Without numbers, which are knobs or count captures.
    words = [_file_name(command[0]), *command[1:]] if command else [_file_name(process or "")]
    skeleton = _DIGITS.sub("#", " ".join(words))
    return Naming(tuple(sorted(known.values())), skeleton, _folder(path))


def capture_control(options: str | None) -> str:
    """Clock and cache control: times with different control can't be compared. `options`: of ncu;
    None: not recorded."""
    if options is None:
        return "unknown"
    held = _DEFAULTS | dict(_CONTROL.findall(options))
    return ", ".join(f"{name} {value}" for name, value in sorted(held.items()))


def program_part(process: str | None, command_line: str | None) -> list[str]:
    """The profiled program and its arguments; ncu's own options come before it."""
    words = (command_line or "").split()
    program = _file_name(process or "")
    for place, word in enumerate(words[1:], 1):
        name = _file_name(word.strip("\"'"))
        # `python3` starts a process whose file is `python3.12`.
        is_python = name.startswith("python") and "python" in program
        if program and (name == program or is_python):
            return words[place:]
    return []


def _file_name(path: str) -> str:
    return path.strip().replace("\\", "/").rpartition("/")[2]


def _from_path(path: str) -> Iterator[NamedNumber]:
    """From the file name and the two folders above it."""
    for part in re.split(r"[/\\]", path)[-3:]:
        yield from _in_name(_ENDINGS.sub("", part), "file name")


def _in_name(text: str, source: str) -> Iterator[NamedNumber]:
    for name, separator, value in _NAMED.findall(text):
        if _may_be_knob(name) and (separator or name.lower() not in _GPUS):
            yield NamedNumber(name, float(value), source)


def _from_command(words: list[str]) -> Iterator[NamedNumber]:
    if not words:
        return
    yield from _in_name(_file_name(words[0]), "command line")
    position = 0
    for before, word in pairwise(words):
        option, is_value = _BARE_OPTION.match(before), _BARE_VALUE.match(word)
        if match := _OPTION.match(word):
            name, value = match[1] or match[3], match[2] or match[4]
        elif option and is_value:
            name, value = option[1], word
        else:
            name, value = "", word
        if name and _may_be_knob(name):
            yield NamedNumber(name, float(value), "command line")
        elif is_value and not name:
            position += 1
            yield NamedNumber(f"argument #{position}", float(word), "command line")


def _may_be_knob(name: str) -> bool:
    """Decided by the last word of the name: `report_v` is a version."""
    return re.split(r"[_.-]", name.lower())[-1] not in _NO_KNOBS


def _folder(path: str) -> str:
    parts = re.split(r"[/\\]", path)
    if not any(True for _ in _from_path(path)):
        return ""
    return "/".join([*parts[:-3], *(_NAMED.sub(r"\1=#", part) for part in parts[-3:-1])])


_NUMBER = re.compile(
    r"(?<![\w.])(?:\((?:unsigned |signed |long |short )*(?:int|long|char|short|bool|size_t)\))?"
    r"(-?\d+)(?:[uUlL]*)(?![\w.])"
)
_ARGUMENTS = re.compile(r"<.*>", re.DOTALL)


class Family(NamedTuple):
    """A function, and the numbers in the template arguments of one instance."""

    name: str
    numbers: tuple[int, ...]


def family_of(kernel_full: str) -> Family:
    """`void gemm<(int)128, float>(T1 *)` is `void gemm<#, float>(T1 *)` with 128.

    Types stay in the name: another type is different work, not a point of the same curve.
    """
    numbers: list[int] = []

    def take(match: re.Match[str]) -> str:
        numbers.append(int(match[1]))
        return "#"

    name = _ARGUMENTS.sub(lambda arguments: _NUMBER.sub(take, arguments[0]), kernel_full)
    return Family(name, tuple(numbers))


def function_of(kernel_full: str) -> str:
    """The name without parameters: an edit may add one."""
    return family_of(kernel_full.replace("(anonymous namespace)::", "")).name.partition("(")[0]


Shape = tuple[int | None, ...]

_TEXTS = (
    *("report_sha256", "path", "kernel", "kernel_full", "device", "grid", "block"),
    *("ncu_version", "cuda_version", "driver_version", "limiter", "healthy", "top_finding"),
)
_COMMAND_SQL = (
    f"process, right(command_line, {LONGEST_COMMAND}) AS command, "
    "CASE WHEN command_line IS NOT NULL THEN array_to_string(regexp_extract_all(command_line, "
    f"'{CONTROL_OPTIONS}'), ' ') END AS control"
)
"""A command line may start with kilobytes of ncu options; the program's arguments are at its end.
"""
_AXES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_OTHERS = ("launch_id", "created", "duration_us", "reached_pct", *_AXES)
_METRICS_OF_POINTS = (
    *("cluster_size", "shared_memory_dynamic", "shared_memory_static", "registers_per_thread"),
    *("inst_executed_total", "dram_bytes_read", "dram_bytes_written"),
    *("global_store_sectors", "global_store_bytes_per_sector", "sm_frequency"),
)
"""Metrics that every point has: launch parameters, and counters of work."""
_ALIKE = (
    *("report_sha256", "kernel_full", "device", "grid", "block"),
    *("cluster_size", "shared_memory_dynamic", "registers_per_thread"),
)
"""Launches of one file with the same values are one point."""
_AT_ONCE = 400
"""Rows per query: a longer SQL text is slow to parse."""


class InsightSource(NamedTuple):
    """A store, as this package reads it."""

    query: Callable[[str], QueryResult]
    launches: str
    """SQL to select from: the view `launches`, with one `device` per GPU."""


class Point(NamedTuple):
    """One row of the store, which stands for all equal launches of its file."""

    texts: Mapping[str, str | None]
    launch: int
    alike: int
    """Number of launches that it stands for."""
    created: datetime | None
    duration_us: float
    grid: Shape
    block: Shape
    naming: Naming
    control: str
    """Clock and cache control of ncu."""
    metrics: Mapping[str, float]
    """Metrics that were not measured are absent."""

    @property
    def path(self) -> str:
        return self.texts["path"] or ""

    @property
    def sha256(self) -> str:
        return self.texts["report_sha256"] or ""

    @property
    def kernel(self) -> str:
        return self.texts["kernel"] or ""

    @property
    def full_name(self) -> str:
        return self.texts["kernel_full"] or self.kernel

    @property
    def device(self) -> str:
        return self.texts["device"] or UNKNOWN_GPU

    def number(self, column: str) -> float | None:
        return self.duration_us if column == "duration_us" else self.metrics.get(column)


def read_points(store: InsightSource, kernels: Iterable[str]) -> list[Point]:
    """A point for each shape of these kernels (by full name) in each file, without launches that
    have no duration."""
    columns = ", ".join([*_TEXTS, *_OTHERS, *_METRICS_OF_POINTS])
    keys = ", ".join(_ALIKE)
    sql = f"""
        WITH placed AS (
            SELECT {columns}, {_COMMAND_SQL},
                row_number() OVER (PARTITION BY {keys} ORDER BY duration_us, launch_id) AS place,
                count(*) OVER (PARTITION BY {keys}) AS alike
            FROM {store.launches} WHERE duration_us > 0 AND kernel_full IN ({literals(kernels)})
        )
        SELECT * EXCLUDE (place) FROM placed WHERE place = (alike + 1) // 2
        ORDER BY path, launch_id
    """
    table = store.query(sql)
    known: dict[Any, Any] = {}
    return [_point(dict(zip(table.columns, row)), _METRICS_OF_POINTS, known) for row in table.rows]


def literals(texts: Iterable[str]) -> str:
    """A list in SQL."""
    return ", ".join(map(literal, texts))


def with_metrics(store: InsightSource, points: Iterable[Point]) -> list[Point]:
    """The same points with all metrics that the store has."""
    points = list(points)
    names = [spec.id for spec in METRICS]
    cells = dict(_looked_up(store, points, names))
    stored = (_numbers(cells[point.sha256, point.launch], names) for point in points)
    return [
        point._replace(metrics={**point.metrics, **more}) for point, more in zip(points, stored)
    ]


def ceilings_of(
    store: InsightSource, points: Iterable[Point]
) -> dict[tuple[str, int], dict[str, float]]:
    """Share of peak of each hardware unit from the stored explanations, by report and launch."""
    rows = _looked_up(store, list(points), ["explanation"])
    return {key: dict(_shares(row["explanation"])) for key, row in rows}


def _shares(explanation: object) -> Iterator[tuple[str, float]]:
    """Skips what is not as expected: another version of keet may have written the store."""
    try:
        document = json.loads(str(explanation))
        entries = document.get("ceilings") or []
    except (ValueError, AttributeError):
        return
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("reached_pct"), int | float):
            yield str(entry.get("unit")), float(entry["reached_pct"])


def _looked_up(
    store: InsightSource, points: Sequence[Point], columns: Sequence[str]
) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    for start in range(0, len(points), _AT_ONCE):
        some = points[start : start + _AT_ONCE]
        wanted = ", ".join(f"({literals([point.sha256])}, {point.launch})" for point in some)
        table = store.query(
            f"SELECT report_sha256, launch_id, {', '.join(columns)} FROM {store.launches} "
            f"WHERE (report_sha256, launch_id) IN (VALUES {wanted})"
        )
        for row in table.rows:
            cells = dict(zip(table.columns, row))
            yield (str(cells["report_sha256"]), int(cells["launch_id"])), cells


def _point(cells: Mapping[str, Any], metrics: Sequence[str], known: dict[Any, Any]) -> Point:
    """`known`: texts of other points, to keep equal texts in memory once."""
    naming = naming_of(cells["path"] or "", cells["process"], cells["command"])
    control = capture_control(cells["control"])
    return Point(
        texts={name: known.setdefault(cells[name], cells[name]) for name in _TEXTS},
        launch=int(cells["launch_id"]),
        alike=int(cells["alike"]),
        created=cells["created"],
        duration_us=float(cells["duration_us"]),
        grid=tuple(cells[name] for name in _AXES[:3]),
        block=tuple(cells[name] for name in _AXES[3:]),
        naming=known.setdefault(naming, naming),
        control=known.setdefault(control, control),
        metrics=_numbers(cells, [*metrics, "reached_pct"]),
    )


def _numbers(cells: Mapping[str, Any], names: Iterable[str]) -> dict[str, float]:
    return {name: float(cells[name]) for name in names if cells.get(name) is not None}


def point_at(store: InsightSource, sha256: str, launch: int) -> Point:
    """One row of the store, with all metrics."""
    names = [spec.id for spec in METRICS]
    columns = ", ".join(dict.fromkeys([*_TEXTS, *_OTHERS, *names]))
    table = store.query(
        f"SELECT {columns}, {_COMMAND_SQL}, 1 AS alike FROM {store.launches} "
        f"WHERE report_sha256 = {literals([sha256])} AND launch_id = {launch}"
    )
    return _point(dict(zip(table.columns, table.rows[0])), names, {})


_BATCH_LAUNCHES = 100_000
"""Launches in memory at a time: a few hundred MB."""
_LEAST_FILES = 2
"""Files of a kernel: in one file nothing can vary between files."""


class StoreExtent(NamedTuple):
    files: int
    launches: int
    devices: tuple[str, ...]
    undated: int
    """Files without a date."""
    silent: int
    """Files without metrics of how busy the units were."""
    untimed: int
    """Launches without a measured duration, which are left out."""
    without_code: int
    """Files whose machine code was not analysed."""


def kernel_batches(store: InsightSource, kernel: re.Pattern[str] | None) -> Iterator[list[str]]:
    """Full names of kernels, with all instances and versions of a function in one batch."""
    families: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for entry in _kernels(store, kernel):
        families[function_of(entry[0])].append(entry)
    batch: list[str] = []
    held = 0
    for _, entries in sorted(families.items()):
        names, launches, files = zip(*entries)
        if sum(files) >= _LEAST_FILES:
            if batch and held + sum(launches) > _BATCH_LAUNCHES:
                yield batch
                batch, held = [], 0
            batch += names
            held += sum(launches)
    if batch:
        yield batch


def _kernels(store: InsightSource, kernel: re.Pattern[str] | None) -> list[tuple[str, int, int]]:
    """Full name, launches, files."""
    table = store.query(
        "SELECT kernel_full, any_value(kernel), count(*), count(DISTINCT report_sha256) "
        f"FROM {store.launches} WHERE duration_us > 0 AND kernel_full IS NOT NULL "
        "GROUP BY kernel_full ORDER BY kernel_full"
    )
    return [
        (full, launches, files)
        for full, short, launches, files in table.rows
        if kernel is None or kernel.search(full) or kernel.search(short or "")
    ]


def extent_of(store: InsightSource, kernel: re.Pattern[str] | None) -> StoreExtent:
    where = "true"
    if kernel is not None:
        names = [full for full, _, _ in _kernels(store, kernel)]
        where = f"kernel_full IN ({literals(names)})" if names else "false"
    table = store.query(
        "SELECT count(DISTINCT report_sha256) FILTER (timed), count(*) FILTER (timed), "
        "list_sort(list(DISTINCT device) FILTER (timed)), "
        "count(DISTINCT report_sha256) FILTER (timed AND created IS NULL), "
        "count(DISTINCT report_sha256) FILTER (timed AND limiter IS NULL), "
        "count(*) FILTER (NOT timed), count(DISTINCT report_sha256) FILTER (timed) "
        "- count(DISTINCT report_sha256) FILTER (timed AND machine_code IS DISTINCT FROM 'off') "
        f"FROM (SELECT *, coalesce(duration_us > 0, false) AS timed FROM {store.launches}) "
        f"WHERE {where}"
    )
    files, launches, devices, *counts = table.rows[0]
    return StoreExtent(files, launches, tuple(devices or ()), *counts)


_OWN = {"duration_us": ("Duration", "us"), "reached_pct": ("Share of peak", "%")}
_WHOLE = "set"
"""In ids of facts that belong to no single point."""


class FactBook:
    """Records numbers and gives them ids, which say what the number is and of which point:
    `duration_us#2`, `slowest_to_best#set`."""

    def __init__(self, points: Mapping[str, Point] = MappingProxyType({})) -> None:
        """`points`: by their names in ids."""
        self._points = {(point.path, point.launch): name for name, point in points.items()}
        self._facts: dict[str, Fact] = {}
        self._known: dict[tuple[Any, ...], Fact] = {}

    def insight(
        self, title: Sentence, text: Iterable[Sentence], adds: str = "", **about: Any
    ) -> InsightDocument:
        """With these facts. `about`: one part of the document, whose name is the kind."""
        (kind,) = about
        parts = {**dict.fromkeys(("sweep", "cluster", "outliers", "change")), **about}
        known: dict[str, Any] = {"kind": kind, "facts": dict(self._facts), "written": None, **parts}
        return InsightDocument(id="", title=title, text=list(text), adds=adds, **known)

    def cell(self, point: Point, column: str) -> Fact | None:
        """A cell of the store; None if it is empty."""
        return None if point.number(column) is None else self.measured(point, column)

    def measured(self, point: Point, column: str) -> Fact:
        """A cell that is not empty."""
        spec = metrics().get(column)
        label, unit = _OWN.get(column) or ((spec.label, spec.unit) if spec else (column, ""))
        return self._of_point(point, column, column, point.number(column), unit, label)

    def time(self, point: Point) -> Fact:
        return self.measured(point, "duration_us")

    def share(self, point: Point, unit_name: str, value: float) -> Fact:
        """Share of peak of a hardware unit, from the stored explanation."""
        label = f"{unit_name} share of peak"
        column = f"explanation.ceilings.{unit_name}"
        return self._of_point(point, label, column, value, "%", label)

    def knob(self, point: Point, name: str, value: float) -> Fact:
        return self._of_point(point, name, "knob", value, "", name)

    def computed(self, label: str, value: float, unit: str, *parts: Evidence) -> Fact:
        points = {part.id.partition("#")[2] for part in parts}
        where = points.pop() if len(points) == 1 else _WHOLE
        made_of = tuple(part.id for part in parts) or None
        return self._enter(label, where, ("computed", value, unit, label, None, made_of))

    def times(self, label: str, over: Evidence, under: Evidence) -> Fact:
        return self.computed(label, over.value / under.value, "x", over, under)

    def changed_as_well(
        self, moved: Sequence[MovedDocument], usual: Point, here: Point, form: str
    ) -> Sentence:
        """The metrics that changed most; empty if none did. `form`: with `label`, `before` and
        `after`."""
        said = []
        for entry in moved[:3]:
            before, after = (self.measured(point, entry.metric) for point in (usual, here))
            said.append(Sentence(form, label=entry.label, before=before, after=after))
        return Sentence("What changed as well: {said}.", said=joined(said)) if said else Sentence()

    def _of_point(self, point: Point, name: str, *fields: Any) -> Fact:
        fact = self._enter(name, self._points[point.path, point.launch], fields)
        fact.path, fact.launch = point.path, point.launch
        return fact

    def _enter(self, name: str, where: str, fields: Sequence[Any]) -> Fact:
        """`fields`: of the fact, without its id."""
        key = (where, *fields)
        if key not in self._known:
            slug = slug_of(name)
            others = (f"{slug}_{number}#{where}" for number in count(2))
            names = chain([f"{slug}#{where}"], others)
            fact = Fact(next(name for name in names if name not in self._facts), *fields)
            self._known[key] = self._facts[fact.id] = fact
        return self._known[key]


def numbered(points: Iterable[Point]) -> dict[str, Point]:
    """Named by position, from 0, as in the lists of the JSON document."""
    return {str(number): point for number, point in enumerate(points)}


_LATENCY = " (no unit is near its peak)"


def spoken(limiter: str) -> str:
    """A limiter as printed in a sentence."""
    return f"latency{_LATENCY}" if limiter == "latency" else spoken_unit(limiter)


def in_table_words(limiter: str) -> str:
    """A limiter as in the tables: `DRAM+L2`, `issue`."""
    return spoken(limiter) if limiter == "latency" else limiter


def be(limiter: str) -> str:
    return "are" if spoken(limiter).endswith("s") else "is"


def latency_explained_once(texts: Iterable[Sentence]) -> Iterator[Sentence]:
    """Keeps only the first explanation of `latency`."""
    is_explained = False
    for text in texts:
        parts: list[str | Reference] = []
        for part in text.parts:
            if isinstance(part, Reference) or _LATENCY not in part:
                parts.append(part)
                continue
            head, mark, rest = part.partition(_LATENCY)
            parts.append(f"{head}{'' if is_explained else mark}{rest.replace(_LATENCY, '')}")
            is_explained = True
        yield Sentence.of(parts)


def joined(words: Sequence[str]) -> Sentence:
    """`a, b and c`"""
    first = Sentence(", ").join(words[:-1])
    return Sentence(" and ").join([*([first] if first else []), *words[-1:]])
