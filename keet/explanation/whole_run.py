"""The run of the whole program: which kernels take its GPU time, and which were profiled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from keet.analysis.ledger import Ledger
from keet.analysis.limits import MAJORITY, SAVED_PART
from keet.analysis.replay_gap_reasons import HARDLY_SHARED, REASON_NAMES
from keet.documents.document import live
from keet.documents.shared_types import RunDocument, RunKernelDocument
from keet.evidence import Evidence, Sentence
from keet.explanation.run_texts import (
    PLAIN,
    launches_text,
    maybe_time,
    microseconds,
    share,
    time,
    time_of,
)
from keet.profile import KernelRun, Launch, Profile, RunPositions, RunTable, Workload
from keet.profile.run_table import RECORDER_NAMES
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.explanation.launch_in_run import ReplayDiffers

_NAMED_GAPS = 3
_NAMED_LAUNCHES = 3
_SEVERAL: Mapping[Workload, str] = {
    Workload.RANGE: "ranges",
    Workload.CMDLIST: "command lists",
    Workload.GRAPH: "graphs",
}
"""Workloads that contain several kernels."""


class KernelRow(RunKernelDocument):
    """One kernel in all its launch shapes, or several kernels together."""

    in_range: bool = live(default=False)
    """The report has ranges of several kernels, and this kernel may be inside one."""
    members: tuple[KernelRow, ...] = live(default=())
    """The kernels, if the row combines several."""


class WholeRun(RunDocument):
    """What the program spent its GPU time on."""

    kernels: tuple[KernelRow, ...]
    text: tuple[Sentence, ...]
    book: Ledger = live()
    busy_time: Evidence = live()
    """`busy`, in nanoseconds."""
    warnings: tuple[Sentence, ...] = live()
    """Those of `text` that name a launch whose replay differs from the run."""


def whole_run(
    profile: Profile,
    replays: Iterable[tuple[Launch, ReplayDiffers]] = (),
    book: Ledger | None = None,
) -> WholeRun | None:
    """None if the run is not known, or its table has no time. `replays`: launches whose replay took
    much longer or shorter than the launch in the run."""
    positions, book = profile.in_run, book or Ledger()
    if positions is None or not positions.table.busy_ns:
        return None
    table, what = positions.table, time_of(overlap_known=positions.table.overlap_known)
    busy = time(book, "run_busy_time", table.busy_ns, f"{what} of the run")
    launches = book.derived("run_launches", Quantity(table.launch_count, ""), "launches of the run")
    total = time(book, "run_total_time", table.total_ns, "sum of the durations of all launches")
    span = maybe_time(book, "run_span", table.span_ns, "time from the first kernel to the last")
    profiled_ns = max(0.0, table.busy_ns - positions.unprofiled_ns)
    of_report = time(book, "run_covered_time", profiled_ns, f"{what} that the report represents")
    covered = share(book, "run_covered", of_report, busy, "share that the report represents")
    held = dict.fromkeys(launch.workload for launch in profile.launches)
    ranges = " and ".join(_SEVERAL[each] for each in held if each in _SEVERAL)
    rows = tuple(_rows(positions, book, busy, in_range=bool(ranges)))
    said = (
        _first_sentence(table, launches, len(rows), busy, book),
        *_concurrent(total, busy),
        *_idle(table, busy, span, book),
        *_coverage(rows, covered, ranges),
    )
    warnings, more = _gaps(replays, book, table)
    return WholeRun(
        recorder=table.recorder,
        recorded=RECORDER_NAMES[table.recorder],
        created=table.created,
        path=table.path,
        launches=table.launch_count,
        busy=microseconds(busy),
        total=microseconds(total),
        span=microseconds(span) if span else None,
        wall_seconds=table.wall_s,
        overlap_known=table.overlap_known,
        gpus=table.gpus,
        covered_pct=None if ranges else float(covered.value),
        kernels=rows,
        managed_bytes=table.managed_bytes,
        migrations=table.migrations,
        skipped=table.skipped,
        notes=table.notes,
        text=(*said, *warnings, *more),
        evidence={piece.id: piece for piece in book},
        book=book,
        busy_time=busy,
        warnings=warnings,
    )


# --- kernels


def _rows(
    positions: RunPositions, book: Ledger, whole: Evidence, *, in_range: bool
) -> Iterator[KernelRow]:
    by_name: dict[str, list[KernelRun]] = defaultdict(list)
    for kernel in positions.table.kernels:
        by_name[kernel.name].append(kernel)
    ranked = sorted(by_name.values(), key=lambda shapes: -sum(k.busy_ns for k in shapes))
    what = time_of(overlap_known=positions.table.overlap_known)
    for rank, shapes in enumerate(ranked, 1):
        one, key, short = shapes[0], f"run_kernel_{rank}", shapes[0].short
        busy = time(book, f"{key}_busy_time", sum(k.busy_ns for k in shapes), f"{what} of {short}")
        part = share(book, f"{key}_share", busy, whole, f"share of {short}")
        count = sum(k.launches for k in shapes)
        launches = book.derived(f"{key}_launches", Quantity(count, ""), f"launches of {short}")
        ends = _extremes(shapes)
        shortest = maybe_time(book, f"{key}_shortest", ends[0], f"shortest launch of {short}")
        longest = maybe_time(book, f"{key}_longest", ends[1], f"longest launch of {short}")
        profiled = positions.profiled.get(one.name, ())
        yield KernelRow(
            kernel=short,
            kernel_full=one.full or short,
            share_pct=float(part.value),
            launches=count,
            busy=microseconds(busy),
            shortest=microseconds(shortest) if shortest else None,
            longest=microseconds(longest) if longest else None,
            profiled=profiled,
            evidence=(part, launches, busy, *(end for end in (shortest, longest) if end)),
            in_range=in_range and not profiled,
        )


def _extremes(shapes: Sequence[KernelRun]) -> tuple[float | None, float | None]:
    shortest = [kernel.shortest_ns for kernel in shapes if kernel.shortest_ns is not None]
    longest = [kernel.longest_ns for kernel in shapes if kernel.longest_ns is not None]
    known = len(shortest) == len(longest) == len(shapes)
    return (min(shortest), max(longest)) if known else (None, None)


def combined_row(run: WholeRun, rows: Sequence[KernelRow]) -> KernelRow:
    """Several kernels in one row."""
    key, name = f"run_other_{len(rows)}", f"{len(rows)} other kernels"
    label = f"their {time_of(overlap_known=run.overlap_known)}"
    ns = sum(float(row.busy.to("ns").value) for row in rows)
    busy = time(run.book, f"{key}_busy_time", ns, label)
    part = share(run.book, f"{key}_share", busy, run.busy_time, "their share")
    count = sum(row.launches for row in rows)
    launches = run.book.derived(f"{key}_launches", Quantity(count, ""), "their launches")
    return KernelRow(
        kernel=name,
        kernel_full=name,
        share_pct=float(part.value),
        launches=count,
        busy=microseconds(busy),
        shortest=None,
        longest=None,
        profiled=tuple(launch for row in rows for launch in row.profiled),
        evidence=(part, launches, busy),
        in_range=any(row.in_range for row in rows),
        members=tuple(rows),
    )


# --- sentences


def _first_sentence(
    table: RunTable, launches: Evidence, kernels: int, busy: Evidence, book: Ledger
) -> Sentence:
    known = "The run: {launches} of {count} kernel{s} took {busy} of GPU time ({how})."
    summed = "The run: {launches} of {count} kernel{s}; their durations add up to {busy} ({how})."
    return Sentence(
        known if table.overlap_known else summed,
        launches=launches_text(launches),
        count=book.derived("run_kernels", Quantity(kernels, ""), "kernels of the run"),
        s="" if kernels == 1 else "s",
        busy=busy,
        how=RECORDER_NAMES[table.recorder],
    )


def _concurrent(total: Evidence, busy: Evidence) -> Iterator[Sentence]:
    if total.value > HARDLY_SHARED * busy.value:
        text = "Kernels ran concurrently: their durations add up to {total}."
        yield Sentence(text, total=total)


def _idle(
    table: RunTable, busy: Evidence, span: Evidence | None, book: Ledger
) -> Iterator[Sentence]:
    """Only for one GPU: the busy time of several GPUs does not show idle time."""
    known = table.gpus == 1 and table.overlap_known
    if not known or not span or not span.value or busy.value >= span.value:
        return
    part = Quantity(100 * (1 - busy.value / span.value), "%")
    idle = book.derived("run_idle", part, "time without a kernel", busy, span)
    if idle.value >= 100 * SAVED_PART:
        yield Sentence(
            "From its first kernel to its last, the run took {span}; the GPU ran no kernel for "
            "{idle:share} of that time.",
            span=span,
            idle=idle,
        )


def _coverage(rows: Sequence[KernelRow], covered: Evidence, ranges: str) -> Iterator[Sentence]:
    """`ranges`: workloads of the report that contain several kernels. The table does not say
    which."""
    if ranges:
        yield Sentence(
            "The report holds {ranges} of several kernels. The table lists kernels one by one; "
            "which of them are inside is not recorded.",
            ranges=ranges,
        )
    elif not any(row.profiled for row in rows):
        yield Sentence("No launch of this report is in that table: it may be of another program.")
    elif round(covered.value) < 100 * MAJORITY:
        yield Sentence(
            "The launches of this report represent {covered:share} of that time: most of the run "
            "was not profiled.",
            covered=covered,
        )


def _gaps(
    replays: Iterable[tuple[Launch, ReplayDiffers]], book: Ledger, table: RunTable
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """One sentence per kernel whose replay differs from the run, with the likely reason; and how
    many more there are."""
    by_kernel: dict[str, list[tuple[Launch, ReplayDiffers]]] = defaultdict(list)
    for launch, replay in replays:
        by_kernel[launch.kernel].append((launch, replay))
    named = [_gap(found, book, table) for found in list(by_kernel.values())[:_NAMED_GAPS]]
    if len(by_kernel) <= _NAMED_GAPS:
        return tuple(named), ()
    more = book.derived("run_more_gaps", Quantity(len(by_kernel) - _NAMED_GAPS, ""), "kernels")
    text = "The replay of {more} more kernels differs as much from the run."
    return tuple(named), (Sentence(text, more=more),)


def _gap(found: Sequence[tuple[Launch, ReplayDiffers]], book: Ledger, table: RunTable) -> Sentence:
    launch, gap = found[0]
    key, (replay, plain, _) = f"launch_{launch.id}", gap.evidence
    likely = " and ".join(REASON_NAMES[reason.id] for reason in gap.likely_reasons)
    others = ", ".join(f"#{each.id}" for each, _ in found[1 : 1 + _NAMED_LAUNCHES])
    others += ", …" if len(found) > 1 + _NAMED_LAUNCHES else ""
    return Sentence(
        "{kernel} (#{id}) took {replay} under ncu's replay and {plain} {where}{likely}. What is "
        "said of it below is of the replay{others}.",
        kernel=launch.kernel,
        id=str(launch.id),
        replay=time(book, f"{key}_replay", float(replay.value), "duration under replay"),
        plain=time(book, f"{key}_plain", float(plain.value), "duration in the run"),
        where=PLAIN[table.recorder],
        likely=f": likely {likely}" if likely else "",
        others=f", and so for {others}" if others else "",
    )
