"""The run of the whole program: which kernels take its GPU time, which were profiled, what part of
it a profiled launch represents, and how its replay differs from that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import Ledger
from keet.analysis.parameters import MAJORITY, SAVED_PART
from keet.analysis.replay_gap import REPLAY_DIFFERS, ReplayGap, replay_gap
from keet.analysis.replay_gap_reasons import HARDLY_SHARED, REASON_NAMES, ReplayReasons
from keet.documents.document import live
from keet.documents.explain import InRunDocument, ReplayDocument
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
    whole_time,
)
from keet.profile import KernelRun, Launch, Position, Profile, RunPositions, RunTable, Workload
from keet.profile.run_table import RECORDER_NAMES, KnownBy
from keet.units import Quantity

_WHOSE: Mapping[KnownBy, str] = {
    "launch": "{plain}",
    "shape": "launches like it took {plain}",
    "kernel": "launches of this kernel{shapes} took about {plain} each",
}


_NOT_TOLD_APART = " (the table does not tell the launches of this kernel apart)"


class LaunchInRun(InRunDocument):
    """The launches of the run that one profiled launch represents."""

    warning: Sentence | None
    text: Sentence = live()
    plain: Evidence | None = live()
    """`plain_duration`, in nanoseconds."""


class ReplayDiffers(ReplayDocument):
    """The replay of a launch took much longer or shorter than the launch in the run."""

    text: Sentence
    measured: Sentence = live()
    """Both times."""
    as_for: int | None = live(default=None)
    """Number of an earlier launch with the same reasons, which are printed only once."""


class RunShapes:
    """Launch shapes in the run table."""

    def __init__(self, profile: Profile, positions: RunPositions) -> None:
        self.table = positions.table
        self._names = {n: name for name, ids in positions.profiled.items() for n in ids}
        self._repeated = Counter(map(self._key, profile.launches))
        self._rows: dict[tuple[object, ...], KernelRun] = {
            (k.name, k.grid, k.block): k for k in self.table.kernels
        }
        self._shapeless = {k.name for k in self.table.kernels if not k.grid}

    def _key(self, launch: Launch) -> tuple[object, ...]:
        return self._names.get(launch.id), launch.grid, launch.block

    def row(self, launch: Launch) -> KernelRun | None:
        """The row of its kernel and shape; None: there is none, or several profiled launches share
        it."""
        key = self._key(launch)
        return None if self._repeated[key] > 1 else self._rows.get(key)

    def lacks(self, launch: Launch) -> bool:
        """Whether the table has shapes, but not the one of this launch."""
        name = self._names.get(launch.id)
        told = name is not None and name not in self._shapeless
        return told and self._key(launch) not in self._rows


def in_run_of(view: LaunchView, position: Position, shapes: RunShapes) -> LaunchInRun:
    book, table = view.ledger, shapes.table
    what = time_of(overlap_known=table.overlap_known)
    launches = book.derived(
        "run_launches", position.launches, "launches of the run that this launch represents"
    )
    busy = time(book, "run_busy_time", position.busy_ns, f"{what} of these launches")
    whole = time(book, "run_whole_time", table.busy_ns, f"{what} of the run")
    of_whole = share(book, "run_share", busy, whole, f"share of {whole_time(table)}")
    plain = maybe_time(book, "run_duration", position.plain_ns, "duration in the run")
    count, shape_text, of_shape = _own_shape(view, position, shapes, whole)
    alike, warning, of_others = _alike(view, position, launches, busy, plain)
    about, why = ("about ", _NOT_TOLD_APART) if position.assumed else ("", "")
    is_short = is_shorter(view.launch, position, plain)
    text = Sentence(
        "{shorter}represents {about}{launches}, {about}{share:share} of {whole}{why}{shape}",
        # ncu reports a longer duration of short launches, which `replay_gap` accepts: without the
        # one in the run, the printed times would seem to contradict each other.
        shorter=Sentence("{plain} in the run; ", plain=plain) if plain and is_short else "",
        about=about,
        launches=launches_text(launches),
        share=of_whole,
        whole=whole_time(table),
        why=why,
        shape=shape_text,
    )
    cited = (launches, of_whole, busy, plain, count, alike, whole, *of_shape, *of_others)
    return LaunchInRun(
        launches=float(launches.value),
        share_pct=float(of_whole.value),
        busy=microseconds(busy),
        plain_duration=microseconds(plain) if plain else None,
        known_by=position.known_by,
        launches_of_shape=int(count.value) if count else None,
        alike_pct=float(alike.value) if alike else None,
        warning=warning,
        evidence=tuple(piece for piece in cited if piece is not None),
        text=text,
        plain=plain,
    )


def is_shorter(launch: Launch, position: Position, plain: Evidence | None) -> bool:
    """Whether the launch took less time in the run than under ncu only because it is short."""
    known = position.known_by in ("launch", "shape")
    short = known and plain is not None and launch.rank_time > REPLAY_DIFFERS * plain.value
    return short and not replay_gap(launch, position)


def _own_shape(
    view: LaunchView, position: Position, shapes: RunShapes, whole: Evidence
) -> tuple[Evidence | None, Sentence, tuple[Evidence, ...]]:
    """How much of the time is in launches of its own shape, if it represents other shapes too:
    their number, a text, and other numbers in it."""
    if shapes.lacks(view.launch):
        return None, Sentence(" (none of its shape)"), ()
    row = shapes.row(view.launch) if position.shapes > 1 else None
    if row is None:
        return None, Sentence(), ()
    book = view.ledger
    count = book.derived("run_launches_of_shape", row.launches, "launches of this shape in the run")
    own = time(book, "run_shape_time", row.busy_ns, "time of the launches of this shape")
    of_shape = share(book, "run_shape_share", own, whole, "share of the launches of this shape")
    text = Sentence(
        " ({launches} of its own shape {take} {share:share})",
        launches=launches_text(count),
        take="takes" if count.value == 1 else "take",
        share=of_shape,
    )
    return count, text, (own, of_shape)


def _alike(
    view: LaunchView, position: Position, launches: Evidence, busy: Evidence, plain: Evidence | None
) -> tuple[Evidence | None, Sentence | None, tuple[Evidence | None, ...]]:
    """The share of launches that took about as long, a warning if most did not, and other numbers
    in it."""
    if position.alike is None or position.alike_ns is None or plain is None:
        return None, None, ()
    book = view.ledger
    near = time(book, "run_alike_time", position.alike_ns, "time of launches about as long")
    alike = share(book, "run_alike_share", near, busy, "share of launches about as long")
    if position.alike >= MAJORITY:
        return alike, None, (near,)
    shortest = maybe_time(book, "run_shortest", position.shortest_ns, "shortest launch")
    longest = maybe_time(book, "run_longest", position.longest_ns, "longest launch")
    mean_ns = position.total_ns / position.launches
    mean = time(book, "run_mean", mean_ns, "average duration in the run")
    spread = Sentence()
    if shortest and longest:
        spread = Sentence("{shortest} to {longest}, ", shortest=shortest, longest=longest)
    warning = Sentence(
        "This launch took {plain} in the run. Launches between half and twice as long make up "
        "{alike:share} of the time that it represents: the {launches} took {spread}{mean} on "
        "average. What follows may not hold for the others.",
        plain=plain,
        alike=alike,
        launches=launches_text(launches),
        spread=spread,
        mean=mean,
    )
    return alike, warning, (near, shortest, longest, mean)


def launch_evidence(profile: Profile, positions: RunPositions) -> Iterator[tuple[int, Evidence]]:
    """Evidence about the run, with the number of its launch."""
    shapes = RunShapes(profile, positions)
    for launch in profile.launches:
        if position := positions.of(launch.id):
            view = LaunchView(launch)
            yield from ((launch.id, piece) for piece in in_run_of(view, position, shapes).evidence)
            if gap := replay_gap(launch, position):
                yield launch.id, _factor(view, gap)


def replay_difference(
    view: LaunchView,
    gap: ReplayGap,
    position: Position,
    in_run: LaunchInRun,
    known: tuple[ReplayReasons, RunShapes],
) -> ReplayDiffers | None:
    replay, plain = view.get("duration"), in_run.plain
    if replay is None or plain is None:
        return None
    reasons, shapes = known
    factor = _factor(view, gap, replay, plain)
    measured = Sentence(
        "Under ncu's replay this launch took {replay}; {where}, {whose} ({factor:times} as long"
        "{under})",
        replay=replay,
        where=PLAIN[shapes.table.recorder],
        whose=Sentence(
            _WHOSE[position.known_by or "kernel"],
            plain=plain,
            shapes=", none of this shape," if shapes.lacks(view.launch) else "",
        ),
        factor=factor,
        under="" if gap.run_is_longer else " under replay",
    )
    return ReplayDiffers(
        ratio=gap.ratio,
        replay_duration=microseconds(replay),
        plain_duration=microseconds(plain),
        text=Sentence("{both}: what follows explains the replay, not the run.", both=measured),
        reasons=reasons.of(view, gap, position),
        evidence=(replay, plain, factor),
        measured=measured,
    )


def _factor(view: LaunchView, gap: ReplayGap, *times: Evidence) -> Evidence:
    label = "longer time over shorter time"
    return view.ledger.derived("replay_factor", Quantity(gap.factor, "x"), label, *times)


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
    launches = book.derived("run_launches", table.launch_count, "launches of the run")
    total = time(book, "run_total_time", table.total_ns, "sum of the durations of all launches")
    span = maybe_time(book, "run_span", table.span_ns, "time from the first kernel to the last")
    profiled_ns = max(0.0, table.busy_ns - positions.unprofiled_ns)
    of_report = time(book, "run_covered_time", profiled_ns, f"{what} that the report represents")
    covered = share(book, "run_covered", of_report, busy, "share that the report represents")
    held = dict.fromkeys(launch.workload for launch in profile.launches)
    ranges = " and ".join(_SEVERAL[each] for each in held if each in _SEVERAL)
    rows = tuple(_rows(positions, book, busy, in_range=bool(ranges)))
    kernels = len(rows)
    known = "The run: {launches} of {count} kernel{s} took {busy} of GPU time ({how})."
    summed = "The run: {launches} of {count} kernel{s}; their durations add up to {busy} ({how})."
    said = (
        Sentence(
            known if table.overlap_known else summed,
            launches=launches_text(launches),
            count=book.derived("run_kernels", kernels, "kernels of the run"),
            s="" if kernels == 1 else "s",
            busy=busy,
            how=RECORDER_NAMES[table.recorder],
        ),
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
        launches = book.derived(f"{key}_launches", count, f"launches of {short}")
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
    launches = run.book.derived(f"{key}_launches", count, "their launches")
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
    idle = book.share("run_idle", 1 - busy.value / span.value, "time without a kernel", busy, span)
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
    named = [_gap(gaps, book, table) for gaps in list(by_kernel.values())[:_NAMED_GAPS]]
    if len(by_kernel) <= _NAMED_GAPS:
        return tuple(named), ()
    more = book.derived("run_more_gaps", len(by_kernel) - _NAMED_GAPS, "kernels")
    text = "The replay of {more} more kernels differs as much from the run."
    return tuple(named), (Sentence(text, more=more),)


def _gap(
    differing: Sequence[tuple[Launch, ReplayDiffers]], book: Ledger, table: RunTable
) -> Sentence:
    launch, gap = differing[0]
    key, (replay, plain, _) = f"launch_{launch.id}", gap.evidence
    likely = " and ".join(REASON_NAMES[reason.id] for reason in gap.likely_reasons)
    others = ", ".join(f"#{each.id}" for each, _ in differing[1 : 1 + _NAMED_LAUNCHES])
    others += ", …" if len(differing) > 1 + _NAMED_LAUNCHES else ""
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
