"""Checks the numbers of keet's own texts, and of a model's, against evidence.

A number is verified if it equals the value of a piece of evidence, in any equivalent unit and
within the rounding of its printed digits; or a shape or name of the launch; or, if the text says
so, a ratio, difference or sum of two pieces that the text shows. Everything else is unsupported.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import permutations
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from keet.evidence import Evidence
from keet.profile import Launch
from keet.units import Quantity
from keet.verification.number_match import Amount, agrees, amounts, fits, is_any, is_near, same_kind
from keet.verification.text.numbers import TextNumber, find_numbers

if TYPE_CHECKING:
    from keet.verification.text.sentences import SentenceSpan

# Not compiled here: most texts need none of them.
_RATIO = r"(?i)×|\b(?:times|fold|factor|ratio|share|of|per|half|out of)\b|\dx\b"
_CHANGE = (
    r"(?i)\b(?:more|less|fewer|faster|slower|longer|shorter|higher|lower|larger|smaller|greater"
    r"|increase[sd]?|decrease[sd]?|drop(?:s|ped)?|saves?|saved|saving|cut|difference|gap|than"
    r"|reduc\w+|improve\w*|grew|fell|rise|rose|above|below|points?)\b"
)
_SUM = r"(?i)\b(?:together|in all|total|sum|combined|altogether|both|in sum|plus)\b"


_MARGIN = 1e-6
"""Relative margin, so that no value at the edge of the rounding is missed."""


class Verified(NamedTuple):
    """A number, and the ids of the evidence for it; none for a shape or count of the launch."""

    number: TextNumber
    evidence: tuple[str, ...]


class UnsupportedNumber(NamedTuple):
    """A number without evidence."""

    text: str
    start: int
    reason: str


class GroundingResult(NamedTuple):
    """Result of checking the numbers of a text."""

    numbers: int
    verified: tuple[Verified, ...]
    unsupported: tuple[UnsupportedNumber, ...]

    @property
    def all_supported(self) -> bool:
        return not self.unsupported


_NO_NUMBERS = GroundingResult(0, (), ())


def check_grounding(
    text: str,
    evidence: Iterable[Evidence],
    *,
    launch: Launch | None = None,
) -> GroundingResult:
    """Check the numbers of `text`. For several texts with the same evidence, use
    `EvidenceIndex`."""
    return EvidenceIndex(evidence, launch).check(text)


class EvidenceIndex:
    """Evidence by unit and size, and the shapes and names of a launch, to check texts against.

    Does not check whether a number is attributed to the right metric: keet builds its texts from
    the evidence.
    """

    def __init__(
        self,
        evidence: Iterable[Evidence],
        launch: Launch | None = None,
        places: Iterable[str] = (),
    ) -> None:
        """`places`: as texts name them, `cmath:1073`. A file without a suffix looks like a word."""
        self.pieces = {piece.id: piece for piece in evidence}
        self._places = places
        self._launch = launch
        self._fitting: dict[tuple[str, bool], Sequence[str]] = {}

    def check(self, text: str) -> GroundingResult:
        numbers = _numbers_of(text, self._names)
        if not numbers:
            return _NO_NUMBERS
        verified, unsupported = _TextChecker(text, numbers, self).check()
        return GroundingResult(len(numbers), tuple(verified), tuple(unsupported))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        if self._launch is None:
            return ()
        name = self._launch.name
        device = self._launch.device.name
        names = {
            name.short,
            name.full,
            name.function,
            name.mangled,
            device or "",
            *self._places,
        } - {""}
        return tuple(sorted(names, key=len, reverse=True))

    @cached_property
    def _by_unit(self) -> dict[str, _Sizes]:
        """The finite pieces of each unit by size."""
        units: dict[str, list[tuple[float, int]]] = {}
        for order, piece in enumerate(self.pieces.values()):
            if math.isfinite(piece.value):
                units.setdefault(piece.unit, []).append((abs(piece.value), order))
        return {unit: _Sizes(*zip(*sorted(found))) for unit, found in units.items()}

    @cached_property
    def _in_order(self) -> tuple[Evidence, ...]:
        return tuple(self.pieces.values())

    def alike(self, number: TextNumber) -> list[tuple[Evidence, Sequence[Amount]]]:
        """Evidence whose unit and size match the number, and the meanings of the number in that
        unit. In the order of the evidence."""
        found: list[tuple[int, Sequence[Amount]]] = []
        for unit in self._units_of(number) if not number.shape else ():
            meanings = [*amounts(number, unit)]
            orders = self._by_unit[unit].within(*_sizes(meanings, number))
            found += [(order, meanings) for order in orders]
        found.sort(key=itemgetter(0))
        return [(self._in_order[order], meanings) for order, meanings in found]

    def _units_of(self, number: TextNumber) -> Sequence[str]:
        """Units of evidence that are compatible with the number's unit."""
        key = number.unit, number.alone is not None
        if key not in self._fitting:
            self._fitting[key] = [unit for unit in self._by_unit if fits(number, unit)]
        return self._fitting[key]

    def is_fact(self, number: TextNumber) -> bool:
        """Whether the launch has this count or shape, or each size of the shape is evidence."""
        if shape := number.shape:
            known = all(size in self._values for size in shape)
            return known or any(_same_shape(shape, each) for each in self._shapes)
        return any(agrees(number, f) and is_near(number, f) for f in self._facts)

    @cached_property
    def _values(self) -> set[float]:
        return {piece.value for piece in self.pieces.values()}

    @cached_property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_shapes(self._launch)) if self._launch else ()

    @cached_property
    def _facts(self) -> tuple[Quantity, ...]:
        return tuple(_facts(self._launch)) if self._launch else ()


