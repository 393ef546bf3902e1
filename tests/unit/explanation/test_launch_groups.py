"""Large reports: which launches a view explains, and what it says of the others."""

from __future__ import annotations

import cProfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.comparison.compare import compare
from keet.comparison.sides import Side, SideCapture
from keet.documents.document import plain
from keet.documents.show import GapDocument
from keet.explanation.analyst import explain
from keet.explanation.explain_document import explain_document
from keet.explanation.explanation_types import Explanation
from keet.explanation.program import ProgramCollector, ProgramExplanation, program_of
from keet.pages.explain import whose_text
from keet.pages.program import answer_text, listed_rows
from keet.profile import Launch, Profile
from keet.profile.launch_sequences import (
    chosen_launches,
    fair_shares,
    iterate_launches,
    representative,
)
from tests.explain_pages import explain_html, explain_markdown
from tests.many_launches import different, repeated
from tests.page_blocks import explain_html_page, texts_of

TOUR = "tour_full.ncu-repz"
ProfileOf = Callable[[str], Profile]


def view_of(profile: Profile, most: int) -> Explanation:
    return explain(profile, profile.launches, 5, sass=False, most=most)


def program(explanation: Explanation) -> ProgramExplanation:
    found = program_of(explanation)
    assert found is not None
    return found


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
    profile = _thirty()
    groups = profile.groups_by_time(profile.launches)
    chosen = chosen_launches(groups, most)
    assert len(chosen) == len({launch.id for launch in chosen}) <= most
    assert {representative(group) for group in groups[:most]} <= set(chosen)
    for group in groups if most >= 9 else []:
        times = [launch.rank_time for launch in group]
        ends = [launch.rank_time for launch in chosen if launch in group]
        assert (min(ends), max(ends)) == (min(times), max(times))


_profiles: dict[str, Profile] = {}


@pytest.fixture(autouse=True)
def _read(profile_of: ProfileOf) -> None:
    _profiles.setdefault(TOUR, profile_of(TOUR))


def _thirty() -> Profile:
    return repeated(_profiles[TOUR], 10)


def test_a_small_report_is_explained_completely(profile_of: ProfileOf) -> None:
    profile = profile_of(TOUR)
    told = view_of(profile, most=3)
    assert not told.is_sample
    assert [each.launch for each in told.launches] == list(told.asked) == list(profile.launches)


@pytest.mark.slow
def test_the_program_has_all_launches(wording) -> None:
    profile = _thirty()
    whole, some = (program(view_of(profile, most)) for most in (30, 9))
    assert [row.launches for row in some.rows] == [row.launches for row in whole.rows]
    assert [row.us_total for row in some.rows] == [row.us_total for row in whole.rows]
    assert (some.total, some.gain) == (whole.total, whole.gain)
    assert some.shown == whole.shown
    wording(some.texts)
    assert not any("were explained" in text for text in whole.texts)


def test_hidden_launches_are_counted() -> None:
    page = explain_markdown(view_of(_thirty(), most=9))
    shown = page.count("\n### Launch ")
    assert shown
    assert f"{30 - shown} more launches" in page


def test_kernels_beyond_the_bound_are_one_row(wording) -> None:
    told = view_of(different(_profiles[TOUR], 12), most=5)
    found = program(told)
    *explained, rest = found.rows
    assert len(told.launches) == len(explained) == 5
    assert (rest.not_explained, rest.count, rest.kernel) == (7, 7, "7 others")
    assert answer_text(rest) == "not explained"
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    wording(found.texts[0])
    together = listed_rows(found, most=3)[-1]
    assert together.kernel == "10 others", "three of the explained ones, and the seven"
    assert together.gain is None, "of most of them no gain is known"
    wording(found.texts[1])
    assert "not explained" in explain_markdown(told) or "10 others" in explain_markdown(told)


@pytest.mark.slow
def test_a_difference_within_a_sample_says_that_it_is_a_sample(wording) -> None:
    told = view_of(_thirty(), most=15)
    odd, *others = (
        each for each in told.launches if each.launch.kernel == told.launches[0].launch.kernel
    )
    changed = replace(odd, findings=())
    every = tuple(changed if each is odd else each for each in told.launches)
    assert others
    said = [text for text in program(told._replace(launches=every)).texts if "another" in text]
    assert len(said) == 1
    wording(said[0])


@pytest.mark.slow
def test_a_page_lists_what_is_not_explained(wording) -> None:
    view = view_of(_thirty(), most=9)
    texts = texts_of(explain_html_page(view).blocks)
    wording([text for text in texts if text.startswith("All 10 launches")])
    assert "not explained" in explain_html(view)


@pytest.fixture
def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("keet.explanation.analyst", "keet.profile.launch_sequences"):
        monkeypatch.setattr(f"{module}.MAX_DECODED", 4)


@pytest.mark.slow
@pytest.mark.usefixtures("few_are_kept")
def test_lazy_explanations_give_the_same_document() -> None:
    profile = _thirty()
    kept, passing = (
        explain(profile, profile.launches, 5, sass=False, keep=keep) for keep in (True, False)
    )
    assert isinstance(kept.launches, tuple)
    assert not isinstance(passing.launches, tuple)
    assert len(passing.launches) == 30
    assert passing.launches[7].verdict == kept.launches[7].verdict
    assert [each.launch.id for each in passing.launches[3:5]] == [3, 4]
    assert explain_document(passing).to_dict() == explain_document(kept).to_dict()


@pytest.mark.slow
@pytest.mark.usefixtures("few_are_kept")
def test_each_launch_is_explained_once_for_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    from keet.explanation import analyst

    profile = _thirty()
    told = explain(profile, profile.launches, 5, sass=False, keep=False)
    explained: list[int] = []
    diagnose = analyst.diagnose

    def counting(launch: Launch, *args: object, **options: object) -> object:
        explained.append(launch.id)
        return diagnose(launch, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(analyst, "diagnose", counting)
    explain_document(told)
    assert explained == list(range(30))


def test_the_collected_program_equals_that_of_the_explanation() -> None:
    told = view_of(_thirty(), most=9)
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


def test_a_released_launch_is_read_again(profile_of: ProfileOf) -> None:
    launch = profile_of(TOUR).launches[0]
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
def test_work_grows_linearly_with_launches(work: Callable[[Profile], None]) -> None:
    counts = []
    for kernels in (50, 100, 200):
        profile = different(_profiles[TOUR], kernels)
        work(profile)  # what is read once is not counted
        counts.append(_calls(partial(work, profile)))
    first, second, third = counts
    assert third - second < 2.3 * (second - first)


@pytest.mark.slow
def test_gaps_of_explained_launches_are_not_claimed_for_all(wording) -> None:
    told = view_of(_thirty(), most=9)
    ids = [each.launch.id for each in told.launches]
    wording(whose_text(ids, told))
    assert whose_text(ids[:2], told) == f" (launch {ids[0]}, {ids[1]})"
    assert whose_text(range(30), view_of(_thirty(), most=30)) == ""
