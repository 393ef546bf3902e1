"""Fixed options: questions about a measure offer the same four ranges, each right equally often.

So the wording gives nothing away: neither what is usual, nor which number looks like a power of
two. Values near a range's edge are not used.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from evals.mcq.option_design import OPTIONS
from evals.mcq.report_facts import Facts

_CLEAR = 0.1
"""Minimum distance from an edge, relative to the edge, so that rounding or the definition of a
share cannot change the answer."""
_SURPRISING = ("hidden", "layered", "second_stage")
"""Kinds of samples that show something else than they seem to."""


class Range(NamedTuple):
    text: str
    low: float
    high: float
    """Between these, a value is clearly in the range."""


def four(edges: tuple[float, float, float], unit: str) -> tuple[Range, ...]:
    """Below, two between, above."""
    gaps = [_CLEAR * (min(edge, 100 - edge) if unit == "%" else edge) for edge in edges]
    lows = [-1.0, *(edge + gap for edge, gap in zip(edges, gaps))]
    highs = [*(edge - gap for edge, gap in zip(edges, gaps)), float("inf")]
    first, second, third = (f"{edge:g}" for edge in edges)
    texts = (
        f"Less than {first} {unit}",
        f"{first} to {second} {unit}",
        f"{second} to {third} {unit}",
        f"More than {third} {unit}",
    )
    return tuple(Range(*each) for each in zip(texts, lows, highs))


def labels(texts: Sequence[str]) -> tuple[Range, ...]:
    """A fixed set of names; the value of each is its index."""
    return tuple(Range(text, place, place) for place, text in enumerate(texts))


class Candidate(NamedTuple):
    """A report with a value on a scale."""

    name: str
    facts: Facts
    value: float
    later: Facts | None = None
    """The second version of the program, for questions about two."""

    @property
    def is_surprising(self) -> bool:
        return not set(_SURPRISING).isdisjoint(self.facts.sample.kinds)


class RangeQuestion(NamedTuple):
    candidate: Candidate
    ranges: tuple[Range, ...]
    """The right range first."""

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(each.text for each in self.ranges)


def mixed(candidates: Iterable[Candidate], seed: str) -> list[Candidate]:
    every = list(candidates)
    return random.Random(seed).sample(every, len(every))


def surprising_first(candidates: Iterable[Candidate], seed: str) -> list[Candidate]:
    """First the candidates for which a reader of the source would expect another value."""
    return sorted(mixed(candidates, seed), key=lambda one: not one.is_surprising)


def evenly(
    candidates: Sequence[Candidate], ranges: Sequence[Range], each: int, used: Counter[str]
) -> Iterator[RangeQuestion]:
    """`each` candidates per range, in order, preferring samples that were `used` least."""
    left = list(candidates)
    for right in sorted(ranges, key=lambda one: len(_inside(one, left))):
        for _ in range(each):
            best = min(_inside(right, left), key=lambda one: used[one.facts.sample.name])
            left.remove(best)
            used[best.facts.sample.name] += 1
            yield RangeQuestion(best, (right, *(other for other in ranges if other is not right)))


def _inside(one: Range, candidates: Sequence[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if one.low <= candidate.value <= one.high]


def wrong_reasons(told: str) -> tuple[str, ...]:
    return (told,) * (OPTIONS - 1)
