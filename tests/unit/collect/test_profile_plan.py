"""Which launches are profiled."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from keet.collect.profile_plan import LONGER, LaunchChoice, choose
from keet.profile.run_table import Record

SHAPE = (1, 1, 1)


def run_of(*times: tuple[str, int], process: int = 0) -> list[Record]:
    """Launches one after the other."""
    ends = list(accumulate(ns for _, ns in times))
    return [
        Record(name, name, SHAPE, SHAPE, end - ns, end, 0, process, number)
        for number, ((name, ns), end) in enumerate(zip(times, ends))
    ]


def chosen(records: list[Record], most: int = 100, without: str = "") -> LaunchChoice:
    busy = [float(record.end - record.start) for record in records]
    return choose(records, busy, lambda found: len(found) <= most, lambda r: r.name != without)


def numbers(choice: LaunchChoice) -> list[tuple[str, int]]:
    return [(each.name, each.invocation) for each in choice.launches]


def test_kernels_with_a_hundredth_of_the_time_are_chosen() -> None:
    """Without large ones, most of the time is covered."""
    choice = chosen(run_of(("big", 800), ("middle", 150), ("small", 45), ("tiny", 5)))
    assert (choice.kernels, choice.share) == (("big", "middle", "small"), 0.995)
    assert (choice.small, choice.small_share) == (("tiny",), 0.005)
    choice = chosen(run_of(*[(f"k{n}", 10) for n in range(200)]), most=200)
    assert len(choice.kernels) == 180


def test_a_small_kernel_is_profiled_at_a_number_that_is_taken_anyway() -> None:
    """Its own number would profile the large kernels once more."""
    loop = [("a", 1000), ("b", 900)]
    records = run_of(*loop, ("s", 60), *loop, ("s", 50), *loop, ("s", 40))
    choice = chosen(records)
    assert numbers(choice) == [("a", 2), ("b", 2), ("s", 2)]
    assert {each.why for each in choice.launches} == {"typical"}


def test_the_longest_launch_is_chosen_too_if_it_is_much_longer() -> None:
    """But not of a small kernel."""
    choice = chosen(run_of(*[("step", 100)] * 50, ("step", 900)))
    told = [(each.invocation, each.why) for each in choice.launches]
    assert told == [(2, "typical"), (51, "longest")]
    choice = chosen(run_of(*[("big", 1000)] * 20, *[("s", 10)] * 50, ("s", 90)))
    assert [each.why for each in choice.launches if each.name == "s"] == ["typical"]
    # the first ones are tiny, and half of the time is in the last
    assert numbers(chosen(run_of(*[("level", 2**n) for n in range(12)]))) == [("level", 12)]


def test_launches_that_end_before_they_start_are_chosen_from() -> None:
    for times, typical in {(-10,): 1, (-10, 4): 2, (-10, -9, -8): 1}.items():
        launches = chosen(run_of(*[("odd", ns) for ns in times])).launches
        assert [each.invocation for each in launches if each.why == "typical"] == [typical]


def test_several_kernels_share_an_invocation_number() -> None:
    """ncu profiles every combination of kernels and numbers, so fewer numbers are fewer passes."""
    loop = [("a", 100), ("b", 90), ("c", 80)]
    assert numbers(chosen(run_of(("b", 150), *loop * 20))) == [("b", 2), ("a", 2), ("c", 2)]


def test_launches_that_ncu_includes_are_marked() -> None:
    """`b` is wanted at its second launch, `a` at its first: both are profiled at both."""
    choice = chosen(run_of(("a", 1000), ("a", 10), ("b", 10), ("b", 1000)))
    told = {(each.name, each.invocation): each.why for each in choice.launches}
    assert told == {("a", 1): "typical", ("a", 2): None, ("b", 1): None, ("b", 2): "typical"}


def test_limits_drop_the_kernels_with_the_least_time() -> None:
    """And those that can't be replayed."""
    records = run_of(("a", 50), ("b", 30), ("c", 20))
    assert chosen(records, most=2).kernels == ("a", "b")
    assert chosen(records, most=2).left_out == ("c",)
    assert chosen(records, most=0).kernels == ("a",)
    assert chosen(records, without="a").kernels == ("b", "c")


def test_launches_are_counted_per_process() -> None:
    """As ncu does: the busiest process with the wanted kernels is profiled. Another one may be
    busier with kernels that nobody asked for."""
    choice = chosen([*run_of(("a", 10)), *run_of(("a", 10), ("a", 500), process=1)])
    assert numbers(choice) == [("a", 2)]
    assert choice.launches[0].number == 2
    records = [*run_of(("other", 900)), *run_of(("a", 10), process=1)]
    assert numbers(chosen(records, without="other")) == [("a", 1)]


LAUNCHES = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(1, 10_000)), min_size=1, max_size=60
)


@given(LAUNCHES)
def test_every_choice_covers_the_time_and_the_launches_that_are_wanted(
    times: list[tuple[str, int]],
) -> None:
    records = run_of(*times)
    choice = chosen(records)
    total = sum(ns for _, ns in times)
    of = {name: [ns for each, ns in times if each == name] for name, _ in times}
    assert sum(sum(of[name]) for name in choice.kernels) >= 0.9 * total
    assert all(a.number < b.number for a, b in pairwise(choice.launches))
    for each in choice.launches:
        record = records[each.number]
        same = [r for r in records[: each.number + 1] if r.name == each.name]
        assert (record.name, len(same)) == (each.name, each.invocation)
    for name in choice.kernels:
        taken = [each for each in choice.launches if each.name == name]
        whys = {each.why for each in taken}
        middle = next(each for each in taken if each.why == "typical").record
        typical = middle.end - middle.start
        shorter = sum(ns for ns in of[name] if ns <= typical * 1.06)
        longer = sum(ns for ns in of[name] if ns >= typical / 1.06)
        assert min(shorter, longer) >= sum(of[name]) / 2
        assert "longest" in whys or max(of[name]) <= LONGER * typical * 1.06
