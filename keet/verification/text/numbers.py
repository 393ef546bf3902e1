"""Finds the numbers that a text states: value, rounding and unit.

Skips digits that state nothing: code, places in code, identifiers, versions, dates, headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from keet.units import base_unit, parse_unit
from keet.verification.text.ignored_digits import end_of_ignored, is_ignored, skip_prose
from keet.verification.text.number_bounds import Bound, bound_before, is_hedged
from keet.verification.text.unit_spellings import FACTORS, unit_at


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
_FARTHEST = 40
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
    if not fraction and digits and is_hedged(before):  # `about 100` is not 132
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
    if after.start - this.end > _FARTHEST or not (after.unit or _SCALED.search(after.text)):
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
