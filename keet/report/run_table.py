"""Reads and writes run tables: `REPORT.run.json` next to the report, or a file the user names.

Such a file may be CSV with kernel, launches and total time: written by hand, or by
`nsys stats --report cuda_gpu_kern_sum --format csv`.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from keet.errors import (
    DamagedReport,
    IngestError,
    UnknownFormat,
    UnreadableFile,
    UnsupportedVersion,
)
from keet.evidence import Sentence
from keet.files import STDIN, replacing_text
from keet.masking import masked_words
from keet.profile import Profile
from keet.profile.launch import Dim3
from keet.profile.run_table import USE_ANYWAY, KernelRun, RunLaunch, RunTable
from keet.report.input.files import MAX_EXPORT, MAX_TEXT, open_input, printable_path
from keet.report.ncu_rep.container import table_notes
from keet.report.typed_json import indented, parse_object, typed, version_of
from keet.safe_text import bounded, bounded_line

VERSION = 1
MARK = "keet_run"
SUFFIX = ".run.json"
_REPORT_SUFFIXES = (".ncu-repz", ".ncu-rep")
_MOST_LAUNCHES = 20_000_000
"""Per table: the time of each launch is in memory."""
_MAKE_AGAIN = "record it again with: keet profile -- COMMAND"


def table_path(report: Path) -> Path:
    """The path of a report's run table: `app.run.json` for `app.ncu-rep`."""
    for suffix in _REPORT_SUFFIXES:
        if report.name.endswith(suffix):
            return report.with_name(report.name.removesuffix(suffix) + SUFFIX)
    return report.with_name(report.name + SUFFIX)


def with_run(profile: Profile, report: Path, named: Path | None) -> Profile:
    """The profile with the named run table, else with the one next to its report.

    A table that the user did not name is used only if it belongs to the report. Problems with it do
    not make the report unreadable: they are in `run_problem`.
    """
    if named is not None:
        table, created = read_run_table(named), profile.provenance.created
        if None not in (table.report_created, created) and table.report_created != created:
            table = table._replace(profiled=())  # numbers of launches of another report
        return _used(profile, table)
    if (
        profile.run is not None
        or profile.provenance.format in ("ncu-csv", "ncu-text")
        or report is STDIN
    ):
        return profile
    beside = table_path(report)
    if not beside.exists():
        return profile
    try:
        table = read_run_table(beside)
    except IngestError as problem:
        return replace(
            profile, run_problem=Sentence("the run table is not used: {why}", why=str(problem))
        )
    if table.report_created != profile.provenance.created:
        words = "{path} belongs to another profile and is not used{use_anyway}--run-table {path}"
        path = printable_path(beside)
        return replace(profile, run_problem=Sentence(words, path=path, use_anyway=USE_ANYWAY))
    return _used(profile, table)


def _used(profile: Profile, table: RunTable) -> Profile:
    """The profile with the table, and with a note if the report lacks launches of the table."""
    known = replace(profile, run=table)
    if missing := table_notes(known):
        notes = (*profile.provenance.notes, *missing)
        return replace(known, provenance=profile.provenance._replace(notes=notes))
    return known


def read_run_table(path: Path) -> RunTable:
    """Read a table that keet recorded, or a CSV table with kernel, launches and total time."""
    file = open_input(path)
    if file.size > (MAX_TEXT if path.name.endswith(SUFFIX) else MAX_EXPORT):
        raise UnreadableFile(path, "it is too large for a run table", _MAKE_AGAIN)
    try:
        text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(path, "it is not a text file", _MAKE_AGAIN) from None
    if text.lstrip().startswith("{"):
        return table_from_document(_parsed(text, path), path)._replace(path=printable_path(path))
    if path.name.endswith(SUFFIX):
        raise _damaged(path, "it was not written by keet")

    return read_run_csv(text, path)._replace(path=printable_path(path))


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        document = parse_object(text)
    except ValueError as problem:
        raise _damaged(path, str(problem)) from None
    if MARK not in document:
        raise _damaged(path, f"it has no {MARK}")
    return document


