"""From what is true and what is false of a report to four options that give nothing away.

Three designs, each without a prior that a guesser could use:

- labels: every label is right in about one of four questions that offer it (`balanced`, odds 3);
- crossed: two sides times two reasons, every reason as often right as wrong (odds 1);
- ranks: the right number is about as often the smallest, the largest or between (`ranked`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from evals.mcq.facts import Facts

LETTERS = "ABCD"
OPTIONS = len(LETTERS)
_STEPS = 3_000
_SPARE = 2
"""Times as many items as are wanted to begin with: the rest is dropped for balance."""
_APART = 1.25
"""Numbers that are offered differ by at least a quarter: no answer hangs on rounding."""
_FAR = 8.0
"""No number is offered that is off by more than this, where there are enough others."""


class Fact(NamedTuple):
    """A number that the answer needs, and what a line that holds it says."""

    value: float
    words: str
    """A regular expression."""


class Draft(NamedTuple):
    """A question whose options have no place yet. The first option is the right one."""

    kind: str
    name: str
    """Unique in its kind: the sample, and which of its reports."""
    facts: tuple[Facts, ...]
    text: str
    options: tuple[str, ...]
    why: str
    why_wrong: tuple[str, ...]
    needs: tuple[Fact, ...] = ()
    from_source: bool = False
    """A reader of the source alone has what is needed."""


class Item(NamedTuple):
    """Something to ask; what of it is asked is chosen later."""

    name: str
    facts: tuple[Facts, ...]
    answers: Mapping[str, Mapping[str, str]]
    """By right label: wrong ones, each with the reason."""


class Choice(NamedTuple):
    item: Item
    answer: str
    wrong: tuple[str, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the wrong ones are."""
        return tuple(self.item.answers[self.answer][label] for label in self.wrong)


