"""`keet show --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from keet.analysis.capture.coverage import Coverage
from keet.documents.document import Streamed
from keet.documents.shared_types import (
    RunDocument,
)
from keet.documents.show import ShowDocument, ShowLaunch
from keet.profile import Launch, Profile
from keet.render.json.report import device_document, report_document

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
"""Catalog ids of the values that `keet show` prints for each launch."""
_NOTHING: dict[str, Any] = {}


def show_document(profile: Profile, coverage: Coverage, launches: Iterable[Launch]) -> ShowDocument:
    return show_stream(profile, coverage, launches).document()


def show_stream(
    profile: Profile,
    coverage: Coverage,
    launches: Iterable[Launch],
    run: RunDocument | None = None,
) -> Streamed[ShowDocument]:
    """The document, one launch after the other."""
    fields = {
        "report": report_document(profile),
        "devices": [device_document(device) for device in profile.devices],
        "launches": (_show_launch(profile, launch) for launch in launches),
        "holds": list(coverage.present),
        "missing": list(coverage.gaps),
        "capture": coverage.command,
        "build": coverage.build_hint,
        "obstacle": coverage.obstacle,
        **({"run": run} if run else _NOTHING),
    }
    return Streamed(ShowDocument, fields.items())


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
        values={key: q for key, q in values.items() if q is not None},
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
