"""The questions, which are data (questions.jsonl): always the same ones in the same order.

They were made from the samples' reports by templates, with options whose wording does not give the
answer away, and keys from metrics or planted causes, never from keet: the commit that added the
file has the program before it. That answers of models can be compared, none is ever changed.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from evals.contexts import details_page, keet_context
from evals.runs import Record, read_lines, write_lines
from keet.errors import UsageError
from kernels_samples.samples import HERE, Sample, load_sample

LETTERS = "ABCD"
CHANCE = 1 / len(LETTERS)
Letter = Literal["A", "B", "C", "D"]
Source = Literal["source", "raw", "keet"]

KINDS = {
    "unit": "which unit came nearest to its peak",
    "line": "which line got the most warp samples",
    "stall": "what its warps waited for the most",
    "busy": "how near to its peak a unit came",
    "cache": "what caches held, and sectors without need",
    "warps": "how many warps there were, and could issue",
    "occupancy": "what limits the blocks of an SM",
    "waves": "how many waves of blocks its grid is",
    "traffic": "how many bytes DRAM moved",
    "speed": "how much faster another version is",
    "change": "what differs in another version's profile",
    "pair": "which of two is faster, and why",
    "edit": "which edit helps most",
    "unknown": "what the report can't tell",
}
_KEPT = Path(__file__).with_name("questions.jsonl")
"""Questions without `answerable_from`, which depends on what keet says; with `needs`: the numbers
that the answer needs, each with the words of a line that contains it."""
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?")


class Question(Record):
    """One question, with the reason why each option is right or wrong."""

    id: str
    kind: str
    sample: str
    reports: tuple[str, ...]
    """The reports shown, such as `matrix_flip/slow`; for a pair, P and Q in this order."""
    source_only: str | None = None
    """Q, if its source is shown but not its report."""
    text: str
    options: tuple[str, str, str, str]
    correct: Letter
    why: str
    """How the answer was computed: metrics and values."""
    why_wrong: dict[str, str]
    answerable_from: tuple[Source, ...]
    """Texts that contain the needed number. Others may still allow to infer it."""

    @property
    def answer(self) -> str:
        return self.options[LETTERS.index(self.correct)]


def all_questions() -> list[Question]:
    return list(_all())


@cache
def _all() -> tuple[Question, ...]:
    lines = _KEPT.read_text(encoding="utf-8").splitlines()
    return tuple(_question(json.loads(line)) for line in lines)


def _question(kept: dict[str, Any]) -> Question:
    needs = [(value, re.compile(words)) for value, words in kept.pop("needs")]
    in_source: list[Source] = ["source"] if kept.pop("from_source", False) else []
    reports = [sample_of(report) for report in kept["reports"]]
    texts: dict[Source, Callable[[Sample, str], str]] = {"raw": details_page, "keet": keet_context}
    in_texts = [
        name
        for name, text_of in texts.items()
        if needs and _has_all([text_of(*report) for report in reports], needs)
    ]
    return Question(**kept, answerable_from=(*in_source, *in_texts))


def sample_of(report: str) -> tuple[Sample, str]:
    """The sample and the variant of a report such as `matrix_flip/slow`."""
    name, variant = report.split("/")
    return _sample(name), variant


@cache
def _sample(name: str) -> Sample:
    return load_sample(HERE / name)


def _has_all(texts: Sequence[str], needs: Sequence[tuple[float, re.Pattern[str]]]) -> bool:
    return all(any(holds(text, value, words) for text in texts) for value, words in needs)


def holds(text: str, value: float, words: re.Pattern[str]) -> bool:
    """Whether a line with these words has the number, at the precision of the line."""
    return any(
        words.search(line) is not None
        and any(_is_rounded(number, value) for number in _NUMBER.findall(line))
        for line in text.splitlines()
    )


def _is_rounded(number: str, value: float) -> bool:
    step: float = 10.0 ** -len(number.partition(".")[2])
    return abs(float(number.replace(",", "")) - value) <= 0.51 * step


def chosen(count: int, seed: int = 1) -> list[Question]:
    """This many questions, balanced over kinds, samples and positions of the answer."""
    every = all_questions()
    if not 0 < count <= len(every):
        raise UsageError(f"{count} questions of {len(every)} cannot be chosen; ask for fewer")
    draws = random.Random(seed)
    left = draws.sample(every, len(every))
    kept: list[Question] = []
    seen: Counter[tuple[str, str]] = Counter()
    while len(kept) < count:
        best = min(left, key=lambda question: [seen[trait] for trait in _traits(question)])
        left.remove(best)
        kept.append(best)
        seen.update(_traits(best))
    return sorted(kept, key=every.index)


def _traits(question: Question) -> list[tuple[str, str]]:
    return [
        ("kind", question.kind),
        ("place", question.correct),
        ("kind and place", question.kind + question.correct),
        ("sample", question.sample),
    ]


def write_key(path: Path, questions: Iterable[Question]) -> None:
    write_lines(path, questions)


def read_key(path: Path) -> dict[str, Question]:
    """By id."""
    if not path.is_file():
        raise UsageError(f"there is no {path}; make the run again: keet eval prompts --help")
    return {question.id: question for question in read_lines(path, Question)}