def table_from_document(document: dict[str, Any], path: Path) -> RunTable:
    """Validates everything: files on disk are not trusted."""
    try:
        if (version := version_of(document, MARK)) != VERSION:
            raise UnsupportedVersion(
                path,
                f"the run table has version {version}, and this keet reads version {VERSION}",
                "update keet, or " + _MAKE_AGAIN,
            )
        launches = _run_launches(document)
        table = typed({**document, "launches": [], "path": None}, RunTable)
    except ValueError as problem:
        raise _damaged(path, str(problem)) from None
    table = table._replace(launches=launches)
    _check(table, path)
    return _bounded(table)


class _LaunchColumns(NamedTuple):
    kernel: list[int]
    start_ns: list[int]
    ns: list[int]


class _WithLaunches(NamedTuple):
    """How a run table has its launches: one list per field of `RunLaunch`."""

    launches: _LaunchColumns


def _run_launches(document: dict[str, Any]) -> tuple[RunLaunch, ...]:
    if not document.get("launches"):
        return ()
    columns = typed(document, _WithLaunches).launches
    if len({*map(len, columns)}) > 1:
        raise ValueError("launches has columns of different lengths")
    return tuple(map(RunLaunch, *columns))


def _bounded(table: RunTable) -> RunTable:
    """Shortens names as the report reader does, so that launches of both still match."""
    return table._replace(
        kernels=tuple(
            kernel._replace(name=bounded_line(kernel.name), full=bounded_line(kernel.full))
            for kernel in table.kernels
        ),
        command=masked_words(bounded(table.command)),
        skipped=bounded(table.skipped),
        notes=bounded(table.notes),
    )


def _check(table: RunTable, path: Path) -> None:
    """Check the invariants that users of a table rely on."""
    if any(kernel.times for kernel in table.kernels) and table.launch_count > _MOST_LAUNCHES:
        count = f"{table.launch_count:,} launches"
        raise _damaged(path, f"it has {count}, and keet reads at most {_MOST_LAUNCHES:,}")
    for kernel in table.kernels:
        of_launches = (kernel.shortest_ns, kernel.median_ns, kernel.longest_ns)
        times = (kernel.total_ns, kernel.busy_ns, kernel.overlapped_ns, *of_launches)
        known = [time for time in times if time is not None]
        if kernel.launches < 1 or min(known) < 0:
            raise _damaged(path, f"{kernel.name[:80]}: its launch count or times are invalid")
        counts = [count for _, count in kernel.times]
        if counts and (min(counts) < 1 or sum(counts) != kernel.launches):
            raise _damaged(path, f"{kernel.name[:80]}: its times do not match its launch count")
    if not 0 <= table.total_ns < float("inf"):
        raise _damaged(path, "the sum of its times is invalid")
    if table.span_ns is not None and table.span_ns < 0:
        raise _damaged(path, "span_ns is invalid")
    if table.launches:
        _check_launches(table, path)


def _check_launches(table: RunTable, path: Path) -> None:
    """Single launches and totals must agree, or shares would not add up."""
    counts, times = [0] * len(table.kernels), [0] * len(table.kernels)
    for launch in table.launches:
        if not 0 <= launch.kernel < len(table.kernels) or launch.ns < 0:
            raise _damaged(
                path, "a launch refers to no kernel of the table, or its time is invalid"
            )
        counts[launch.kernel] += 1
        times[launch.kernel] += launch.ns
    for kernel, count, time in zip(table.kernels, counts, times, strict=True):
        if count != kernel.launches or abs(time - kernel.total_ns) > 1 + 1e-6 * kernel.total_ns:
            raise _damaged(path, f"{kernel.name[:80]}: its launches do not add up to its total")


def _damaged(path: Path, problem: str) -> DamagedReport:
    return DamagedReport(path, f"the run table is damaged: {problem}", _MAKE_AGAIN)


def table_document(table: RunTable) -> dict[str, Any]:
    """The table as JSON, without `path`, which is where it was read from. Tables are shared, so
    secrets of the command are masked."""
    words = [word.encode("utf-8", "backslashreplace").decode() for word in table.command]
    return {
        MARK: VERSION,
        **{name: value for name, value in table._asdict().items() if name not in _OWN_FORM},
        "command": masked_words(words),
        "migrations": table.migrations and table.migrations._asdict(),
        "kernels": [kernel._asdict() for kernel in table.kernels],
        "profiled": [each._asdict() for each in table.profiled],
        "skipped": [each._asdict() for each in table.skipped],
        "launches": {
            name: [getattr(launch, name) for launch in table.launches] for name in RunLaunch._fields
        },
    }


