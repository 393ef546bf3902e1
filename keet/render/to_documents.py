"""From profiles and findings to the JSON documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from keet.analysis.coverage import Coverage, profile_notes
from keet.catalog import MetricSpec
from keet.profile import Device, Launch, Metric, Profile, Value
from keet.render.documents import (
    DeviceDocument,
    GapDocument,
    MetricDocument,
    MetricsDocument,
    MetricsLaunch,
    NonFinite,
    PointDocument,
    QuantityDocument,
    ReportDocument,
    RunDocument,
    ShowDocument,
    ShowLaunch,
)
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


_NOTHING: dict[str, Any] = {}


def report_document(profile: Profile) -> ReportDocument:
    provenance = profile.provenance._asdict()
    provenance["notes"] = profile_notes(profile)
    return ReportDocument(**provenance, launch_count=len(profile.launches))


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


def show_document(
    profile: Profile,
    coverage: Coverage,
    launches: Iterable[Launch],
    run: RunDocument | None = None,
) -> ShowDocument:
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
        **({"run": run} if run else _NOTHING),
    )


def _show_launch(profile: Profile, launch: Launch) -> ShowLaunch:
    values = {metric_id: launch.reported(metric_id) for metric_id in SHOWN_VALUES}
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
        **_in_run(profile, launch),
    )


def _in_run(profile: Profile, launch: Launch) -> dict[str, Any]:
    positions = profile.in_run
    if positions is None or not positions.table.busy_ns:
        return _NOTHING
    position = positions.of(launch.id)
    return {
        "run_share_pct": 100 * position.busy_ns / positions.table.busy_ns if position else None,
        "run_launches": position.launches if position else None,
    }


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
