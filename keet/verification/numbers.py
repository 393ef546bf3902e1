"""Finds the numbers that a text states: value, rounding and unit.

Units are recognised in the spellings that people use. Skips digits that state nothing: code, places
in code, identifiers, versions, dates, headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from keet.units import base_unit, parse_unit
from keet.verification.sentences import Span, blanked, end_of_ignored

Bound = Literal["above", "below"]


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

    def moved(self, by: int) -> TextNumber:
        return self._replace(start=self.start + by, end=self.end + by)


_NUMBER = re.compile(
    r"(?P<sign>[-+−](?=[\d.]))?"
    r"(?P<whole>\d{1,3}(?:[,_\u202f]\d{3}){1,99}(?!\d)|\d+)?(?P<fraction>\.\d+)?(?P<exp>[eE][-+]?\d+)?"
)
"""The limit of 99 groups bounds the time to search; more would exceed `_MOST_DIGITS` anyway."""
_NO_GROUPING = str.maketrans("", "", ",_\u202f")
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
_JOINED = re.compile(
    r"\s*(?:,\s*(?:and|or)?|and|or|to|(?:out )?of(?: the| its)?|-|–|/|vs\.?|versus)\s*\Z"
)
_SCALED = re.compile(r"\d\s?(?:thousand|million|billion|trillion)\Z")
_UNIT_BEFORE = re.compile(r"[|\t]\s*(\S{1,16})\s*[|\t]\s*\Z|\s{2,}(\S{1,16})\s{2,}\Z")
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


def find_numbers(text: str, names: Iterable[str] = ()) -> list[TextNumber]:
    """Every number that `text` states in digits. Digits in `names` (of kernels) are skipped."""
    named = (span for name in names if _DIGITS.search(name) for span in _words(name, text))
    masked = blanked(text, named)
    shapes = [*_shapes(text, masked)]
    masked = blanked(masked, shapes)
    numbers = [*shapes, *_amounts(text, masked)]
    numbers.sort(key=lambda number: number.start)
    return _with_shared_units(text, numbers)


def _words(name: str, text: str) -> Iterator[Span]:
    """Positions of a name as a whole word. A pattern per kernel name would be slow to compile."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        whole = not _is_of_word(text[start - 1 : start]) and not _is_of_word(text[end : end + 1])
        if whole:
            yield Span(start, end)
        start = text.find(name, end if whole else start + 1)


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _shapes(text: str, masked: str) -> Iterator[TextNumber]:
    position = 0
    for match in _SHAPE.finditer(masked):
        start, end = match.span()
        # `32x8` looks like a number and an identifier: only skip if its first digit is ignored.
        while position < start:
            position = max(end_of_ignored(masked, position), position + 1)
        if position == start and end_of_ignored(masked, start) == start:
            comma = "," if match[0][0] in "([" else r"[x×*]"
            sizes = re.split(comma, match[0].strip("()[]"))
            shape = tuple(int(size.replace(",", "")) for size in sizes)
            yield TextNumber(text[start:end], start, end, 0.0, 0.0, "", shape=shape)


def _amounts(text: str, masked: str) -> Iterator[TextNumber]:
    """Numbers that are not shapes. Letters after the digits do not hide them: `14M`, `69.3us`."""
    position = 0
    while position < len(masked):
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
    match = _NUMBER.match(masked, position)
    if match is None or not (match["whole"] or match["fraction"]) or len(match[0]) > _MOST_DIGITS:
        return None
    if end_of_ignored(masked, position) >= match.end():
        return None  # part of ignored text: `2025.3.1` and `3D` start with a digit too
    before = masked[position - 1 : position]
    if match["sign"] and (before.isalnum() or before in (")", "%")):
        return None
    if before == "." and not match["sign"]:
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
    if not fraction and digits and _HEDGE.search(before):  # `about 100` is not 132
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


