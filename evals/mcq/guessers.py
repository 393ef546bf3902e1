"""Guessing strategies that see only the wording of the questions, and their scores. Chance is 25 %.

Those that know the key use how often a text or word is right, including the question itself: the
most that a regularity of the set could give away. A strategy that learned only from the other
questions would score below chance, because every label is right in exactly a quarter of the
questions that offer it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from evals.bootstrap import Interval, alone, clusters
from evals.mcq.questions import CHANCE, LETTERS, Question, all_questions
from keet.findings import findings

_WORD = re.compile(r"[a-z0-9_]+|%")
_NUMBER = re.compile(r"\d[\d,.]*")

Scores = Sequence[float]
"""Scores of the four options; the highest is chosen, ties share the point."""


class Guess(NamedTuple):
    guesser: str
    right: Interval
    """Share right, with the interval over samples."""


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
    """Minus the distance from the mean of the logarithms: prefers the middle of four numbers."""
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


USUAL: dict[str, tuple[str, ...]] = {
    "unit": ("DRAM", "L1", "Issue", "L2", "FMA", "ALU", "Tensor"),
    "stall": ("Long", "Barrier", "MIO", "LG", "Math", "Wait", "Dispatch"),
    "pair": (
        "moves fewer bytes through DRAM",
        "asks L2 for fewer sectors",
        "executes fewer instructions",
        "sends fewer load requests",
        "sends fewer store requests",
        "waits less at barriers",
        "keeps more warps on each SM",
    ),
    "edit": tuple(
        edit.text
        for edit in sorted((spec.edit for spec in findings().values()), key=lambda e: e.usual)
    ),
}
"""What an expert expects of any kernel, most likely first."""


def _usual(question: Question) -> list[float]:
    order = USUAL.get(question.kind, ())
    places = {text: place for place, text in enumerate(order)}
    return [
        -float(min((places[text] for text in order if text in option), default=0))
        for option in question.options
    ]


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
    "what is usual": _usual,
    "what is unusual": lambda question: [-score for score in _usual(question)],
    **{f"always {letter}": _place(letter) for letter in LETTERS},
}


# --- guessers that know all the questions, and some the key


def _offered(questions: Sequence[Question]) -> Callable[[Question], list[float]]:
    """How often a text is offered, without using the key."""
    offered = Counter((q.kind, option) for q in questions for option in q.options)
    return lambda q: [float(offered[q.kind, option]) for option in q.options]


def _rarely(questions: Sequence[Question]) -> Callable[[Question], list[float]]:
    often = _offered(questions)
    return lambda question: [-score for score in often(question)]


def _texts(questions: Sequence[Question]) -> Callable[[Question], list[float]]:
    shares = _right_shares(questions, lambda q, option: [_habit(q, option)])
    return lambda q: [shares[_habit(q, option)] for option in q.options]


def _words_by_key(questions: Sequence[Question]) -> Callable[[Question], list[float]]:
    shares = _right_shares(questions, _plain_words)
    return lambda q: [
        sum(told) / len(told) if (told := [shares[w] for w in _plain_words(q, option)]) else CHANCE
        for option in q.options
    ]


def _habit(question: Question, option: str) -> str:
    """The part of an option that could be a regularity: without numbers that occur once, and
    without the side of a pair."""
    text = _NUMBER.sub("#", option) if question.kind in ("line", "unknown") else option
    return f"{question.kind} {re.sub('Profile [PQ]', 'Profile', text)}"


def _plain_words(_: Question, option: str) -> list[str]:
    return [word for word in words(option) if not word[0].isdigit()]


def _right_shares(
    questions: Iterable[Question], keys: Callable[[Question, str], list[str]]
) -> dict[str, float]:
    """How often each key was right when it was offered."""
    right, offered = Counter[str](), Counter[str]()
    for question in questions:
        for option in question.options:
            offered.update(keys(question, option))
        right.update(keys(question, question.answer))
    return {key: right[key] / count for key, count in offered.items()}


KNOWING: dict[str, Callable[[Sequence[Question]], Callable[[Question], list[float]]]] = {
    "offered often": _offered,
    "offered rarely": _rarely,
    "words that are often right, by the key": _words_by_key,
    "texts that are often right, by the key": _texts,
}


@cache
def guesses_of_all() -> tuple[Guess, ...]:
    return tuple(guesses(all_questions()))


def guesses(questions: Sequence[Question]) -> list[Guess]:
    knowing = {name: guesser(questions) for name, guesser in KNOWING.items()}
    return [Guess(name, _right(questions, scores)) for name, scores in (SIMPLE | knowing).items()]


def _right(questions: Sequence[Question], scores: Callable[[Question], Scores]) -> Interval:
    return alone(clusters(questions, lambda q: q.sample, lambda q: points(q, scores(q))))