@lru_cache(maxsize=256)
def _numbers_of(text: str, names: tuple[str, ...]) -> Sequence[TextNumber]:
    """Cached: a page checks the same text for a launch and for the whole page."""
    return find_numbers(text, names)


class _Sizes(NamedTuple):
    """Pieces of one unit, the smallest first."""

    sizes: tuple[float, ...]
    orders: tuple[int, ...]
    """Their indices among all pieces."""

    def within(self, least: float, most: float) -> tuple[int, ...]:
        return self.orders[bisect_left(self.sizes, least) : bisect_right(self.sizes, most)]


class _TextChecker:
    """The numbers of one text."""

    def __init__(self, text: str, numbers: Sequence[TextNumber], grounds: EvidenceIndex) -> None:
        self._text = text
        self._numbers = numbers
        self._grounds = grounds
        self._pieces = grounds.pieces

    @cached_property
    def _sentences(self) -> list[SentenceSpan]:
        from keet.verification.text.sentences import split_sentences

        return list(split_sentences(self._text))

    def check(self) -> tuple[list[Verified], list[UnsupportedNumber]]:
        """First numbers that are evidence; then numbers computed from these."""
        direct = {number: self._direct(number) for number in self._numbers}
        shown = {piece for entry in direct.values() if entry for piece in entry.evidence}
        verified: list[Verified] = []
        unsupported: list[UnsupportedNumber] = []
        for number, entry in direct.items():
            found = entry or self._computed(number, shown)
            if found:
                verified.append(found)
            else:
                unsupported.append(
                    UnsupportedNumber(number.text, number.start, self._reason(number))
                )
        return verified, unsupported

    def _sentence(self, number: TextNumber) -> SentenceSpan:
        from keet.verification.text.sentences import SentenceSpan

        around = (s for s in self._sentences if s.start <= number.start < s.end)
        return next(around, SentenceSpan(self._text, 0))

    def _direct(self, number: TextNumber) -> Verified | None:
        alike = self._grounds.alike(number)
        found = [piece.id for piece, meanings in alike if self._is(number, piece, meanings)]
        if found or self._grounds.is_fact(number):
            return Verified(number, tuple(found))
        return None

    def _is(self, number: TextNumber, piece: Evidence, meanings: Sequence[Amount]) -> bool:
        """`meanings`: of the number in the unit of the piece."""
        if is_any(meanings, piece.value, number) and (
            number.bound is None or is_near(number, Quantity(piece.value, piece.unit))
        ):
            return True
        # "3.2 % lower" for a change of -3.2 %: the word replaces the sign.
        if piece.value < 0 and number.value > 0 and re.search(_CHANGE, self._sentence(number).text):
            return is_any(meanings, -piece.value, number)
        return False

    def _computed(self, number: TextNumber, shown: set[str]) -> Verified | None:
        """Computed from two pieces that the text shows or names."""
        visible = [p for p in self._pieces.values() if p.id in shown or self._mentions(p)]
        words = self._sentence(number).text
        for first, second in permutations(visible, 2):
            for quantity in _results(first, second, number, words):
                if agrees(number, quantity) and is_near(number, quantity):
                    return Verified(number, (first.id, second.id))
        return None

    def _mentions(self, piece: Evidence) -> bool:
        return piece.label.lower() in self._lower

    @cached_property
    def _lower(self) -> str:
        return self._text.lower()

    def _reason(self, number: TextNumber) -> str:
        if number.shape:
            return "no grid or block of that shape"
        near = self._nearest(number)
        return f"{near.label} is {near}" if near else "nothing in the evidence has that unit"

    def _nearest(self, number: TextNumber) -> Evidence | None:
        """The closest value in a compatible unit: what the writer may have meant."""
        alike = [p for p in self._pieces.values() if fits(number, p.unit, lenient=True)]
        return min(alike, key=lambda p: _distance(number.value, p.value), default=None)


