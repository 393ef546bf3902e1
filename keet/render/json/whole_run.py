"""The run of the whole program, and how ncu's replay differs from it, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keet.documents.shared_types import (
    MigrationsDocument,
    RunDocument,
    RunKernelDocument,
    SkippedKernelDocument,
)
from keet.documents.whole_run import InRunDocument, ReplayDocument, ReplayReasonDocument
from keet.profile.run_table import RECORDER_NAMES
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.evidence import Evidence
    from keet.explanation.launch_in_run import LaunchInRun, ReplayDiffers
    from keet.explanation.whole_run import KernelRow, WholeRun


def run_document(run: WholeRun) -> RunDocument:
    table = run.table
    return RunDocument(
        recorder=table.recorder,
        recorded=RECORDER_NAMES[table.recorder],
        created=table.created,
        path=table.path,
        launches=table.launch_count,
        busy=_microseconds(run.busy),
        total=_microseconds(run.total),
        span=_maybe(run.span),
        wall_seconds=table.wall_s,
        overlap_known=table.overlap_known,
        gpus=table.gpus,
        covered_pct=None if run.ranges else float(run.covered.value),
        kernels=[_kernel(row) for row in run.kernels],
        managed_bytes=table.managed_bytes,
        migrations=(MigrationsDocument(**table.migrations._asdict()) if table.migrations else None),
        skipped=[SkippedKernelDocument(**each._asdict()) for each in table.skipped],
        notes=list(table.notes),
        text=[text for text, _ in run.sentences],
        evidence={piece.id: piece for piece in run.book},
    )


def _kernel(row: KernelRow) -> RunKernelDocument:
    return RunKernelDocument(
        kernel=row.kernel,
        kernel_full=row.full or row.kernel,
        share_pct=float(row.share.value),
        launches=int(row.launches.value),
        busy=_microseconds(row.busy),
        shortest=_maybe(row.shortest),
        longest=_maybe(row.longest),
        profiled=list(row.profiled),
        evidence=[piece.id for piece in row.evidence],
    )


def in_run_document(found: LaunchInRun) -> InRunDocument:
    return InRunDocument(
        launches=float(found.launches.value),
        share_pct=float(found.share.value),
        busy=_microseconds(found.busy),
        plain_duration=_maybe(found.plain),
        known_by=found.known_by,
        launches_of_shape=int(found.of_shape.value) if found.of_shape else None,
        alike_pct=float(found.alike.value) if found.alike else None,
        warning=found.unlike,
        evidence=[piece.id for piece in found.evidence],
    )


def replay_document(replay: ReplayDiffers) -> ReplayDocument:
    return ReplayDocument(
        ratio=replay.ratio,
        replay_duration=_microseconds(replay.replay),
        plain_duration=_microseconds(replay.plain),
        text=replay.text,
        reasons=[
            ReplayReasonDocument(**{**r._asdict(), "evidence": [piece.id for piece in r.evidence]})
            for r in replay.reasons
        ],
        evidence=[replay.replay.id, replay.plain.id, replay.factor.id],
    )


def _microseconds(time: Evidence) -> Quantity:
    return Quantity(time.value, time.unit).to("us")


def _maybe(time: Evidence | None) -> Quantity | None:
    return None if time is None else _microseconds(time)
