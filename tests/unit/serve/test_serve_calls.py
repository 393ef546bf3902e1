"""Results keep to their length, whatever is in a report."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keet_tools.calls import (
    MAX_STRUCTURED,
    MAX_TEXT,
    PAGE,
    bounded,
    bounded_text,
    json_size,
    page_of,
)

from keet.errors import UsageError

texts = st.text(max_size=20) | st.sampled_from(["x" * 20_000, "\x1b" * 4_000, "\u202e" * 500])
values = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=1).map(lambda few: few * 100)
        | st.dictionaries(st.text(max_size=5).map("#{}".format), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(max_examples=20)
@given(st.lists(values, max_size=20), values)
def test_any_result_fits_and_loses_no_entry_of_its_page(
    entries: list[object], other: object
) -> None:
    page = page_of(entries, len(entries), 0, 1000)
    result = bounded({"notes": page.notes, "entries": page.entries, "other": other}, "entries")
    assert json_size(result) <= MAX_STRUCTURED
    assert len(result["entries"]) + page.more == len(entries)
    assert page.next_offset == (len(page.entries) if page.more else None)
    assert len(page.entries) > 0 or not entries


def test_pages() -> None:
    entries = [{"id": number, "text": "y" * (number % 700)} for number in range(500)]
    seen: list[object] = []
    while len(seen) < len(entries):
        page = page_of(entries[len(seen) :], len(entries), len(seen), 60)
        assert json_size(page.entries) <= PAGE + len(page.entries) * 2 + 2
        seen += page.entries
        assert page.next_offset == (len(seen) if len(seen) < len(entries) else None)
    assert seen == entries
    with pytest.raises(UsageError, match="offset 3: there are 3"):
        page_of([], 3, 3, 10)
    assert page_of([], 0, 0, 10).entries == []


def test_what_is_cut() -> None:
    (note,) = bounded({"notes": [], "text": "x" * 30_000})["notes"]
    assert "cut" in note
    assert bounded({"notes": [], "text": "x" * 300})["notes"] == []
    assert page_of([{"points": [0] * 900}], 1, 0, 10).notes == [note]
    end = "9 more lines: call again with offset 3"
    for text in ("a line\n" * 5_000, '"\n' * 9_000, "x" * 20_000):
        cut = bounded_text(text, end)
        assert cut.endswith(f"at once]\n\n{end}\n")
        assert json_size(cut) <= MAX_TEXT
    assert bounded_text("a\n", end) == f"a\n\n{end}\n"
    cut = bounded_text("a line\n" * 5_000)
    assert cut.endswith("more characters of text; ask for less at once]\n")
    assert set(cut.splitlines()[:-2]) == {"a line"}


@settings(max_examples=20)
@given(st.text(max_size=300) | st.text(max_size=5).map(lambda some: some * 9_000))
def test_texts_fit_and_have_no_control_characters(text: str) -> None:
    cut = bounded_text(text)
    assert json_size(cut) <= MAX_TEXT
    assert not {c for c in cut if unicodedata.category(c) in ("Cc", "Cf", "Cs")} - {"\n", "\t"}
