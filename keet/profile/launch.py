"""One profiled workload: a kernel launch, or a range or graph of several.

Of kernel names there are the three forms in the report, and a short form for tables. A demangled
name can have 10 kB of template arguments, and the plain function name does not distinguish
instantiations. The short name keeps the function and the short template arguments, and replaces the
rest: `gemm<float, 128, Layout<…>>`. It depends only on the name, so it is the same in every report.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from keet.catalog import metric_named, metric_with_id, unit_of
from keet.errors import KeetError, MetricNotCollected
from keet.formatting import shape_parts
from keet.masking import masked
from keet.profile.metric import (
    SECTION_OF_CODE,
    Instances,
    Metric,
    ProfileAgain,
    RuleResult,
    SourceMarker,
    Value,
    is_measurement,
)
from keet.safe_text import shortened
from keet.units import Number, Quantity

_FOLDED = "…"
_MAX_ARGUMENTS = 40
"""Characters of template arguments that fit into a table column."""
_LONGEST_SHORT = 160
"""Characters. The longest short name seen in public reports has 82."""


class KernelName(NamedTuple):
    """The forms of a kernel's name."""

    function: str
    demangled: str
    mangled: str

    @property
    def short(self) -> str:
        return short_name(self.demangled or self.function)

    @property
    def full(self) -> str:
        return self.demangled or self.function or self.mangled


@lru_cache(maxsize=1024)
def short_name(demangled: str) -> str:
    """Fold `void ns::tile<float, 32, Op<A, B>>(float *)` to `tile<float, 32, Op<…>>`."""
    return shortened(_folded(demangled), _LONGEST_SHORT)


def _folded(demangled: str) -> str:
    name = _without_parameters(demangled.strip())
    if "[" in name:
        name = re.sub(_NUMBA_TAG, "", name)
    path = _split(name, "::")
    last = path[-1].strip()
    if not last or not (last[0].isalnum() or last[0] == "_"):
        return name  # lambdas and names made by the compiler: only the path distinguishes them
    head, bracket, rest = last.partition("<")
    head = head.split(" ")[-1]  # without the return type
    if not bracket:
        return head
    return head + _fold(rest.rsplit(">", 1)[0])


_NUMBA_TAG = r"\[(?:abi:)?v\d[^\]\s]*\]"
"""How Numba compiled a function, in a hundred characters."""


def template_arguments(demangled: str) -> tuple[str, ...]:
    """Of `void ns::tile<float, (int)32>(float *)`: `float`, `32`."""
    last = _split(_without_parameters(demangled.strip()), "::")[-1]
    _, bracket, rest = last.partition("<")
    if not bracket:
        return ()
    parts = (part.strip() for part in _split(rest.rsplit(">", 1)[0], ","))
    return tuple(_fold_argument(part) if part.startswith("(") else part for part in parts)


def _without_parameters(name: str) -> str:
    """Drop the parameter list: the last parenthesis that opens outside of template arguments."""
    depth = 0
    for index, char in enumerate(name):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif char == "(" and depth == 0 and index > 0 and name[index - 1] not in " :<,":
            return name[:index]
    return name


def _split(text: str, separator: str) -> list[str]:
    """Split where no bracket is open."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "<([{":
            depth += 1
        elif char in ">)]}":
            depth -= 1
        elif depth == 0 and text.startswith(separator, index):
            parts.append(text[start:index])
            start = index + len(separator)
    return [*parts, text[start:]]


def _fold(arguments: str) -> str:
    """Keep the first arguments, as many as fit into `_MAX_ARGUMENTS`."""
    kept: list[str] = []
    used = 0
    for argument in _split(arguments, ","):
        short = _fold_argument(argument.strip())
        used += len(short) + 2
        # CUTLASS kernels are all `Kernel2<one long name>`: always keep the first argument.
        if kept and used > _MAX_ARGUMENTS:
            kept.append(_FOLDED)
            break
        kept.append(short)
    return f"<{', '.join(kept)}>"


def _fold_argument(argument: str) -> str:
    # ncu writes integer arguments as `(int)32`: keep only the number.
    if argument.startswith("(") and ")" in argument and "<" not in argument:
        return argument.partition(")")[2] or argument
    head, bracket, _ = argument.partition("<")
    head = _split(head, "::")[-1]
    return f"{head}<{_FOLDED}>" if bracket else head


def file_name(path: str) -> str:
    """The file name of a Unix or Windows path."""
    return re.split(r"[\\/]", path)[-1]


Dim3 = tuple[int, int, int]
Origin = tuple[int | None, int | None]
"""Stream and context of a launch."""


def _shape(stored: Dim3 | None) -> Dim3 | None:
    """A grid or block without a thread can't have run: its shape is unknown."""
    return stored if stored and min(stored) > 0 else None


