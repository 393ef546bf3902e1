"""Costs of a launch by source line or instruction, the arrays that a line accesses, and how much of
the launch its samples cover.

Every number of a row is a sum over instruction addresses, and every address is in exactly one row
(those without a line in a separate row), so the rows add up to the totals of the launch.

Samples: the sampler of each SM takes one every interval while the SM is active, so samples times
interval over SMs times active cycles is 1. In 46 reports it is 0.98 to 1.06 for each launch with a
thousand samples or more, except where the sample buffer ran full: there it is 0.006 to 0.52, the
samples are those of the beginning of the launch, and nothing else in the report says so.

Arrays: the report counts per line. If a line reads a table through an index, multiplies by a value
in registers and writes a result, only the source shows which access is the problem.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal, NamedTuple

from keet.analysis.ledger import Ledger
from keet.analysis.parameters import NEARLY_ALL, Parameter
from keet.catalog import all_names, metric_with_id, stalls
from keet.documents.document import live
from keet.documents.hotspots import (
    HotspotsLaunch,
    PointerDocument,
    PurposeShare,
    SpotDocument,
    StallDocument,
    WaitDocument,
)
from keet.documents.shared_types import Skipped
from keet.evidence import Evidence, Sentence, slug_of
from keet.profile import SAMPLES_BY_REASON, Absent, Launch, Location, Workload
from keet.profile.metric import IMPORT_SOURCE, SECTION_OF_CODE, NcuOption, ProfileAgain
from keet.safe_text import bounded_lines
from keet.units import Number, Quantity

FEWEST_SAMPLES = Parameter(1000, "with fewer samples, the buffer cannot be full", "judgement")
LEAST_SAMPLES = Parameter(
    20, "samples from which they name a place, or the states of warps", "judgement"
)
"""A half of 20 samples is off by 11 percentage points (one standard deviation)."""
_MAX_INTERVAL = 31


class PartialSampling(NamedTuple):
    """Samples that stop before the launch does."""

    share: float
    """Share of the launch that the samples cover, 0 to 1."""
    remedy: str
    launch: int

    def text_in(self, ledger: Ledger) -> Sentence:
        """With the share as evidence in this ledger."""
        share = Quantity(100 * self.share, "%")
        return Sentence(
            "the samples cover only the first {share:.1f} of launch #{id} (the buffer was full)",
            share=ledger.derived("sampled_share", share, "part of the launch that samples cover"),
            id=str(self.launch),
        )

    @property
    def text(self) -> Sentence:
        return self.text_in(Ledger(str(self.launch)))


def partial_sampling(launch: Launch, samples: int) -> PartialSampling | None:
    """Set if samples are missing; `None` if they are complete or it can't be determined."""
    interval = launch.number("sampling_interval_cycles") or 0.0
    active, sms = launch.number("sm_active_cycles") or 0.0, launch.device.sm_count
    if not (interval > 0 and active > 0) or not sms or samples < FEWEST_SAMPLES:
        return None
    share = samples * interval / (sms * active)
    if share >= NEARLY_ALL:
        return None
    # The option's value n stands for 2 ** (5 + n) cycles.
    setting = round(math.log2(interval)) - 5 + math.ceil(math.log2(1 / share))
    name, remedy = _interval_option(launch.ncu_version), _LONGER_INTERVAL
    if name is not None:
        remedy = ProfileAgain(NcuOption(name, str(min(setting, _MAX_INTERVAL))))
    return PartialSampling(share, remedy, launch.id)


_LONGER_INTERVAL = "profile again with a longer interval between warp samples (see: ncu --help)"


def _interval_option(ncu_version: str | None) -> str | None:
    """ncu renamed it after 2022.3 and before 2025.3; None where the name is not known."""
    version_match = re.match(r"(\d+)\.(\d+)", ncu_version or "")
    version = (int(version_match[1]), int(version_match[2])) if version_match else (2023, 0)
    if version <= (2022, 3):
        return "--sampling-interval"
    return "--warp-sampling-interval" if version >= (2025, 3) else None


ACCESS_BYTES: Mapping[float, int] = {2: 1, 4: 1, 8: 2, 16: 2, 32: 4, 64: 8, 128: 16}
"""Bytes per thread by ncu's codes in `memory_access_size_type`: bits from 32 up, but `LDG.U8` has 2
and `LDG.U16` has 8 in all reports seen."""

AccessKind = Literal["global", "scattered global", "shared", "local"]
"""Scattered: neighbouring threads do not access neighbouring bytes."""

