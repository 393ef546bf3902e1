"""The run of the whole program, and what each profiled launch stands for in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.ledger import Book
from keet.analysis.replay import ReplayGap, replay_gap
from keet.analysis.replay_reasons import Reason, ReplayReasons
from keet.analysis.view import View
from keet.evidence import Evidence
from keet.explanation.grounding import Grounding, check_grounding
from keet.profile import KernelRun, Launch, Position, Profile, RunPositions, RunTable, Workload
from keet.profile.run_table import RECORDER_NAMES, KnownBy, Recorder, SkippedKernel
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.explanation.analyst import LaunchExplanation

_OVERLAP = 1.03
"""Durations over busy time from which kernels overlap, and not only touch."""
_IDLE = 0.05
"""Of the time from the first kernel to the last: a smaller part is not worth a sentence."""
_COVERED = 50.0
"""Per cent of the run's GPU time: a report that stands for less explains a minor part."""
_NAMED_GAPS = 3

_PLAIN: Mapping[Recorder, str] = {
    "cupti": "in the plain run",
    "nsys": "in the run that Nsight Systems recorded",
    "ncu": "when ncu measured its duration alone",
    "file": "in the run",
}
_WHOSE: Mapping[KnownBy, str] = {
    "launch": "{plain}",
    "shape": "launches like it took {plain}",
    "kernel": "launches of this kernel took about {plain} each",
}


class KernelRow(NamedTuple):
    """One kernel in all its launch shapes, or several kernels together."""

    kernel: str
    full: str | None
    """None: these are several kernels."""
    share: Evidence
    """Per cent of the run's GPU time."""
    launches: Evidence
    busy: Evidence
    shortest: Evidence | None
    longest: Evidence | None
    """Of single launches; None where the table does not have them all."""
    profiled: tuple[int, ...]
    """Launches of the report that stand for it."""
    skipped: SkippedKernel | None = None
    members: tuple[KernelRow, ...] = ()
    """The kernels, where these are several."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        found = (self.share, self.launches, self.busy, self.shortest, self.longest)
        return tuple(piece for piece in found if piece is not None)


class Said(NamedTuple):
    """A sentence about the run, and the launch that it is about."""

    text: str
    launch: Launch | None = None


class WholeRun(NamedTuple):
    """What the program spent its GPU time on."""

    table: RunTable
    book: Book
    launches: Evidence
    busy: Evidence
    total: Evidence
    span: Evidence | None
    covered: Evidence
    """Per cent of the GPU time that the launches of the report stand for."""
    kernels: tuple[KernelRow, ...]
    """The largest share first."""
    said: tuple[Said, ...]

    def checked(self) -> Iterator[Grounding]:
        for text, launch in self.said:
            yield check_grounding(text, self.book, launch=launch)


class InRun(NamedTuple):
    """What one launch stands for."""

    launches: Evidence
    share: Evidence
    busy: Evidence
    plain: Evidence | None
    """What the launch took in the run; None: the table has no time for it."""
    known_by: KnownBy | None
    text: str

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        found = (self.launches, self.share, self.busy, self.plain)
        return tuple(piece for piece in found if piece is not None)


class ReplayDiffers(NamedTuple):
    """The replay of a launch took much longer or shorter than the launch in the run."""

    replay: Evidence
    plain: Evidence
    factor: Evidence
    """How many times as long the longer of both is."""
    ratio: float
    """Time in the run over time under replay."""
    text: str
    reasons: tuple[Reason, ...]

    @property
    def open_reasons(self) -> tuple[Reason, ...]:
        """Those that are not ruled out, likely ones first."""
        return tuple(reason for reason in self.reasons if reason.status != "ruled_out")


def share_text(share: Evidence) -> str:
    """Per cent with the digits that tell a small share from none, and a large one from all."""
    value = share.value
    if 0 < value < 0.05:
        return "<0.1%"
    return f"{share:.1f}" if 0 < value < 9.95 or 99.5 <= value < 99.95 else f"{share:.0f}"


def launches_text(launches: Evidence) -> str:
    """`1 launch`, `400 launches`; a part of one where launches can't be told apart."""
    whole = float(launches.value).is_integer()
    number = f"{launches.value:,.0f}" if whole else f"{launches.value:,.1f}"
    return f"{number} launch{'' if number == '1' else 'es'}"


# --- launches


def with_run(told: Sequence[LaunchExplanation], profile: Profile) -> tuple[LaunchExplanation, ...]:
    """Each launch with what it stands for in the run, and whether its replay differs from it."""
    positions = profile.in_run
    if positions is None or not positions.table.busy_ns:
        return tuple(told)
    reasons = ReplayReasons(profile, positions)
    return tuple(_launch_with_run(each, positions, reasons) for each in told)