def bound_before(before: str) -> Bound | None:
    """`more than`, `at most`; `between 20 and 30 %` are two bounds."""
    if _BELOW.search(before):  # first, because `no more than` ends with `more than`
        return "below"
    return "above" if _ABOVE.search(before) else None


def _with_shared_units(text: str, numbers: list[TextNumber]) -> list[TextNumber]:
    """`5.9, 29.5 and 24.6 %`: the unit of the last number applies to all."""
    shared = list(numbers)
    for index in range(len(shared) - 2, -1, -1):
        this, after = shared[index], shared[index + 1]
        is_near = after.start - this.end <= _FARTHEST_UNIT
        joined = is_near and _JOINED.fullmatch(text, this.end, after.start)
        lends = joined and (after.unit or _SCALED.search(after.text))
        if lends and not this.unit and not this.shape:
            plain = _NUMBER.match(after.text)
            written = plain and float(re.sub(r"[,_\u202f−+]", "", plain[0]) or "0")
            prefix = abs(after.value / written) if written else 1.0
            shared[index] = _scaled(this, after.unit, prefix)
    return [_with_unit_before(text, number) for number in shared]


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
    match = _UNIT_BEFORE.search(text, max(0, number.start - 40), number.start)
    word = (match[1] or match[2]) if match else ""
    written, end, power = unit_at(word, 0)
    if not word or end != len(word) or power:
        return number
    unit, factor, tens = _base(written)
    return _scaled(number, unit, _decimal(factor, tens))._replace(alone=None)


# --- units

_SYMBOLS = {
    "ns": ("nsec", "nsecond", "nseconds", "nanosecond", "nanoseconds"),
    "us": ("µs", "μs", "usec", "usecond", "useconds", "microsecond", "microseconds"),
    "ms": ("msec", "msecond", "mseconds", "millisecond", "milliseconds"),
    "s": ("sec", "second", "seconds"),
    "byte": ("B", "Byte", "bytes", "Bytes"),
    "Kbyte": ("kB", "Kbytes", "kilobytes"),
    "Mbyte": ("Mbytes", "megabytes"),
    "Gbyte": ("Gbytes", "gigabytes"),
    "Tbyte": ("TB", "Tbytes", "terabytes"),
    "hz": ("Hz",),
    "Khz": ("kHz", "KHz", "khz"),
    "Mhz": ("MHz",),
    "Ghz": ("GHz",),
    "%": ("percent", "per cent", "pct"),
    "point": ("points", "percentage points", "percentage point", "% points", "%-points", "pp"),
    "x": ("×", "times", "X", "-fold", "fold"),
    "way": ("-way", " - way"),
    "bit": ("bits",),
    "branch": ("branches",),
    "pass": ("passes",),
    "launch": ("launches",),
    "inst": ("insts", "instruction", "instructions", "warp instruction", "warp instructions"),
    "register": ("registers", "reg", "regs"),
    "block": ("blocks", "CTA", "CTAs", "thread blocks"),
    "SM": ("SMs",),
    "flop": ("flops", "FLOP"),
    "Kflop": ("kFLOP", "KFLOP"),
    "Mflop": ("MFLOP",),
    "Gflop": ("GFLOP",),
    "Tflop": ("TFLOP",),
    "op": ("ops",),
    "Kop": ("kop",),
    "Gop": ("GOP",),
    "Top": ("TOP",),
    **dict.fromkeys(("Mop", "KB", "MB", "GB", "KiB", "MiB", "GiB"), ()),
}
_COUNTED_THINGS = (
    *("sector", "warp", "cycle", "thread", "request"),
    *("sample", "wavefront", "conflict", "cluster", "wave"),
)
SPELLINGS = {word: unit for unit, words in _SYMBOLS.items() for word in (unit, *words)}
SPELLINGS |= {word: noun for noun in _COUNTED_THINGS for word in (noun, f"{noun}s")}
"""keet's unit by what people write."""
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
RATES = {
    f"{p}{word}S": f"{p}{unit}/s" for p in "KMGT" for word, unit in (("FLOP", "flop"), ("OP", "op"))
}
"""`TFLOPS`: a rate without `/s`."""
_POWERS = {
    **dict.fromkeys(("k", "K", "thousand"), 3),
    **dict.fromkeys(("M", "million"), 6),
    **dict.fromkeys(("G", "billion", "bn"), 9),
    **dict.fromkeys(("T", "trillion"), 12),
}
DENOMINATORS = {
    **{word: unit for word, unit in SPELLINGS.items() if not word.startswith(("%", "-"))},
    **{word: word for word in ("scheduler", "kernel", "line", "issue", "SMSP", "lane")},
    "multiprocessor": "SM",
    "clock": "cycle",
}


