"""Units behind a number are found as one pattern of all their spellings would find them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from keet.verification import unit_spellings
from keet.verification.unit_spellings import unit_at

_ANY = "|".join(map(re.escape, sorted(unit_spellings._SPELLINGS, key=len, reverse=True)))
_ANY_PER = "|".join(map(re.escape, sorted(unit_spellings._PER, key=len, reverse=True)))
HEAD = re.compile(rf"[\s\u00a0\u202f]?({_ANY})(?![\w])")
DENOMINATOR = re.compile(rf"(?:\s?/\s?|\s+(?:per|a|an|each)\s+)({_ANY_PER})(?![\w/])")
OTHERS = ("per", "a", "each", "foo", "x2", "_", "3", "points", "excess", "executed", "é")
WORDS = st.sampled_from(
    [
        *unit_spellings._SPELLINGS,
        *unit_spellings._PER,
        *unit_spellings._RATES,
        *unit_spellings._SCALES,
        *OTHERS,
    ]
)
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


def test_every_rate_is_found() -> None:
    for word, unit in unit_spellings._RATES.items():
        assert unit_at(f" {word}", 0) == (unit, len(word) + 1, 0)


UNITS = st.sampled_from(
    [
        *unit_spellings._SPELLINGS,
        *unit_spellings._PER,
        *unit_spellings._SCALES,
        *unit_spellings._RATES,
    ]
)
BETWEEN = st.sampled_from(
    [
        "",
        " ",
        "  ",
        "\n",
        "\n  ",
        "\t",
        "\u00a0",
        "/",
        " / ",
        " per ",
        " a ",
        "-",
        ".",
        ",",
        "points",
        "active ",
    ]
)


@given(st.lists(UNITS | BETWEEN, max_size=6).map("".join) | st.text(max_size=8))
def test_the_fast_path_finds_the_same_units(text: str) -> None:
    assert unit_at(text, 0) == unit_spellings._any_at(text, 0)
