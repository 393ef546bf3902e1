"""Designs the four options of questions so that their wording does not give the answer away.

Designs, each without a regularity that guessing could use:

- ranges: all questions offer the same four, each right equally often (`fixed_ranges`);
- labels: every label is right in about one of four questions that offer it (`balanced`, odds 3);
- crossed: two sides times two reasons, every reason as often right as wrong (odds 1);
- ranks: the right number is equally often the smallest, the largest or in between (`ranks`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from evals.mcq.report_facts import Facts

LETTERS = "ABCD"
CHANCE = 1 / len(LETTERS)
OPTIONS = len(LETTERS)
_STEPS = 3_000
_SPARE = 2
"""Initial number of items relative to the requested number; the others are dropped to balance the
set."""


class Fact(NamedTuple):
    """A number that the answer needs, and the words of a line that contains it."""

    value: float
    words: str
    """A regular expression."""


class Draft(NamedTuple):
    """A question whose options have no positions yet. The first option is the right one."""

    kind: str
    name: str
    """Unique within its kind: the sample and the report."""
    facts: tuple[Facts, ...]
    text: str
    options: tuple[str, ...]
    why: str
    why_wrong: tuple[str, ...]
    needs: tuple[Fact, ...] = ()
    from_source: bool = False
    """The source alone is enough to answer it."""
    later: Facts | None = None
    """A second version of the program, of which only the source is shown."""


class Item(NamedTuple):
    """A possible question; its right answer is chosen later."""

    name: str
    facts: tuple[Facts, ...]
    answers: Mapping[str, Mapping[str, str]]
    """By right label: the wrong labels, each with the reason."""


class Choice(NamedTuple):
    item: Item
    answer: str
    wrong: tuple[str, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the wrong options are wrong."""
        return tuple(self.item.answers[self.answer][label] for label in self.wrong)


def balanced(
    items: Sequence[Item], odds: int, seed: str, most: int, never: Collection[str] = ()
) -> list[Choice]:
    """Choose answers so that each label, when offered, is wrong about `odds` times as often as
    right.

    Makes small random changes that improve the balance; items that do not fit are dropped. `never`:
    labels that are always wrong.
    """
    draws = random.Random(seed)
    usable = [_without(item, never, odds) for item in items]
    usable = draws.sample(usable, len(usable))
    choices = [_drawn(item, odds, draws) for item in usable if item.answers][: _SPARE * most]
    wanted = _even(choices, odds, never)
    _improve(choices, odds, draws, wanted, _STEPS)
    while len(choices) > most or not _fits(choices, odds, wanted):
        choices.remove(_worst(choices, odds, wanted))
        _improve(choices, odds, draws, wanted, _STEPS // 8)
    return choices


def _without(item: Item, never: Collection[str], odds: int) -> Item:
    answers = {
        answer: wrong
        for answer, wrong in item.answers.items()
        if answer not in never and len(wrong) >= odds
    }
    return item._replace(answers=answers)


def _even(choices: Sequence[Choice], odds: int, never: Collection[str]) -> dict[str, float]:
    """The target balances: labels that are never right are compensated by the others."""
    others = {choice.answer for choice in choices} - {*never}
    owed = odds * len(never) / len(others)
    return {**dict.fromkeys(others, owed), **dict.fromkeys(never, -float(odds))}


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
    """Increase of the sum of squared deviations."""
    return sum(
        step * (2 * (debt[label] - wanted.get(label, 0)) + step) for label, step in change.items()
    )


def _debts(choices: Sequence[Choice], odds: int) -> Counter[str]:
    """For each label: how many more times it would have to be offered as a wrong option to be
    balanced."""
    debt: Counter[str] = Counter()
    for choice in choices:
        debt[choice.answer] += odds
        debt.subtract(choice.wrong)
    return debt


def _change(old: Choice, new: Choice, odds: int) -> dict[str, int]:
    """The change of the balances by the new choice."""
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
    """The choice whose removal brings the others nearest to the target."""
    debt = _debts(choices, odds)

    def without(choice: Choice) -> float:
        gone = Counter(choice.wrong)
        gone[choice.answer] -= odds
        return _worse(gone, debt, wanted)

    return min(choices, key=without)


class Number(NamedTuple):
    """A wrong number, and why it is wrong."""

    value: float
    why: str


_RANKS = (0, 3, 1, 2, 0, 3, 1, 2, 0, 3)
"""The smallest and largest slightly more often: of two numbers in between, the right one tends to
be the middle one."""


def ranks(count: int, seed: str) -> list[int]:
    """How many of the wrong numbers are below the right one, in random order."""
    every = [_RANKS[number % len(_RANKS)] for number in range(count)]
    random.Random(seed).shuffle(every)
    return every