_OWN_FORM = ("path", "command", "migrations", "kernels", "profiled", "skipped", "launches")


def write_run_table(table: RunTable, path: Path) -> None:
    """Write atomically. One line per kernel and column, for readers and for `diff`."""
    document = table_document(table)
    lines = [f"{json.dumps(name)}: {indented(value, 0)}" for name, value in document.items()]
    with replacing_text(path) as write:
        write("{\n" + ",\n".join(lines) + "\n}\n")


# --- tables in CSV

_NS_PER_UNIT = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
"""Nanoseconds per unit. Unicode has two characters for micro."""
_CSV_COLUMNS = {
    "kernel": ("kernel", "name", "kernelname", "function"),
    "launches": ("launches", "instances", "count", "calls", "invocations", "launchcount"),
    "total": ("total", "totaltime", "totalduration"),
    "shortest": ("min", "shortest", "mintime"),
    "median": ("med", "median", "mediantime"),
    "longest": ("max", "longest", "maxtime"),
    "grid": ("grid", "gridxyz", "gridsize"),
    "block": ("block", "blockxyz", "blocksize"),
}
_LONGEST_NS = 1e18
"""Longest time in nanoseconds: 30 years."""
_NEEDED_COLUMNS = ("kernel", "launches", "total")
_CSV_EXAMPLE = "write a header like kernel,launches,total_ms and one line per kernel"


