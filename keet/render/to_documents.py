"""From profiles and findings to the JSON documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from keet.analysis.coverage import Coverage
from keet.analysis.hotspots import Hotspots, Spot
from keet.catalog import MetricSpec
from keet.profile import Absent, Device, Launch, Metric, Profile, Value
from keet.render.documents import (
    DeviceDocument,
    GapDocument,
    HotspotsDocument,
    HotspotsLaunch,
    MetricDocument,
    MetricsDocument,
    MetricsLaunch,
    NonFinite,
    PointDocument,
    QuantityDocument,
    ReportDocument,
    ShowDocument,
    ShowLaunch,
    SkippedDocument,
    SpotDocument,
    StallDocument,
)
from keet.render.source_text import source_line, source_lines
from keet.units import Number, Quantity

SHOWN_VALUES = (
    "duration",
    "sm_throughput_pct",
    "memory_throughput_pct",
    "l1tex_throughput_pct",
    "l2_throughput_pct",
    "dram_throughput_pct",
    "achieved_occupancy_pct",
    "theoretical_occupancy_pct",
    "registers_per_thread",
    "shared_memory_static",
    "shared_memory_dynamic",
    "waves_per_sm",
)
"""What `keet show` tells of each launch, by catalog id."""


def report_document(profile: Profile) -> ReportDocument:
    provenance = profile.provenance._asdict()
    notes = list(provenance.pop("notes"))
    return ReportDocument(**provenance, notes=notes, launch_count=len(profile.launches))


def device_document(device: Device) -> DeviceDocument:
    return DeviceDocument(**asdict(device))


def quantity_document(quantity: Quantity) -> QuantityDocument:
    value, nonfinite = finite(quantity.value)
    return QuantityDocument(value=value, unit=quantity.unit, nonfinite=nonfinite)


def finite(value: Number) -> tuple[Number | None, NonFinite | None]:
    """A number as JSON can have it, and what else it is where JSON has no such number."""
    if isinstance(value, int) or math.isfinite(value):
        return value, None
    if math.isnan(value):
        return None, "nan"
    return None, "inf" if value > 0 else "-inf"


def show_document(profile: Profile, coverage: Coverage, launches: Iterable[Launch]) -> ShowDocument:
    return ShowDocument(
        report=report_document(profile),
        devices=[device_document(device) for device in profile.devices],
        launches=[_show_launch(profile, launch) for launch in launches],
        holds=list(coverage.present),
        missing=[
            GapDocument(**{**gap._asdict(), "launches": list(gap.launches)})
            for gap in coverage.gaps
        ],
        capture=coverage.command,
        build=coverage.build_hint,
        obstacle=coverage.obstacle,
    )


def _show_launch(profile: Profile, launch: Launch) -> ShowLaunch:
    values = {metric_id: launch.get(metric_id) for metric_id in SHOWN_VALUES}
    return ShowLaunch(
        id=launch.id,
        kernel=launch.kernel,
        kernel_full=launch.name.full,
        kernel_function=launch.name.function,
        kernel_mangled=launch.name.mangled,
        workload=launch.workload.value,
        device=profile.devices.index(launch.device),
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        process=launch.process,
        stream=launch.stream,
        context=launch.context,
        nvtx=[f"{entry.domain}/{entry.name}" for entry in launch.nvtx],
        metric_count=len(launch.metric_names()),
        rule_results=len(launch.rules),
        sections=list(launch.sections),
        values={key: quantity_document(q) for key, q in values.items() if q is not None},
    )


def metrics_document(
    profile: Profile, tables: Iterable[tuple[Launch, Sequence[tuple[Metric, MetricSpec | None]]]]
) -> MetricsDocument:
    return MetricsDocument(
        report=report_document(profile),
        launches=[
            MetricsLaunch(
                id=launch.id,
                kernel=launch.kernel,
                metrics=[_metric_document(launch, metric, spec) for metric, spec in rows],
            )
            for launch, rows in tables
        ],
    )


def _metric_document(launch: Launch, metric: Metric, spec: MetricSpec | None) -> MetricDocument:
    instances = launch.instances(metric.name)
    points = None
    value: Value = metric.value
    if spec is not None and not spec.total and instances is not None:
        value = None  # a sum of what can't be added
        points = [PointDocument(at=at, value=part) for at, part in instances.pairs()]
    nonfinite: NonFinite | None = None
    if isinstance(value, float):
        value, nonfinite = finite(value)
    return MetricDocument(
        name=metric.name,
        id=spec.id if spec else None,
        label=spec.label if spec else None,
        value=value,
        nonfinite=nonfinite,
        unit=metric.unit,
        section=spec.section if spec else None,
        meaning=spec.meaning if spec else None,
        instances=len(instances) if instances else 0,
        points=points,
    )


def hotspots_document(
    profile: Profile, found: Iterable[tuple[Launch, Hotspots | Absent]], top: int | None
) -> HotspotsDocument:
    return HotspotsDocument(
        report=report_document(profile),
        launches=[_hotspots_launch(launch, spots, top) for launch, spots in found],
    )


def _hotspots_launch(launch: Launch, found: Hotspots | Absent, top: int | None) -> HotspotsLaunch:
    if isinstance(found, Absent):
        return HotspotsLaunch(
            id=launch.id,
            kernel=launch.kernel,
            by=None,
            ranked_by=None,
            total=None,
            rows_total=0,
            rows=[],
            skipped=[SkippedDocument(check="hotspots", reason=found.reason, remedy=found.remedy)],
        )
    code = launch.disassembly if found.by == "instruction" else {}
    skipped = []
    if isinstance(code, Absent):
        skipped.append(SkippedDocument(check="disassembly", reason=code.reason, remedy=code.remedy))
        code = {}
    if found.partial:
        remedy = found.partial.remedy
        skipped.append(SkippedDocument(check="sampling", reason=str(found.partial), remedy=remedy))
    lines = source_lines(launch)
    return HotspotsLaunch(
        id=launch.id,
        kernel=launch.kernel,
        by=found.by,
        ranked_by=found.ranked_by,
        total=found.total,
        sampled_share=found.partial.share if found.partial else None,
        rows_total=len(found.spots),
        rows=[_spot_document(spot, lines, code) for spot in found.spots[:top]],
        skipped=skipped,
    )


def _spot_document(
    spot: Spot, lines: Mapping[str, Sequence[str]], code: Mapping[int, str]
) -> SpotDocument:
    return SpotDocument(
        file=spot.location.file if spot.location else None,
        line=spot.location.line if spot.location else None,
        source=source_line(spot, lines),
        address=spot.address,
        sass=code.get(spot.address) if spot.address is not None else None,
        instructions=spot.instructions,
        share=spot.share,
        samples=spot.samples,
        stalls=[StallDocument(reason=reason, samples=count) for reason, count in spot.stalls],
        executed=spot.executed,
        threads_executed=spot.threads_executed,
        sectors_global=spot.sectors_global,
        sectors_global_excess=spot.sectors_global_excess,
        sectors_local=spot.sectors_local,
        wavefronts_shared=spot.wavefronts_shared,
        wavefronts_shared_excess=spot.wavefronts_shared_excess,
    )
