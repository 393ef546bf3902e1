"""The launches of the run that a profiled launch represents, and how its replay differs from
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY
from keet.analysis.replay_gap import REPLAY_DIFFERS, ReplayGap, replay_gap
from keet.analysis.replay_gap_reasons import ReplayReasons
from keet.documents.document import live
from keet.documents.whole_run import InRunDocument, ReplayDocument
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
from keet.profile import KernelRun, Launch, Position, Profile, RunPositions
from keet.profile.run_table import KnownBy
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
        "run_launches",
        Quantity(position.launches, ""),
        "launches of the run that this launch represents",
    )
    busy = time(book, "run_busy_time", position.busy_ns, f"{what} of these launches")
    whole = time(book, "run_whole_time", table.busy_ns, f"{what} of the run")
    of_whole = share(book, "run_share", busy, whole, f"share of {whole_time(table)}")
    plain = maybe_time(book, "run_duration", position.plain_ns, "duration in the run")
    count, shape_text, of_shape = _own_shape(view, position, shapes, whole)
    alike, warning, of_others = _alike(view, position, launches, busy, plain)
    about, why = ("about ", _NOT_TOLD_APART) if position.assumed else ("", "")
    text = Sentence(
        "{shorter}represents {about}{launches}, {about}{share:share} of {whole}{why}{shape}",
        shorter=_shorter(view.launch, position, plain),
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


def _shorter(launch: Launch, position: Position, plain: Evidence | None) -> Sentence:
    """The duration in the run, for short launches: ncu reports a longer one, which `replay_gap`
    accepts. Without this text, the printed times would seem to contradict each other."""
    if plain is None or not is_shorter(launch, position, plain):
        return Sentence()
    return Sentence("{plain} in the run; ", plain=plain)


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
    count = book.derived(
        "run_launches_of_shape", Quantity(row.launches, ""), "launches of this shape in the run"
    )
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
    view: LaunchView,
    position: Position,
    launches: Evidence,
    busy: Evidence,
    plain: Evidence | None,
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
    found: LaunchInRun,
    known: tuple[ReplayReasons, RunShapes],
) -> ReplayDiffers | None:
    replay, plain = view.get("duration"), found.plain
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
