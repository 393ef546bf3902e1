"""The run of the whole program: which kernels take its GPU time, and which were profiled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.ledger import Ledger
from keet.analysis.limits import MAJORITY, SAVED_PART
from keet.analysis.replay_gap.reasons import HARDLY_SHARED, REASON_NAMES
from keet.evidence import Evidence
from keet.explanation.run_texts import (
    PLAIN,
    launches_text,
    maybe_time,
    share,
    time,
    time_of,
    time_share_text,
)
from keet.profile import KernelRun, Launch, Profile, RunPositions, RunTable, Workload
from keet.profile.run_table import RECORDER_NAMES, SkippedKernel
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


class KernelRow(NamedTuple):
    """One kernel in all its launch shapes, or several kernels together."""

    kernel: str
    full: str | None
    """None: the row combines several kernels."""
    share: Evidence
    """Percentage of the run's GPU time."""
    launches: Evidence
    busy: Evidence
    shortest: Evidence | None
    longest: Evidence | None
    """Of single launches; None if the table does not have all of them."""
    profiled: tuple[int, ...]
    """Launches of the report that represent it."""
    in_range: bool = False
    """The report has ranges of several kernels, and this kernel may be inside one."""
    skipped: SkippedKernel | None = None
    members: tuple[KernelRow, ...] = ()
    """The kernels, if the row combines several."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        found = (self.share, self.launches, self.busy, self.shortest, self.longest)
        return tuple(piece for piece in found if piece is not None)


class RunSentence(NamedTuple):
    """A sentence about the run, and the launch that it is about."""

    text: str
    launch: Launch | None = None


class WholeRun(NamedTuple):
    """What the program spent its GPU time on."""

    table: RunTable
    book: Ledger
    launches: Evidence
    busy: Evidence
    total: Evidence
    span: Evidence | None
    covered: Evidence
    """Percentage of the GPU time that the launches of the report represent."""
    kernels: tuple[KernelRow, ...]
    """The largest share first."""
    sentences: tuple[RunSentence, ...]
    ranges: str | None = None
    """`ranges`: workloads of the report that contain several kernels. The table does not say
    which."""


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
    table, what = positions.table, time_of(positions.table)
    busy = time(book, "run_busy_time", table.busy_ns, f"{what} of the run")
    launches = book.derived("run_launches", Quantity(table.launch_count, ""), "launches of the run")
    total = time(book, "run_total_time", table.total_ns, "sum of the durations of all launches")
    span = maybe_time(book, "run_span", table.span_ns, "time from the first kernel to the last")
    profiled_ns = max(0.0, table.busy_ns - positions.unprofiled_ns)
    of_report = time(book, "run_covered_time", profiled_ns, f"{what} that the report represents")
    covered = share(book, "run_covered", of_report, busy, "share that the report represents")
    ranges = _ranges(profile)
    rows = _rows(positions, book, busy, in_range=ranges is not None)
    run = WholeRun(table, book, launches, busy, total, span, covered, rows, (), ranges)
    sentences = (*map(RunSentence, _sentences(run)), *_gaps(replays, book, table))
    return run._replace(sentences=sentences)


def _ranges(profile: Profile) -> str | None:
    held = dict.fromkeys(launch.workload for launch in profile.launches)
    return " and ".join(_SEVERAL[each] for each in held if each in _SEVERAL) or None


def _rows(
    positions: RunPositions, book: Ledger, whole: Evidence, *, in_range: bool
) -> tuple[KernelRow, ...]:
    by_name: dict[str, list[KernelRun]] = defaultdict(list)
    for kernel in positions.table.kernels:
        by_name[kernel.name].append(kernel)
    ranked = sorted(by_name.values(), key=lambda shapes: -sum(k.busy_ns for k in shapes))
    skipped: dict[str, tuple[int, SkippedKernel]] = {}
    for at, each in enumerate(positions.table.skipped):
        skipped.setdefault(each.kernel, (at, each))
    rows = (
        _row(rank, shapes, positions, book, whole)._replace(skipped=_skipped(shapes[0], skipped))
        for rank, shapes in enumerate(ranked, 1)
    )
    return tuple(row._replace(in_range=in_range and not row.profiled) for row in rows)


def _row(
    rank: int, shapes: Sequence[KernelRun], positions: RunPositions, book: Ledger, whole: Evidence
) -> KernelRow:
    one, table = shapes[0], positions.table
    key, busy_ns = f"run_kernel_{rank}", sum(k.busy_ns for k in shapes)
    busy = time(book, f"{key}_busy_time", busy_ns, f"{time_of(table)} of {one.short}")
    launches = Quantity(sum(k.launches for k in shapes), "")
    shortest, longest = _extremes(shapes)
    return KernelRow(
        one.short,
        one.full,
        share(book, f"{key}_share", busy, whole, f"share of {one.short}"),
        book.derived(f"{key}_launches", launches, f"launches of {one.short}"),
        busy,
        maybe_time(book, f"{key}_shortest", shortest, f"shortest launch of {one.short}"),
        maybe_time(book, f"{key}_longest", longest, f"longest launch of {one.short}"),
        positions.profiled.get(one.name, ()),
    )


def _skipped(
    kernel: KernelRun, skipped: Mapping[str, tuple[int, SkippedKernel]]
) -> SkippedKernel | None:
    """`skipped`: by kernel name, with the position in the table. A name may be short, full or
    mangled."""
    names = (kernel.name, kernel.full, kernel.short)
    found = [skipped[name] for name in names if name in skipped]
    return min(found, key=lambda each: each[0])[1] if found else None


def _extremes(shapes: Sequence[KernelRun]) -> tuple[float | None, float | None]:
    shortest = [kernel.shortest_ns for kernel in shapes if kernel.shortest_ns is not None]
    longest = [kernel.longest_ns for kernel in shapes if kernel.longest_ns is not None]
    known = len(shortest) == len(longest) == len(shapes)
    return (min(shortest), max(longest)) if known else (None, None)


def combined_row(run: WholeRun, rows: Sequence[KernelRow]) -> KernelRow:
    """Several kernels in one row."""
    key = f"run_other_{len(rows)}"
    label = f"their {time_of(run.table)}"
    busy = time(run.book, f"{key}_busy_time", sum(r.busy.value for r in rows), label)
    launches = sum(row.launches.value for row in rows)
    return KernelRow(
        f"{len(rows)} other kernels",
        None,
        share(run.book, f"{key}_share", busy, run.busy, "their share"),
        run.book.derived(f"{key}_launches", Quantity(launches, ""), "their launches"),
        busy,
        None,
        None,
        tuple(launch for row in rows for launch in row.profiled),
        in_range=any(row.in_range for row in rows),
        members=tuple(rows),
    )


def _sentences(run: WholeRun) -> Iterator[str]:
    yield _first_sentence(run)
    if run.total.value > HARDLY_SHARED * run.busy.value:
        yield f"Kernels ran concurrently: their durations add up to {run.total}."
    yield from _idle(run)
    if run.ranges:
        yield (
            f"The report holds {run.ranges} of several kernels. The table lists kernels one by "
            "one; which of them are inside is not recorded."
        )
    elif not any(row.profiled for row in run.kernels):
        yield "No launch of this report is in that table: it may be of another program."
    elif round(run.covered.value) < 100 * MAJORITY:
        yield (
            f"The launches of this report represent {time_share_text(run.covered)} of that time: "
            "most of the run was not profiled."
        )


def _first_sentence(run: WholeRun) -> str:
    count = run.book.derived("run_kernels", Quantity(len(run.kernels), ""), "kernels of the run")
    kernels = f"{count} kernel{'' if count.value == 1 else 's'}"
    what, how = f"{launches_text(run.launches)} of {kernels}", RECORDER_NAMES[run.table.recorder]
    if run.table.overlap_known:
        return f"The run: {what} took {run.busy} of GPU time ({how})."
    return f"The run: {what}; their durations add up to {run.busy} ({how})."


def _idle(run: WholeRun) -> Iterator[str]:
    """Only for one GPU: the busy time of several GPUs does not show idle time."""
    known = run.table.gpus == 1 and run.table.overlap_known
    if not known or not run.span or not run.span.value or run.busy.value >= run.span.value:
        return
    idle = run.book.derived(
        "run_idle",
        Quantity(100 * (1 - run.busy.value / run.span.value), "%"),
        "time without a kernel",
        run.busy,
        run.span,
    )
    if idle.value >= 100 * SAVED_PART:
        yield (
            f"From its first kernel to its last, the run took {run.span}; the GPU ran no kernel "
            f"for {time_share_text(idle)} of that time."
        )


def _gaps(
    replays: Iterable[tuple[Launch, ReplayDiffers]], book: Ledger, table: RunTable
) -> Iterator[RunSentence]:
    """One sentence per kernel whose replay differs from the run, with the likely reason."""
    by_kernel: dict[str, list[tuple[Launch, ReplayDiffers]]] = defaultdict(list)
    for launch, replay in replays:
        by_kernel[launch.kernel].append((launch, replay))
    for found in list(by_kernel.values())[:_NAMED_GAPS]:
        yield _gap(found, book, table)
    if len(by_kernel) > _NAMED_GAPS:
        more = book.derived("run_more_gaps", Quantity(len(by_kernel) - _NAMED_GAPS, ""), "kernels")
        yield RunSentence(f"The replay of {more} more kernels differs as much from the run.")


def _gap(
    found: Sequence[tuple[Launch, ReplayDiffers]], book: Ledger, table: RunTable
) -> RunSentence:
    launch, gap = found[0]
    key = f"launch_{launch.id}"
    replay = time(book, f"{key}_replay", float(gap.replay.value), "duration under replay")
    plain = time(book, f"{key}_plain", float(gap.plain.value), "duration in the run")
    likely = " and ".join(REASON_NAMES[reason.id] for reason in gap.likely_reasons)
    others = ", ".join(f"#{each.id}" for each, _ in found[1 : 1 + _NAMED_LAUNCHES])
    others += ", …" if len(found) > 1 + _NAMED_LAUNCHES else ""
    return RunSentence(
        f"{launch.kernel} (#{launch.id}) took {replay} under ncu's replay and {plain} "
        f"{PLAIN[table.recorder]}{f': likely {likely}' if likely else ''}. What is said of it "
        f"below is of the replay{f', and so for {others}' if others else ''}.",
        launch,
    )
