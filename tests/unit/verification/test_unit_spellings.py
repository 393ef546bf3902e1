"""Units behind a number are found as one pattern of all their spellings would find them."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keet.verification import sentences, unit_spellings
from keet.verification.sentences import end_of_ignored, is_ignored, skip_prose
from keet.verification.unit_spellings import unit_at

_ANY = "|".join(map(re.escape, sorted(unit_spellings._SPELLINGS, key=len, reverse=True)))
_ANY_PER = "|".join(map(re.escape, sorted(unit_spellings._PER, key=len, reverse=True)))
HEAD = re.compile(rf"[\s\u00a0\u202f]?({_ANY})(?![\w])")
DENOMINATOR = re.compile(rf"(?:\s?/\s?|\s+(?:per|a|an|each)\s+)({_ANY_PER})(?![\w/])")
OTHERS = ("per", "a", "each", "foo", "x2", "_", "3", "points", "excess", "executed", "é")
UNITS = (
    *unit_spellings._SPELLINGS, *unit_spellings._PER, *unit_spellings._RATES, *unit_spellings._SCALES,
)  # fmt: skip
WORDS = st.sampled_from([*UNITS, *OTHERS])
GAPS = st.sampled_from(["", " ", "  ", "/", " / ", "-", " per ", " a ", "\n", "\u00a0", "."])


def expected(text: str) -> tuple[str, int, int]:
    """As `unit_at`, with the patterns above."""
    scale = unit_spellings._SCALE.match(text)
    power, start = (unit_spellings._SCALES[scale[1]], scale.end()) if scale else (0, 0)
    if rate := unit_spellings._RATE.match(text, start):
        return unit_spellings._RATES[rate[1]], rate.end(), power
    head = unit_spellings._SYMBOL.match(text, start) or HEAD.match(text, start)
    head = head or unit_spellings._WRAPPED.match(text, start)
    if head is None:
        between = unit_spellings._NOUN_BETWEEN.match(text, start)
        head = HEAD.match(text, between.end()) if between else None
    if head is None:
        return "", start, power
    unit, end = unit_spellings._SPELLINGS[head[1]], head.end()
    while part := DENOMINATOR.match(text, end):
        unit, end = f"{unit}/{unit_spellings._PER[part[1]]}", part.end()
    return unit, end, power


@given(GAPS, st.lists(st.tuples(WORDS, GAPS), min_size=1, max_size=4))
def test_a_unit_is_one_of_the_spellings(start: str, words: list[tuple[str, str]]) -> None:
    text = start + "".join(word + gap for word, gap in words)
    assert unit_at(text, 0) == expected(text)


def test_every_spelling_is_found() -> None:
    for word, unit in unit_spellings._SPELLINGS.items():
        assert unit_at(f" {word}" if word[0].isalpha() else word, 0)[0] == unit
    for word, unit in unit_spellings._RATES.items():
        assert unit_at(f" {word}", 0) == (unit, len(word) + 1, 0)


BETWEEN = st.sampled_from([
    "", " ", "  ", "\n", "\n  ", "\t", "\xa0", "/", " / ", " per ", " a ", "-", ".", ",",
    "points", "active ",
])  # fmt: skip


@given(st.lists(st.sampled_from(UNITS) | BETWEEN, max_size=6).map("".join) | st.text(max_size=8))
def test_the_fast_path_finds_the_same_units(text: str) -> None:
    assert unit_at(text, 0) == unit_spellings._any_at(text, 0)


PIECES = [
    "`", "```", "~~~", "\n", "\n\n", " ", "  ", "\t", "# ", "## ", "#3", "- ", "* ", "1. ", "12) ",
    "https://a.b/c:3", "slow.cu:31", "src/a-b/k.cu:7-9", ":7", ", 12", " and 40", " or 3 %",
    " to 9", "LDS.128", "FADD", "line 7", "Lines 3, 4 and 5", "launch #3", "launches 2 to 5",
    "launch", "#12", "2026-11-17", "2026-11-17T10:20", "10:20", "CUDA 12.4",
    "Compute Capability 9.0", "Nsight Compute", "v12.3", "PCIe v4", "Fig. 3", "2025.3.1", "0x1f",
    "tile<float, 32>", "a::b<c<3>>", "sm_90", "L2", "L1/TEX", "per-request", "1st", "3D", "32-bit",
    "32-byte", "5", "4.5", "1,234", "-3.2", ".5", "7e3", "2.1x", "%", "%,", ")", "(", ";", ".", ":",
    "x", "é", "٣", "−", "–", "_", "\\", "/", "é.cu:3", "v",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20)


def end_of_any(text: str, position: int) -> int:
    found = sentences._ANY.match(text, position)
    return found.end() if found else position


@given(TEXTS)
@example("slow.cu:31, 32 and 40, 49 %")
@example("Compute Capability 9.0 and Nsight Compute 2025.3")
@example("   ## 3 of them\n 4. is")
def test_separate_patterns_match_like_the_whole_pattern(text: str) -> None:
    for position in range(len(text)):
        assert end_of_ignored(text, position) == end_of_any(text, position), position


@given(TEXTS)
@example(" 1. a")
@example("launch of 3")
def test_skipped_prose_contains_no_part_of_a_number(text: str) -> None:
    for position in range(len(text)):
        end, at = skip_prose(text, position), position
        while at < end:
            assert text[at].isalpha() or text[at] in "_ ,;()%"
            at = max(end_of_any(text, at), at + 1)
        assert at == max(end, position)


@given(TEXTS)
def test_which_digits_are_ignored(text: str) -> None:
    for position in range(len(text)):
        end = position
        while end < len(text) and text[end].isdecimal():
            end += 1
        if end > position and (position == 0 or not text[position - 1].isdecimal()):
            assert is_ignored(text, position, end) == (end_of_any(text, position) >= end)


@pytest.mark.slow
def test_separate_patterns_match_like_the_whole_pattern_in_printed_pages() -> None:
    pages = sorted((Path(__file__).parents[2] / "golden").rglob("*.md"))
    assert pages
    for page in pages:
        text = page.read_text()
        assert all(end_of_ignored(text, at) == end_of_any(text, at) for at in range(len(text)))