def _launch_with_run(
    each: LaunchExplanation, positions: RunPositions, reasons: ReplayReasons
) -> LaunchExplanation:
    position = positions.of(each.launch.id)
    if position is None:
        return each
    found = _in_run(each.view, position, positions.table)
    gap = replay_gap(each.launch, position)
    differs = gap and _differs(each.view, gap, position, found, reasons)
    return each._replace(in_run=found, replay=differs)


def _in_run(view: View, position: Position, table: RunTable) -> InRun:
    book = view.ledger
    launches = book.derived(
        "run_launches",
        Quantity(position.launches, ""),
        "launches of the run that this launch stands for",
    )
    busy = _time(book, "run_busy_time", position.busy_ns, "GPU time of these launches")
    share = book.derived(
        "run_share",
        Quantity(100 * position.busy_ns / table.busy_ns, "%"),
        "share of the run's GPU time",
        busy,
    )
    plain = _maybe(book, "run_duration", position.plain_ns, "duration in the run")
    text = f"stands for {launches_text(launches)}, {share_text(share)} of the run's GPU time"
    return InRun(launches, share, busy, plain, position.known_by, text)


def run_facts(profile: Profile) -> Iterator[tuple[int | None, Evidence]]:
    """Every number of the table that a text may cite, with the launch that it is of."""
    run, positions = whole_run(profile), profile.in_run
    if run is None or positions is None:
        return
    yield from ((None, piece) for piece in run.book)
    for launch in profile.launches:
        if position := positions.of(launch.id):
            view = View(launch)
            found = _in_run(view, position, run.table)
            yield from ((launch.id, piece) for piece in found.evidence)
            if gap := replay_gap(launch, position):
                yield launch.id, _factor(view, gap)


def _time(book: Book, name: str, nanoseconds: float, label: str) -> Evidence:
    return book.derived(name, Quantity(nanoseconds, "ns"), label)


def _maybe(book: Book, name: str, nanoseconds: float | None, label: str) -> Evidence | None:
    return None if nanoseconds is None else _time(book, name, nanoseconds, label)


def _differs(
    view: View, gap: ReplayGap, position: Position, found: InRun, reasons: ReplayReasons
) -> ReplayDiffers | None:
    replay, plain = view.get("duration"), found.plain
    if replay is None or plain is None:
        return None
    factor = _factor(view, gap, replay, plain)
    text = _differs_text(replay, plain, _times(factor), gap, position, reasons.positions.table)
    return ReplayDiffers(replay, plain, factor, gap.ratio, text, reasons.of(view, gap, position))


def _factor(view: View, gap: ReplayGap, *times: Evidence) -> Evidence:
    label = "longer time over shorter time"
    return view.ledger.derived("replay_factor", Quantity(gap.factor, "x"), label, *times)


def _differs_text(  # noqa: PLR0913, PLR0917 - one sentence of six parts
    replay: Evidence,
    plain: Evidence,
    times: str,
    gap: ReplayGap,
    position: Position,
    table: RunTable,
) -> str:
    whose = _WHOSE[position.known_by or "kernel"].format(plain=plain)
    longer = "as long in the run" if gap.run_is_longer else "as long under replay"
    return (
        f"Under ncu's replay this launch took {replay}; {_PLAIN[table.recorder]}, {whose} "
        f"({times} {longer}): what follows explains the replay, not the run."
    )


def _times(factor: Evidence) -> str:
    return f"{factor.value:,.0f}x" if factor.value >= 9.95 else f"{factor.value:.1f}x"


# --- the run


def whole_run(
    profile: Profile, told: Sequence[LaunchExplanation] = (), book: Book | None = None
) -> WholeRun | None:
    """None where the run is not known, or its table has no time. `told`: launches whose replay may
    differ from it."""
    positions, book = profile.in_run, book or Book()
    if positions is None or not positions.table.busy_ns:
        return None
    table = positions.table
    busy = _time(book, "run_busy_time", table.busy_ns, "GPU time of the run")
    launches = book.derived("run_launches", Quantity(table.launch_count, ""), "launches of the run")
    total = _time(book, "run_total_time", table.total_ns, "sum of the durations of all launches")
    span = _maybe(book, "run_span", table.span_ns, "time from the first kernel to the last")
    covered = book.derived(
        "run_covered",
        Quantity(100 * (1 - positions.unprofiled_ns / table.busy_ns), "%"),
        "GPU time that the launches of the report stand for",
        busy,
    )
    run = WholeRun(table, book, launches, busy, total, span, covered, _rows(positions, book), ())
    said = (*map(Said, _sentences(run, profile)), *_gaps(told, book, table))
    return run._replace(said=said)


def _rows(positions: RunPositions, book: Book) -> tuple[KernelRow, ...]:
    by_name: dict[str, list[KernelRun]] = defaultdict(list)
    for kernel in positions.table.kernels:
        by_name[kernel.name].append(kernel)
    ranked = sorted(by_name.items(), key=lambda entry: -sum(k.busy_ns for k in entry[1]))
    return tuple(_row(rank, *entry, positions, book) for rank, entry in enumerate(ranked, 1))


