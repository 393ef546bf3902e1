"""The launches of the run that a profiled launch represents, and how its replay differs from
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY
from keet.analysis.replay_gap.gap import REPLAY_DIFFERS, ReplayGap, replay_gap
from keet.analysis.replay_gap.reasons import ReplayReason, ReplayReasons
from keet.evidence import Evidence
from keet.explanation.run_texts import (
    PLAIN,
    launches_text,
    maybe_time,
    share,
    time,
    time_of,
    time_share_text,
    whole_time,
)
from keet.formatting import times_text
from keet.profile import KernelRun, Launch, Position, Profile, RunPositions
from keet.profile.run_table import KnownBy
from keet.units import Quantity

if TYPE_CHECKING:
    pass

_WHOSE: Mapping[KnownBy, str] = {
    "launch": "{plain}",
    "shape": "launches like it took {plain}",
    "kernel": "launches of this kernel{shapes} took about {plain} each",
}


_NOT_TOLD_APART = " (the table does not tell the launches of this kernel apart)"


class LaunchInRun(NamedTuple):
    """The launches of the run that one profiled launch represents."""

    launches: Evidence
    share: Evidence
    busy: Evidence
    plain: Evidence | None
    """Duration of the launch in the run; None: the table has none."""
    known_by: KnownBy | None
    text: str
    of_shape: Evidence | None = None
    """Launches of its own shape among them; None: all, or not known."""
    alike: Evidence | None = None
    """Per cent of `busy` in launches that took half to twice as long; None: not known."""
    unlike: str | None = None
    """Set where most of that time is in launches that took much longer or shorter."""
    others: tuple[Evidence, ...] = ()
    """Other numbers in the texts."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        found = (self.launches, self.share, self.busy, self.plain, self.of_shape, self.alike)
        return (*(piece for piece in found if piece is not None), *self.others)


class ReplayDiffers(NamedTuple):
    """The replay of a launch took much longer or shorter than the launch in the run."""

    replay: Evidence
    plain: Evidence
    factor: Evidence
    """The longer time over the shorter one."""
    ratio: float
    """Time in the run over time under replay."""
    measured: str
    """A sentence with both times."""
    reasons: tuple[ReplayReason, ...]
    as_for: int | None = None
    """Number of an earlier launch with the same reasons, which are printed only once."""

    @property
    def text(self) -> str:
        return f"{self.measured}: what follows explains the replay, not the run."

    @property
    def open_reasons(self) -> tuple[ReplayReason, ...]:
        """Those that are not ruled out, likely ones first."""
        return tuple(reason for reason in self.reasons if reason.status != "ruled_out")

    @property
    def likely_reasons(self) -> tuple[ReplayReason, ...]:
        return tuple(reason for reason in self.reasons if reason.status == "likely")


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
    launches = book.derived(
        "run_launches",
        Quantity(position.launches, ""),
        "launches of the run that this launch represents",
    )
    busy = time(book, "run_busy_time", position.busy_ns, f"{time_of(table)} of these launches")
    whole = time(book, "run_whole_time", table.busy_ns, f"{time_of(table)} of the run")
    of_whole = share(book, "run_share", busy, whole, f"share of {whole_time(table)}")
    plain = maybe_time(book, "run_duration", position.plain_ns, "duration in the run")
    about, why = ("about ", _NOT_TOLD_APART) if position.assumed else ("", "")
    text = (
        f"{_shorter(view.launch, position, plain)}represents {about}{launches_text(launches)}, "
        f"{about}{time_share_text(of_whole)} of {whole_time(table)}{why}"
    )
    found = LaunchInRun(launches, of_whole, busy, plain, position.known_by, text, others=(whole,))
    return _with_alike(_with_shape(found, view, position, shapes), view, position)


def _shorter(launch: Launch, position: Position, plain: Evidence | None) -> str:
    """The duration in the run, for short launches: ncu reports a longer one, which `replay_gap`
    accepts. Without this text, the printed times would seem to contradict each other."""
    return f"{plain} in the run; " if is_shorter(launch, position, plain) else ""


def is_shorter(launch: Launch, position: Position, plain: Evidence | None) -> bool:
    """Whether the launch took less time in the run than under ncu only because it is short."""
    known = position.known_by in ("launch", "shape")
    short = known and plain is not None and launch.rank_time > REPLAY_DIFFERS * plain.value
    return short and not replay_gap(launch, position)


def _with_shape(
    found: LaunchInRun, view: LaunchView, position: Position, shapes: RunShapes
) -> LaunchInRun:
    """Adds how much of the time is in launches of its own shape, if it represents other shapes
    too."""
    if shapes.lacks(view.launch):
        return found._replace(text=f"{found.text} (none of its shape)")
    row = shapes.row(view.launch) if position.shapes > 1 else None
    if row is None:
        return found
    book, (whole,) = view.ledger, found.others
    count = book.derived(
        "run_launches_of_shape", Quantity(row.launches, ""), "launches of this shape in the run"
    )
    own = time(book, "run_shape_time", row.busy_ns, "time of the launches of this shape")
    of_shape = share(book, "run_shape_share", own, whole, "share of the launches of this shape")
    verb = "takes" if count.value == 1 else "take"
    text = (
        f"{found.text} ({launches_text(count)} of its own shape {verb} {time_share_text(of_shape)})"
    )
    return found._replace(text=text, of_shape=count, others=(*found.others, own, of_shape))


def _with_alike(found: LaunchInRun, view: LaunchView, position: Position) -> LaunchInRun:
    if position.alike is None or position.alike_ns is None or found.plain is None:
        return found
    book = view.ledger
    near = time(book, "run_alike_time", position.alike_ns, "time of launches about as long")
    alike = share(book, "run_alike_share", near, found.busy, "share of launches about as long")
    found = found._replace(alike=alike, others=(*found.others, near))
    return found if position.alike >= MAJORITY else _with_warning(found, alike, view, position)


def _with_warning(
    found: LaunchInRun, alike: Evidence, view: LaunchView, position: Position
) -> LaunchInRun:
    book = view.ledger
    shortest = maybe_time(book, "run_shortest", position.shortest_ns, "shortest launch")
    longest = maybe_time(book, "run_longest", position.longest_ns, "longest launch")
    mean = time(
        book, "run_mean", position.total_ns / position.launches, "average duration in the run"
    )
    spread = f"{shortest} to {longest}, " if shortest and longest else ""
    text = (
        f"This launch took {found.plain} in the run. Launches between half and twice as long make "
        f"up {time_share_text(alike)} of the time that it represents: the "
        f"{launches_text(found.launches)} took {spread}{mean} on average. What follows may not "
        "hold for the others."
    )
    cited = tuple(piece for piece in (shortest, longest, mean) if piece is not None)
    return found._replace(unlike=text, others=(*found.others, *cited))


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
    told = reasons.of(view, gap, position)
    others = ", none of this shape," if shapes.lacks(view.launch) else ""
    whose = _WHOSE[position.known_by or "kernel"].format(plain=plain, shapes=others)
    longer = "" if gap.run_is_longer else " under replay"
    text = (
        f"Under ncu's replay this launch took {replay}; {PLAIN[shapes.table.recorder]}, {whose} "
        f"({times_text(factor.value)} as long{longer})"
    )
    return ReplayDiffers(replay, plain, factor, gap.ratio, text, told)


def _factor(view: LaunchView, gap: ReplayGap, *times: Evidence) -> Evidence:
    label = "longer time over shorter time"
    return view.ledger.derived("replay_factor", Quantity(gap.factor, "x"), label, *times)
