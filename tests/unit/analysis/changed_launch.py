"""Real launches with other numbers: for tests of what the analyst makes of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from keet.ingest import read_profile
from keet.profile import Instances, Launch, Profile, RawMetric
from keet.profile.launch import LaunchData
from keet.profile.metric import Value

Change = Callable[[str, Value], Value]
"""From a metric's name and value to another value; None: the report does not have it."""


class ChangedData:
    """A launch's data, with a change of every number, those of single instructions included."""

    def __init__(self, data: LaunchData, change: Change) -> None:
        self._data, self._change = data, change

    def __getattr__(self, name: str) -> object:
        return getattr(self._data, name)

    def metric(self, name: str) -> RawMetric | None:
        found = self._data.metric(name)
        if found is None or not isinstance(found.value, int | float):
            return found
        value = self._change(name, found.value)
        return None if value is None else found._replace(value=value)

    def instances(self, name: str) -> Instances | None:
        found = self._data.instances(name)
        if found is None:
            return None
        values = tuple(
            self._change(name, value) if isinstance(value, int | float) else value
            for value in found.values
        )
        return None if None in values else Instances(values, found.ids)


def changed(launch: Launch, change: Change) -> Launch:
    return Launch(
        number=launch.id,
        name=launch.name,
        workload=launch.workload,
        grid=launch.grid,
        block=launch.block,
        data=ChangedData(launch.data, change),  # type: ignore[arg-type]
    )


@cache
def profile_of(path: Path) -> Profile:
    """Read once per process: several test modules look at the same reports."""
    return read_profile(path)
