"""The values of a report that a metric name in a text may mean."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple

from keet.analysis.hotspots.source_lines import Grouping, Hotspots, Spot, find_hotspots
from keet.analysis.launch_view import LaunchView
from keet.catalog import metric_named, metric_with_id, stalls
from keet.evidence import Sentence, constant
from keet.profile import Absent, Launch
from keet.units import Number, Quantity
from keet.verification.metric_names import (
    DRAM_TRAFFIC,
    L1_ELAPSED,
    NCU_NAME,
    ROOFLINE,
    STALL_SHARE,
    TIME_SHARE,
)
from keet.verification.subjects import NO_LINE, LaunchLookup, TextPlace

_SHARED = {
    "excess wavefront": "wavefronts_shared_excess",
    "excess sector": "sectors_global_excess",
    "excessive sector": "sectors_global_excess",
    "local sector": "sectors_local",
    "sector": "sectors_global",
    "global sector": "sectors_global",
    "wavefront": "wavefronts_shared",
    "executed instruction": "executed",
    "instruction": "executed",
}
"""What a source line can have a share of, and the column of its hotspot row."""


_COMPUTED_ROUNDING = 0.02
_SHARE_ROUNDING = 0.1
"""Rounding errors of values computed from an export: relative, and in percentage points."""


def has_column(of: str) -> bool:
    """Whether the report has each line's share of it. Then the share is compared with the report,
    not with what a finding says about the line."""
    return of == "samples" or of.rstrip("s") in _SHARED


class ReportValue(NamedTuple):
    """A value of the report with its label."""

    label: str
    quantity: Quantity
    metric: str | None
    """ncu's name; `None` for values that keet computed."""
    launch: int | None
    line: str | None = None
    rounding: float = 0.0
    """Error of the quantity: exports contain rounded numbers."""

    def __str__(self) -> Sentence:
        whose = self.line or (f"#{self.launch}" if self.launch is not None else "")
        unit = "" if self.quantity.unit == "x" else self.quantity.unit
        return Sentence(
            "{label}{of}{whose} is {value}{x}",
            label=self.label,
            of=" of " * bool(whose),
            whose=whose,
            value=constant(self.quantity.value, unit, self.label),
            x="x" * (self.quantity.unit == "x"),
        )


class ReportValues:
    """Looks up values of launches by metric id, by source line and by stall reason."""

    def __init__(self, launches: LaunchLookup, asked: Callable[[], Iterable[str]]) -> None:
        """`asked`: metric ids that the text may need. With many launches, all of them are read at
        once, so that no launch is decoded twice or kept in memory."""
        self.launches = launches
        self._asked = asked
        self._hotspots: dict[tuple[Launch, Grouping], Hotspots | None] = {}
        self._read: dict[str, dict[Launch, list[ReportValue]]] = defaultdict(dict)

    def read(
        self, metric_ids: Iterable[str], launch: Launch, *, complement: bool = False
    ) -> list[ReportValue]:
        """The launch's values for these ids, without those that were not measured."""
        values = [value for metric in metric_ids for value in self._cached(metric, launch)]
        return [_complement(value) for value in values] if complement else values

    def read_each(
        self, metric_ids: Sequence[str], launches: Iterable[Launch]
    ) -> Iterator[ReportValue]:
        """Launch by launch."""
        for launch in launches:
            yield from self.read(metric_ids, launch)

    def _cached(self, metric_id: str, launch: Launch) -> list[ReportValue]:
        known = self._read[metric_id]
        if launch not in known:
            known[launch] = self._now(metric_id, launch)
            if self.launches.are_many:
                self._read_all(launch)
        return known[launch]

    def _now(self, metric_id: str, launch: Launch) -> list[ReportValue]:
        values = [r for r in self._one(metric_id, launch) if math.isfinite(r.quantity.value)]
        if launch.is_printed:
            values = [r._replace(rounding=_rounding(r, launch)) for r in values]
        return values

    def _read_all(self, launch: Launch) -> None:
        for metric_id in self._text_asks_for:
            known = self._read[metric_id]
            if launch not in known:
                known[launch] = self._now(metric_id, launch)
        launch.release()

    @cached_property
    def _text_asks_for(self) -> frozenset[str]:
        return frozenset(self._asked())

    def _one(self, metric_id: str, launch: Launch) -> Iterator[ReportValue]:
        prefix, colon, name = metric_id.partition(":")
        if read := _READERS.get(f"{prefix}{colon}"):
            return read(launch, name)
        if metric_id == TIME_SHARE:
            return self._time_share(launch)
        return _measured(launch, metric_id)

    def _time_share(self, launch: Launch) -> Iterator[ReportValue]:
        own = launch.get("duration")
        if own and self.total_time:
            share = 100 * own.value / self.total_time.value
            yield _computed(launch, "Share of the time of all launches", share)

    @cached_property
    def total_time(self) -> Quantity | None:
        if self.launches.are_many:  # `rank_time` stays in memory, metrics do not
            times: list[Number] = [x.rank_time for x in self.launches if x.rank_time]
        else:
            times = [duration.value for x in self.launches if (duration := x.get("duration"))]
        return Quantity(sum(times), "ns") if len(times) > 1 else None

    def spot(self, launch: Launch, place: TextPlace) -> Spot | None:
        """The hotspot row of a place; `None` if it has no samples."""
        hotspots = self.hotspots(launch, _grouping(place))
        starts = launch.function_starts if place.offset is not None else ()
        spots = (s for s in (hotspots.rows if hotspots else ()) if _is_at(s, place, starts))
        return next(spots, None)

    def hotspots(self, launch: Launch, by: Grouping = "line") -> Hotspots | None:
        key = launch, by
        if key not in self._hotspots:
            hotspots = find_hotspots(launch, by) if launch.locations or by != "line" else None
            self._hotspots[key] = None if isinstance(hotspots, Absent) else hotspots
        return self._hotspots[key]

    def read_share(self, of: str, launch: Launch, place: TextPlace) -> list[ReportValue]:
        """A source line's share of what `of` names, such as `excess sectors`."""
        hotspots = self.hotspots(launch, _grouping(place))
        spot = self.spot(launch, place)
        column = next((name for words, name in _SHARED.items() if of.startswith(words)), None)
        if hotspots is None or spot is None or column is None:
            return []
        part = getattr(spot, column)
        whole = sum(getattr(row, column) or 0 for row in hotspots.rows)
        if part is None or not whole:
            return []
        return [_computed(launch, f"Share of the {of}", 100 * part / whole, line=_name(place))]

    def read_line(
        self, metric_ids: Iterable[str], launch: Launch, place: TextPlace
    ) -> list[ReportValue]:
        """The values of a source line for these ids, its share of the samples first."""
        hotspots = self.hotspots(launch, _grouping(place))
        if hotspots is None:
            return []
        spot = self.spot(launch, place)
        reasons = [r.removeprefix(STALL_SHARE) for r in metric_ids if r.startswith(STALL_SHARE)]
        rows: Iterable[tuple[str, Number | None, str]] = [
            (f"Share of the {hotspots.ranked_by}", 0.0, "%")
        ]
        if spot is not None:
            rows = _line_stalls(spot, hotspots, reasons) if reasons else _costs(spot, hotspots)
        line = _name(place)
        return [
            _computed(launch, label, value, unit, line=line)
            for label, value, unit in rows
            if value is not None
        ]