def _any_of(words: Iterable[str]) -> str:
    """The longest first."""
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_POWER = re.compile(rf"\s?({_any_of(_POWERS)})(?![\w/])")
_RATE = re.compile(rf"[\s-]?({_any_of(RATES)})(?!\w)")
_SYMBOL = re.compile(r"[\s\u00a0\u202f]?(% points|%-points|%)")
_UNIT = re.compile(rf"[\s\u00a0\u202f]?({_any_of(SPELLINGS)})(?!\w)")
_SHORT = filter(re.compile("[nuµm]?s|[kKMGT]?i?B").fullmatch, SPELLINGS)
_WRAPPED = re.compile(rf"\n\s+({_any_of(_SHORT)})(?!\w)")
"""A unit on the next line, if a table row was wrapped; not nouns, which may begin another row."""
_DENOMINATOR = re.compile(rf"(?:\s?/\s?|\s+(?:per|a|an|each)\s+)({_any_of(DENOMINATORS)})(?![\w/])")
_NOUN_BETWEEN = re.compile(
    r"\s(?:warp|thread|memory|bank|active|eligible|excess(?:ive)?|executed)(?=\s)"
)


def unit_at(text: str, position: int) -> tuple[str, int, int]:
    """The unit written at `position`, where it ends, and a power of ten (`14.7 M sectors`)."""
    tens, start = 0, position
    if power := _POWER.match(text, position):
        tens, start = _POWERS[power[1]], power.end()
    if rate := _RATE.match(text, start):
        return RATES[rate[1]], rate.end(), tens
    match = _SYMBOL.match(text, start) or _UNIT.match(text, start) or _WRAPPED.match(text, start)
    if match is None and (between := _NOUN_BETWEEN.match(text, start)):
        match = _UNIT.match(text, between.end())
    if match is None:
        return "", start, tens
    unit, end = SPELLINGS[match[1]], match.end()
    while part := _DENOMINATOR.match(text, end):
        unit, end = f"{unit}/{DENOMINATORS[part[1]]}", part.end()
    return unit, end, tens


def _base(written: str) -> tuple[str, int, int]:
    """keet's unit for a written unit, and the conversion to it: a factor and a power of ten."""
    if written in _BINARY:
        return "byte", _BINARY[written], 0
    unit = base_unit(written)
    return unit, 1, parse_unit(written).power - parse_unit(unit).power


# --- numbers in words

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
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
MULTIPLES = {"twice": 2.0, "double": 2.0, "thrice": 3.0, "triple": 3.0, "half": 0.5}


def spelled_numbers(text: str) -> Iterator[TextNumber]:
    """Numbers in words, in no particular order: `ninety-one percent`, `ten times faster`.

    Only with a unit or a comparison: `one` and `two` alone may count anything.
    """
    for match in _SHARE.finditer(text):
        share = float(value_of(match["words"]))
        yield _spelled(match, share, 0.5 if share % 10 else 2.5, "%")
    for match in _TIMES.finditer(text):
        word = (match["word"] or "").lower()
        value = MULTIPLES[word] if word else float(value_of(match["words"]))
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
    return (value_of(count[0]) or 1 if count else 1) / PARTS[part.removesuffix("s")]