def _sizes(meanings: Sequence[Amount], number: TextNumber) -> tuple[float, float]:
    """Range of absolute values that may equal the number, slightly enlarged."""
    most = max(abs(value) + half for value, half in meanings)
    if number.bound or not math.isfinite(most):
        return 0.0, math.inf
    least = min(abs(value) - half for value, half in meanings)
    return least - _MARGIN * most, most + _MARGIN * most


def _distance(said: float, measured: float) -> float:
    if said <= 0 or not math.isfinite(measured) or measured <= 0:
        return math.inf
    return abs(math.log(said) - math.log(measured))  # the quotient may underflow


def _shapes(launch: Launch) -> Iterator[tuple[int, ...]]:
    yield from (shape for shape in (launch.grid, launch.block, launch.cluster) if shape)


def _same_shape(said: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Trailing ones may be left out: `64x256` is (64, 256, 1)."""
    return said + (1,) * (3 - len(said)) == shape


def _facts(launch: Launch) -> Iterator[Quantity]:
    """Counts of a launch that are not metrics."""
    for shape, unit in ((launch.grid, "block"), (launch.block, "thread")):
        if shape:
            yield Quantity(math.prod(shape), unit)
    if launch.grid and launch.block:
        yield Quantity(math.prod(launch.grid) * math.prod(launch.block), "thread")
    if launch.device.sm_count:
        yield Quantity(launch.device.sm_count, "SM")


def _results(
    first: Evidence, second: Evidence, number: TextNumber, words: str
) -> Iterator[Quantity]:
    """Ratio, difference or sum of two pieces, if the words suggest it."""
    a, b = first.value, second.value
    if not same_kind(first.unit, second.unit) or not math.isfinite(a) or not math.isfinite(b):
        return
    if number.unit in ("x", "", "%") and b:
        if re.search(_RATIO, words) or number.unit == "x":
            yield Quantity(a / b, "x")
        if number.unit == "%" and re.search(_CHANGE, words):
            yield Quantity((a - b) / b, "x")
    if re.search(_CHANGE, words):
        yield Quantity(a - b, "point" if first.unit == "%" else first.unit)
        yield Quantity(a - b, first.unit)
    if re.search(_SUM, words):
        yield Quantity(a + b, first.unit)