class Workload(StrEnum):
    """What ncu profiled as one unit."""

    KERNEL = "kernel"
    RANGE = "range"
    CMDLIST = "cmdlist"
    GRAPH = "graph"


class Absent(NamedTuple):
    """Data that the report does not have: why, and how to get it."""

    reason: str
    remedy: str


NO_COUNTS = Absent(
    "the report has no numbers for single instructions",
    ProfileAgain(SECTION_OF_CODE),
)
"""Why code is not analysed although the report may have it."""


@dataclass(frozen=True, slots=True)
class Device:
    """The GPU of a launch. `None`: not recorded."""

    name: str | None
    compute_capability: str | None
    sm_count: int | None
    index: int | None = None
    """Index of the GPU in its machine."""

    def __post_init__(self) -> None:
        """A GPU without multiprocessors can't have run anything: their number is unknown."""
        if self.sm_count is not None and self.sm_count < 1:
            object.__setattr__(self, "sm_count", None)


class Location(NamedTuple):
    """A line of source code, by the path that the compiler recorded."""

    file: str
    line: int


class NvtxRange(NamedTuple):
    """An NVTX range that was open at the launch."""

    domain: str
    name: str
    kind: str
    """`push_pop` or `start_end`."""


class RawMetric(NamedTuple):
    """A metric as the file has it; `unit` is None unless the file states one."""

    value: Value
    unit: str | None = None


class LaunchData(Protocol):
    """The data of one launch, implemented by every reader. Data is decoded on first use."""

    def device(self) -> Device: ...

    def metric_names(self) -> tuple[str, ...]: ...

    def metric(self, name: str) -> RawMetric | None: ...

    def instances(self, name: str) -> Instances | None: ...

    def sections(self) -> tuple[str, ...]: ...

    def rules(self) -> tuple[RuleResult, ...]: ...

    def leading_rule(self) -> RuleResult | None: ...

    def markers(self) -> tuple[SourceMarker, ...]: ...

    def nvtx(self) -> tuple[NvtxRange, ...]: ...

    def source_files(self) -> Mapping[str, str | None]: ...

    def source_text(self, path: str) -> str | None: ...

    def has_source_text(self) -> bool: ...

    def has_lines(self) -> bool: ...

    def locate(self, addresses: Iterable[int]) -> Mapping[int, Location]: ...

    def locations(self) -> Mapping[int, Location]: ...

    def disassembly(self) -> Mapping[int, str] | Absent: ...

    def is_for_debugging(self) -> bool: ...


