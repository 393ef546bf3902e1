"""Reads a run table from CSV with kernel, launches and total time: written by hand, or by
`nsys stats --report cuda_gpu_kern_sum --format csv`."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from keet.errors import DamagedReport, UnknownFormat
from keet.profile.launch import Dim3
from keet.profile.run_table import KernelRun, RunTable
from keet.safe_text import bounded_line

_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
"""Nanoseconds per unit. Unicode has two characters for micro."""
_COLUMNS = {
    "kernel": ("kernel", "name", "kernelname", "function"),
    "launches": ("launches", "instances", "count", "calls", "invocations", "launchcount"),
    "total": ("total", "totaltime", "totalduration"),
    "shortest": ("min", "shortest", "mintime"),
    "median": ("med", "median", "mediantime"),
    "longest": ("max", "longest", "maxtime"),
    "grid": ("grid", "gridxyz", "gridsize"),
    "block": ("block", "blockxyz", "blocksize"),
}
_LONGEST = 1e18
"""Longest time in nanoseconds: 30 years."""
_NEEDED = ("kernel", "launches", "total")
_EXAMPLE = "write a header like kernel,launches,total_ms and one line per kernel"


def read_run_csv(text: str, path: Path) -> RunTable:
    """Raises an IngestError that names the row. Rows of the same kernel and shape are added up."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    at, columns, rows = _table(lines, path)
    kernels: dict[tuple[str, Dim3 | None, Dim3 | None], KernelRun] = {}
    for number, row in enumerate(rows[at + 1 :], at + 2):
        found = _Row(row, columns, f"row {number}", path)
        kernel = _kernel(found)
        key = (kernel.name, kernel.grid, kernel.block)
        if kernels.get(key) == kernel:
            raise found.fail(
                f"it repeats an earlier row of {kernel.name[:80]!r}", "remove one of them"
            )
        if _is_sum(kernel, kernels.values()):
            raise found.fail(f"{kernel.name[:80]!r} is the sum of the rows above", "remove the row")
        kernels[key] = _added(kernels[key], kernel) if key in kernels else kernel
    if not kernels:
        raise UnknownFormat(path, "the run table has no row", _EXAMPLE)
    return RunTable(tuple(_without_shapes_where_mixed(list(kernels.values()))), "file")


class _Column:
    """A heading: `total_ms`, `Total Time (ns)`, `Med (ns)`."""

    def __init__(self, heading: str) -> None:
        words = re.sub(r"[^a-zµμ]+", " ", heading.lower().replace("(%)", "percent")).split()
        self.unit = words.pop() if len(words) > 1 and words[-1] in _NS else None
        self.name = "".join(words)


_Columns = dict[str, tuple[int, str]]
"""Column index and unit ('' if none) by role."""


def _table(lines: Sequence[str], path: Path) -> tuple[int, _Columns, list[list[str]]]:
    """The index of the header row, its columns, and all rows. Tries comma, semicolon and tab."""
    for separator in ",;\t":
        try:
            rows = [row for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error as problem:
            raise UnknownFormat(path, f"it is not a CSV table ({problem})", _EXAMPLE) from None
        if found := _header(rows):
            return *found, rows
    raise UnknownFormat(path, "it has no columns kernel, launches and total time", _EXAMPLE)


def _header(rows: Sequence[Sequence[str]]) -> tuple[int, _Columns] | None:
    """The first row with the required headings."""
    for at, row in enumerate(rows[:20]):
        found: dict[str, tuple[int, str]] = {}
        for index, heading in enumerate(row):
            column = _Column(heading)
            role = next((role for role, names in _COLUMNS.items() if column.name in names), None)
            if role is not None:
                found.setdefault(role, (index, column.unit or ""))
        if all(role in found for role in _NEEDED):
            return at, found
    return None


_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")


class _Row:
    def __init__(
        self, cells: Sequence[str], columns: Mapping[str, tuple[int, str]], where: str, path: Path
    ) -> None:
        self._cells, self._columns, self._where, self._path = cells, columns, where, path

    def text(self, role: str) -> str:
        index, _ = self._columns.get(role, (len(self._cells), ""))
        return self._cells[index].strip() if index < len(self._cells) else ""

    def fail(self, problem: str, remedy: str = _EXAMPLE) -> DamagedReport:
        return DamagedReport(self._path, f"{self._where}: {problem}", remedy)

    def time(self, role: str) -> float | None:
        """Nanoseconds. The unit is in the cell (`1.2 ms`) or in the heading (`total_ms`)."""
        found = re.fullmatch(r"([-+.,\dEe]+)\s*([a-zµμ]*)", self.text(role))
        if not found:
            return None
        unit = found[2] or self._columns[role][1]
        if unit not in _NS:
            raise self.fail(
                f"the {role} time {self.text(role)[:40]!r} has no unit (ns, us, ms, s)",
                "put it into the heading, like total_ms or min_ms",
            )
        value = self._number(found[1], role) * _NS[unit]
        if not 0 <= value <= _LONGEST:
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


def _kernel(row: _Row) -> KernelRun:
    name, total = bounded_line(row.text("kernel")), row.time("total")
    if not name:
        raise row.fail("it names no kernel")
    if total is None:
        raise row.fail("it has no total time")
    grid, block = row.shape("grid"), row.shape("block")
    kernel = KernelRun(
        name,
        name,
        grid if block else None,
        block if grid else None,
        row.count("launches"),
        total,
        total,
        None,
        row.time("shortest"),
        row.time("median"),
        row.time("longest"),
    )
    least, most = kernel.shortest_ns or 0.0, kernel.longest_ns or math.inf
    if not 0.99 * least <= kernel.mean_ns <= 1.01 * most:
        raise row.fail("its total time does not fit its launches and its shortest and longest time")
    return kernel


_SUMS = ("total", "sum", "all", "overall", "gesamt")


def _is_sum(kernel: KernelRun, others: Iterable[KernelRun]) -> bool:
    """Whether a row is the total of all kernels: read as a kernel, it would halve every share."""
    return kernel.name.lower() in _SUMS and kernel.launches == sum(k.launches for k in others)


def _added(one: KernelRun, other: KernelRun) -> KernelRun:
    """The sum of two rows of the same kernel; its shortest, median and longest time are unknown."""
    return one._replace(
        launches=one.launches + other.launches,
        total_ns=one.total_ns + other.total_ns,
        busy_ns=one.busy_ns + other.busy_ns,
        shortest_ns=None,
        median_ns=None,
        longest_ns=None,
    )


def _without_shapes_where_mixed(kernels: Sequence[KernelRun]) -> Iterator[KernelRun]:
    """If some rows of a kernel have a shape and others not, its rows are merged without a shape."""
    by_name: dict[str, list[KernelRun]] = defaultdict(list)
    for kernel in kernels:
        by_name[kernel.name].append(kernel)
    for same in by_name.values():
        if len(same) > 1 and any(kernel.grid is None for kernel in same):
            whole = same[0]._replace(grid=None, block=None)
            for kernel in same[1:]:
                whole = _added(whole, kernel)
            yield whole
        else:
            yield from same