_ACCESS = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)*\[(?:[^\[\]]|\[[^\]]*\])*\]")
"""`a[i]`, `p.a[b[i]]`."""
_TYPE_WORD = re.compile(r"[\w:<>,*&]+")
_NO_TYPE = {"return", "else", "case", "delete", "throw", "extern", "goto"}
_LONGEST_LINE = 400
"""Characters of a line that are parsed, to bound the time for generated code."""


def accesses(line: str, text: str, kind: AccessKind | None) -> list[str]:
    """The accesses of the line that are of this kind; all of them if none is, or without a
    kind."""
    every = list(dict.fromkeys(_ACCESS.findall(line[:_LONGEST_LINE])))
    if kind is None or len(every) < 2:
        return every
    arrays = _declared(text)
    if kind in ("shared", "local"):
        return [access for access in every if _name(access) in arrays[kind]] or every
    on_chip = arrays["shared"] | arrays["local"]
    kept = [access for access in every if _name(access) not in on_chip]
    if kind == "scattered global":  # `a[b[i]]` or `a[i * n]`, not `a[i]`
        kept = [access for access in kept if is_gather([access]) or "*" in access] or kept
    return kept or every


def _declared(text: str) -> dict[AccessKind, set[str]]:
    """Names of arrays by memory, as far as single lines show it: `float part[4];`."""
    arrays: dict[AccessKind, set[str]] = {"shared": set(), "local": set()}
    for line in text.splitlines():
        head, bracket, rest = line[:_LONGEST_LINE].partition("[")
        words = head.split()
        if not bracket or len(words) < 2:
            continue
        name = words[-1].lstrip("*&")
        if "__shared__" in words:
            arrays["shared"].add(name)
        elif _is_type(words[:-1]) and rest.rpartition("]")[2].strip()[:1] in (";", "=", ",", ""):
            arrays["local"].add(name)
    return arrays


def _is_type(words: Sequence[str]) -> bool:
    """A type such as `const unsigned long long`; memory qualifiers begin with `__`."""
    plain = all(_TYPE_WORD.fullmatch(word) and not word.startswith("__") for word in words)
    return plain and words[0] not in _NO_TYPE


def is_gather(accesses: Sequence[str]) -> bool:
    """Whether the index is itself read from memory, so that swapping the threads' axes does not
    help."""
    return bool(accesses) and all("[" in access.partition("[")[2] for access in accesses)


def _name(access: str) -> str:
    return access.partition("[")[0]


_SPOT_METRICS = {
    "executed": "inst_executed",
    "threads_executed": "thread_inst_executed",
    "sectors_global": "src_l2_sectors_global",
    "sectors_global_excess": "src_l2_sectors_global_excess",
    "sectors_local": "src_l2_sectors_local",
    "wavefronts_shared": "src_shared_wavefronts",
    "wavefronts_shared_excess": "src_shared_wavefronts_excess",
}
"""Columns of a spot, and the catalog metric of each."""

Grouping = Literal["line", "instruction"]

_NOT_SAMPLED = Absent(
    "the report has no numbers for single instructions",
    ProfileAgain(SECTION_OF_CODE, IMPORT_SOURCE),
)


_OF_SEVERAL = Absent(
    "a range or a graph has no numbers for single instructions, which ncu can't collect for it",
    "profile its kernels one by one: ncu --replay-mode kernel, or --graph-profiling node",
)


class RowWait(WaitDocument):
    producer_position: int | None = live()
    """`None`: it waits for its own unit, or the producer is not known."""


class Spot(SpotDocument):
    """A source line or an instruction with its costs. `None`: not collected. What has a default is
    added by `keet hotspots`."""

    source: str | None = None
    sass: str | None = None
    purposes: Sequence[PurposeShare] = ()
    waits: Sequence[RowWait] = ()


class Hotspots(HotspotsLaunch):
    """The code of one launch, most expensive first."""

    by: Grouping
    ranked_by: Literal["samples", "executed"]
    """`executed` if there are no samples."""
    total: int
    rows: tuple[Spot, ...]
    instruction_mix: list[PurposeShare] | None = None
    reuse: list[PointerDocument] | None = None
    skipped: Sequence[Skipped] = ()
    launch: Launch = live()
    partial: PartialSampling | None = live()
    """Set if the samples cover only a part of the launch."""

    def number(self, label: str, value: Number, unit: str = "", line: str = "") -> Evidence:
        """A number of these rows, for a text."""
        at = f"{slug_of(label)}{f'@{line}' if line else ''}#{self.id}"
        return Evidence(at, label, value, unit, label, line or None)


