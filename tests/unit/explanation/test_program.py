"""The program before its launches: rows, gains, and the launches that matter. Of large reports, which
launches a view explains, and what it says of the others."""

from __future__ import annotations

import cProfile
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.comparison.compare import compare
from keet.comparison.same_kernel import Side, SideCapture
from keet.documents.document import plain
from keet.documents.show import GapDocument
from keet.explanation import analyst
from keet.explanation.analyst import explain, explain_document
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
from keet.explanation.program import ProgramCollector, ProgramExplanation, program_of
from keet.pages.explain import whose_text
from keet.pages.program import answer_text, listed_rows
from keet.profile import Launch, Profile, RunTable
from keet.profile.launch import MOST_WITH_CODE
from keet.profile.run_link import (
    by_kernel_and_shape,
    chosen_launches,
    fair_shares,
    iterate_launches,
    median,
    representative,
)
from keet.profile.run_table import KernelRun
from keet.report import read_profile
from tests.conftest import REPORTS, needs_corpus
from tests.explain_pages import explain_html, explain_markdown
from tests.many_launches import DURATION, copied, different, repeated
from tests.page_blocks import explain_html_page, texts_of
from tests.unit.analysis.real_launches import public_profile
from tests.unit.explanation.made_finding import finding as made_finding

PIPELINE = "pipeline_before.ncu-repz"
TOUR = "tour_full.ncu-repz"


@cache
def read(name: str) -> Profile:
    return read_profile(REPORTS / name)


def repeated_tour(times: int) -> Profile:
    """Its three kernels so many times."""
    return repeated(read(TOUR), times)


def explained(profile: Profile, most: int | None = None) -> Explanation:
    return explain(profile, profile.launches, 5, sass=False, most=most)


def of_launches(*launches: Launch) -> Explanation:
    return explained(replace(read(TOUR), launches=launches, code_loader=None))


@cache
def nine_of_thirty() -> Explanation:
    return explained(repeated_tour(10), most=9)


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
    return tuple(explained(read(PIPELINE)).launches)


@pytest.fixture
def told() -> tuple[LaunchExplanation, ...]:
    return _told()


def test_identical_launches_are_one_row(wording) -> None:
    found = program(explained(read(PIPELINE)))
    assert [row.count for row in found.rows if row.kernel == "relax"] == [3]
    assert sorted(n for row in found.rows for n in row.launches) == list(range(8))
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    assert sum(row.us_total for row in found.rows) == pytest.approx(found.us_total)
    total = float(found.total.value)
    order = [(notable_saving(row.saved_ns, total), row.us_total) for row in found.rows]
    assert order == sorted(order, reverse=True)
    assert order[0][0] > 0
    wording(found.texts[0])


def test_a_row_has_the_spread_of_its_launches() -> None:
    for row in program(explained(repeated_tour(11), most=9)).rows:
        assert row.us_min is not None
        assert row.us_max == pytest.approx(1.01 * row.us_min)
        assert row.us_median is not None
        assert row.first.launch.rank_time == pytest.approx(1000 * row.us_median)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_the_median(values: list[float]) -> None:
    assert median(values) == pytest.approx(statistics.median(values))


