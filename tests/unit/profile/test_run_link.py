"""Each launch of a run is assigned to one profiled launch, the nearest one."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keet.profile.run_link import place_in_run
from keet.profile.run_table import KernelRun, RunLaunch, RunPositions, RunTable

TIMES = st.integers(1, 10**6)
GRIDS = st.sampled_from([(1, 1, 1), (2, 1, 1), (3, 1, 1)])


def launch(number: int, grid: tuple[int, int, int], ns: float) -> Any:
    name = SimpleNamespace(mangled="_Z1kv", full="k()", short="k", function="k")
    return SimpleNamespace(id=number, name=name, grid=grid, block=(32, 1, 1), rank_time=ns)


def table_of(launches: list[tuple[tuple[int, int, int], int]]) -> RunTable:
    """A run of these launches of one kernel, one after the other."""
    grids = list(dict.fromkeys(grid for grid, _ in launches))
    kernels = [
        KernelRun(
            *("_Z1kv", "k()", grid, (32, 1, 1), len(times)),
            *(float(sum(times)), float(sum(times)), 0.0),
        )
        for grid in grids
        for times in [[ns for each, ns in launches if each == grid]]
    ]
    rows = tuple(RunLaunch(grids.index(grid), 0, ns) for grid, ns in launches)
    return RunTable(tuple(kernels), "cupti", rows)


def placed(profiled: list[tuple[tuple[int, int, int], int]], table: RunTable) -> RunPositions:
    launches = [launch(number, grid, float(ns)) for number, (grid, ns) in enumerate(profiled)]
    return place_in_run(launches, table)


@given(
    st.lists(st.tuples(GRIDS, TIMES), min_size=1, max_size=8),
    st.lists(st.tuples(GRIDS, TIMES), min_size=1, max_size=30),
)
def test_the_parts_add_up_to_the_run(profiled: list, launches: list) -> None:
    table = table_of(launches)
    positions = placed(profiled, table).positions.values()
    assert math.isclose(sum(each.launches for each in positions), len(launches))
    assert math.isclose(sum(each.busy_ns for each in positions), table.busy_ns)
    assert math.isclose(sum(each.total_ns for each in positions), table.total_ns)


@given(
    st.lists(TIMES, min_size=2, max_size=8, unique=True),
    st.lists(TIMES, min_size=1, max_size=30),
)
def test_each_launch_is_assigned_to_the_nearest_profiled_one(
    own: list[int], times: list[int]
) -> None:
    """Nearest by the ratio of times; of two equally near ones, the first in the report."""
    expected = [0.0] * len(own)
    for time in times:
        away = [abs(math.log(time) - math.log(each)) for each in own]
        expected[away.index(min(away))] += time
    grid = (1, 1, 1)
    found = placed([(grid, ns) for ns in own], table_of([(grid, ns) for ns in times]))
    for number, total in enumerate(expected):
        position = found.of(number)
        assert position is not None
        assert math.isclose(position.total_ns, total)


def test_a_profiled_shape_gets_the_launches_of_its_shape() -> None:
    small, large, other = (1, 1, 1), (2, 1, 1), (9, 1, 1)
    run = [(small, 10), (small, 12), (large, 1000), (other, 900)]
    found = placed([(small, 5000), (large, 1)], table_of(run))
    first, second = found.of(0), found.of(1)
    assert first is not None
    assert second is not None
    # By time alone the unprofiled shape (900 ns) is nearest to the first, which took 5000 ns.
    assert (first.launches, first.total_ns, first.shapes) == (3, 922, 2)
    assert (second.launches, second.total_ns, second.shapes) == (1, 1000, 1)


def test_known_by_says_where_the_time_in_the_run_is_from() -> None:
    block = (32, 1, 1)
    one = KernelRun("_Z1kv", "k()", (1, 1, 1), block, 10, 1000.0, 1000.0)
    two = one._replace(grid=(2, 1, 1), total_ns=3000.0, median_ns=250.0)
    whole = one._replace(grid=None, block=None)
    profiled = [((1, 1, 1), 90), ((2, 1, 1), 310), ((3, 1, 1), 200)]

    def known(*kernels: KernelRun) -> list:
        positions = placed(profiled, RunTable(kernels, "file")).positions.values()
        return [(each.plain_ns, each.known_by, each.profiled_ns) for each in positions]

    assert known(one, two) == [
        (100.0, "shape", 200.0),
        (250.0, "shape", 200.0),
        (200.0, "kernel", 200.0),
    ]
    assert known(whole) == [(100.0, "kernel", 200.0)] * 3
    assert known(whole._replace(median_ns=80.0)) == [(80.0, "kernel", 200.0)] * 3