class _Row(NamedTuple):
    """Instructions that form one row."""

    location: Location | None
    members: Sequence[int]
    address: int | None = None


class InstructionTable:
    """The per-instruction metrics of a launch, by address."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._columns: dict[str, Mapping[int, int] | None] = {}

    @cached_property
    def stall_samples(self) -> Mapping[str, Mapping[int, int]]:
        """Samples by reason and address. Reasons that occur in no sample are left out."""
        by_reason = {reason: self.waiting(reason) for reason in stalls()}
        return {reason: column for reason, column in by_reason.items() if any(column.values())}

    @cached_property
    def samples(self) -> Mapping[int, int] | None:
        """Samples by address; before ncu 2021.2 only their split by reason was stored."""
        total = self.column("samples_total")
        if total is not None or not self.stall_samples:
            return total
        sums: Counter[int] = Counter()
        for column in self.stall_samples.values():
            sums.update(column)
        return sums

    @cached_property
    def executed(self) -> Mapping[int, int] | None:
        return self.column(_SPOT_METRICS["executed"])

    @cached_property
    def threads(self) -> Mapping[int, int] | None:
        """Threads by address; without those whose predicate was off, if that was counted."""
        active = self._named("thread_inst_executed_true")
        return active if active is not None else self.column(_SPOT_METRICS["threads_executed"])

    @cached_property
    def costs(self) -> Mapping[str, Mapping[int, int] | None]:
        """The plain columns of a spot; `None` for what was not collected."""
        return {name: self.column(metric_id) for name, metric_id in _SPOT_METRICS.items()}

    @cached_property
    def weight(self) -> Mapping[int, int]:
        """What spots are ranked by: samples, or executions if there are no samples."""
        return self.samples or self.executed or {}

    @cached_property
    def total(self) -> int:
        return sum(self.weight.values())

    @cached_property
    def addresses(self) -> list[int]:
        return sorted({*(self.samples or ()), *(self.executed or ())})

    def column(self, metric_id: str) -> Mapping[int, int] | None:
        if metric_id not in self._columns:
            named = map(self._named, metric_with_id(metric_id).names)
            self._columns[metric_id] = next((c for c in named if c is not None), None)
        return self._columns[metric_id]

    def _named(self, name: str) -> Mapping[int, int] | None:
        instances = self._launch.instances(name)
        if instances is None:
            # ncu stores no instances of a zero: every instruction has 0.
            metric = self._launch.metric(name)
            return {} if metric is not None and metric.value == 0 else None
        if instances.ids is None:
            return None
        values = instances.by_address()
        if {*map(type, values.values())} <= {int}:
            return values  # type: ignore[return-value]
        return {address: int(value) for address, value in values.items()}

    def ranked(self, rows: Sequence[_Row]) -> list[_Row]:
        """Sorted by weight. Ties keep the order of the code, so that the output is
        deterministic."""
        weight = self.weight.get
        return sorted(rows, key=lambda row: -sum(weight(address, 0) for address in row.members))

    def waiting(self, reason: str) -> Mapping[int, int]:
        """Samples of warps that wait for one reason."""
        stall, sampled = stalls().get(reason), f"{SAMPLES_BY_REASON[0]}{reason}"
        for name in all_names(sampled) if stall and sampled in stall.metrics else ():
            total = self._launch.metric(name)
            # ncu stores a column of zeros for each reason that did not occur: most of them.
            if total is not None and total.value != 0:
                return self._named(name) or {}
        return {}

    def spots(self, rows: Sequence[_Row]) -> list[Spot]:
        """The sum over each row's instructions, column by column, since most of a column is
        zeros."""
        row_of = {address: index for index, row in enumerate(rows) for address in row.members}
        reasons = {r: _sums(c, row_of, len(rows)) for r, c in self.stall_samples.items()}
        samples = _sums(self.samples, row_of, len(rows))
        weights = _sums(self.weight, row_of, len(rows))
        costs = {name: _sums(c, row_of, len(rows)) for name, c in self.costs.items()}
        return [
            Spot(
                file=row.location.file if row.location else None,
                line=row.location.line if row.location else None,
                address=row.address,
                instructions=len(row.members),
                samples=None if samples is None else samples[index],
                share=weights[index] / self.total if weights and self.total else None,
                stalls=_stalls({r: s[index] for r, s in reasons.items() if s and s[index]}),
                **{name: column and column[index] for name, column in costs.items()},  # type: ignore[arg-type]
            )
            for index, row in enumerate(rows)
        ]


def find_hotspots(
    launch: Launch, by: Grouping | None = None, table: InstructionTable | None = None
) -> Hotspots | Absent:
    """Rank the launch's source lines, or its instructions if there are no lines.

    `table`: the table of the same launch, if it exists already.
    """
    table = InstructionTable(launch) if table is None else table
    if not table.weight:
        return _NOT_SAMPLED if launch.workload is Workload.KERNEL else _OF_SEVERAL
    by = by or ("line" if launch.locations else "instruction")
    if by == "line":
        rows = _by_line(launch, table)
    else:
        rows = [_Row(launch.locations.get(pc), [pc], pc) for pc in table.addresses]

    spots = table.spots(table.ranked(rows))
    ranked_by: Literal["samples", "executed"] = "samples" if table.samples else "executed"
    partial = partial_sampling(launch, table.total) if table.samples else None
    return Hotspots(
        id=launch.id,
        kernel=launch.kernel,
        by=by,
        ranked_by=ranked_by,
        total=table.total,
        sampled_share=partial.share if partial else None,
        rows_total=len(spots),
        rows=tuple(spots),
        launch=launch,
        partial=partial,
    )


def rows_at(spots: Hotspots | Absent, place: Location) -> Hotspots | Absent:
    """Only the rows of one line."""
    if isinstance(spots, Absent):
        return spots
    rows = tuple(spot for spot in spots.rows if spot.location == place)
    return replace(spots, rows=rows, rows_total=len(rows))


def line_order(
    launch: Launch, table: InstructionTable, weights: Mapping[Location, int] | None = None
) -> list[Location]:
    """The source lines in the order of `find_hotspots`, without their costs.

    `weights`: only these lines are needed. Lines without an instruction are left out: a line that
    calls inlined code may have none.
    """
    if weights is not None:
        first = _first_in_code(launch, table, weights)
        return sorted(first, key=lambda line: (-weights[line], first[line]))
    rows = table.ranked(_by_line(launch, table))
    return [row.location for row in rows if row.location is not None]


_LOOKED_UP_AT_ONCE = 128
"""Instructions per lookup in the line table."""


def _first_in_code(
    launch: Launch, table: InstructionTable, lines: Collection[Location]
) -> Mapping[Location, int]:
    """The first instruction of each of these lines. Stops after the last one is found."""
    first: dict[Location, int] = {}
    for start in range(0, len(table.addresses), _LOOKED_UP_AT_ONCE):
        some = table.addresses[start : start + _LOOKED_UP_AT_ONCE]
        for address, line in launch.locate(some).items():
            if line in lines:
                first[line] = min(address, first.get(line, address))
        if len(first) == len(lines):
            break
    return first


def _by_line(launch: Launch, table: InstructionTable) -> list[_Row]:
    lines: dict[Location | None, list[int]] = {}
    located = launch.locations
    for address in table.addresses:
        lines.setdefault(located.get(address), []).append(address)
    return [_Row(location, members) for location, members in lines.items()]


def _sums(
    column: Mapping[int, int] | None, row_of: Mapping[int, int], rows: int
) -> list[int] | None:
    """Each row's sum; `None` if the column was not collected, 0 if it has no value in this row."""
    if column is None:
        return None
    sums = [0] * rows
    for address, value in column.items():
        if value and address in row_of:
            sums[row_of[address]] += value
    return sums


def _stalls(samples: Mapping[str, int]) -> tuple[StallDocument, ...]:
    """The most samples first."""
    return tuple(StallDocument(reason=r, samples=n) for r, n in Counter(samples).most_common())


# --- texts of source lines


def source_lines(launch: Launch) -> Mapping[str, Sequence[str]]:
    """The lines of each source file whose text is available."""
    return _SourceLines({path: text for path, text in launch.source_files.items() if text})


class _SourceLines(Mapping[str, Sequence[str]]):
    """Splits a file on first access: most commands need lines of few files."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, path: str) -> Sequence[str]:
        return bounded_lines(self._texts[path])

    def __contains__(self, path: object) -> bool:
        return path in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def source_line(spot: Spot, lines: Mapping[str, Sequence[str]]) -> str | None:
    """The text of a spot's line; `None` if the file is not available or too short."""
    where = spot.location
    if where is None:
        return None
    text = lines.get(where.file, ())
    return text[where.line - 1] if 1 <= where.line <= len(text) else None