def with_sum(report_values: Sequence[ReportValue]) -> list[ReportValue]:
    """Adds sums of loads and stores: `bank conflicts` may mean those of both."""
    loads = {r.label.replace("Load", "Store"): r for r in report_values if "Load" in r.label}
    sums = []
    for store in report_values:
        load = loads.get(store.label)
        if load and load.quantity.unit == store.quantity.unit != "%":
            label = f"{load.label} and {store.label}"
            both = Quantity(load.quantity.value + store.quantity.value, load.quantity.unit)
            sums.append(ReportValue(label, both, None, load.launch))
    return [*report_values, *sums]


def _grouping(place: TextPlace) -> Grouping:
    return "line" if place.offset is None else "instruction"


def _is_at(spot: Spot, place: TextPlace, starts: Iterable[int]) -> bool:
    """A file matches by any suffix of its path."""
    where, address = spot.location, spot.address
    if place.offset is not None and address is not None:
        return address - max((pc for pc in starts if pc <= address), default=0) == place.offset
    if where is None or place.line == NO_LINE:
        return where is None and place.line == NO_LINE
    return where.line == place.line and (place.file is None or _same_file(where.file, place.file))


def _name(place: TextPlace) -> str:
    if place.offset is not None:
        return f"{place.offset:#06x}"
    if place.line == NO_LINE:
        return "code without a source line"
    return f"{PurePath(place.file).name}:{place.line}" if place.file else f"line {place.line}"


def _same_file(path: str, said: str) -> bool:
    parts, wanted = PurePath(path).parts, PurePath(said).parts
    return parts[-len(wanted) :] == wanted


def _rounding(report_value: ReportValue, launch: Launch) -> float:
    """Error of values from an export; larger for computed shares."""
    if report_value.metric is not None:
        return launch.rounding(report_value.metric)
    least = _SHARE_ROUNDING if report_value.quantity.unit == "%" else 0.0
    return max(_COMPUTED_ROUNDING * abs(report_value.quantity.value), least)


def _computed(
    launch: Launch, label: str, value: Number, unit: str = "%", *, line: str | None = None
) -> ReportValue:
    return ReportValue(label, Quantity(value, unit), None, launch.id, line)


def _complement(report_value: ReportValue) -> ReportValue:
    quantity = Quantity(100 - report_value.quantity.value, "%")
    return report_value._replace(label=f"100 % - {report_value.label}", quantity=quantity)


