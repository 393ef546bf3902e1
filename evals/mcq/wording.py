"""Can the questions be answered from their wording? Guessers that see nothing else, and how often
they are right. A quarter is chance.

Those that learn do so from the questions of all other samples. A set in which every label is right
in exactly a quarter of the questions that offer it puts them a little below chance: the question
that is left out is missing from its own label.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from evals.bootstrap import Interval, alone
from evals.mcq.drafts import LETTERS
from evals.mcq.questions import Question, all_questions

CHANCE = 1 / len(LETTERS)
_WORD = re.compile(r"[a-z0-9_]+|%")
_NUMBER = re.compile(r"\d[\d,.]*")
_EPOCHS, _RATE, _DECAY = 4, 0.3, 1e-3

Scores = Sequence[float]
"""Of the four options; the highest is chosen, equal ones share the point."""
Guesser = Callable[[Sequence[Question], Sequence[Question]], list[list[float]]]
"""From questions with their answers to scores of the options of others."""


class Guess(NamedTuple):
    guesser: str
    right: Interval
    """Share, with the interval over samples."""


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def points(question: Question, scores: Scores) -> float:
    best = max(scores)
    chosen = [letter for letter, score in zip(LETTERS, scores) if score == best]
    return (question.correct in chosen) / len(chosen)


def _numbers(text: str) -> list[float]:
    found = (match.strip(".,").replace(",", "") for match in _NUMBER.findall(text))
    return [float(number) for number in found if number.count(".") <= 1]


def _middle(question: Question) -> list[float]:
    """Minus the distance from the mean of the logarithms: the middle one of four numbers."""
    firsts = [(_numbers(option) or [0.0])[0] for option in question.options]
    logs = [math.log(max(number, 1e-9)) for number in firsts]
    mean = sum(logs) / len(logs)
    return [-abs(value - mean) for value in logs]


def _overlap(question: Question) -> list[float]:
    asked = set(words(question.text))
    return [len(asked & set(words(o))) / len(words(o)) for o in question.options]


def _alike(question: Question) -> list[float]:
    """The option that shares most words with the others."""
    each = [Counter(set(words(option))) for option in question.options]
    every = sum(each, Counter())
    return [sum(every[w] - 1 for w in one) / len(one) for one in each]


def _of_each(measure: Callable[[str], float]) -> Callable[[Question], list[float]]:
    return lambda question: [measure(option) for option in question.options]


def _place(letter: str) -> Callable[[Question], list[float]]:
    return lambda _: [float(letter == one) for one in LETTERS]


SIMPLE: dict[str, Callable[[Question], list[float]]] = {
    "the longest": _of_each(len),
    "the shortest": _of_each(lambda text: -len(text)),
    "the most digits": _of_each(lambda text: sum(map(str.isdigit, text))),
    "the rarest words": _of_each(lambda text: sum(map(len, words(text))) / len(words(text))),
    "the largest number": _of_each(lambda text: max(_numbers(text), default=0.0)),
    "the smallest number": _of_each(lambda text: -min(_numbers(text), default=0.0)),
    "the middle number": _middle,
    "words of the question": _overlap,
    "most like the others": _alike,
    **{f"always {letter}": _place(letter) for letter in LETTERS},
}


# --- guessers that learn from the other samples


def _by_frequency(key: Callable[[Question, str], str]) -> Guesser:
    """How often a text was right when it was offered."""

    def guess(seen: Sequence[Question], asked: Sequence[Question]) -> list[list[float]]:
        right, offered = Counter[str](), Counter[str]()
        for question in seen:
            offered.update(key(question, option) for option in question.options)
            right[key(question, question.answer)] += 1
        return [
            [(right[k] + 1) / (offered[k] + 4) for k in (key(q, o) for o in q.options)]
            for q in asked
        ]

    return guess


def _offered(*, often: bool) -> Guesser:
    """How often a text is offered at all, its own question included: no answer is needed."""

    def guess(seen: Sequence[Question], asked: Sequence[Question]) -> list[list[float]]:
        offered = Counter((q.kind, option) for q in (*seen, *asked) for option in q.options)
        sign = 1.0 if often else -1.0
        return [[sign * offered[q.kind, option] for option in q.options] for q in asked]

    return guess


def _turned(guesser: Guesser) -> Guesser:
    """Its opposite: a guesser that is wrong too often tells as much as one that is right."""

    def guess(seen: Sequence[Question], asked: Sequence[Question]) -> list[list[float]]:
        return [[-score for score in scores] for scores in guesser(seen, asked)]

    return guess


def _majority(seen: Sequence[Question], asked: Sequence[Question]) -> list[list[float]]:
    """The answer that is right most often in the kind."""
    right = Counter((question.kind, question.answer) for question in seen)
    return [[float(right[q.kind, option]) for option in q.options] for q in asked]


def _features(question: Question, option: str) -> list[str]:
    """Words of the option, and the same with the kind."""
    told = words(option)
    return [*told, *(f"{question.kind}:{word}" for word in told), f"{question.kind}:{option}"]


def _logistic(seen: Sequence[Question], asked: Sequence[Question]) -> list[list[float]]:
    """A choice among four by a weight for each word, by gradient descent."""
    weights: defaultdict[str, float] = defaultdict(float)
    known = [
        ([_features(q, option) for option in q.options], LETTERS.index(q.correct)) for q in seen
    ]
    order = random.Random(1)
    for _ in range(_EPOCHS):
        order.shuffle(known)
        for options, right in known:
            _learn(weights, options, right)
    return [[_score(weights, _features(q, option)) for option in q.options] for q in asked]


def _learn(weights: defaultdict[str, float], options: list[list[str]], right: int) -> None:
    raised = [math.exp(_score(weights, features)) for features in options]
    total = sum(raised)
    for place, features in enumerate(options):
        step = _RATE * ((place == right) - raised[place] / total) / len(features)
        for feature in features:
            weights[feature] += step - _DECAY * weights[feature]


def _score(weights: defaultdict[str, float], features: list[str]) -> float:
    return sum(weights[feature] for feature in features)


LEARNED: dict[str, Guesser] = {
    "offered often": _offered(often=True),
    "offered rarely": _offered(often=False),
    "the kind's commonest answer": _majority,
    "texts that are often right": _by_frequency(lambda q, option: q.kind + option),
    "texts that are rarely right": _turned(_by_frequency(lambda q, option: q.kind + option)),
    "logistic over words": _logistic,
    "logistic, turned round": _turned(_logistic),
}


@cache
def guesses_of_all() -> tuple[Guess, ...]:
    return tuple(guesses(all_questions()))


def guesses(questions: Sequence[Question]) -> list[Guess]:
    simple = [
        Guess(name, _share(questions, {q.id: points(q, scores(q)) for q in questions}))
        for name, scores in SIMPLE.items()
    ]
    learned = [
        Guess(name, _share(questions, _held_out(questions, g))) for name, g in LEARNED.items()
    ]
    return [*simple, *learned]


def _held_out(questions: Sequence[Question], guesser: Guesser) -> dict[str, float]:
    """Each sample's questions by what the others' teach."""
    right: dict[str, float] = {}
    for sample in sorted({question.sample for question in questions}):
        asked = [question for question in questions if question.sample == sample]
        seen = [question for question in questions if question.sample != sample]
        scored = zip(asked, guesser(seen, asked))
        right.update({question.id: points(question, scores) for question, scores in scored})
    return right


def _share(questions: Iterable[Question], right: dict[str, float]) -> Interval:
    by_sample: dict[str, list[float]] = {}
    for question in questions:
        by_sample.setdefault(question.sample, []).append(right[question.id])
    return alone(list(by_sample.values()))
