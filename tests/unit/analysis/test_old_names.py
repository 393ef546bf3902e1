"""Reports of ncu 2019 have issue slots, warp states and samples under other names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from keet.analysis.launch_view import LaunchView
from keet.analysis.source_lines import InstructionTable
from keet.catalog import all_names, stalls
from keet.profile import Instances, Launch, RawMetric
from keet.profile.launch import LaunchData
from tests.unit.analysis.real_launches import launch_of

RENAMED = re.compile(
    r"smsp__average_warps_issue_stalled_\w+_per_issue_active\.ratio"
    r"|smsp__pcsamp_warps_issue_stalled_\w+"
)


def old_name(name: str) -> str | None:
    """The name in ncu 2019; None: the metric did not exist."""
    others = [each for each in all_names(name) if each != name]
    if not RENAMED.fullmatch(name):
        return name
    return others[-1] if others else None


class OldData:
    """An edited snapshot: warp states and samples of one of our reports under their old names."""

    def __init__(self, data: LaunchData, names: Mapping[str, str]) -> None:
        self._data, self._names = data, names

    def __getattr__(self, name: str) -> object:
        return getattr(self._data, name)

    def _today(self, name: str) -> str:
        return self._names.get(name, "none" if old_name(name) != name else name)

    def metric(self, name: str) -> RawMetric | None:
        return self._data.metric(self._today(name))

    def instances(self, name: str) -> Instances | None:
        return self._data.instances(self._today(name))


def as_of_2019(launch: Launch) -> Launch:
    names = {
        old: name
        for stall in stalls().values()
        for name in stall.metrics
        if (old := old_name(name)) and old != name
    }
    return Launch(
        number=launch.id,
        name=launch.name,
        workload=launch.workload,
        grid=launch.grid,
        block=launch.block,
        data=OldData(launch.data, names),  # type: ignore[arg-type]
    )


def test_warp_states_and_samples_are_read_by_their_old_names() -> None:
    today = launch_of("tap_filter")
    old = as_of_2019(today)
    assert old.metric("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio") is None
    assert old.metric("smsp__warp_cycles_per_issue_stall_wait") is not None
    states = LaunchView(old).stalls
    assert states["wait"] > 0
    assert {*states} <= {*LaunchView(today).stalls}
    table = InstructionTable(old)
    assert table.waiting("wait") == InstructionTable(today).waiting("wait") != {}
    assert table.waiting("no_instructions") == InstructionTable(today).waiting("no_instructions")
