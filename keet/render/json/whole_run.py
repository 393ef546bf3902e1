"""The run of the whole program, and how ncu's replay differs from it, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from keet.profile.run_table import RECORDER_NAMES
from keet.render.json.encoding.fields import Document, field
from keet.render.json.shared_types import (
    EvidenceDocument,
    MigrationsDocument,
    QuantityDocument,
    RunDocument,
    RunKernelDocument,
    SkippedKernelDocument,
)
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.evidence import Evidence
    from keet.explanation.launch_in_run import LaunchInRun, ReplayDiffers
    from keet.explanation.whole_run import KernelRow, WholeRun


class InRunDocument(Document):
    """The launches of the run that a launch of the report represents."""

    launches: float = field(
        description="Number of launches in the run; a fraction if several profiled launches share "
        "launches that the table does not distinguish."
    )
    share_pct: float = field(
        description="Per cent of the run's GPU time (of all durations if `run.overlap_known` is "
        "false)."
    )
    busy: QuantityDocument = field(description="GPU time of these launches, in microseconds.")
    plain_duration: QuantityDocument | None = field(
        description="Microseconds that this launch took in the run."
    )
    known_by: Literal["launch", "shape", "kernel"] | None = field(
        description="Which launches of the run `plain_duration` is from. `launch`: the one with "
        "this number, kernel and shape. `shape`: the median (else the average) of "
        "launches with this kernel and shape. `kernel`: the same over all launches of "
        "the kernel."
    )
    launches_of_shape: int | None = field(
        description="Number of launches in the run with the shape of this launch; null if that is "
        "all of `launches`, or if it is not known."
    )
    alike_pct: float | None = field(
        description="Per cent of `busy` in launches that took between half and twice as long as "
        "this one; null if not known."
    )
    warning: str | None = field(
        description="Set if `alike_pct` is below 50: findings may not apply to the other launches."
    )
    evidence: list[str] = field(description="Ids in the launch's `evidence`.")


class ReplayReasonDocument(Document):
    id: Literal["managed_or_host_memory", "cold_caches", "clocks", "concurrency", "not_typical"]
    status: Literal["likely", "possible", "ruled_out"] = field(
        description="`likely`: there is evidence for it. `ruled_out`: there is evidence against it."
    )
    text: str
    how_to_tell: str
    evidence: list[str] = field(description="Ids in the launch's `evidence`.")


class ReplayDocument(Document):
    """The replay of a launch took much longer or shorter than the launch in the run, so the
    findings explain the replay."""

    ratio: float = field(description="Time in the run over time under replay.")
    replay_duration: QuantityDocument = field(description="Microseconds.")
    plain_duration: QuantityDocument = field(description="Microseconds.")
    text: str
    reasons: list[ReplayReasonDocument] = field(
        description="All reasons that keet knows: likely ones first, ruled-out ones last."
    )
    evidence: list[str] = field(description="Ids in the launch's `evidence`.")


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
        evidence={piece.id: evidence_document(piece) for piece in run.book},
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


def _microseconds(time: Evidence) -> QuantityDocument:
    return QuantityDocument(value=Quantity(time.value, time.unit).to("us").value, unit="us")


def _maybe(time: Evidence | None) -> QuantityDocument | None:
    return None if time is None else _microseconds(time)


def evidence_document(piece: Evidence) -> EvidenceDocument:
    fields = {**piece._asdict(), "derived_from": piece.derived_from and list(piece.derived_from)}
    del fields["id"]
    return EvidenceDocument(**fields)
