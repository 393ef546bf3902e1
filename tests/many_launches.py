"""Profiles with many launches, made of a real report's: for tests of what sums them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keet.profile import Launch, Profile
from keet.profile.launch import LaunchData, RawMetric

DURATION = "gpu__time_duration.sum"


class Changed:
    """A launch's data with some metrics multiplied."""

    def __init__(self, data: LaunchData, factors: Mapping[str, float]) -> None:
        self._data, self._factors = data, factors

    def __getattr__(self, name: str) -> object:
        return getattr(self._data, name)

    def metric(self, name: str) -> RawMetric | None:
        found = self._data.metric(name)
        if found is None or not isinstance(found.value, int | float):
            return found
        return found._replace(value=found.value * self._factors.get(name, 1.0))


def copied(launch: Launch, number: int, factors: Mapping[str, float] | None = None) -> Launch:
    """Another launch of the same kernel and shape."""
    return Launch(
        number=number,
        name=launch.name,
        workload=launch.workload,
        grid=launch.grid,
        block=launch.block,
        data=Changed(launch.data, factors or {}),  # type: ignore[arg-type]
    )


def repeated(profile: Profile, times: int) -> Profile:
    """Each launch so many times in turn, each time 0.1 % longer."""
    launches = [
        copied(launch, number * len(profile.launches) + at, {DURATION: 1 + number / 1000})
        for number in range(times)
        for at, launch in enumerate(profile.launches)
    ]
    return replace(profile, launches=tuple(launches), code_loader=None)