class Launch:
    """One launch of a profile, identified by its number: names repeat, numbers do not.

    For a value that was not measured, `get` returns `None`, and `require` raises an error that
    names the ncu section that collects it.
    """

    def __init__(  # noqa: PLR0913 - the identity of a launch has this many parts
        self,
        *,
        number: int,
        name: KernelName,
        workload: Workload,
        grid: Dim3 | None,
        block: Dim3 | None,
        data: LaunchData,
        process: str | None = None,
        stream: int | None = None,
        context: int | None = None,
        find_origin: Callable[[], Origin] | None = None,
    ) -> None:
        """`find_origin`: called for stream and context on first use, instead of giving them."""
        self.id = number
        self.name = name
        self.workload = workload
        self.grid = _shape(grid)
        self.block = _shape(block)
        self.process = process
        self._origin = find_origin or (stream, context)
        self.data = data
        self._found: dict[str, tuple[Metric | None, Number | None]] = {}
        self.find_source: Callable[[str], str | None] | None = None
        """Looks up the text of a source file that the report names but does not embed."""
        self.find_file: Callable[[str], Path | None] | None = None
        """Looks up that file itself."""
        self.ncu_version: str | None = None
        """Set by the profile."""

    def __repr__(self) -> str:
        """One line. Never raises: for a damaged launch the duration is left out."""
        try:
            duration = self.get("duration")
        except KeetError:
            duration = None
        facts = [*shape_parts(grid=self.grid, block=self.block)]
        facts += [str(duration)] if duration else []
        return f"<Launch {self.id}: {', '.join([self.kernel, *facts])}>"

    @property
    def kernel(self) -> str:
        """The short stable name, for tables and for grouping."""
        return self.name.short

    @property
    def stream(self) -> int | None:
        return self._known_origin()[0]

    @property
    def context(self) -> int | None:
        return self._known_origin()[1]

    def _known_origin(self) -> Origin:
        if callable(self._origin):
            self._origin = self._origin()
        return self._origin

    @cached_property
    def device(self) -> Device:
        return _shared(self.data.device())

    @cached_property
    def cluster(self) -> Dim3 | None:
        """Blocks per cluster, or `None` for a launch without clusters."""
        axes = [self.get(f"cluster_dim_{axis}") for axis in "xyz"]
        sizes = [int(axis.value) if axis else 0 for axis in axes]
        return (sizes[0], sizes[1], sizes[2]) if all(sizes) else None

    def metric_names(self) -> tuple[str, ...]:
        return self.data.metric_names()

    def metric(self, name: str) -> Metric | None:
        """The metric with this ncu name; `None` if the report does not have it."""
        raw = self.data.metric(name)
        if raw is None:
            return None
        value, unit = raw
        if unit is None:
            return tuple.__new__(Metric, (name, value, unit_of(name)))  # faster, and often called
        return _in_base_unit(name, value, unit)

    def rounding(self, name: str) -> float:
        """The largest rounding error of a metric that ncu printed with two decimals, in the unit of
        the metric; 0 if the file has the exact number."""
        raw = self.data.metric(name)
        if raw is None or raw.unit is None:
            return 0.0
        return float(Quantity(_HALF_A_HUNDREDTH, raw.unit).to_base().value)

    @cached_property
    def is_printed(self) -> bool:
        """Whether its numbers are from a printed page, and so rounded."""
        return any(self.rounding(name) > 0 for name in self.metric_names()[:1])

    def find(self, metric_id: str) -> Metric | None:
        """The metric with a catalog id, under the first of its names that has a value here."""
        return self.look_up(metric_id)[0]

    def look_up(self, metric_id: str) -> tuple[Metric | None, Number | None]:
        """The metric, and its number if it is a valid measurement. Cached."""
        known = self._found.get(metric_id)
        if known is None:
            known = self._found[metric_id] = self._find(metric_id)
        return known

    def _find(self, metric_id: str) -> tuple[Metric | None, Number | None]:
        first: Metric | None = None
        for name in metric_with_id(metric_id).names:
            metric = self.metric(name)
            if metric is None:
                continue
            number = metric.number
            if number is not None or isinstance(metric.value, str):
                return metric, number
            if metric.value is not None:
                first = first or metric
        return first, None

    def get(self, metric_id: str) -> Quantity | None:
        """The value of a catalog id; `None` if it was not measured, or if the number in the report
        is not a valid measurement."""
        metric, number = self.look_up(metric_id)
        return None if metric is None or number is None else Quantity(number, metric.unit)

    def number(self, metric_id: str) -> Number | None:
        """The same as `get`, without the unit."""
        return self.look_up(metric_id)[1]

    def reported(self, metric_id: str) -> Quantity | None:
        """The number as it is in the report, NaN included: for display, not for computing."""
        metric = self.find(metric_id)
        return metric.quantity if metric else None

    def require(self, metric_id: str) -> Quantity:
        quantity = self.get(metric_id)
        if quantity is None:
            spec = metric_with_id(metric_id)
            raise MetricNotCollected(spec.names[0], self.id, spec.section)
        return quantity

    def instances(self, name: str) -> Instances | None:
        return self.data.instances(name)

    @property
    def function_starts(self) -> list[int]:
        """Start addresses of its functions, in order: tools print instructions as offsets from
        them."""
        starts = self.data.instances("launch__function_pcs")
        return sorted({int(pc) for pc in starts.values if is_measurement(pc)}) if starts else []

    @cached_property
    def sections(self) -> tuple[str, ...]:
        """Ids of the ncu sections that were collected."""
        return self.data.sections()

    @cached_property
    def rules(self) -> tuple[RuleResult, ...]:
        return self.data.rules()

    @cached_property
    def leading_rule(self) -> RuleResult | None:
        """The rule with the largest estimated gain for the whole launch. Cheaper than `rules`."""
        return self.data.leading_rule()

    @cached_property
    def rank_time(self) -> float:
        """Duration in nanoseconds, for sorting only: it is 0 if not measured."""
        duration = self.get("duration")
        return float(duration.value) if duration and duration.value > 0 else 0.0

    @cached_property
    def rank_cycles(self) -> float:
        """GPU cycles of a launch without a duration, for sorting only: 0 if they are not known, or
        not needed. The clock is not known, so that they are no time."""
        cycles = () if self.rank_time else map(self.metric, _ELAPSED)
        return next((float(each.number) for each in cycles if each and each.number), 0.0)

    @cached_property
    def markers(self) -> tuple[SourceMarker, ...]:
        return self.data.markers()

    @cached_property
    def nvtx(self) -> tuple[NvtxRange, ...]:
        """Open ranges, outermost first, with secrets in their names masked."""
        return tuple(each._replace(name=masked(each.name)) for each in self.data.nvtx())

    @cached_property
    def source_files(self) -> Mapping[str, str | None]:
        """Source files of the kernel by path, with their text if it is embedded or was found."""
        files = self.data.source_files()
        if self.find_source is None:
            return files
        return {p: self.find_source(p) if text is None else text for p, text in files.items()}

    def source_text(self, path: str) -> str | None:
        """The text of one source file of the kernel, if it is embedded or was found."""
        text = self.data.source_text(path)
        return self.find_source(path) if text is None and self.find_source else text

    def local_file(self, path: str) -> Path | None:
        """A source file of the kernel on this machine: below `--source`, else where the compiler
        read it."""
        own = self.find_file(path) if self.find_file else None
        is_there = own is None and os.path.isabs(path) and os.path.isfile(path)  # noqa: PTH113, PTH117
        return Path(path) if is_there else own

    @property
    def has_source_text(self) -> bool:
        """Whether the text of any source file is there. Cheaper than `source_files`."""
        return self.data.has_source_text() or (
            self.find_source is not None and any(self.source_files.values())
        )

    @property
    def has_lines(self) -> bool:
        """Whether any instruction has a source line. Cheaper than `locations`."""
        return self.data.has_lines()

    @cached_property
    def locations(self) -> Mapping[int, Location]:
        """The source line of each instruction address, if the code has line information."""
        return self.data.locations()

    def locate(self, addresses: Iterable[int]) -> Mapping[int, Location]:
        """The source lines of some instructions. Cheaper than `locations`."""
        return self.data.locate(addresses)

    @cached_property
    def disassembly(self) -> Mapping[int, str] | Absent:
        """The SASS text of each instruction address."""
        return self.data.disassembly()

    @property
    def is_for_debugging(self) -> bool:
        """Whether its code has tables for a debugger, as `nvcc -G` makes them; False if the file
        has no code."""
        return self.data.is_for_debugging()

    def keep_summary(self) -> None:
        """Compute what `release` keeps, so that a list of all launches need not decode them."""
        self.rank_time, self.rank_cycles, self.device, self.nvtx  # noqa: B018 - cached properties

    def release(self) -> None:
        """Free the decoded data; it is decoded again on the next use.

        For loops over all launches, so that memory holds one launch at a time. Name, shape, device,
        duration and empty lists are kept.
        """
        self._found = {each: self._found[each] for each in ("duration",) if each in self._found}
        for name in _DECODED & self.__dict__.keys():
            if self.__dict__[name] != ():
                del self.__dict__[name]
        if release := getattr(self.data, "release", None):  # in-memory data has no such method
            release()


