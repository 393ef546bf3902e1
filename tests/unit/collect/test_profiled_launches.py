"""Which launch of the run a launch of the report repeats."""

from __future__ import annotations

from keet.collect.ncu_command import ProfileRequest
from keet.collect.plain_run import PlainRun, recorded_run
from keet.collect.profile_plan import ProfilePlan, choose
from keet.collect.profile_program import profiled_launches
from keet.ingest import read_profile
from keet.profile.run_table import RunTable
from keet.profile.timeline import Record
from tests.unit.collect.toolkit import RUNS

WAITS = read_profile(RUNS / "waits.ncu-repz").launches
SHAPE = ((65536, 1, 1), (256, 1, 1))


def run_of(*kernels: tuple[str, int], process: int = 0) -> list[Record]:
    records = []
    for number, (name, ns) in enumerate(kernels):
        start = 10_000 * number
        records.append(Record(name, name, *SHAPE, start, start + ns, 0, process, number))
    return records


def plain_of(*records: Record) -> PlainRun:
    return recorded_run(records, RunTable((), "cupti"))


def plan_of(plain: PlainRun) -> ProfilePlan:
    choice = choose(plain.records, plain.busy, lambda _: True, lambda _: True)
    return ProfilePlan(ProfileRequest(("./waits",)), choice)


FILL, BEFORE, AFTER = (launch.name.mangled for launch in WAITS)


def test_by_kernel_number_and_shape() -> None:
    plain = plain_of(*run_of((FILL, 40), (BEFORE, 57), (AFTER, 58)))
    found = list(profiled_launches(WAITS, plan_of(plain), plain))
    assert [(each.launch, each.number, each.ns) for each in found] == [
        (0, 0, 40),
        (1, 1, 57),
        (2, 2, 58),
    ]


def test_the_first_of_each_kernel() -> None:
    plain = plain_of(*run_of((FILL, 10), (FILL, 5000), (BEFORE, 57), (AFTER, 58)))
    found = profiled_launches(WAITS, ProfilePlan(ProfileRequest(("./waits",))), plain)
    assert [(each.launch, each.number) for each in found] == [(0, 0), (1, 2), (2, 3)]


def test_a_launch_that_is_missing_leaves_its_kernel_unlinked() -> None:
    """Two were to be profiled and one is there: which one, nobody knows."""
    plain = plain_of(*run_of(*[(FILL, 100)] * 50, (FILL, 900)))
    plan = plan_of(plain)
    assert plan.choice is not None
    assert len(plan.choice.launches) == 2
    assert list(profiled_launches(WAITS, plan, plain)) == []


def test_launches_of_several_processes_are_not_linked() -> None:
    plain = plain_of(*run_of((FILL, 40)), *run_of((FILL, 900), process=1))
    assert list(profiled_launches(WAITS, ProfilePlan(ProfileRequest(("./waits",))), plain)) == []


def test_a_skip_alone_is_one_launch() -> None:
    plain = plain_of(*run_of((BEFORE, 1), (FILL, 40)))
    plan = ProfilePlan(ProfileRequest(("./waits",), launch_skip=1))
    assert [(e.launch, e.number) for e in profiled_launches(WAITS[:1], plan, plain)] == [(0, 1)]