def _measured(launch: Launch, metric_id: str) -> Iterator[ReportValue]:
    spec = metric_with_id(metric_id)
    metric = launch.find(metric_id)
    if metric is not None and metric.quantity is not None and spec.total:
        yield ReportValue(spec.label, metric.quantity, metric.name, launch.id)
    elif (fact := _of_launch(launch, metric_id)) is not None:
        yield _computed(launch, spec.label, fact, spec.unit)


def _l1_over_elapsed(launch: Launch, _: str) -> Iterator[ReportValue]:
    ids = ("l1tex_throughput_pct", "sm_active_cycles", "elapsed_cycles")
    busy, active, elapsed = map(launch.get, ids)
    if busy and active and elapsed and elapsed.value:
        share = busy.value * active.value / elapsed.value
        yield _computed(launch, "L1/TEX Cache Throughput (elapsed)", share)


def _dram_traffic(launch: Launch, _: str) -> Iterator[ReportValue]:
    read, written = launch.get("dram_bytes_read"), launch.get("dram_bytes_written")
    if read and written:
        both = read.value + written.value
        yield _computed(launch, "DRAM Bytes Read and Written", both, "byte")


def _roofline_share(launch: Launch, ceiling_id: str) -> Iterator[ReportValue]:
    from keet.analysis.roofline.launch_roofline import find_roofline

    for ceiling in find_roofline(launch).ceilings:
        if ceiling.id == ceiling_id:
            yield _computed(launch, ceiling.reached.label, ceiling.reached.value)


def _of_launch(launch: Launch, metric_id: str) -> int | None:
    """Values of a launch that are not metrics: its shape and its SMs."""
    if metric_id in ("device_sm_count", "launch_sm_count"):
        return launch.device.sm_count
    shape = {"grid_size": launch.grid, "block_size": launch.block}.get(metric_id)
    return math.prod(shape) if shape else None


def _named(launch: Launch, name: str) -> Iterator[ReportValue]:
    metric = launch.metric(name)
    if metric is not None and metric.quantity is not None:
        spec = metric_named(name)
        yield ReportValue(spec.label if spec else name, metric.quantity, name, launch.id)


def _stall_shares(launch: Launch, reason: str) -> Iterator[ReportValue]:
    label = stalls()[reason].label
    for part, whole, of in (
        (f"samples_{reason}", "samples_total", "samples"),
        (f"stall_{reason}", "warp_cycles_per_issued_inst", "a warp's cycles"),
    ):
        share = _ratio(launch, part, whole)
        if share is not None:
            yield _computed(launch, f"{label}'s share of {of}", share)
    # The states come from several passes and do not add up to the latency; the analyst's shares
    # are relative to their sum.
    if (summed := LaunchView(launch).stall(reason)) is not None:
        yield _computed(launch, f"{label}'s share of all states of a warp", summed.value)


_READERS: Mapping[str, Callable[[Launch, str], Iterator[ReportValue]]] = {
    L1_ELAPSED: _l1_over_elapsed,
    DRAM_TRAFFIC: _dram_traffic,
    STALL_SHARE: _stall_shares,
    ROOFLINE: _roofline_share,
    NCU_NAME: _named,
}
"""By id or prefix."""


def _ratio(launch: Launch, part: str, whole: str) -> float | None:
    """In per cent."""
    try:
        over, under = launch.get(part), launch.get(whole)
    except KeyError:  # only one of the two kinds of counters has this reason
        return None
    return 100 * over.value / under.value if over and under and under.value else None


def _costs(spot: Spot, hotspots: Hotspots) -> list[tuple[str, Number | None, str]]:
    """None: not counted."""
    share = None if spot.share is None else 100 * spot.share
    return [
        (f"Share of the {hotspots.ranked_by}", share, "%"),
        ("Samples", spot.samples, "sample"),
        ("Instructions Executed", spot.executed, "inst"),
        ("Global Sectors", spot.sectors_global, "sector"),
        ("Excess Global Sectors", spot.sectors_global_excess, "sector"),
        ("Shared Wavefronts", spot.wavefronts_shared, "wavefront"),
        ("Excess Shared Wavefronts", spot.wavefronts_shared_excess, "wavefront"),
    ]


def _line_stalls(
    spot: Spot, hotspots: Hotspots, reasons: Sequence[str]
) -> Iterator[tuple[str, Number, str]]:
    """Shares of the line's samples and of the launch's samples; 0 for reasons without samples."""
    for reason in reasons:
        label, count = stalls()[reason].label, spot.samples_by_reason.get(reason, 0)
        if spot.samples:
            yield f"{label}'s share of the line's samples", 100 * count / spot.samples, "%"
        if hotspots.total and hotspots.ranked_by == "samples":
            yield f"{label}'s share of all samples", 100 * count / hotspots.total, "%"
        yield f"{label} samples", count, "sample"