@given(st.lists(st.floats(0.5, 20.0), min_size=1, max_size=9))
def test_the_representative_has_the_median_duration_or_the_most_time(factors: list[float]) -> None:
    group = longer(*factors)
    times = sorted(each.rank_time for each in group)
    middle, own = times[len(times) // 2], representative(group).rank_time
    assert own == middle or (times[-1] > 2 * middle and own > middle)
    # At least half of the time is in launches that take as long or longer.
    assert own == middle or sum(each for each in times if each >= own) >= sum(times) / 2
    assert by_kernel_and_shape(group) == [group]


def longer(*factors: float) -> list[Launch]:
    """Launches of one kernel that take so many times as long."""
    launch = read(TOUR).launches[0]
    return [copied(launch, at, {DURATION: factor}) for at, factor in enumerate(factors)]


def test_other_shapes_are_other_rows() -> None:
    launches = read(TOUR).launches
    other = copied(launches[0], 3)
    other.grid = (7, 1, 1)
    rows = program(of_launches(*launches, other)).rows
    assert len(rows) == 4
    assert {row.grid for row in rows} >= {(7, 1, 1), launches[0].grid}
    assert program_of(explain(read(TOUR), launches[:1], 5, sass=False)) is None


def test_machine_code_is_read_of_some_launches_of_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch whose machine code is left out says so."""
    many = repeated_tour(5)
    assert {*many.with_code(many.launches)} == {*many.launches}
    typical = many.representatives(many.launches)
    assert len({each.kernel for each in typical}) == 3
    assert {each.id // 3 for each in typical} == {2}, "the third of five rounds is the median"
    many = repeated_tour(40)
    chosen = many.with_code(many.launches)
    assert len(chosen) == MOST_WITH_CODE
    assert {*many.representatives(many.launches)} <= {*chosen}
    rows = Counter(each.kernel for each in chosen).values()
    assert max(rows) - min(rows) <= 1
    monkeypatch.setattr("keet.profile.profile.MOST_WITH_CODE", 4)
    many = repeated_tour(4)
    read_of = {launch.id for launch in many.with_code(many.launches)}
    typical_of = {launch.kernel: launch.id for launch in many.representatives(many.launches)}
    for each in explain(many, many.launches, 5).launches:
        said = "Its machine code was not analysed" in each.verdict.headline
        assert said == (each.launch.id not in read_of)
        assert not said or f"launch #{typical_of[each.launch.kernel]}," in each.verdict.headline


@pytest.mark.slow
@needs_corpus
def test_identical_launches_have_the_same_findings() -> None:
    """Four launches of one kernel; its finding needs the machine code."""
    profile = public_profile("Swagatam1812__hpca-gpu-memory-profiling--variant2")
    told = explain(profile, profile.launches, 5).launches
    assert len(told) == 4
    assert {each.view.code_state for each in told} == {"analysed"}
    assert {tuple(f.id for f in each.findings) for each in told} == {("pipe_saturated",)}


def test_launches_with_another_first_finding_are_named(
    told: tuple[LaunchExplanation, ...], wording
) -> None:
    same = [with_forecast(told[7], 2.0)] * 4
    odd = with_forecast(told[7], 2.0, "tail_effect")
    group = group_of([*same, odd])
    assert group.different == (answer_of(odd),)
    assert group_of(same).different == ()
    assert group_of([odd, same[0]]).different == (), "nothing is usual among two"
    # The one that stands for the others may itself be the odd one.
    group = group_of([odd, *same[:3]])
    assert first_answer(group.first) == "tail_effect"
    assert group.different == tuple(map(answer_of, same[:3]))
    # The slowest of a report.
    whole = explained(repeated_tour(5))
    rows = [each for each in whole.launches if each.launch.kernel == "transpose_rows"]
    slowest = max(rows, key=lambda each: each.launch.rank_time)
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


def test_rows_of_a_run_are_its_kernels() -> None:
    rows = (
        KernelRun("tour::normalise", "tour::normalise", None, None, 90, 9e6, 9e6, 0.0),
        KernelRun("solve", "solve", None, None, 10, 1e6, 1e6, 0.0),
    )
    found = program(explained(replace(read(TOUR), run=RunTable(rows, "cupti"))))
    assert [(row.kernel, row.count, row.launches) for row in found.rows] == [
        ("normalise", 90, (2,)),
        ("solve", 10, ()),
    ]
    assert found.us_total == 10e3
    assert found.rows[1].gain is None
    assert [each.launch.kernel for each in found.shown_launches] == ["normalise"]


def test_the_launch_that_takes_most_of_the_time_represents_its_group(wording) -> None:
    """As in a public report: two launches of 3 us and one of 108 us."""
    group = longer(1.0, 36.0, 1.02)
    assert representative(group) is group[1]
    assert representative(longer(1.0, 1.02, 1.01)).id == 2
    many = longer(9.0, *[1.0] * 69)
    assert representative(many).rank_time == many[1].rank_time, "most of the time is in the others"
    found = program(of_launches(*group))
    assert found.groups[0].first.launch.id == 1
    wording(found.represents_text(found.groups[0]))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(0, 100))
def test_groups_get_equal_numbers_of_explained_launches(sizes: list[int], more: int) -> None:
    most = len(sizes) + more
    shares = fair_shares(sizes, most)
    assert sum(shares) == min(most, sum(sizes))
    assert all(1 <= share <= size for share, size in zip(shares, sizes, strict=True))
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert not cut or max(cut) - min(cut) <= 1, "a group is cut where all that are cut are"
    assert not cut or max(shares) <= max(cut) + 1


@given(st.integers(1, 40))
def test_chosen_launches_cover_all_durations(most: int) -> None:
    profile = repeated_tour(10)
    groups = profile.groups_by_time(profile.launches)
    chosen = chosen_launches(groups, most)
    assert len(chosen) == len({launch.id for launch in chosen}) <= most
    assert {representative(group) for group in groups[:most]} <= set(chosen)
    for group in groups if most >= 9 else []:
        times = [launch.rank_time for launch in group]
        ends = [launch.rank_time for launch in chosen if launch in group]
        assert (min(ends), max(ends)) == (min(times), max(times))


def test_a_small_report_is_explained_completely() -> None:
    told = explained(read(TOUR), most=3)
    assert not told.is_sample
    assert [each.launch for each in told.launches] == list(told.asked) == list(read(TOUR).launches)


def test_the_program_has_all_launches(wording) -> None:
    """What was not explained of it is counted, and what its sample lacks is not claimed for all."""
    every, told = explained(repeated_tour(10), most=30), nine_of_thirty()
    whole, some = program(every), program(told)
    assert [row.launches for row in some.rows] == [row.launches for row in whole.rows]
    assert [row.us_total for row in some.rows] == [row.us_total for row in whole.rows]
    assert (some.total, some.gain) == (whole.total, whole.gain)
    assert some.shown == whole.shown
    wording(some.texts)
    assert not any("were explained" in text for text in whole.texts)
    page = explain_markdown(told)
    shown = page.count("\n### Launch ")
    assert shown
    assert f"{30 - shown} more launches" in page
    texts = texts_of(explain_html_page(told).blocks)
    wording([text for text in texts if text.startswith("All 10 launches")])
    assert "not explained" in explain_html(told)
    ids = [each.launch.id for each in told.launches]
    wording(whose_text(ids, told))
    assert whose_text(ids[:2], told) == f" (launch {ids[0]}, {ids[1]})"
    assert whose_text(range(30), every) == ""


def test_kernels_beyond_the_bound_are_one_row(wording) -> None:
    told = explained(different(read(TOUR), 12), most=5)
    found = program(told)
    *rows, rest = found.rows
    assert len(told.launches) == len(rows) == 5
    assert (rest.not_explained, rest.count, rest.kernel) == (7, 7, "7 others")
    assert answer_text(rest) == "not explained"
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    wording(found.texts[0])
    together = listed_rows(found, most=3)[-1]
    assert together.kernel == "10 others", "three of the explained ones, and the seven"
    assert together.gain is None, "of most of them no gain is known"
    wording(found.texts[1])
    assert "not explained" in explain_markdown(told) or "10 others" in explain_markdown(told)


def test_a_difference_within_a_sample_says_that_it_is_a_sample(wording) -> None:
    told = explained(repeated_tour(10), most=15)
    odd, *others = (
        each for each in told.launches if each.launch.kernel == told.launches[0].launch.kernel
    )
    changed = replace(odd, findings=())
    every = tuple(changed if each is odd else each for each in told.launches)
    assert others
    said = [text for text in program(told._replace(launches=every)).texts if "another" in text]
    assert len(said) == 1
    wording(said[0])


@pytest.fixture
def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("keet.explanation.analyst", "keet.profile.run_link"):
        monkeypatch.setattr(f"{module}.MAX_DECODED", 4)


@pytest.mark.usefixtures("few_are_kept")
def test_lazy_explanations_give_the_same_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch is explained once for it."""
    profile, explained = repeated_tour(4), list[int]()
    kept = explain(profile, profile.launches, 5, sass=False)
    diagnose = analyst.diagnose

    def counting(launch: Launch, *args: object, **options: object) -> object:
        explained.append(launch.id)
        return diagnose(launch, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(analyst, "diagnose", counting)
    passing = explain(profile, profile.launches, 5, sass=False, keep=False)
    document = explain_document(passing)
    assert explained == list(range(12))
    assert document.to_dict() == explain_document(kept).to_dict()
    assert isinstance(kept.launches, tuple)
    assert not isinstance(passing.launches, tuple)
    assert len(passing.launches) == 12
    assert passing.launches[7].verdict == kept.launches[7].verdict
    assert [each.launch.id for each in passing.launches[3:5]] == [3, 4]


def test_the_collected_program_equals_that_of_the_explanation() -> None:
    told = nine_of_thirty()
    passed = ProgramCollector(told)
    assert [each.launch.id for each in passed] == [each.launch.id for each in told.launches]
    found = passed.program()
    assert found.texts == program(told).texts
    assert plain(found) == plain(program(told))


class _Released:
    def __init__(self) -> None:
        self.count = 0

    def keep_summary(self) -> None:
        assert not self.count, "it is read before it is released"

    def release(self) -> None:
        self.count += 1


@pytest.mark.usefixtures("few_are_kept")
@pytest.mark.parametrize(("count", "released"), [(4, 0), (5, 1)])
def test_launches_of_a_large_report_are_not_kept_in_memory(count: int, released: int) -> None:
    launches: Sequence[_Released] = [_Released() for _ in range(count)]
    for number, launch in enumerate(iterate_launches(launches, "testing")):  # type: ignore[arg-type]
        assert launch is launches[number]
        assert launch.count == 0, "it is in use"
    assert [each.count for each in launches] == [released] * count


def test_a_released_launch_is_read_again() -> None:
    launch = read_profile(REPORTS / TOUR).launches[0]
    ids = ("duration", "dram_bytes_read", "inst_executed")
    before = [launch.get(each) for each in ids], launch.sections, launch.rules, launch.device
    launch.release()
    assert ([launch.get(each) for each in ids], launch.sections, launch.rules) == before[:3]
    assert launch.device is before[3]


@given(st.sets(st.integers(0, 40)), st.integers(-1, 41))
def test_a_coverage_gap_lists_its_launches(lacking: set[int], launch: int) -> None:
    launches = tuple(sorted(lacking))
    gap = GapDocument(id="id", label="label", gives="gives", launches=launches)
    assert gap.is_lacked_by(launch) == (launch in lacking)


def _calls(work: Callable[[], object]) -> int:
    counter = cProfile.Profile()
    counter.runcall(work)
    return sum(entry.callcount for entry in counter.getstats())


def _compared(profile: Profile) -> None:
    compare(*[Side((SideCapture(profile, profile.launches),)) for _ in range(2)])


def _printed(profile: Profile) -> None:
    explain_markdown(explain(profile, profile.launches, 5, sass=False), everything=True)


@pytest.mark.slow
@pytest.mark.parametrize("work", [_compared, _printed])
def test_work_grows_linearly_with_launches(
    work: Callable[[Profile], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some pairs of a comparison are explained, as many of any report: here it is one."""
    monkeypatch.setattr("keet.comparison.compare._MOST_EXPLAINED", 1)
    counts = []
    for kernels in (10, 20, 40):
        profile = different(read(TOUR), kernels)
        work(profile)  # what is read once is not counted
        counts.append(_calls(partial(work, profile)))
    first, second, third = counts
    assert third - second < 2.25 * (second - first)