def balanced(  # noqa: PLR0913 - of each kind some other one is not the usual
    items: Sequence[Item],
    odds: int,
    seed: str,
    most: int,
    *,
    chance: float = 1.0,
    never: Collection[str] = (),
) -> list[Choice]:
    """Labels of which each is wrong about `odds` times as often as it is right, when offered.

    About, as if a die had said which option is right: were it exact, whoever knows all other
    answers would know this one. By small random changes that bring the labels nearer to what the
    die said; what does not fit is dropped. `chance`: less than 1 where most labels are right once
    only, and some would be offered once and then be right. `never`: labels that are only wrong, so
    that one that is right nowhere else is not right for that."""
    draws = random.Random(seed)
    usable = [_without(item, never, odds) for item in items]
    usable = draws.sample(usable, len(usable))
    choices = [_drawn(item, odds, draws) for item in usable if item.answers][: _SPARE * most]
    wanted = _even(choices, odds, never)
    _improve(choices, odds, draws, wanted, _STEPS)
    while len(choices) > most or not _fits(choices, odds, wanted):
        choices.remove(_worst(choices, odds, wanted))
        _improve(choices, odds, draws, wanted, _STEPS // 8)
    thrown = _thrown(choices, odds * chance**2, draws)
    wanted = {label: _even(choices, odds, never).get(label, 0) + thrown[label] for label in thrown}
    _improve(choices, odds, draws, wanted, _STEPS)
    return choices


def _without(item: Item, never: Collection[str], odds: int) -> Item:
    answers = {
        answer: wrong
        for answer, wrong in item.answers.items()
        if answer not in never and len(wrong) >= odds
    }
    return item._replace(answers=answers)


def _even(choices: Sequence[Choice], odds: int, never: Collection[str]) -> dict[str, float]:
    """Debts to aim at: those that are never right are owed to the others."""
    others = {choice.answer for choice in choices} - {*never}
    owed = odds * len(never) / len(others)
    return {**dict.fromkeys(others, owed), **dict.fromkeys(never, -float(odds))}


def _thrown(choices: Sequence[Choice], odds: float, draws: random.Random) -> dict[str, float]:
    """What chance would make of each label's debt: `odds * offered` is its variance."""
    offered = Counter(label for one in choices for label in (one.answer, *one.wrong))
    thrown = {label: draws.gauss(0, (odds * count) ** 0.5) for label, count in offered.items()}
    mean = sum(thrown.values()) / len(thrown)
    return {label: value - mean for label, value in thrown.items()}


def _drawn(item: Item, odds: int, draws: random.Random) -> Choice:
    answer = draws.choice(list(item.answers))
    return Choice(item, answer, tuple(draws.sample(sorted(item.answers[answer]), odds)))


def _improve(
    choices: list[Choice], odds: int, draws: random.Random, wanted: Mapping[str, float], steps: int
) -> None:
    debt = _debts(choices, odds)
    for _ in range(steps):
        place = draws.randrange(len(choices))
        old, new = choices[place], _drawn(choices[place].item, odds, draws)
        change = _change(old, new, odds)
        if _worse(change, debt, wanted) <= 0:
            choices[place] = new
            debt.update(change)


def _worse(change: Mapping[str, int], debt: Counter[str], wanted: Mapping[str, float]) -> float:
    """By how much the squares of what is off grow."""
    return sum(
        step * (2 * (debt[label] - wanted.get(label, 0)) + step) for label, step in change.items()
    )


def _debts(choices: Sequence[Choice], odds: int) -> Counter[str]:
    """Of each label: how often it would still have to be offered wrongly to be even."""
    debt: Counter[str] = Counter()
    for choice in choices:
        debt[choice.answer] += odds
        debt.subtract(choice.wrong)
    return debt


def _change(old: Choice, new: Choice, odds: int) -> dict[str, int]:
    """What taking the new one does to the debts."""
    change = {new.answer: odds}
    change[old.answer] = change.get(old.answer, 0) - odds
    for label in old.wrong:
        change[label] = change.get(label, 0) + 1
    for label in new.wrong:
        change[label] = change.get(label, 0) - 1
    return change


def _fits(choices: Sequence[Choice], odds: int, wanted: Mapping[str, float]) -> bool:
    debts = _debts(choices, odds).items()
    return all(abs(debt - wanted.get(label, 0)) <= odds for label, debt in debts)


def _worst(choices: Sequence[Choice], odds: int, wanted: Mapping[str, float]) -> Choice:
    """The one without which the others are nearest to what is wanted."""
    debt = _debts(choices, odds)

    def without(choice: Choice) -> float:
        gone = Counter(choice.wrong)
        gone[choice.answer] -= odds
        return _worse(gone, debt, wanted)

    return min(choices, key=without)


def off_by_a_little(value: float, draws: random.Random) -> float:
    """A number like it that no report has: where one had it, it would be right in a question."""
    return value * draws.choice((draws.uniform(0.82, 0.95), draws.uniform(1.05, 1.22)))


class Number(NamedTuple):
    """A wrong one, and why it is."""

    value: float
    why: str


class Around(NamedTuple):
    """Where wrong numbers may be."""

    rank: int
    """So many of them below the answer, as far as there are such."""
    apart: float = _APART
    """At least this ratio to the answer, and to each other."""


def ranked(
    answer: float, pool: Sequence[Number], around: Around, draws: random.Random
) -> list[Number]:
    """Three wrong numbers; those that are off by far only for want of others."""
    below = _spread([n for n in pool if n.value < answer], answer, around.apart, draws)
    above = _spread([n for n in pool if n.value > answer], answer, around.apart, draws)
    rank = min(max(around.rank, OPTIONS - 1 - len(above)), len(below))
    return [*below[:rank], *above[: OPTIONS - 1 - rank]]


def _spread(
    numbers: list[Number], answer: float, apart: float, draws: random.Random
) -> list[Number]:
    """Apart from the answer and from each other, in random order but those too far away last."""
    draws.shuffle(numbers)
    kept: list[Number] = []
    for number in sorted(numbers, key=lambda n: _ratio(n.value, answer) > _FAR):
        if all(_ratio(number.value, other) >= apart for other in [answer, *_values(kept)]):
            kept.append(number)
    return kept


def _values(numbers: Sequence[Number]) -> list[float]:
    return [number.value for number in numbers]


def _ratio(one: float, other: float) -> float:
    low, high = sorted((abs(one), abs(other)))
    return high / low if low else float("inf")


_RANKS = (0, 3, 1, 2, 0, 3, 1, 2, 0, 3)
"""The ends a little more often: of two numbers between, the right one is mostly the middle one."""


def ranks(count: int, seed: str) -> list[int]:
    """How many of the wrong numbers are below the right one, in random order."""
    every = [_RANKS[number % len(_RANKS)] for number in range(count)]
    random.Random(seed).shuffle(every)
    return every
