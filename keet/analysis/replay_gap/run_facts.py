"""Facts about the replay of a whole profile, from the report and the run table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from keet.analysis.capture.recapture import keet_program, setting_of
from keet.analysis.limits import LONGEST_START_NS
from keet.analysis.replay_gap.gap import both_times
from keet.profile import KernelRun, Launch, Profile, RunPositions


class RunFacts:
    """Facts about one profile that has a run table."""

    def __init__(self, profile: Profile, positions: RunPositions) -> None:
        self._profile, self.positions = profile, positions

    def ncu_option(self, name: str) -> str | None:
        """The value of an ncu option; None: ncu's command line is not recorded."""
        setting = setting_of(self._profile, name)
        return setting.value if setting else None

    @property
    def launch_was_chosen(self) -> bool:
        """Whether `keet profile` selected the launch from a plain run."""
        return keet_program(self._profile) is not None and bool(self.positions.table.profiled)

    @cached_property
    def ratios(self) -> Mapping[str, list[float]]:
        """Time in the run over time under replay, per kernel and launch."""
        found: dict[str, list[float]] = {}
        for launch in self._profile.launches:
            times = both_times(launch, self.positions.of(launch.id))
            if times and min(times.plain_ns, times.replay_ns) >= LONGEST_START_NS:
                found.setdefault(launch.name.full, []).append(times.ratio)
        return found

    def rows_of(self, launch: int) -> tuple[KernelRun, ...]:
        """Rows of the run table for the kernel of this launch."""
        own = {name for name, ids in self.positions.profiled.items() if launch in ids}
        return tuple(k for k in self.positions.table.kernels if k.name in own)

    @cached_property
    def beyond_replay(self) -> Mapping[str, float]:
        """Per kernel name: time in the run beyond that of its replay, in nanoseconds. All of its
        time, if it was not profiled or its replay was not measured."""
        launches = {launch.id: launch for launch in self._profile.launches}
        found = dict.fromkeys((kernel.name for kernel in self.positions.table.kernels), 0.0)
        for kernel in self.positions.unprofiled:
            found[kernel.name] += kernel.total_ns
        for name, ids in self.positions.profiled.items():
            found[name] = sum(self._beyond(launches[number]) for number in ids)
        return found

    def _beyond(self, launch: Launch) -> float:
        position = self.positions.of(launch.id)
        if position is None:
            return 0.0
        times = both_times(launch, position)
        replayed = position.launches * times.replay_ns if times else 0.0
        return max(0.0, position.total_ns - replayed)
