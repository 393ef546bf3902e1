"""Lines of two versions, matched by what they say."""

from __future__ import annotations

import pytest
from compared import NAMES, sample, sample_difference
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.comparison.causes.line_changes import (
    LineCost,
    SideLines,
    align,
    changed_lines,
    file_pairs,
)
from keet.profile import Location
from keet.profile.names import file_name
from tests.rows import each_row

_LINE = st.sampled_from(["}", "", "{", "__syncthreads();"]) | st.text(
    alphabet="abcxyz01 =+*;[]", min_size=4, max_size=24
)
_TEXT = st.lists(_LINE, max_size=40)


def _code(count: int) -> list[str]:
    """Lines that are there once, with braces in between."""
    return [f"  value_{n} = a[{n * 7}];" if n % 3 else "}" for n in range(count)]


@given(text=_TEXT)
def test_a_text_is_aligned_with_itself(text: list[str]) -> None:
    assert align(text, text) == [(n, n) for n in range(len(text))]


@settings(deadline=None)
@given(one=_TEXT, other=_TEXT)
def test_each_line_is_in_one_pair_at_most(one: list[str], other: list[str]) -> None:
    pairs = align(one, other)
    for at, text in ((0, one), (1, other)):
        numbers = [pair[at] for pair in pairs]
        assert len(set(numbers)) == len(numbers)
        assert all(0 <= number < len(text) for number in numbers)


@given(at=st.integers(0, 60), added=st.lists(_LINE, max_size=10))
def test_lines_that_were_inserted_move_the_others(at: int, added: list[str]) -> None:
    text = _code(60)
    found = dict(align(text, [*text[:at], *added, *text[at:]]))
    unique = [n for n in range(60) if n % 3]
    assert {n: found.get(n) for n in unique} == {n: n + len(added) * (n >= at) for n in unique}


@given(gone=st.sets(st.integers(0, 59)))
def test_lines_that_were_deleted_leave_the_others(gone: set[int]) -> None:
    text = _code(60)
    left = [n for n in range(60) if n not in gone]
    found = dict(align(text, [text[n] for n in left]))
    assert all(found[n] == at for at, n in enumerate(left) if n % 3)
    assert not [n for n in gone if n % 3 and text[n] in {text[m] for m in left} and n in found]


@given(cut=st.integers(0, 60))
def test_lines_that_were_moved_are_found(cut: int) -> None:
    text = _code(60)
    found = dict(align(text, [*text[cut:], *text[:cut]]))
    assert all(found[n] == (n - cut) % 60 for n in range(60) if n % 3)


def test_an_edited_line_is_a_version_of_the_old_one() -> None:
    old = ["int i = blockIdx.x;", "out[x * n + y] = in[y * n + x];", "return;"]
    new = ["int i = blockIdx.x;", "out[y * n + x] = in[x * n + y];", "return;"]
    assert (1, 1) in align(old, new)
    assert (1, 1) not in align(old, [new[0], "completely_different(call);", new[2]])


def test_indentation_does_not_matter() -> None:
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


def test_long_files_of_braces_are_aligned_fast() -> None:
    assert align(["}"] * 20_000, ["}", ""] * 10_000) != []


@each_row("name", ["matrix_flip", "hydro_element", "tile_smooth"], few=1)
def test_the_lines_of_a_sample(name: str) -> None:
    (pair,) = sample_difference(name).pairs
    lines = changed_lines(*pair.weighted)
    assert not isinstance(lines, str)
    assert lines
    mirrored = changed_lines(*pair.weighted[::-1])
    assert not isinstance(mirrored, str)
    assert {(x.before, x.after, round(x.fell)) for x in lines} == {
        (x.after, x.before, round(-x.fell)) for x in mirrored
    }
    for change in lines:
        texts = [
            _text(name, version, place)
            for version, place in (("slow", change.before), ("fast", change.after))
            if place
        ]
        assert change.code == texts[-1]
        assert file_name(change.before.file if change.before else "slow.cu") == "slow.cu"


def _text(name: str, version: str, place) -> str:
    text = sample(name, version).launches[0].source_files[place.file]
    assert text
    return text.splitlines()[place.line - 1].strip()


@each_row("name", NAMES[::4])
@pytest.mark.slow
def test_no_line_costs_more_than_the_kernel(name: str) -> None:
    for pair in sample_difference(name).pairs:
        lines = changed_lines(*pair.weighted)
        if isinstance(lines, str):
            continue
        assert sum(change.costs[0].ns for change in lines) <= 1.001 * (pair.timing.before or 0)
        assert sum(change.costs[1].ns for change in lines) <= 1.001 * (pair.timing.after or 0)


def test_each_file_has_one_version_at_most() -> None:
    """A header that is used on one side only is not a version of the file that includes it."""
    lines = [f"float value_{n} = input[{n}];" for n in range(10)]
    cost = LineCost(1.0, 0.1)
    one = SideLines(
        {"a.cu": lines, "a.cuh": lines[:8]},
        {Location("a.cu", 1): cost, Location("a.cuh", 2): cost},
    )
    other = SideLines({"a.cu": lines}, {Location("a.cu", 1): cost})
    assert list(file_pairs(one, other)) == list(file_pairs(other, one)) == [("a.cu", "a.cu")]


@pytest.mark.slow
def test_without_samples_or_texts_there_are_no_lines() -> None:
    (pair,) = sample_difference("mechanism_rates").pairs
    assert isinstance(changed_lines(*pair.weighted), str)
