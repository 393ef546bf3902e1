"""Finds numbers in the words of a sentence: numbers are printed from evidence only.

A model's words must not state amounts in words or compare them either; keet's own may. What may
hold digits: code spans from the source, `file.cu:31` and `line 31` where there is such a
line, and names (`L2`, `FP64`, `sm_90`, `float4`, those of the source).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

from keet.evidence import number_words as words_for
from keet.evidence.digits import (
    CODE,
    HOW,
    NAME,
    SIZED,
    as_read,
    decoded,
    is_code,
    source_of,
    unknown_digits,
    without_places,
)

_A_NUMBER = "a number outside of braces"
HOW_TO_COMPARE = "write the comparison as an expression, {name_1 > 2 * name_2}"

_GREEK = re.compile(r"(?<!\w)(?:[\u0370-\u03ff]|μs)(?!\w)")
_LINK = re.compile(r"\w://|\bwww\.|\]\s?\(|<[a-z]+ [^<>]*=|\]\s?\[|\bjavascript:", re.I)
_PICTURE = re.compile(r"[\U0001f000-\U0001faff⚀-⚅]")
_CHOSEN = re.compile(
    r"(?<![\w.,])(\d+(?:\.\d+)?)(?![\d.,]*\d)"
    r"(?!\s?(?:%|x\b|times\b|per ?cent|[num]?s\b|[kKMGT]i?B\b|[KMG]?[Hh]z\b))"
)
"""A number without a unit of time, rate or share: a size that a proposed edit may choose."""
_INDEXED = re.compile(r"`[^`]*`|([A-Za-z_]\w*\[[^\][`{}]{1,40}\])")
"""`x[i+1]` is code also without quotes."""
_SHAPE = re.compile(r"(?<![\w.])\d+ ?[x×] ?\d+(?: ?[x×] ?\d+)?(?![\w.])")


class Allowed(NamedTuple):
    """What a text may quote."""

    code: str = ""
    """The source and suggested edits: a code span that quotes them is not a claim."""
    literals: frozenset[float] = frozenset()
    """Numbers of the source, the launch and the hardware."""
    is_proposal: bool = False
    """The text is about an edit or an expectation: it compares nothing measured, and may name sizes
    of the source or the suggested code."""
    names: frozenset[str] = frozenset()
    """Other names with digits: kernels, devices."""
    lines: Mapping[str, int] | None = None
    """Number of lines of each source file, by the file's name without folders; None: not known."""


def free_number(words: str, allowed: Allowed, *, compares: bool) -> str | None:
    """The problem of a sentence, with references as `{}`; None without one. `compares`: it contains
    a comparison in braces."""
    proposes = allowed.is_proposal and not words_for.SPEED.search(words)
    words = _INDEXED.sub(lambda match: f"`{match[1]}`" if match[1] else match[0], words)
    for match in CODE.finditer(words):
        span = decoded(match[1])
        quoted = is_code(span, allowed.code, allowed.literals, is_proposal=proposes)
        quoted = quoted or _is_literal(span, words[: match.start()], allowed.code)
        if not quoted or _strange(span):
            return f"`{match[1][:40]}` is not in the source; {HOW}"
    plain = as_read(CODE.sub(" code ", words))
    if words_for.FASTER.search(plain):
        return "only keet forecasts speed-ups; leave the amount out"
    return _unreadable(plain) or _stated(plain, allowed) or _compared(plain, allowed, compares)


def _is_literal(span: str, before: str, code: str) -> bool:
    """`0.5` of the source, where the words do not state it of something: "is `0.5`"."""
    literal = re.fullmatch(r"[-+]?(\d*\.\d+[fF]?|\d+\.[fF]?)", span.strip())
    return bool(literal and literal[1] in source_of(code).words and not _STATES.search(before))


_STATES = re.compile(
    r"(?:\b(?:is|are|was|were|at|of|by|to|than|about|only|just|reach\w*|takes?|hits?|with|has|rate"
    r"|share|ratio|occupancy)|[=~<>:(])\s*\Z",
    re.IGNORECASE,
)


def _unreadable(plain: str) -> str | None:
    """Characters that could hide numbers from the checks below."""
    if re.search(r"[{}]", plain.replace("{}", "")):
        return "a brace is not closed; a reference is one name or expression in braces"
    if _LINK.search(plain):
        return "it contains a link; write text without links"
    if "\\" in plain:
        return "it contains a backslash; write plain text, and code in backticks"
    strange = _strange(plain)
    if strange or (
        len(re.findall(r"[^\W\d_]+", plain)) > 5 and not words_for.ENGLISH.search(plain)
    ):
        return f"`{strange or plain[:20]}` is not plain English text; {HOW}"
    return None


def _strange(plain: str) -> str | None:
    """A number or letter outside the Latin alphabet. Single Greek letters are symbols."""
    if plain.isascii():
        return None
    for char in _GREEK.sub(" ", plain):
        is_number = unicodedata.numeric(char, None) is not None or _PICTURE.match(char)
        is_foreign = char.isalpha() and not unicodedata.name(char, "").startswith("LATIN")
        if not char.isascii() and (is_number or is_foreign):
            return char
    return None


def _stated(plain: str, allowed: Allowed) -> str | None:
    def known(match: re.Match[str], instead: str) -> str:
        """`32x32` or `32`, if the source has these numbers."""
        numbers = map(float, re.findall(r"\d+(?:\.\d+)?", match[0]))
        return instead if allowed.literals.issuperset(numbers) else match[0]

    def unnamed(match: re.Match[str]) -> str:
        """A name of the source is not a number word, unless it is also an ordinary word."""
        return " name " if match[0] in source.words and re.search(r"[\d_]", match[0]) else match[0]

    plain, problem = without_places(_without_names(plain, allowed.names), allowed.lines)
    if problem is not None:
        return problem
    plain = SIZED.sub(" sized ", plain)
    plain = _SHAPE.sub(lambda match: known(match, " sized "), plain)
    if allowed.is_proposal and not words_for.SPEED.search(plain):
        plain = words_for.COUNT.sub(" some ", plain)
        plain = _CHOSEN.sub(lambda match: known(match, " some "), plain)
    source = source_of(allowed.code)
    words = NAME.sub(unnamed, plain)
    for text in (words, words.replace("_", " "), words.replace("_", "")):
        for pattern in (words_for.RATIO, words_for.COUNT, words_for.ROMAN):
            if stated := pattern.search(text):
                return f"`{stated[0].strip()}` is {_A_NUMBER}; {HOW}"
    if digits := unknown_digits(plain, source):
        is_name = NAME.match(digits)
        return f"`{digits}` is {'not a name of the source' if is_name else _A_NUMBER}; {HOW}"
    return None


def _without_names(plain: str, names: frozenset[str]) -> str:
    for name in names:
        # The name of a kernel or a device may contain a claim.
        if not (words_for.RATIO.search(name) or words_for.MEASURED.search(name)):
            plain = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " name ", plain)
    return plain


def _compared(plain: str, allowed: Allowed, compares: bool) -> str | None:  # noqa: FBT001
    if compares or allowed.is_proposal:
        return None
    match = words_for.COMPARED.search(words_for.NO_COMPARISON.sub(" ", plain))
    if match and words_for.MEASURED.search(plain):
        return f"`{match[0]}` compares amounts; {HOW_TO_COMPARE}"
    return None
