"""A launch's time under ncu's replay compared with its time in the program's own run."""

from __future__ import annotations

from typing import NamedTuple

from keet.analysis.parameters import LEAST_KERNEL_NS, Parameter
from keet.profile import Launch, Position

REPLAY_DIFFERS = Parameter(1.5, "factor by which replay and run differ", "judgement")

_SHORTEST_NS = 1.0
"""No clock of a GPU measures less: a shorter time is damage, and a ratio to it may be infinite."""


class ReplayGap(NamedTuple):
    """A launch whose replay took much longer or shorter than the launch in the run."""

    replay_ns: float
    plain_ns: float
    """Time in the run without a profiler; `Position.known_by` says how well it is known."""

    @property
    def ratio(self) -> float:
        """Time in the run over time under replay."""
        return self.plain_ns / self.replay_ns

    @property
    def run_is_longer(self) -> bool:
        return self.plain_ns > self.replay_ns

    @property
    def factor(self) -> float:
        """The longer time over the shorter one: above `REPLAY_DIFFERS`."""
        return max(self.ratio, 1 / self.ratio)


def replay_gap(launch: Launch, position: Position | None) -> ReplayGap | None:
    """None where both times agree, or one of them is not known."""
    times = both_times(launch, position)
    if times is None or position is None or not _differ(times):
        return None
    if position.known_by == "kernel" and position.profiled_ns:
        # The table has one time for all launches of the kernel: of those that were profiled, a
        # short and a long one both differ from it, but their average need not.
        average = times._replace(replay_ns=position.profiled_ns)
        return times if _differ(average) else None
    return times


def _differ(times: ReplayGap) -> bool:
    enough = times.run_is_longer or times.replay_ns - times.plain_ns > LEAST_KERNEL_NS
    return times.factor > REPLAY_DIFFERS and enough


def both_times(launch: Launch, position: Position | None) -> ReplayGap | None:
    """Both times of a launch, even if they agree; None if one is not known."""
    duration = launch.get("duration")
    plain = position.plain_ns if position else None
    if duration is None or plain is None:
        return None
    times = ReplayGap(float(duration.value), plain)
    return times if min(times) >= _SHORTEST_NS else None
