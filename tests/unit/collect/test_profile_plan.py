"""Which launches are profiled."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from keet.collect.profile_plan import LONGER, LaunchChoice, choose
from keet.profile.timeline import Record

SHAPE = (1, 1, 1)


def run_of(*times: tuple[str, int], process: int = 0) -> list[Record]:
    """Launches one after the other."""
    records, clock = [], 0
    for name, ns in times:
        records.append(
            Record(name, name, SHAPE, SHAPE, clock, clock + ns, 0, process, len(records))
        )
        clock += ns
    return records


def chosen(records: list[Record], most: int = 100, without: str = "") -> LaunchChoice:
    busy = [float(record.end - record.start) for record in records]
    return choose(records, busy, lambda found: len(found) <= most, lambda r: r.name != without)


def numbers(choice: LaunchChoice) -> list[tuple[str, int]]:
    return [(each.name, each.invocation) for each in choice.launches]


def test_kernels_with_a_hundredth_of_the_time_are_chosen() -> None:
    choice = chosen(run_of(("big", 800), ("middle", 150), ("small", 45), ("tiny", 5)))
    assert choice.kernels == ("big", "middle", "small")
    assert choice.share == 0.995
    assert (choice.small, choice.small_share) == (("tiny",), 0.005)


def test_without_large_kernels_most_of_the_time_is_covered() -> None:
    """Two hundred equal kernels take less than a hundredth of the time each."""
    choice = chosen(run_of(*[(f"k{n}", 10) for n in range(200)]), most=200)
    assert len(choice.kernels) == 180


def test_a_small_kernel_is_profiled_at_a_number_that_is_taken_anyway() -> None:
    """Its own number would profile the large kernels once more."""
    loop = [("a", 1000), ("b", 900)]
    records = run_of(*loop, ("s", 60), *loop, ("s", 50), *loop, ("s", 40))
    choice = chosen(records)
    assert numbers(choice) == [("a", 2), ("b", 2), ("s", 2)]
    assert {each.why for each in choice.launches} == {"typical"}


def test_the_longest_launch_of_a_small_kernel_is_not_profiled_too() -> None:
    choice = chosen(run_of(*[("big", 1000)] * 20, *[("s", 10)] * 50, ("s", 90)))
    assert [each.why for each in choice.launches if each.name == "s"] == ["typical"]


def test_a_large_launch_late_in_the_run_is_the_typical_one() -> None:
    """The first ones are tiny, and half of the time is in the last."""
    growing = [("level", 2**n) for n in range(12)]
    choice = chosen(run_of(*growing))
    assert numbers(choice) == [("level", 12)]


def test_the_longest_launch_is_chosen_too_if_it_is_much_longer() -> None:
    choice = chosen(run_of(*[("step", 100)] * 50, ("step", 900)))
    assert [(each.invocation, each.why) for each in choice.launches] == [
        (2, "typical"),
        (51, "longest"),
    ]


def test_several_kernels_share_an_invocation_number() -> None:
    """ncu profiles every combination of kernels and numbers, so fewer numbers are fewer passes."""
    loop = [("a", 100), ("b", 90), ("c", 80)]
    choice = chosen(run_of(("b", 150), *loop * 20))
    assert numbers(choice) == [("b", 2), ("a", 2), ("c", 2)]


def test_launches_that_ncu_includes_are_marked() -> None:
    """`b` is wanted at its second launch, `a` at its first: both are profiled at both."""
    choice = chosen(run_of(("a", 1000), ("a", 10), ("b", 10), ("b", 1000)))
    assert {(each.name, each.invocation): each.why for each in choice.launches} == {
        ("a", 1): "typical",
        ("a", 2): None,
        ("b", 1): None,
        ("b", 2): "typical",
    }


def test_limits_drop_the_kernels_with_the_least_time() -> None:
    records = run_of(("a", 50), ("b", 30), ("c", 20))
    assert chosen(records, most=2).kernels == ("a", "b")
    assert chosen(records, most=2).left_out == ("c",)
    assert chosen(records, most=0).kernels == ("a",)


def test_without_a_kernel_that_can_not_be_replayed_others_are_chosen() -> None:
    records = run_of(("waits", 900), ("a", 60), ("b", 40))
    assert chosen(records, without="waits").kernels == ("a", "b")


def test_launches_are_counted_per_process() -> None:
    """As ncu does: the busiest process is profiled."""
    records = [*run_of(("a", 10), process=0), *run_of(("a", 10), ("a", 500), process=1)]
    choice = chosen(records)
    assert numbers(choice) == [("a", 2)]
    assert choice.launches[0].number == 2


def test_the_process_in_which_the_wanted_kernels_run() -> None:
    """Another one may be busier with kernels that nobody asked for."""
    records = [*run_of(("other", 900), process=0), *run_of(("a", 10), process=1)]
    assert numbers(chosen(records, without="other")) == [("a", 1)]


launches = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(1, 10_000)), min_size=1, max_size=60
)


@given(launches)
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
