"""Finds numbers in the words of a sentence: numbers are printed from evidence only.

A model's words must not state amounts in words or compare them either; keet's own may. What may
hold digits: code spans from the source, `file.cu:31` and `line 31` where there is such a
line, and names (`L2`, `FP64`, `sm_90`, `float4`, those of the source).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from keet.evidence import number_words as words_for

HOW = "write it as {name} or as an expression, {dram_bytes / (N * 4 B)}"
_A_NUMBER = "a number outside of braces"
HOW_TO_COMPARE = "write the comparison as an expression, {name_1 > 2 * name_2}"

_CODE = re.compile(r"`([^`]*)`")
_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)\w+)*", re.ASCII)
_GREEK = re.compile(r"(?<!\w)(?:[\u0370-\u03ff]|μs)(?!\w)")
_TAG = re.compile(
    r"</?(?:b|i|u|s|em|strong|sub|sup|span|code|mark|small|br|p|wbr)\b[^<>]{0,80}>", re.I
)
_MARKUP = re.compile(r"[*~]+|(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])")
_LINK = re.compile(r"\w://|\bwww\.|\]\s?\(|<[a-z]+ [^<>]*=|\]\s?\[|\bjavascript:", re.I)
_COMPLEXITY = re.compile(r"\bO\([^(){}]{1,30}\)")
_PICTURE = re.compile(r"[\U0001f000-\U0001faff⚀-⚅]")
_COUNTED_PLACE = re.compile(
    r"\bplace\s+(?:sectors?|bytes?|cycles?|requests?|samples?|times|[kMG]?B)\b"
)
_CHOSEN = re.compile(
    r"(?<![\w.,])(\d+(?:\.\d+)?)(?![\d.,]*\d)"
    r"(?!\s?(?:%|x\b|times\b|per ?cent|[num]?s\b|[kKMGT]i?B\b|[KMG]?[Hh]z\b))"
)
"""A number without a unit of time, rate or share: a size that a proposed edit may choose."""
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
    for match in _CODE.finditer(words):
        span = _decoded(match[1])
        quoted = is_code(span, allowed.code, allowed.literals, is_proposal=proposes)
        if not quoted or _strange(span):
            return f"`{match[1][:40]}` is not in the source; {HOW}"
    plain = _as_read(_CODE.sub(" code ", words))
    if words_for.FASTER.search(plain):
        return "only keet forecasts speed-ups; leave the amount out"
    return _unreadable(plain) or _stated(plain, allowed) or _compared(plain, allowed, compares)


def number_in(words: str) -> str | None:
    """The first number in words of keet's own; None if digits occur only in names."""
    if words.isascii() and not _unknown_digits(words, _NO_CODE):  # `L2`: no need for the rest
        return None
    for match in _CODE.finditer(words):
        if not is_code(match[1], "", frozenset(), is_proposal=False):
            return match[0]
    plain, problem = _without_places(_as_read(_CODE.sub(" code ", words)), None)
    return problem or _unknown_digits(words_for.SIZED.sub(" sized ", plain), _NO_CODE)


def _as_read(text: str) -> str:
    """Without markup."""
    return _MARKUP.sub("", _TAG.sub("", _decoded(text)))


def _decoded(text: str) -> str:
    """Without zero-width characters, and with Unicode digits as ASCII digits."""
    if not text.isascii() or "&" in text:
        import html  # slow, and keet's own texts do not need it

        text = unicodedata.normalize("NFKC", html.unescape(_COMPLEXITY.sub(" ", text)))
        text = "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Mn", "Me", "Co"))
    return text


def _unreadable(plain: str) -> str | None:
    """Characters that could hide numbers from the checks below."""
    if re.search(r"[{}]", plain.replace("{}", "")):
        return "a brace is not closed; a reference is one name or expression in braces"
    if _LINK.search(plain):
        return "it contains a link; write text without links"
    if "\\" in plain:
        return "it contains a backslash; write plain text, and code in backticks"
    found = _strange(plain)
    if found or (len(re.findall(r"[^\W\d_]+", plain)) > 5 and not words_for.ENGLISH.search(plain)):
        return f"`{found or plain[:20]}` is not plain English text; {HOW}"
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

    plain, problem = _without_places(_without_names(plain, allowed.names), allowed.lines)
    if problem is not None:
        return problem
    plain = words_for.SIZED.sub(" sized ", plain)
    plain = _SHAPE.sub(lambda match: known(match, " sized "), plain)
    if allowed.is_proposal and not words_for.SPEED.search(plain):
        plain = words_for.COUNT.sub(" some ", plain)
        plain = _CHOSEN.sub(lambda match: known(match, " some "), plain)
    source = source_of(allowed.code)
    words = _NAME.sub(unnamed, plain)
    for text in (words, words.replace("_", " "), words.replace("_", "")):
        for pattern in (words_for.RATIO, words_for.COUNT, words_for.ROMAN):
            if found := pattern.search(text):
                return f"`{found[0].strip()}` is {_A_NUMBER}; {HOW}"
    if digits := _unknown_digits(plain, source):
        is_name = _NAME.match(digits)
        return f"`{digits}` is {'not a name of the source' if is_name else _A_NUMBER}; {HOW}"
    return None


