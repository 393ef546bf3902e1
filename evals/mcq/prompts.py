"""The prompts of `mcq`: the same text in every condition, plus the condition's context.

File names such as `slow.cu` and `fast.cu` would give answers away, so prompts call them
`kernel.cu`, or `p.cu` and `q.cu`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

from evals.contexts import context, numbered_source
from evals.mcq.questions import LETTERS, Question, sample_of
from evals.runs import Condition, Prompt, digest

PAIR = ("P", "Q")
"""Names of two profiles, which differ from the option letters."""
SYSTEM = """\
You are a GPU performance engineer. You answer multiple-choice questions about profiles that \
Nsight Compute took of CUDA and Triton kernels."""

SOURCE = """\
# Source{of}

{source}"""

PROFILE = """\
# Profile{of}

<profile>
{context}
</profile>"""

QUESTION = """\
# Question

{text}

{options}

Exactly one option is right. If what you are given does not settle it, choose the most likely one. \
You may reason briefly; the last line of your answer must be

ANSWER: X

where X is one of A, B, C and D."""


def prompt_version() -> str:
    return digest(SYSTEM, SOURCE, PROFILE, QUESTION)


def prompts(
    questions: Iterable[Question],
    conditions: Sequence[Condition],
    attempts: int = 1,
    explanations: Path | None = None,
) -> Iterator[Prompt]:
    for question, condition in product(questions, conditions):
        user = user_text(question, condition, explanations)
        for attempt in range(1, attempts + 1):
            yield Prompt(
                id=f"mcq.{question.id}.{condition}.{attempt}",
                sample=question.sample,
                condition=condition,
                attempt=attempt,
                question=question.id,
                system=SYSTEM,
                user=user,
            )


def user_text(question: Question, condition: Condition, explanations: Path | None = None) -> str:
    shown = [*question.reports, *filter(None, [question.source_only])]
    names = ("",) if len(shown) == 1 else tuple(f" {name}" for name in PAIR)
    parts: list[str] = []
    for report, name in zip(shown, names):
        if condition != "blind":
            parts.append(_source(report, name))
        if report in question.reports:
            parts += _profile(report, name, condition, explanations)
    options = "\n".join(f"{letter}) {text}" for letter, text in zip(LETTERS, question.options))
    return "\n\n".join([*parts, QUESTION.format(text=question.text, options=options)]) + "\n"


def _source(report: str, name: str) -> str:
    source = numbered_source(*sample_of(report))
    return SOURCE.format(of=name, source=neutral(source, _called(name)))


def _profile(
    report: str, name: str, condition: Condition, explanations: Path | None
) -> Iterator[str]:
    """The context, if the condition has one."""
    if seen := context(*sample_of(report), condition, explanations):
        yield PROFILE.format(of=name, context=neutral(seen.strip(), _called(name)))


def _called(name: str) -> str:
    return name.strip().lower() or "kernel"


_FILE = re.compile(r"\b(?:slow|fast|step\d)(?=\.(?:cu|py)\b)")
_PROGRAM = re.compile(r"(?:(?<=\./)|\b(?=\w+@))(?:slow|fast|step\d)\b")


def neutral(text: str, name: str) -> str:
    """Without the names that distinguish slow and fast variants."""
    return _PROGRAM.sub("program", _FILE.sub(name, text))
