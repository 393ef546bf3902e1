"""Which global accesses could be wider."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import access_width, accesses_saved, widened_share
from keet.ingest.in_memory_launch import InMemoryLaunch
from keet.profile import Instances, Launch
from tests.unit.analysis.made_up_launch import made_up

GLOBAL, COPY_TO_SHARED = 4, 4 | 16
ONE_BYTE, FOUR_BYTES, SIXTEEN_BYTES = 2, 32, 128
"""ncu's codes."""


def with_accesses(*accesses: tuple[int, ...]) -> Launch:
    """A made-up launch: memory, size and threads of each access, its executions and sectors."""
    launch = made_up({})
    assert isinstance(launch.data, InMemoryLaunch)
    names = ("memory_type", "memory_access_size_type", "thread_inst_executed_true")
    names += ("inst_executed", "memory_l2_theoretical_sectors_global")[: len(accesses[0]) - 3]
    addresses = tuple(range(len(accesses)))
    stored: dict[str, Instances] = {}
    for name, values in zip(names, zip(*accesses, strict=True), strict=True):
        stored[name] = Instances(values, addresses)
    launch.data = replace(launch.data, stored_instances=stored)
    return launch


def test_only_accesses_that_could_be_wider_are_named() -> None:
    view = LaunchView(
        with_accesses(
            (GLOBAL, ONE_BYTE, 1600),
            (GLOBAL, FOUR_BYTES, 1600),
            (GLOBAL, SIXTEEN_BYTES, 9000),
            (COPY_TO_SHARED, ONE_BYTE, 9000),  # also left out of the average width
        )
    )
    assert accesses_saved(view, 16) == {0: 1500, 1: 1200}
    assert access_width(view) == (1600 + 4 * 1600 + 16 * 9000) / 12200
    # One sector per request. Of single bytes, neighbouring ones fit into one sector too.
    view = LaunchView(
        with_accesses(
            (GLOBAL, FOUR_BYTES, 3200, 100, 100),
            (GLOBAL, FOUR_BYTES, 3200, 100, 400),
            (GLOBAL, ONE_BYTE, 3200, 100, 100),
        )
    )
    assert accesses_saved(view, 16) == {0: 0, 1: 2400, 2: 3000}
    assert widened_share(view) == pytest.approx(2 / 3)
