"""Scores an answer by its final letter.

The reasoning is not judged: a right letter with wrong reasons is right. An answer with no letter,
or with two, is unscored, not wrong; both are counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from evals.mcq.questions import LETTERS, Question, read_key
from evals.runs import Answer, Condition, Prompt, Record, RunFolder
from keet.errors import UsageError

KEY = "key.jsonl"
Outcome = Literal["right", "wrong", "unscored"]
_READ = 20_000
"""Characters from the end that are read: the answer has to be in the last line."""

_LINE = re.compile(r"[^A-Za-z]*(?:my |the |final |correct )*answer(?: is)?\b\W*[:=\-–—]?(.*)", re.I)
"""`ANSWER: B`, `**Answer: B**`, `The final answer is (b).`"""
_LONE = re.compile(r"[\s*_`>#(\[]*([A-Da-d])[\s*_`)\].:]*")
"""A line that is a letter and nothing else."""
_STARTS = re.compile(r"[\s*_`>#(\[]*([A-D])[)\].:](?:\s|\*|$)")
"""A line that begins as an option does: `B) L2 cache`."""
_LETTER = re.compile(r"(?<![A-Za-z'’])([A-Za-z])(?![A-Za-z'’])")
_REFUSAL = re.compile(
    r"\b(can ?not|can't|can’t|won't|unable to|not able to|decline to) "
    r"(answer|help|assist|comply|say|determine|choose)\b",
    re.I,
)
_BOXED = re.compile(r"\\boxed\{(?:\\text\{)?\s*([A-Za-z])\s*\}")


class McqScore(Record):
    id: str
    model: str
    question: str
    kind: str
    sample: str
    condition: Condition
    attempt: int
    outcome: Outcome
    chosen: str | None
    correct: str
    why: str
    input_tokens: int | None = None
    output_tokens: int | None = None


def check_versions(folder: RunFolder) -> None:
    """Raises if answers are to other templates than this run's."""
    asked = folder.run.prompt_version
    if other := sorted({answer.prompt_version for answer in folder.answers} - {asked}):
        raise UsageError(
            f"{folder.path} asks with prompt version {asked} and holds answers to "
            f"{', '.join(other)}: they are not comparable; take those out of answers.jsonl"
        )


class Found(NamedTuple):
    """The final letter of an answer, or why there is none."""

    letter: str | None
    why: str


def find_letter(text: str) -> Found:
    """The last line that gives an answer counts, because a model may change its mind."""
    if not text.strip():
        return Found(None, "the answer is empty")
    end = text[-_READ:]
    if (found := _in_json(end)) is not None:
        return found
    lines = [line for line in end.splitlines() if line.strip()]
    for line in reversed(lines):
        if (found := _in_answer_line(line)) is not None:
            return found
    return _without_answer_line(lines, end)


def _in_json(text: str) -> Found | None:
    """`{"answer": "B"}`, alone or in a block."""
    for match in reversed(list(re.finditer(r"\{[^{}]*\}", text))):
        if text[match.end() :].strip("`\n \t"):
            continue
        try:
            said = json.loads(match[0])
        except ValueError:
            continue
        by_name = {str(name).lower(): value for name, value in said.items()}
        if "answer" in by_name:
            return _one_of(str(by_name["answer"]), "the JSON's answer")
    return None


def _in_answer_line(line: str) -> Found | None:
    if boxed := _BOXED.findall(line):
        return _one_of(" ".join(boxed), "the box")
    match = _LINE.fullmatch(line.strip())
    if match is None or not match[1].strip(" *_`.:"):
        return None
    return _one_of(match[1], "the answer line")


def _one_of(said: str, where: str) -> Found | None:
    """The letter of an answer line; None if the line is a sentence about something else."""
    told = said.strip(" *_`()[].\"'")
    if _REFUSAL.search(said):
        return Found(None, f"{where} refuses: {_short(said)}")
    match = re.match(r"(?:option |choice )?([A-Za-z])(?![A-Za-z'’])(.*)", told, re.I | re.S)
    if match and not _is_a_word(match[1], match[2]):
        return _letter_and_rest(match[1].upper(), match[2], where)
    letters = {letter for letter in _LETTER.findall(said) if letter in LETTERS}
    if len(letters) == 1:
        return _known(letters.pop(), where)
    if len(letters) > 1:
        return Found(None, f"{where} names {', '.join(sorted(letters))}")
    return None


def _is_a_word(letter: str, rest: str) -> bool:
    """`a matter of taste`, `I would say`: not options."""
    return letter not in LETTERS and re.match(r"\s+[A-Za-z]", rest) is not None


def _letter_and_rest(letter: str, rest: str, where: str) -> Found:
    """`B`, or `B) L2 cache`; `B or C` names two."""
    match = re.match(r"\W*(?:or|and|/|,|&)\W*([A-Da-d])(?![A-Za-z'’])", rest)
    if match and match[1].upper() != letter:
        return Found(None, f"{where} names {letter} and {match[1].upper()}")
    return _known(letter, where)


def _known(letter: str, where: str) -> Found:
    if letter not in LETTERS:
        return Found(None, f"{where} says {letter}, and there is no such option")
    return Found(letter, f"{where} says {letter}")


def _without_answer_line(lines: Sequence[str], text: str) -> Found:
    """A letter alone in the last line, or the only option named; else none."""
    last = lines[-1]
    if match := _LONE.fullmatch(last):
        return Found(match[1].upper(), f"the last line is {match[1].upper()}")
    if _REFUSAL.search(text):
        return Found(None, f"it refuses: {_short(last)}")
    starts = [match[1] for line in lines if (match := _STARTS.match(line))]
    if len(set(starts)) == 1:
        return Found(starts[0], f"the only option it gives is {starts[0]}")
    if len(set(starts)) > 1:
        return Found(None, f"it lists {', '.join(sorted(set(starts)))} and settles on none")
    return Found(None, f"no line gives an answer; the last one is: {_short(last)}")


def _short(text: str) -> str:
    told = " ".join(text.split())
    return told if len(told) <= 80 else told[:79] + "…"


# --- of a run


def scores(folder: RunFolder) -> list[McqScore]:
    key = read_key(folder.path / KEY)
    prompts = {prompt.id: prompt for prompt in folder.prompts}
    asked = ((answer, prompts.get(answer.id)) for answer in folder.answers)
    return [
        score(answer, prompt, key[prompt.question])
        for answer, prompt in asked
        if prompt is not None and prompt.question in key
    ]


def score(answer: Answer, prompt: Prompt, question: Question) -> McqScore:
    if answer.error is not None:
        found = Found(None, f"there is no answer: {_short(answer.error)}")
    else:
        found = find_letter(answer.text)
    outcome: Outcome = "right" if found.letter == question.correct else "wrong"
    return McqScore(
        id=answer.id,
        model=answer.model,
        question=question.id,
        kind=question.kind,
        sample=question.sample,
        condition=prompt.condition,
        attempt=prompt.attempt,
        outcome=outcome if found.letter else "unscored",
        chosen=found.letter,
        correct=question.correct,
        why=_why(found, question),
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
    )


def _why(found: Found, question: Question) -> str:
    if found.letter is None:
        return f"{found.why}; unscored, not wrong"
    if found.letter == question.correct:
        return f"{found.why}, which is right: {question.why}"
    wrong = question.why_wrong[found.letter]
    return f"{found.why}: {wrong}. Right is {question.correct}, {question.answer}: {question.why}"
