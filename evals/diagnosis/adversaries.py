"""Answers that try to score without analysing the kernel. Their scores are printed with the result.

Each is scored like keet on the real samples. A scorer that one of them can beat is broken; the one
that knows the truth shows that full scores are possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from evals.diagnosis.answers import FINDINGS, Answer, Answers, Claim, Truth, is_within
from evals.diagnosis.scoring import score, score_healthy
from keet.findings import findings


class Case(NamedTuple):
    """A sample: its planted cause, and keet's answer."""

    truth: Truth
    answers: Answers
    healthy: bool


class AdversaryScore(NamedTuple):
    """Mean scores of an adversary over all samples."""

    name: str
    top1: float
    top3: float
    located: float
    beside: float
    false_alarms: float


Trick = Callable[[Case, Sequence[Case]], Answers]
"""Takes one case and all of them; returns the adversary's answer to the one."""


def score_adversaries(cases: Sequence[Case]) -> list[AdversaryScore]:
    return [_score_adversary(name, trick, cases) for name, trick in TRICKS.items()]


def _score_adversary(name: str, trick: Trick, cases: Sequence[Case]) -> AdversaryScore:
    tried = [(case, trick(case, cases)) for case in cases]
    rows = [score(case.truth, answers) for case, answers in tried if not case.healthy]
    healthy = [
        row for case, answers in tried if case.healthy for row in score_healthy(case.truth, answers)
    ]
    return AdversaryScore(
        name,
        _mean([row.rank == 1 for row in rows]),
        _mean([is_within(row.rank, 3) for row in rows]),
        _mean([row.located for row in rows]),
        _mean([row.beside for row in rows]),
        _mean([bool(row.raised) for row in healthy]),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# --- the tricks


def a_claim(finding: str, places: tuple[tuple[str, int], ...] = ()) -> Claim:
    return Claim(finding, 1.5, 2.0, 3.0, places=places)


def _same(case: Case, claims: Iterable[Claim]) -> Answers:
    answer = Answer(tuple(claims), kernel=case.truth.kernel)
    return dict.fromkeys(case.answers, answer)


def _knows(case: Case, _: Sequence[Case]) -> Answers:
    if case.healthy:
        ceiling = Answer(healthy=case.truth.dominant, kernel=case.truth.kernel)
        return dict.fromkeys(case.answers, ceiling)
    return _same(case, [a_claim(case.truth.dominant, case.truth.lines)])


def _wrong_line(case: Case, _: Sequence[Case]) -> Answers:
    lines = tuple((file, line + 1000) for file, line in case.truth.lines)
    return _same(case, [a_claim(case.truth.dominant, lines)])


def _every_line(case: Case, _: Sequence[Case]) -> Answers:
    lines = tuple(("slow.cu", line) for line in range(1, 500))
    return _same(case, [a_claim(case.truth.dominant, lines)])


def _commonest(case: Case, cases: Sequence[Case]) -> Answers:
    others = [c.truth.dominant for c in cases if c is not case and not c.healthy]
    common = sorted(Counter(others).items(), key=lambda entry: (-entry[1], entry[0]))
    return _same(case, [a_claim(name) for name, _ in common[:FINDINGS]])


def _repeats(case: Case, _: Sequence[Case]) -> Answers:
    def five_times(answer: Answer) -> Answer:
        return replace(
            answer, claims=tuple(each for each in answer.claims for _ in range(FINDINGS))
        )

    return {name: five_times(answer) for name, answer in case.answers.items()}


def _of_another(case: Case, cases: Sequence[Case]) -> Answers:
    """keet's answer to the next sample."""
    order = [each for each in cases if each.truth.kernel != case.truth.kernel]
    after = [each for each in order if each.truth.sample > case.truth.sample] or order
    return dict.fromkeys(case.answers, after[0].answers["slow"])


TRICKS: Mapping[str, Trick] = {
    "knows the truth (not an attack)": _knows,
    "right finding, wrong line": _wrong_line,
    "right finding, every line of the file": _every_line,
    "every finding there is": lambda case, _: _same(case, map(a_claim, sorted(findings()))),
    "the five commonest causes of the others": _commonest,
    "latency_bound, always": lambda case, _: _same(case, [a_claim("latency_bound")]),
    "keet's findings, five times each": _repeats,
    "keet's answer to another kernel": _of_another,
    "no finding": lambda case, _: _same(case, []),
}
