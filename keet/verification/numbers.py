"""Finds the numbers that a text states: value, rounding and unit.

Skips digits that state nothing: code, places in code, identifiers, versions, dates, headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from keet.units import base_unit, parse_unit
from keet.verification.sentences import end_of_ignored, is_ignored, skip_prose
from keet.verification.unit_spellings import FACTORS, unit_at


class TextNumber(NamedTuple):
    """A number in a text."""

    text: str
    """As written, with its unit."""
    start: int
    end: int
    value: float
    """In `unit`, independent of the written prefix."""
    half: float
    """Half a unit of the last printed digit: the rounding error."""
    unit: str
    """In keet's spelling, `x` for a multiple; empty if none was written."""
    binary: bool = False
    """Written as KB, MB or GB, which some use for powers of 1024."""
    bound: Bound | None = None
    """`more than 60 %` is above, `under 5 us` below."""
    shape: tuple[int, ...] | None = None
    """`64x256`: a shape, not an amount."""
    alone: tuple[float, float] | None = None
    """Value and half without the unit, if the unit was taken from the next number."""


_NUMBER = re.compile(
    r"(?P<sign>[-+−](?=[\d.]))?"
    r"(?P<whole>\d{1,3}(?:[,_\u202f]\d{3}){1,99}(?!\d)|\d+)?(?P<fraction>\.\d+)?(?P<exp>[eE][-+]?\d+)?"
)
"""The limit of 99 groups bounds the time to search; more would exceed `_MOST_DIGITS` anyway."""
_STARTS = "0123456789.+-−"
"""First characters of a number, besides digits of other scripts."""
_NO_GROUPING = str.maketrans("", "", ",_\u202f")
_NO_DIGITS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;:()[]`'\"%\n"
_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d+")
_MOST_DIGITS = 300
"""Longer numbers exceed a float and are skipped."""
_FARTHEST_UNIT = 40
"""Most characters between two numbers that share a unit."""
_SIZE = r"(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,18})"
_SHAPE = re.compile(
    rf"(?<![\w.,]){_SIZE}(?:\s?[x×*]\s?{_SIZE}){{1,2}}(?![\w.]*\d)(?!\s?[%.]\d)"
    r"|(?![(\[]\d{1,3}(?:,\d{3}){2}[)\]])"  # (1,000,000) is a number
    r"[(\[]\s*\d{1,18}\s*,\s*\d{1,18}\s*,\s*\d{1,18}\s*[)\]]"
)
_MAYBE_SHAPE = re.compile(r"\d\s?[x×*]\s?\d|[(\[]\s*\d+\s*,")
"""Part of every shape: a fast test, because most texts have no shape."""
_JOINED = re.compile(
    r"\s*(?:,\s*(?:and|or)?|and|or|to|(?:out )?of(?: the| its)?|-|–|/|vs\.?|versus)\s*\Z"
)
_SCALED = re.compile(r"\d\s?(?:thousand|million|billion|trillion)\Z")
_UNIT_BEFORE = re.compile(r"[|\t]\s*(\S{1,16})\s*[|\t]\s*\Z|\s{2,}(\S{1,16})\s{2,}\Z")


def find_numbers(text: str, names: Iterable[str] = ()) -> list[TextNumber]:
    """Every number that `text` states. Digits in `names` (of kernels) are skipped."""
    if not _DIGIT.search(text):
        return []
    masked = _without_names(text, names)
    shapes = [*_shapes(text, masked)]
    masked = _blank(masked, [(shape.start, shape.end) for shape in shapes])
    found = [*shapes, *_amounts(text, masked)]
    found.sort(key=lambda number: number.start)
    return _with_shared_units(text, found)


def _without_names(text: str, names: Iterable[str]) -> str:
    spans = [span for name in names if _DIGIT.search(name) for span in _words(name, text)]
    return _blank(text, spans)


def _words(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Positions of a name as a whole word. A pattern per kernel name would be slow to compile."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        whole = not _is_of_word(text[start - 1 : start]) and not _is_of_word(text[end : end + 1])
        if whole:
            yield start, end
        start = text.find(name, end if whole else start + 1)


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text with spaces in place of the spans; the length is the same."""
    if not spans:
        return text
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)


def _shapes(text: str, masked: str) -> Iterator[TextNumber]:
    found = list(_SHAPE.finditer(masked)) if _MAYBE_SHAPE.search(masked) else []
    position = 0
    for match in found:
        start, end = match.span()
        # `32x8` looks like a number and an identifier: only skip if its first digit is ignored.
        while position < start:
            plain = min(skip_prose(masked, position), start)
            position = (
                plain if plain > position else max(end_of_ignored(masked, position), position + 1)
            )
        if position == start and end_of_ignored(masked, start) == start:
            sizes = tuple(int(part.replace(",", "")) for part in _sizes(match[0]))
            yield TextNumber(text[start:end], start, end, 0.0, 0.0, "", shape=sizes)


def _sizes(shape: str) -> list[str]:
    if shape[0] in "([":
        return [part.strip() for part in shape[1:-1].split(",")]
    return [part.strip(" ,") for part in re.split(r"[x×*]", shape)]


def _amounts(text: str, masked: str) -> Iterator[TextNumber]:
    """Numbers that are not shapes. Letters after the digits do not hide them: `14M`, `69.3us`."""
    position = 0
    end_of_digits = len(masked.rstrip(_NO_DIGITS))
    while (position := skip_prose(masked, position)) < end_of_digits:
        if (number := _number_at(text, masked, position)) is not None:
            yield number
            position = number.end
        elif (end := end_of_ignored(masked, position)) > position:
            position = end
        else:
            # The other digits of this run would be rejected for the same reason.
            digits = _DIGITS.match(masked, position)
            position = digits.end() if digits else position + 1


def _number_at(text: str, masked: str, position: int) -> TextNumber | None:
    first = masked[position]
    may_start = first in _STARTS or first.isdecimal()
    # Not if it is part of ignored text: `2025.3.1` and `3D` start with a digit too.
    match = _NUMBER.match(masked, position) if may_start else None
    if match is None or not (match["whole"] or match["fraction"]) or len(match[0]) > _MOST_DIGITS:
        return None
    if is_ignored(masked, position, match.end()):
        return None
    if (
        match["sign"]
        and position
        and (masked[position - 1].isalnum() or masked[position - 1] in ")%")
    ):
        return None
    if position and masked[position - 1] == "." and not match["sign"]:
        return None
    unit, end, power = unit_at(masked, match.end())
    if end == match.end() and masked[end : end + 1].isalpha():
        return None  # letters that are not a unit: an identifier such as 4090Ti
    return _said(text, match, unit, end, power)


def _said(text: str, match: re.Match[str], written: str, end: int, power: int) -> TextNumber:
    whole, fraction = match["whole"] or "0", (match["fraction"] or "").removeprefix(".")
    exponent = int((match["exp"] or "e0")[1:]) if len(match["exp"] or "") < 6 else 0
    before = text[max(0, match.start() - 24) : match.start()]
    unit, factor, tens = _base(written)
    tens += exponent + power
    digits = int(whole.translate(_NO_GROUPING) + fraction)
    value = _decimal(digits * factor, tens - len(fraction))
    half = _decimal(5 * factor, tens - len(fraction) - 1)
    if not fraction and digits and _is_hedged(before):  # `about 100` is not 132
        zeros = len(str(digits)) - len(str(digits).rstrip("0"))
        half = _decimal(5 * factor, tens + zeros - 1)
        half = min(half, _decimal(digits * factor, tens - 1)) if zeros else half
    sign = -1 if match["sign"] in ("-", "−") else 1
    return TextNumber(
        text=text[match.start() : end].strip(),
        start=match.start(),
        end=end,
        value=sign * value,
        half=half,
        unit=unit,
        binary=written[:2] in ("KB", "MB", "GB") and "/s" not in written,
        bound=bound_before(before),
    )


def _decimal(digits: int, tens: int) -> float:
    """The float nearest to a decimal number; a product of floats would have a rounding error."""
    return float(f"{digits}e{tens}")


def _base(written: str) -> tuple[str, int, int]:
    """keet's unit for a written unit, and the conversion to it: a factor and a power of ten."""
    if written in FACTORS:
        return "byte", FACTORS[written], 0
    unit = base_unit(written)
    return unit, 1, parse_unit(written).power - parse_unit(unit).power


def _with_shared_units(text: str, numbers: list[TextNumber]) -> list[TextNumber]:
    """`5.9, 29.5 and 24.6 %`: the unit of the last number applies to all."""
    shared = list(numbers)
    for index in range(len(shared) - 2, -1, -1):
        this, after = shared[index], shared[index + 1]
        if not this.unit and not this.shape and _lends_unit(text, this, after):
            shared[index] = _in_unit_of(this, after)
    return [_with_unit_before(text, number) for number in shared]


def _lends_unit(text: str, this: TextNumber, after: TextNumber) -> bool:
    if after.start - this.end > _FARTHEST_UNIT or not (after.unit or _SCALED.search(after.text)):
        return False
    return _JOINED.fullmatch(text, this.end, after.start) is not None


def _in_unit_of(this: TextNumber, other: TextNumber) -> TextNumber:
    """The number in the unit and prefix of the other number."""
    plain = _NUMBER.match(other.text)
    written = plain and float(re.sub(r"[,_\u202f−+]", "", plain[0]) or "0")
    factor = abs(other.value / written) if written else 1.0
    return _scaled(this, other.unit, factor)


def _scaled(number: TextNumber, unit: str, factor: float) -> TextNumber:
    return number._replace(
        value=number.value * factor,
        half=number.half * factor,
        unit=unit,
        alone=(number.value, number.half),
    )


def _with_unit_before(text: str, number: TextNumber) -> TextNumber:
    """ncu's tables have the unit in a column before the number."""
    if number.unit or number.shape:
        return number
    before = text[max(0, number.start - 40) : number.start]
    match = _UNIT_BEFORE.search(before) if _ends_column(before) else None
    word = (match[1] or match[2]) if match else ""
    written, end, power = unit_at(word, 0)
    if not word or end != len(word) or power:
        return number
    unit, factor, tens = _base(written)
    return _scaled(number, unit, _decimal(factor, tens))._replace(alone=None)


def _ends_column(before: str) -> bool:
    """Whether it ends with a bar, a tab or two blanks."""
    rest = before.rstrip()
    blanks = before[len(rest) :]
    return len(blanks) > 1 or "\t" in blanks or rest.endswith("|")


Bound = Literal["above", "below"]

_HEDGE = re.compile(
    r"(?:\b(?:about|around|roughly|approximately|approx\.?|nearly|almost|some|circa|ca\.)\s+|[~≈]\s?)\Z",
    re.IGNORECASE,
)
_ABOVE = re.compile(
    r"(?:\b(?:over|above|(?:more|greater|higher|longer) than|at least|exceed(?:s|ed|ing)?|beyond"
    r"|between|(?:no|not) (?:less|fewer|lower|shorter) than)\s+(?:the\s+)?|(?:>=?|≥)\s?)\Z",
    re.IGNORECASE,
)
_BELOW = re.compile(
    r"(?:\b(?:under|below|(?<!no )(?<!not )(?:less|fewer|lower|shorter) than|at most|up to"
    r"|(?:no|not) (?:more|greater|higher|longer) than|only up to)\s+(?:the\s+)?"
    r"|(?:<=?|≤)\s?|\bbetween\s+[\d.,]+\s?\S{0,5}\s+and\s+)\Z",
    re.IGNORECASE,
)
_HEDGE_ENDS = (
    *("about", "around", "roughly", "approximately", "approx", "approx.", "nearly", "almost"),
    *("some", "circa", "ca.", "~"),
)
_BOUND_ENDS = (
    *("over", "above", "than", "least", "exceed", "exceeds", "exceeded", "exceeding", "beyond"),
    *("between", "under", "below", "most", "up to", "and", "<", "<=", ">", ">="),
)
"""Ends of the patterns above, tested first: most numbers have none, and then no pattern is
compiled."""


def bound_before(before: str) -> Bound | None:
    """`more than`, `at most`; `between 20 and 30 %` are two bounds."""
    if not _may_end(before, _BOUND_ENDS):
        return None
    if _BELOW.search(before):  # first, because `no more than` ends with `more than`
        return "below"
    return "above" if _ABOVE.search(before) else None


def _is_hedged(before: str) -> bool:
    """`about`, `nearly`."""
    return _may_end(before, _HEDGE_ENDS) and _HEDGE.search(before) is not None


def _may_end(before: str, ends: tuple[str, ...]) -> bool:
    if not before.isascii():  # symbols, and letters with special upper case
        return True
    words = before.rstrip().lower().removesuffix("the").rstrip()
    return words.endswith(ends)


ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS = {word: n for n, word in enumerate(ONES)}
_WORDS |= {word: 10 * n for n, word in enumerate(TENS, 2)} | {"dozen": 12}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_ANY_WORD = "|".join([*_WORDS, *_SCALES])
WORDS = rf"(?:a\s+)?(?:{_ANY_WORD})(?:[\s-]+(?:{_ANY_WORD})){{0,5}}"
PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
FRACTION = rf"(?:(?:an?|one|two|three|four|five|nine)\s+)?(?:{'|'.join(PARTS)})s?"

_SHARE = re.compile(rf"\b(?P<words>{WORDS})[\s-]+(?:per\s?cent|%)(?!\w)", re.IGNORECASE)
_SPEED = r"(?:fast(?:er)?|quick(?:er)?|slow(?:er)?|long(?:er)?|shorter|speed|time|duration)\b"
_TIMES = re.compile(
    rf"\b(?P<words>{WORDS})\s+times(?=\s+(?:as\s+|the\s+)?{_SPEED})"
    rf"|\b(?P<word>twice|thrice|half)(?=\s+(?:as|the)\s+{_SPEED})",
    re.IGNORECASE,
)
_OF_UNIT = re.compile(rf"\b(?P<part>{FRACTION})\s+(?:of\s+)?an?\s+(?P<unit>wave)\b", re.IGNORECASE)
_COUNTED = re.compile(r"\b(?P<word>one|two|three|four)\s+(?P<unit>sector)s?\b", re.IGNORECASE)
_MULTIPLES = {"twice": 2.0, "thrice": 3.0, "half": 0.5}


def spelled_numbers(text: str) -> Iterator[TextNumber]:
    """Numbers in words, in no particular order: `ninety-one percent`, `ten times faster`.

    Only with a unit or a comparison: `one` and `two` alone may count anything.
    """
    for match in _SHARE.finditer(text):
        share = float(value_of(match["words"]))
        yield _spelled(match, share, 0.5 if share % 10 else 2.5, "%")
    for match in _TIMES.finditer(text):
        word = (match["word"] or "").lower()
        value = _MULTIPLES[word] if word else float(value_of(match["words"]))
        yield _spelled(match, value, min(0.5, value / 5), "x")
    for match in _OF_UNIT.finditer(text):
        value = fraction_of(match["part"])
        yield _spelled(match, value, value / 10, match["unit"].lower())
    for match in _COUNTED.finditer(text):
        yield _spelled(match, float(value_of(match["word"])), 0.05, match["unit"].lower())


def _spelled(match: re.Match[str], value: float, half: float, unit: str) -> TextNumber:
    bound = bound_before(match.string[max(0, match.start() - 24) : match.start()])
    return TextNumber(match[0], match.start(), match.end(), value, half, unit, bound=bound)


def value_of(words: str) -> int:
    """`two hundred and fifty-six` is 256."""
    total, part = 0, 0
    for word in re.findall(r"[a-z]+", words.lower()):
        if word in _SCALES:
            part = max(1, part) * _SCALES[word]
            total, part = (total + part, 0) if _SCALES[word] > 100 else (total, part)
        else:
            part += _WORDS.get(word, 0)
    return total + part


def fraction_of(words: str) -> float:
    """`three quarters` is 0.75."""
    *count, part = re.findall(r"[a-z]+", words.lower())
    return (value_of(count[0]) or 1 if count else 1) / PARTS[_singular(part)]


def _singular(part: str) -> str:
    return "half" if part == "halves" else part.removesuffix("s")