def read_run_csv(text: str, path: Path) -> RunTable:
    """Raises an IngestError that names the row. Rows of the same kernel and shape are added up."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    at, columns, rows = _csv_table(lines, path)
    kernels: dict[tuple[str, Dim3 | None, Dim3 | None], KernelRun] = {}
    launches = 0
    """Of the rows above."""
    for number, row in enumerate(rows[at + 1 :], at + 2):
        cells = _CsvRow(row, columns, f"row {number}", path)
        kernel = _kernel(cells)
        key, shown = (kernel.name, kernel.grid, kernel.block), repr(kernel.name[:80])
        if kernels.get(key) == kernel:
            raise cells.fail(f"it repeats an earlier row of {shown}", "remove one of them")
        # The total of all kernels, read as a kernel, would halve every share.
        if kernel.name.lower() in _SUMS and kernel.launches == launches:
            raise cells.fail(f"{shown} is the sum of the rows above", "remove the row")
        kernels[key] = _added(kernels[key], kernel) if key in kernels else kernel
        launches += kernel.launches
    if not kernels:
        raise UnknownFormat(path, "the run table has no row", _CSV_EXAMPLE)
    return RunTable(tuple(_without_shapes_where_mixed(list(kernels.values()))), "file")


def _heading(text: str) -> tuple[str, str]:
    """Name and unit of a heading: `total_ms`, `Total Time (ns)`, `Med (ns)`."""
    words = re.sub(r"[^a-zµμ]+", " ", text.lower().replace("(%)", "percent")).split()
    unit = words.pop() if len(words) > 1 and words[-1] in _NS_PER_UNIT else ""
    return "".join(words), unit


_CsvColumns = dict[str, tuple[int, str]]
"""Column index and unit ('' if none) by role."""


def _csv_table(lines: Sequence[str], path: Path) -> tuple[int, _CsvColumns, list[list[str]]]:
    """The index of the header row, its columns, and all rows. Tries comma, semicolon and tab."""
    import csv  # only few runs need it

    for separator in ",;\t":
        try:
            rows = [row for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error as problem:
            raise UnknownFormat(path, f"it is not a CSV table ({problem})", _CSV_EXAMPLE) from None
        if header := _csv_header(rows):
            return *header, rows
    raise UnknownFormat(path, "it has no columns kernel, launches and total time", _CSV_EXAMPLE)


def _csv_header(rows: Sequence[Sequence[str]]) -> tuple[int, _CsvColumns] | None:
    """The first row with the required headings."""
    for at, row in enumerate(rows[:20]):
        columns: _CsvColumns = {}
        for index, heading in enumerate(row):
            name, unit = _heading(heading)
            for role in (role for role, names in _CSV_COLUMNS.items() if name in names):
                columns.setdefault(role, (index, unit))
        if all(role in columns for role in _NEEDED_COLUMNS):
            return at, columns
    return None


_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")


class _CsvRow:
    def __init__(
        self, cells: Sequence[str], columns: Mapping[str, tuple[int, str]], where: str, path: Path
    ) -> None:
        self._cells, self._columns, self._where, self._path = cells, columns, where, path

    def text(self, role: str) -> str:
        index, _ = self._columns.get(role, (len(self._cells), ""))
        return self._cells[index].strip() if index < len(self._cells) else ""

    def fail(self, problem: str, remedy: str = _CSV_EXAMPLE) -> DamagedReport:
        return DamagedReport(self._path, f"{self._where}: {problem}", remedy)

    def time(self, role: str) -> float | None:
        """Nanoseconds. The unit is in the cell (`1.2 ms`) or in the heading (`total_ms`)."""
        match = re.fullmatch(r"([-+.,\dEe]+)\s*([a-zµμ]*)", self.text(role))
        if not match:
            return None
        unit = match[2] or self._columns[role][1]
        if unit not in _NS_PER_UNIT:
            raise self.fail(
                f"the {role} time {self.text(role)[:40]!r} has no unit (ns, us, ms, s)",
                "put it into the heading, like total_ms or min_ms",
            )
        value = self._number(match[1], role) * _NS_PER_UNIT[unit]
        if not 0 <= value <= _LONGEST_NS:
            raise self.fail(f"the {role} time is negative, or longer than 30 years")
        return value

    def _number(self, text: str, role: str) -> float:
        """A comma separates thousands only: a decimal comma would be misread by powers of ten."""
        plain = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
        try:
            value = float(plain)
        except ValueError:
            raise self.fail(f"{role} is not a number with a decimal point: {text[:40]!r}") from None
        if not math.isfinite(value):
            raise self.fail(f"{role} is not a finite number")
        return value

    def count(self, role: str) -> int:
        text = self.text(role)
        if not re.fullmatch(r"[\d,.+]+", text):
            raise self.fail(f"{role} must be a positive integer, not {text[:40]!r}")
        value = self._number(text, role)
        if value < 1 or value != int(value):
            raise self.fail(f"{role} must be a positive integer, not {self.text(role)[:40]!r}")
        return int(value)

    def shape(self, role: str) -> Dim3 | None:
        text = self.text(role)
        text = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
        sizes = [int(each) for each in re.findall(r"\d{1,12}", text)][:3]
        return tuple([*sizes, 1, 1][:3]) if sizes else None  # type: ignore[return-value]


def _kernel(row: _CsvRow) -> KernelRun:
    name, total = bounded_line(row.text("kernel")), row.time("total")
    if not name:
        raise row.fail("it names no kernel")
    if total is None:
        raise row.fail("it has no total time")
    grid, block = row.shape("grid"), row.shape("block")
    grid, block = (grid, block) if grid and block else (None, None)
    kernel = KernelRun(name, name, grid, block, row.count("launches"), total, total)
    shortest, median, longest = map(row.time, ("shortest", "median", "longest"))
    kernel = kernel._replace(shortest_ns=shortest, median_ns=median, longest_ns=longest)
    least, most = kernel.shortest_ns or 0.0, kernel.longest_ns or math.inf
    if not 0.99 * least <= kernel.mean_ns <= 1.01 * most:
        raise row.fail("its total time does not fit its launches and its shortest and longest time")
    return kernel


_SUMS = ("total", "sum", "all", "overall", "gesamt")


def _added(one: KernelRun, other: KernelRun) -> KernelRun:
    """The sum of two rows of the same kernel; its shortest, median and longest time are unknown."""
    sums = one.launches + other.launches, one.total_ns + other.total_ns, one.busy_ns + other.busy_ns
    return KernelRun(*one[:4], *sums)


def _without_shapes_where_mixed(kernels: Sequence[KernelRun]) -> Iterator[KernelRun]:
    """If some rows of a kernel have a shape and others not, its rows are merged without a shape."""
    by_name: dict[str, list[KernelRun]] = defaultdict(list)
    for kernel in kernels:
        by_name[kernel.name].append(kernel)
    for same in by_name.values():
        if len(same) > 1 and any(kernel.grid is None for kernel in same):
            yield reduce(_added, same)._replace(grid=None, block=None)
        else:
            yield from same
