"""What became of the findings, and what is not known of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from compared import Kernel, changed, difference, made, report, sample, sample_difference, without
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.analysis.ledger import Ledger
from keet.comparison.causes.explained_pair import ExplainedPair, WeightedLaunch
from keet.comparison.causes.finding_changes import changed_findings, outcome
from keet.comparison.causes.line_changes import (
    LineCost,
    SideLines,
    align,
    changed_lines,
    file_pairs,
)
from keet.comparison.compare import Difference
from keet.documents.finding import Forecast
from keet.profile import Location
from keet.profile.launch import file_name
from tests.rows import each_row


def _fates(found: Difference) -> dict[str, set[str]]:
    words = ("fixed", "new", "remaining", "unknown")
    return {word: {each for pair in found.pairs for each in getattr(pair, word)} for word in words}


def _sides(after: str, here: float, there: float) -> ExplainedPair:
    """A launch whose first finding would gain `here` times, and one where it would gain `there`
    times: minor below 1.1."""
    (flip,) = sample_difference("matrix_flip").pairs
    (slow,), (fast,) = flip.weighted
    other = slow if after == "slow" else fast
    sides = [_with_gain(slow, slow, here)], [_with_gain(other, slow, there)]
    return ExplainedPair(*sides, Ledger(), "p")


def _with_gain(each: WeightedLaunch, of: WeightedLaunch, gain: float) -> WeightedLaunch:
    finding = of.explanation.findings[0]
    assert finding.id == "uncoalesced_global"
    again = (replace(finding, forecast=Forecast(1.0, gain, gain)),) * (gain > 1)
    findings, lesser = (again, ()) if gain >= 1.1 else ((), again)
    return each._replace(explanation=replace(each.explanation, findings=findings, lesser=lesser))


@each_row(("after", "here", "there", "fate"), [
    ("fast", 1.11, 1.09, "remaining"),  # crossed the limit, and costs as much
    ("fast", 3.0, 1.09, "fixed"),  # what is left is minor
    ("fast", 3.0, 1.0, "fixed"),
    ("fast", 3.0, 1.2, "remaining"),  # costs less, and is still worth a change
    ("slow", 3.0, 1.02, "remaining"),  # the number that shows it is the same
])  # fmt: skip
def test_a_finding_is_fixed_where_its_cost_and_its_number_fell(
    after: str, here: float, there: float, fate: str
) -> None:
    told = outcome(_sides(after, here, there))
    assert {name: ids for name, ids in told.items() if ids} == {fate: ["uncoalesced_global"]}


def test_what_is_not_a_cause() -> None:
    """77.8 % excess sectors before, 0 % after: had it cost 1.05x before and 1.5x after, it would
    cost less time for the launch is shorter, and still not be why."""
    assert [cause.id for cause in changed_findings(_sides("fast", 3.0, 1.05))] == [
        "uncoalesced_global"
    ]
    assert changed_findings(_sides("fast", 1.2, 1.5)) == []
    # The part of the sectors beyond the ideal grew from 67 % to 71 % in sparse_apply.
    (pair,) = sample_difference("sparse_apply").pairs
    assert "uncoalesced_global" not in {each.finding for each in pair.attribution}
    assert "uncoalesced_global" in pair.remaining
    found = sample_difference("row_layers")
    told = [a.what for pair in found.pairs for a in pair.attribution if a.finding]
    assert told == ["redundant traffic: gone"]


@pytest.mark.slow
def test_a_missing_section_makes_nothing_fixed_or_new() -> None:
    full, basic = report("tour_lines.ncu-repz"), report("tour_basic.ncu-repz")
    for found in (difference(full, basic), difference(basic, full)):
        paired = [pair for pair in found.pairs if pair.how == "same"]
        assert paired
        for pair in paired:
            assert not [*pair.fixed, *pair.new]
            assert not [each for each in pair.attribution if each.kind == "cause"]


@pytest.mark.slow
@each_row(("name", "section"), [
    ("panel_product", "warp_issue_stalled"),
    ("key_count", "dram__"),
    ("matrix_flip", "l1tex__"),
    ("page_walk", "pct_of_peak"),
])  # fmt: skip
def test_missing_metrics_make_nothing_new(name: str, section: str) -> None:
    """Against the same pair with all numbers: nothing more is fixed or new."""
    before, after = sample(name), sample(name, "fast")
    full = _fates(difference(before, after))
    for sides in ((before, without(after, section)), (without(before, section), after)):
        found = _fates(difference(*sides))
        assert found["fixed"] <= full["fixed"]
        assert found["new"] <= full["new"]


@pytest.mark.slow
def test_a_finding_is_unknown_if_its_metrics_are_missing() -> None:
    before, after = sample("score_tiles"), without(sample("score_tiles", "fast"), "shared")
    found = _fates(difference(before, after))
    assert "shared_bank_conflict" in found["unknown"]
    assert "shared_bank_conflict" not in found["fixed"]


def test_a_missing_volume_is_not_zero() -> None:
    found = difference(sample("matrix_flip"), without(sample("matrix_flip", "fast"), "dram__bytes"))
    told = [a.what for pair in found.pairs for a in pair.attribution]
    assert told
    assert not [text for text in told if "DRAM" in text and "byte" in text]


@pytest.mark.slow
@each_row("value", [math.nan, math.inf, 0.0, -1.0, None])
def test_odd_numbers_do_not_crash(value: float | None) -> None:
    before = sample("matrix_flip")
    names = [n for n in before.launches[0].metric_names() if n.startswith(("sm__", "lts", "dram"))]
    odd = changed(before, metrics=dict.fromkeys(names, value))
    for found in (difference(before, odd), difference(odd, odd)):
        assert found.timing.noise >= 0
        shares = [each.share for pair in found.pairs for each in pair.attribution]
        assert all(share is None or math.isfinite(share) for share in shares)


def test_launches_without_metrics_do_not_crash() -> None:
    found = difference(made(Kernel("a", 1e6), "b"), made(Kernel("a", 2e6), "b"))
    assert found.timing.word == "slower"
    assert not any((*pair.attribution, *pair.fixed, *pair.new) for pair in found.pairs)


_LINE = st.sampled_from(["}", "", "{", "__syncthreads();"]) | st.text(
    alphabet="abcxyz01 =+*;[]", min_size=4, max_size=24
)
_TEXT = st.lists(_LINE, max_size=40)


def _code(count: int) -> list[str]:
    """Lines that are there once, with braces in between."""
    return [f"  value_{n} = a[{n * 7}];" if n % 3 else "}" for n in range(count)]


@settings(deadline=None)
@given(one=_TEXT, other=_TEXT)
def test_each_line_is_in_one_pair_at_most(one: list[str], other: list[str]) -> None:
    """And a text is aligned with itself."""
    assert align(one, one) == [(n, n) for n in range(len(one))]
    pairs = align(one, other)
    for at, text in ((0, one), (1, other)):
        numbers = [pair[at] for pair in pairs]
        assert len(set(numbers)) == len(numbers)
        assert all(0 <= number < len(text) for number in numbers)


@given(at=st.integers(0, 60), added=st.lists(_LINE, max_size=10))
def test_lines_that_were_inserted_or_moved_are_found(at: int, added: list[str]) -> None:
    text = _code(60)
    unique = [n for n in range(60) if n % 3]
    found = dict(align(text, [*text[:at], *added, *text[at:]]))
    assert {n: found.get(n) for n in unique} == {n: n + len(added) * (n >= at) for n in unique}
    moved = dict(align(text, [*text[at:], *text[:at]]))
    assert all(moved[n] == (n - at) % 60 for n in unique)


@given(gone=st.sets(st.integers(0, 59)))
def test_lines_that_were_deleted_leave_the_others(gone: set[int]) -> None:
    text = _code(60)
    left = [n for n in range(60) if n not in gone]
    found = dict(align(text, [text[n] for n in left]))
    assert all(found[n] == at for at, n in enumerate(left) if n % 3)
    assert not [n for n in gone if n % 3 and text[n] in {text[m] for m in left} and n in found]


def test_edited_lines() -> None:
    old = ["int i = blockIdx.x;", "out[x * n + y] = in[y * n + x];", "return;"]
    new = ["int i = blockIdx.x;", "out[y * n + x] = in[x * n + y];", "return;"]
    assert (1, 1) in align(old, new)
    assert (1, 1) not in align(old, [new[0], "completely_different(call);", new[2]])
    text = _code(30)
    assert len(align(text, ["\t\t" + line.strip() for line in text])) == 30


@each_row(
    ("one", "other"),
    [([], []), ([], ["x"]), ([""], []), (["\x00\xff\ufffd"] * 50, ["\x00", "\ud83d"] * 30)],
)
def test_odd_texts_do_not_crash(one: list[str], other: list[str]) -> None:
    assert len(align(one, other)) <= min(len(one), len(other))


def test_long_files_are_aligned() -> None:
    """20,000 lines, a tenth of them edited: seconds would be too long."""
    text = _code(20_000)
    edited = [line.replace("a[", "b[") if n % 30 == 1 else line for n, line in enumerate(text)]
    del edited[5_000:5_100]
    found = dict(align(text, edited))
    assert found[4_999] == 4_999
    assert found[19_999] == 19_899
    assert len(found) > 19_500
    assert align(["}"] * 20_000, ["}", ""] * 10_000) != []


@each_row("name", ["matrix_flip", "hydro_element", "tile_smooth"], few=1)
def test_the_lines_of_a_sample(name: str) -> None:
    (pair,) = sample_difference(name).pairs
    lines, mirrored = changed_lines(*pair.weighted), changed_lines(*pair.weighted[::-1])
    assert lines
    there = {(each.before, each.after, round(each.fell)) for each in lines}
    assert there == {(each.after, each.before, round(-each.fell)) for each in mirrored}
    for change in lines:
        version, place = ("fast", change.after) if change.after else ("slow", change.before)
        text = sample(name, version).launches[0].source_files[place.file]
        assert change.code == text.splitlines()[place.line - 1].strip()
        assert file_name(change.before.file if change.before else "slow.cu") == "slow.cu"


def test_each_file_has_one_version_at_most() -> None:
    """A header that is used on one side only is not a version of the file that includes it."""
    lines = [f"float value_{n} = input[{n}];" for n in range(10)]
    costs = {Location(name, n): LineCost(1.0, 0.1) for n, name in ((1, "a.cu"), (2, "a.cuh"))}
    one = SideLines({"a.cu": lines, "a.cuh": lines[:8]}, costs)
    other = SideLines({"a.cu": lines}, {Location("a.cu", 1): LineCost(1.0, 0.1)})
    assert list(file_pairs(one, other)) == list(file_pairs(other, one)) == [("a.cu", "a.cu")]


@pytest.mark.slow
def test_without_samples_or_texts_there_are_no_lines() -> None:
    (pair,) = sample_difference("mechanism_rates").pairs
    assert isinstance(changed_lines(*pair.weighted), str)
