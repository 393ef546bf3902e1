"""Checks each number of a text against the evidence that it rests on.

A number is verified where it is the value of a piece of evidence, in any unit that means the same
and at the rounding with which it is printed; or a shape or name of the launch; or, where the text
says so, a ratio, difference or sum of two pieces that the text shows. Everything else is stray.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from keet.evidence import Evidence
from keet.profile import Launch
from keet.units import Quantity
from keet.verification.matching import Amount, agrees, amounts, fits, is_any, is_near, same_kind
from keet.verification.numbers import SaidNumber, find_numbers

if TYPE_CHECKING:
    from keet.verification.sentences import Sentence

# Compiled when they are searched for: the texts of most launches need none of them.
_RATIO = r"(?i)×|\b(?:times|fold|factor|ratio|share|of|per|half|out of)\b|\dx\b"
_CHANGE = (
    r"(?i)\b(?:more|less|fewer|faster|slower|longer|shorter|higher|lower|larger|smaller|greater"
    r"|increase[sd]?|decrease[sd]?|drop(?:s|ped)?|saves?|saved|saving|cut|difference|gap|than"
    r"|reduc\w+|improve\w*|grew|fell|rise|rose|above|below|points?)\b"
)
_SUM = r"(?i)\b(?:together|in all|total|sum|combined|altogether|both|in sum|plus)\b"


_MARGIN = 1e-6
"""Of a size, so that no value at the edge of the rounding is passed over."""


class Verified(NamedTuple):
    """A number, and the ids of the evidence that it is; none for a fact of the launch."""

    number: SaidNumber
    evidence: tuple[str, ...]


class Stray(NamedTuple):
    """A number that nothing bears out."""

    text: str
    start: int
    reason: str


class Grounding(NamedTuple):
    """What became of the numbers of a text."""

    numbers: int
    verified: tuple[Verified, ...]
    stray: tuple[Stray, ...]

    @property
    def holds(self) -> bool:
        return not self.stray


def check_grounding(
    text: str,
    evidence: Iterable[Evidence],
    *,
    launch: Launch | None = None,
) -> Grounding:
    """Verify the numbers of `text`.

    `launch` lends its shapes and names. Whether a number is said of the right thing is not asked
    here: what keet builds needs no such guess.
    """
    pieces = {piece.id: piece for piece in evidence}
    checker = _Checker(text, pieces, launch)
    verified, stray = checker.check()
    return Grounding(len(checker.numbers), tuple(verified), tuple(stray))


def _names(launch: Launch | None) -> tuple[str, ...]:
    if launch is None:
        return ()
    name = launch.name
    device = launch.device.name
    names = {name.short, name.full, name.function, name.mangled, device or ""} - {""}
    return tuple(sorted(names, key=len, reverse=True))


class _Checker:
    def __init__(self, text: str, pieces: dict[str, Evidence], launch: Launch | None) -> None:
        self._text = text
        self._pieces = pieces
        self._launch = launch
        self.numbers: Sequence[SaidNumber] = find_numbers(text, _names(launch))

    @cached_property
    def _sentences(self) -> list[Sentence]:
        from keet.verification.sentences import sentences

        return list(sentences(self._text))

    def check(self) -> tuple[list[Verified], list[Stray]]:
        """First what stands for itself; then what is computed from that."""
        direct = {number: self._direct(number) for number in self.numbers}
        shown = {piece for entry in direct.values() if entry for piece in entry.evidence}
        verified: list[Verified] = []
        stray: list[Stray] = []
        for number, entry in direct.items():
            found = entry or self._computed(number, shown)
            if found:
                verified.append(found)
            else:
                stray.append(Stray(number.text, number.start, self._reason(number)))
        return verified, stray

    def _sentence(self, number: SaidNumber) -> Sentence:
        from keet.verification.sentences import Sentence

        around = (s for s in self._sentences if s.start <= number.start < s.end)
        return next(around, Sentence(self._text, 0))

    def _direct(self, number: SaidNumber) -> Verified | None:
        allowed = list(self._pieces.values())
        # Most evidence is of another kind, which its unit alone tells, or of another size.
        readings = {unit: [*amounts(number, unit)] for unit in {p.unit for p in allowed}}
        sizes = {unit: _sizes(known, number) for unit, known in readings.items() if known}
        found = [
            piece.id
            for piece in allowed
            if (size := sizes.get(piece.unit))
            and size[0] <= abs(piece.value) <= size[1]
            and self._is(number, piece, readings[piece.unit])
        ]
        if found or self._is_fact(number):
            return Verified(number, tuple(found))
        return None

    def _is(self, number: SaidNumber, piece: Evidence, readings: Sequence[Amount]) -> bool:
        """`readings`: what the number can mean in the unit of the piece."""
        if is_any(readings, piece.value, number) and (
            number.bound is None or is_near(number, Quantity(piece.value, piece.unit))
        ):
            return True
        # "3.2 % lower" for a change of -3.2 %: the word is the sign.
        if piece.value < 0 and number.value > 0 and re.search(_CHANGE, self._sentence(number).text):
            return is_any(readings, -piece.value, number)
        return False

    def _is_fact(self, number: SaidNumber) -> bool:
        if number.shape and self._are_values(number.shape):
            return True
        if self._launch is None:
            return False
        if number.shape:
            return any(_same_shape(number.shape, shape) for shape in _shapes(self._launch))
        return any(agrees(number, f) and is_near(number, f) for f in _facts(self._launch))

    def _are_values(self, shape: tuple[int, ...]) -> bool:
        """Whether each size is evidence of its own."""
        values = {piece.value for piece in self._pieces.values()}
        return all(size in values for size in shape)

    def _computed(self, number: SaidNumber, shown: set[str]) -> Verified | None:
        """Of two pieces that the reader can see: printed or named in the text."""
        visible = [p for p in self._pieces.values() if p.id in shown or self._mentions(p)]
        words = self._sentence(number).text
        for first, second in permutations(visible, 2):
            for quantity in _results(first, second, number, words):
                if agrees(number, quantity) and is_near(number, quantity):
                    return Verified(number, (first.id, second.id))
        return None

    def _mentions(self, piece: Evidence) -> bool:
        return piece.label.lower() in self._text.lower()

    def _reason(self, number: SaidNumber) -> str:
        if number.shape:
            return "no grid or block of that shape"
        near = self._nearest(number)
        return f"{near.label} is {near}" if near else "nothing in the evidence has that unit"

    def _nearest(self, number: SaidNumber) -> Evidence | None:
        """What the writer may have meant: the closest value of that kind."""
        alike = [p for p in self._pieces.values() if fits(number, p.unit, lenient=True)]
        return min(alike, key=lambda p: _distance(number.value, p.value), default=None)


def _sizes(readings: Sequence[Amount], number: SaidNumber) -> tuple[float, float]:
    """Between which a value must lie, sign aside, to be the number: a little more than that."""
    most = max(abs(value) + half for value, half in readings)
    if number.bound or not math.isfinite(most):
        return 0.0, math.inf
    least = min(abs(value) - half for value, half in readings)
    return least - _MARGIN * most, most + _MARGIN * most


def _distance(said: float, measured: float) -> float:
    if said <= 0 or not math.isfinite(measured) or measured <= 0:
        return math.inf
    return abs(math.log(said) - math.log(measured))  # the quotient may be too small for a float


def _shapes(launch: Launch) -> Iterator[tuple[int, ...]]:
    yield from (shape for shape in (launch.grid, launch.block, launch.cluster) if shape)


def _same_shape(said: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Trailing ones say nothing: `64x256` is (64, 256, 1)."""
    return said + (1,) * (3 - len(said)) == shape


def _facts(launch: Launch) -> Iterator[Quantity]:
    """Numbers that a launch has without being measured."""
    for shape, unit in ((launch.grid, "block"), (launch.block, "thread")):
        if shape:
            yield Quantity(math.prod(shape), unit)
    if launch.grid and launch.block:
        yield Quantity(math.prod(launch.grid) * math.prod(launch.block), "thread")
    if launch.device.sm_count:
        yield Quantity(launch.device.sm_count, "SM")


def _results(
    first: Evidence, second: Evidence, number: SaidNumber, words: str
) -> Iterator[Quantity]:
    """What two pieces give together, where the words say that they are put together."""
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
