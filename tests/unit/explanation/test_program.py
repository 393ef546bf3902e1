"""The program before its launches: rows, gains, and the launches that matter."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_groups import (
    MOST_SHOWN,
    LaunchGroup,
    answer_of,
    first_answer,
    gain_of,
    launches_that_matter,
    notable_saving,
)
from keet.explanation.program import ProgramExplanation, program_of
from keet.ingest import read_profile
from keet.profile import Launch, Profile, RunTable
from keet.profile.launch import MOST_WITH_CODE
from keet.profile.launch_sequences import by_kernel_and_shape, median, representative
from keet.profile.run_table import KernelRun
from tests.conftest import REPORTS, needs_corpus
from tests.many_launches import DURATION, copied, repeated
from tests.unit.analysis.real_launches import public_profile
from tests.unit.explanation.made_finding import finding as made_finding

PIPELINE = "pipeline_before.ncu-repz"
TOUR = "tour_full.ncu-repz"
ProfileOf = Callable[[str], Profile]


def explained(profile: Profile) -> Explanation:
    return explain(profile, profile.launches, 5, sass=False)


def program(explanation: Explanation) -> ProgramExplanation:
    found = program_of(explanation)
    for text in (*found.all_texts, *(each.text for each in found.cross_launch)):
        known = {**found.evidence, **(found.run.evidence if found.run else {})}
        assert set(text.ids) <= set(known), text
    return found


def with_forecast(
    each: LaunchExplanation, likely: float, finding: str = "uncoalesced_global"
) -> LaunchExplanation:
    found = made_finding(finding, 1 + (likely - 1) / 2, likely, likely * 1.5, text="text")
    return replace(each, findings=(found,))


def group_of(told: Sequence[LaunchExplanation]) -> LaunchGroup:
    launches = [each.launch for each in told]
    standing = representative(launches)
    first = next(each for each in told if each.launch is standing)
    return LaunchGroup(launches, first, list(map(answer_of, told)))


@cache
def _told() -> tuple[LaunchExplanation, ...]:
    """Eight launches of six kernels."""
    return tuple(explained(read_profile(REPORTS / PIPELINE)).launches)


@pytest.fixture
def told() -> tuple[LaunchExplanation, ...]:
    return _told()


def test_identical_launches_are_one_row(profile_of: ProfileOf, wording) -> None:
    found = program(explained(profile_of(PIPELINE)))
    assert [row.count for row in found.rows if row.kernel == "relax"] == [3]
    assert sorted(n for row in found.rows for n in row.launches) == list(range(8))
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    assert sum(row.us_total for row in found.rows) == pytest.approx(found.us_total)
    total = float(found.total.value)
    order = [(notable_saving(row.saved_ns, total), row.us_total) for row in found.rows]
    assert order == sorted(order, reverse=True)
    assert order[0][0] > 0
    wording(found.texts[0])


@pytest.mark.slow
def test_a_row_has_the_spread_of_its_launches(profile_of: ProfileOf) -> None:
    many = repeated(profile_of(TOUR), 11)
    for row in program(explained(many)).rows:
        assert row.us_min is not None
        assert row.us_max == pytest.approx(1.01 * row.us_min)
        assert row.us_median is not None
        assert row.first.launch.rank_time == pytest.approx(1000 * row.us_median)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_the_median(values: list[float]) -> None:
    assert median(values) == pytest.approx(statistics.median(values))


@given(st.lists(st.floats(0.5, 20.0), min_size=1, max_size=9))
def test_the_representative_has_the_median_duration_or_the_most_time(factors: list[float]) -> None:
    launch = _launch()
    group = [copied(launch, n, {DURATION: factor}) for n, factor in enumerate(factors)]
    times = sorted(each.rank_time for each in group)
    middle, own = times[len(times) // 2], representative(group).rank_time
    assert own == middle or (times[-1] > 2 * middle and own > middle)
    # At least half of the time is in launches that take as long or longer.
    assert own == middle or sum(each for each in times if each >= own) >= sum(times) / 2
    assert by_kernel_and_shape(group) == [group]


@cache
def _launch() -> Launch:
    return read_profile(REPORTS / TOUR).launches[0]


def test_other_shapes_are_other_rows(profile_of: ProfileOf) -> None:
    profile = profile_of(TOUR)
    other = copied(profile.launches[0], 3)
    other.grid = (7, 1, 1)
    changed = replace(profile, launches=(*profile.launches, other), code_loader=None)
    rows = program(explained(changed)).rows
    assert len(rows) == 4
    assert {row.grid for row in rows} >= {(7, 1, 1), profile.launches[0].grid}
    profile = profile_of(TOUR)
    assert program_of(explain(profile, profile.launches[:1], 5, sass=False)) is None


def test_machine_code_is_read_of_some_launches_of_each_row(profile_of: ProfileOf) -> None:
    many = repeated(profile_of(TOUR), 5)
    assert {*many.with_code(many.launches)} == {*many.launches}
    typical = many.representatives(many.launches)
    assert len({each.kernel for each in typical}) == 3
    assert {each.id // 3 for each in typical} == {2}, "the third of five rounds is the median"
    many = repeated(profile_of(TOUR), 40)
    chosen = many.with_code(many.launches)
    assert len(chosen) == MOST_WITH_CODE
    assert {*many.representatives(many.launches)} <= {*chosen}
    rows = Counter(each.kernel for each in chosen).values()
    assert max(rows) - min(rows) <= 1


def test_a_launch_whose_machine_code_is_left_out_says_so(
    profile_of: ProfileOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keet.profile.profile.MOST_WITH_CODE", 4)
    many = repeated(profile_of(TOUR), 4)
    whole = explain(many, many.launches, 5)
    chosen = {launch.id for launch in many.with_code(many.launches)}
    typical = {launch.kernel: launch.id for launch in many.representatives(many.launches)}
    for each in whole.launches:
        said = "Its machine code was not analysed" in each.verdict.headline
        assert said == (each.launch.id not in chosen)
        assert not said or f"launch #{typical[each.launch.kernel]}," in each.verdict.headline


@pytest.mark.slow
@needs_corpus
def test_identical_launches_have_the_same_findings() -> None:
    """Four launches of one kernel; its finding needs the machine code."""
    profile = public_profile("Swagatam1812__hpca-gpu-memory-profiling--variant2")
    told = explain(profile, profile.launches, 5).launches
    assert len(told) == 4
    assert {each.view.code_state for each in told} == {"analysed"}
    assert {tuple(f.id for f in each.findings) for each in told} == {("pipe_saturated",)}


def test_launches_with_another_first_finding_are_named(told: tuple[LaunchExplanation, ...]) -> None:
    same = [with_forecast(told[7], 2.0)] * 4
    odd = with_forecast(told[7], 2.0, "tail_effect")
    group = group_of([*same, odd])
    assert group.different == (answer_of(odd),)
    assert group_of(same).different == ()
    assert group_of([odd, same[0]]).different == (), "nothing is usual among two"
    # It may itself be the odd one.
    same = [with_forecast(told[7], 2.0)] * 3
    odd = with_forecast(told[7], 2.0, "tail_effect")
    group = group_of([odd, *same])
    assert first_answer(group.first) == "tail_effect"
    assert group.different == tuple(map(answer_of, same))


def test_the_slowest_launch_with_another_first_finding_is_told(
    profile_of: ProfileOf, wording
) -> None:
    whole = explained(repeated(profile_of(TOUR), 5))
    same = [each for each in whole.launches if each.launch.kernel == "transpose_rows"]
    slowest = max(same, key=lambda each: each.launch.rank_time)
    odd = with_forecast(slowest, 2.0, "tail_effect")
    changed = tuple(odd if each is slowest else each for each in whole.launches)
    wording(program(whole._replace(launches=changed)).texts)


@given(st.floats(1.0, 50.0), st.floats(1.0, 50.0))
def test_savings_of_rows_add_up(one: float, other: float) -> None:
    """Amdahl: each kernel is faster by its own factor, and all else stays."""
    told = _told()
    groups = [
        group_of([with_forecast(told[0], one)]),
        group_of([with_forecast(told[4], other)]),
        group_of([replace(told[7], findings=())]),
    ]
    times = [group.time_ns for group in groups]
    after = times[0] / one + times[1] / other + times[2]
    gain = gain_of(groups, sum(times))
    assert (gain.likely if gain else 1.0) == pytest.approx(sum(times) / after)
    assert gain is None or gain.low <= gain.likely <= gain.high


def test_what_saves_nothing(told: tuple[LaunchExplanation, ...]) -> None:
    short = with_forecast(told[0], 4.0, "launch_bound")
    assert gain_of([group_of([short])], told[0].launch.rank_time) is None
    four = group_of([short] * 4)
    assert four.saved_ns(1) == pytest.approx(four.time_ns * 3 / 4 * 3 / 4)
    endless = made_finding("small_grid", 1.0, float("inf"), float("inf"))
    group = group_of([replace(told[0], findings=(endless,))])
    assert gain_of([group], group.time_ns) is None


def test_which_launches_are_shown(told: tuple[LaunchExplanation, ...]) -> None:
    """For what they save, at most three; without a gain, for their time."""
    # A large factor on a small part of the time does not matter.
    long, short = told[3], told[0]
    groups = [group_of([with_forecast(long, 1.5)] * 30)]
    groups.append(group_of([with_forecast(short, 3.0)]))
    assert [each.launch.id for each in launches_that_matter(groups)] == [3]
    groups = [group_of([with_forecast(each, 2.0)]) for each in told[:5]]
    assert len(launches_that_matter(groups)) == MOST_SHOWN
    groups = [group_of([replace(each, findings=())]) for each in (told[3], told[4])]
    assert [each.launch.id for each in launches_that_matter(groups)] == [3, 4]


def test_rows_of_a_run_are_its_kernels(profile_of: ProfileOf) -> None:
    profile = profile_of(TOUR)
    rows = (
        KernelRun("tour::normalise", "tour::normalise", None, None, 90, 9e6, 9e6, 0.0),
        KernelRun("solve", "solve", None, None, 10, 1e6, 1e6, 0.0),
    )
    found = program(explained(replace(profile, run=RunTable(rows, "cupti"))))
    assert [(row.kernel, row.count, row.launches) for row in found.rows] == [
        ("normalise", 90, (2,)),
        ("solve", 10, ()),
    ]
    assert found.us_total == 10e3
    assert found.rows[1].gain is None
    assert [each.launch.kernel for each in found.shown_launches] == ["normalise"]


def test_the_launch_that_takes_most_of_the_time_represents_its_group(
    profile_of: ProfileOf, wording
) -> None:
    """As in a public report: two launches of 3 us and one of 108 us."""
    launch = profile_of(TOUR).launches[0]
    group = [copied(launch, at, {DURATION: times}) for at, times in enumerate((1.0, 36.0, 1.02))]
    assert representative(group) is group[1]
    assert representative([*group[::2], copied(launch, 3, {DURATION: 1.01})]).id == 3
    many = [copied(launch, at, {DURATION: 9.0 if at == 0 else 1.0}) for at in range(70)]
    assert representative(many).rank_time == many[1].rank_time, "most of the time is in the others"
    profile = profile_of(TOUR)
    launches = tuple(
        copied(profile.launches[0], at, {DURATION: times})
        for at, times in enumerate((1.0, 36.0, 1.02))
    )
    found = program(explained(replace(profile, launches=launches, code_loader=None)))
    assert found.groups[0].first.launch.id == 1
    wording(found.represents_text(found.groups[0]))