def _unknown_digits(plain: str, source: TokenizedCode) -> str | None:
    """A name with digits that is not known, or a number that is not in a name."""
    for match in _NAME.finditer(plain):
        if not is_known_name(match[0], source):
            return match[0][:20]
    number = re.search(r"\d[^\s]{0,19}", _NAME.sub(" ", plain))
    return number and number[0]


def _without_names(plain: str, names: frozenset[str]) -> str:
    for name in names:
        # The name of a kernel or a device may contain a claim.
        if not (words_for.RATIO.search(name) or words_for.MEASURED.search(name)):
            plain = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " name ", plain)
    return plain


def _without_places(plain: str, lines: Mapping[str, int] | None) -> tuple[str, str | None]:
    for match in words_for.PLACE.finditer(plain):
        file = (match["file"] or "").rpartition("/")[2]
        numbers = re.findall(r"\d+", match["lines"] or f"{match['line']} {match['more']}")
        if not _exists(file, max(int(n[:9]) for n in numbers), lines):
            return plain, f"there is no {match[0]} in the source"
    plain = words_for.PLACE.sub(" place ", plain)
    for file in (file for file in lines or () if file in plain):
        plain = re.sub(rf"(?<![\w./]){re.escape(file)}(?!\w)", " file ", plain)
    if found := _COUNTED_PLACE.search(plain):
        return plain, f"`{found[0]}` counts with the number of a line; {HOW}"
    return plain, None


def _exists(file: str, line: int, lines: Mapping[str, int] | None) -> bool:
    if lines is None:
        return not file or bool(words_for.SOURCE_FILE.search(file))
    last = lines.get(file, 0) if file else max(lines.values(), default=0)
    return 0 < line <= last


def _compared(plain: str, allowed: Allowed, compares: bool) -> str | None:  # noqa: FBT001
    if compares or allowed.is_proposal:
        return None
    found = words_for.COMPARED.search(words_for.NO_COMPARISON.sub(" ", plain))
    if found and words_for.MEASURED.search(plain):
        return f"`{found[0]}` compares amounts; {HOW_TO_COMPARE}"
    return None


# --- code spans, and names with digits

_NOT_CODE = re.compile(
    r'"""[\s\S]*?(?:"""|\Z)|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"'
    r"|#(?!\s*(?:define|pragma|if|ifdef|ifndef|else|elif|endif|include|undef|error|line)\b)[^\n]*"
)
"""Comments and strings: they can contain claims."""
_CODE_TOKEN = re.compile(r"[A-Za-z_]\w*|0[xX][0-9a-fA-F]+\w*|\d(?:[eE][-+]\d|[\w.])*|\S", re.ASCII)
_PERCENT = re.compile(r"\d\s*%(?!\s*[\w(])")
"""`82 %`: a remainder operator would be followed by an operand."""
_PLAIN_NUMBER = re.compile(r"[-+]?[\d,]+(?:\.\d+)?")
_ASSIGNED = re.compile(r"(?<![=<>!])=\s*\d")
"""`n = 32`: may be a value that the source does not have."""


class TokenizedCode(NamedTuple):
    """The source as tokens, for searching quotes."""

    text: str
    """One token per line, so that a search cannot start or end inside a token."""
    words: frozenset[str]


_NO_CODE = TokenizedCode("", frozenset())


@lru_cache(maxsize=8)
def source_of(code: str) -> TokenizedCode:
    tokens = _CODE_TOKEN.findall(_NOT_CODE.sub(" ", code))
    return TokenizedCode(_joined(tokens), frozenset(tokens))


def _joined(tokens: Sequence[str]) -> str:
    return "\n".join(["", *tokens, ""])


def is_code(span: str, code: str, literals: frozenset[float], *, is_proposal: bool) -> bool:
    """It is in the source, or it has no other numbers than the source and the suggested edits.

    A plain number (`256`) is one of the sentence, whatever it stands in, except in a proposal.
    """
    source, tokens = source_of(code), _CODE_TOKEN.findall(span)
    numbers = {_number(token) for token in tokens if token[0].isdigit()}
    is_plain = bool(_PLAIN_NUMBER.fullmatch(span.strip()))
    if _joined(tokens) in source.text and not is_plain:
        return True
    # `thirty percent`, but `%` is the remainder in code, and `half` is a type.
    plain = re.sub(r"\bhalf\b|%", " ", span)
    stated = (words_for.COUNT.search(plain), words_for.RATIO.search(plain))
    if _PERCENT.search(span) or _ASSIGNED.search(span) or any(stated):
        return False
    # New code that uses known names: `COLS * (COLS + 1) / 2`.
    if is_plain:
        return is_proposal and numbers <= literals
    return not numbers or (not source.words.isdisjoint(tokens) and numbers <= literals)


def _number(token: str) -> float:
    try:
        if token[:2].lower() == "0x":
            return float(int(token.rstrip("uUlL"), 16))
        return float(token.rstrip("uUlLfF").replace("'", ""))
    except (ValueError, OverflowError):
        return float("nan")


def is_known_name(name: str, source: TokenizedCode) -> bool:
    """A name without digits, a name of the source, or a well-known one: `L2`, `LDG.E.128`."""
    known = words_for.KNOWN_NAME.fullmatch
    if name in source.words or not re.search(r"\d", name) or known(name):
        return True
    first, *rest = re.split(r"[._]+|::", name.strip("._:"))
    unknown = [p for p in (first, *rest) if not (p.isalpha() or known(p) or known(p.upper()))]
    return first not in unknown and words_for.WIDTHS.issuperset(unknown)
