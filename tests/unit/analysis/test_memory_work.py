"""Which global accesses could be wider."""

from __future__ import annotations

from dataclasses import replace

from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import access_width, accesses_saved
from keet.ingest.in_memory_launch import InMemoryLaunch
from keet.profile import Instances, Launch
from tests.unit.analysis.made_up_launch import made_up

GLOBAL, COPY_TO_SHARED = 4, 4 | 16
ONE_BYTE, FOUR_BYTES, SIXTEEN_BYTES = 2, 32, 128
"""ncu's codes."""


def with_accesses(*accesses: tuple[int, int, int]) -> Launch:
    """A made-up launch: memory, size and threads of each access."""
    launch = made_up({})
    assert isinstance(launch.data, InMemoryLaunch)
    names = ("memory_type", "memory_access_size_type", "thread_inst_executed_true")
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