def _row(
    rank: int, name: str, shapes: Sequence[KernelRun], positions: RunPositions, book: Book
) -> KernelRow:
    one, table = shapes[0], positions.table
    key = f"run_kernel_{rank}"
    busy = _time(
        book, f"{key}_busy_time", sum(k.busy_ns for k in shapes), f"GPU time of {one.short}"
    )
    shortest, longest = _extremes(shapes)
    return KernelRow(
        one.short,
        one.full,
        _share(book, f"{key}_share", busy, table, f"share of {one.short}"),
        book.derived(
            f"{key}_launches",
            Quantity(sum(k.launches for k in shapes), ""),
            f"launches of {one.short}",
        ),
        busy,
        _maybe(book, f"{key}_shortest", shortest, f"shortest launch of {one.short}"),
        _maybe(book, f"{key}_longest", longest, f"longest launch of {one.short}"),
        positions.profiled.get(name, ()),
        next((each for each in table.skipped if each.kernel in (name, one.full, one.short)), None),
    )


def _share(book: Book, name: str, busy: Evidence, table: RunTable, label: str) -> Evidence:
    return book.derived(name, Quantity(100 * busy.value / table.busy_ns, "%"), label, busy)


def _extremes(shapes: Sequence[KernelRun]) -> tuple[float | None, float | None]:
    shortest = [kernel.shortest_ns for kernel in shapes if kernel.shortest_ns is not None]
    longest = [kernel.longest_ns for kernel in shapes if kernel.longest_ns is not None]
    known = len(shortest) == len(longest) == len(shapes)
    return (min(shortest), max(longest)) if known else (None, None)


def together(run: WholeRun, rows: Sequence[KernelRow]) -> KernelRow:
    """Several kernels in one row."""
    key = f"run_other_{len(rows)}"
    busy = _time(run.book, f"{key}_busy_time", sum(r.busy.value for r in rows), "their GPU time")
    launches = sum(row.launches.value for row in rows)
    return KernelRow(
        f"{len(rows)} other kernels",
        None,
        _share(run.book, f"{key}_share", busy, run.table, "their share"),
        run.book.derived(f"{key}_launches", Quantity(launches, ""), "their launches"),
        busy,
        None,
        None,
        tuple(launch for row in rows for launch in row.profiled),
        members=tuple(rows),
    )


def _sentences(run: WholeRun, profile: Profile) -> Iterator[str]:
    count = run.book.derived("run_kernels", Quantity(len(run.kernels), ""), "kernels of the run")
    kernels = f"{count} kernel{'' if count.value == 1 else 's'}"
    yield (
        f"The run: {launches_text(run.launches)} of {kernels} took {run.busy} of GPU time "
        f"({RECORDER_NAMES[run.table.recorder]})."
    )
    if run.total.value > _OVERLAP * run.busy.value:
        yield f"Kernels ran concurrently: their durations add up to {run.total}."
    yield from _idle(run)
    if not any(row.profiled for row in run.kernels):
        yield _no_launch(profile)
    elif run.covered.value < _COVERED:
        yield (
            f"The launches of this report stand for {share_text(run.covered)} of that time: most "
            "of the run was not profiled."
        )


def _no_launch(profile: Profile) -> str:
    if any(launch.workload is not Workload.KERNEL for launch in profile.launches):
        return "The report holds ranges of several kernels, which that table lists one by one."
    return "No launch of this report is in that table: it may be of another program."


def _idle(run: WholeRun) -> Iterator[str]:
    """On several GPUs the busy time is of all of them, and says nothing of gaps."""
    if run.span is None or not run.span.value or run.busy.value >= run.span.value:
        return
    idle = run.book.derived(
        "run_idle",
        Quantity(100 * (1 - run.busy.value / run.span.value), "%"),
        "time without a kernel",
        run.busy,
        run.span,
    )
    if idle.value >= 100 * _IDLE:
        yield (
            f"From its first kernel to its last, the run took {run.span}; the GPU ran no kernel "
            f"for {share_text(idle)} of the run."
        )


def _gaps(told: Sequence[LaunchExplanation], book: Book, table: RunTable) -> Iterator[Said]:
    found = [(each.launch, each.replay) for each in told if each.replay]
    for launch, gap in found[:_NAMED_GAPS]:
        key = f"launch_{launch.id}"
        replay = _time(book, f"{key}_replay", float(gap.replay.value), "duration under replay")
        plain = _time(book, f"{key}_plain", float(gap.plain.value), "duration in the run")
        yield Said(
            f"Launch #{launch.id} ({launch.kernel}) took {replay} under ncu's replay and {plain} "
            f"{_PLAIN[table.recorder]}: its explanation is of the replay.",
            launch,
        )
    if len(found) > _NAMED_GAPS:
        more = book.derived("run_more_gaps", Quantity(len(found) - _NAMED_GAPS, ""), "launches")
        yield Said(f"The replay of {more} more launches differs as much from the run.")