_DECODED = frozenset(
    (
        "cluster",
        "sections",
        "rules",
        "leading_rule",
        "markers",
        "nvtx",
        "source_files",
        "locations",
        "disassembly",
    )
)
"""Cached properties that `release` drops."""


@lru_cache(maxsize=64)
def _shared(device: Device) -> Device:
    """One object for all launches of a GPU."""
    return device


_HALF_A_HUNDREDTH = 0.005
_ELAPSED = ("gpu__cycles_elapsed.max", "gpu__cycles_elapsed.avg", "gpc__cycles_elapsed.max")
MOST_CODES = 8
"""Most kernels and shapes of a report whose machine code is analysed. A large one takes half a
second, and a few kernels usually take most of the time."""
MOST_WITH_CODE = 64
"""Most launches of them. A further launch of a kernel takes a third of the time of the first if its
counts are the same, else as long."""


def _in_base_unit(name: str, value: Value, unit: str) -> Metric:
    """Undo the scaling of a printed value: `1.98 Ghz` becomes `1980000000 hz`.

    The printed unit gives the scale; the kind of unit is taken from the catalog, because ncu prints
    some sectors as bytes.
    """
    known = unit_of(name)
    if value is None or isinstance(value, str) or not unit:
        return Metric(name, value, known)
    quantity = Quantity(value, unit).to_base()
    in_catalog = metric_named(name) is not None
    return Metric(name, quantity.value, known if known or in_catalog else quantity.unit)
