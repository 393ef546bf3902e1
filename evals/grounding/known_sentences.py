"""Checks `keet verify` on 150 sentences that are known to be true or false.

`python -m evals.grounding.known_sentences` exits with 1 if a threshold is missed. The sentences are
in sentences.toml.
"""

from __future__ import annotations

import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from keet.documents.verify import ClaimVerdict
from keet.profile import Profile
from keet.report import read_profile
from keet.verification.launch_values import ComputedValues
from keet.verification.verify import computed_values, verify_text

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = Path(__file__).with_name("sentences.toml")


class Outcome(StrEnum):
    """The verdict on a whole sentence."""

    CONFIRMED = "confirmed"
    """Everything that was checked in it is right."""
    CONTRADICTED = "contradicted"
    UNCLEAR = "unclear"
    """Nothing is wrong, but something could not be checked."""


class Sentence(NamedTuple):
    report: str
    """Relative to the root of the repository."""
    text: str
    is_true: bool
    held_out: bool


class JudgedSentence(NamedTuple):
    sentence: Sentence
    outcome: Outcome
    reasons: tuple[str, ...]

    @property
    def is_error(self) -> bool:
        """A false sentence that is confirmed, or a true one that is contradicted."""
        wrong = Outcome.CONTRADICTED if self.sentence.is_true else Outcome.CONFIRMED
        return self.outcome is wrong


class Figures(NamedTuple):
    """How many sentences had each outcome."""

    true: int
    true_confirmed: int
    true_contradicted: int
    false: int
    false_confirmed: int
    false_contradicted: int

    def meet(self) -> bool:
        """Whether the thresholds are met.

        A check that never decides makes no errors, so it also has to decide most sentences."""
        few_errors = self.false_confirmed <= 2 and self.true_contradicted <= 2
        decided = self.true_confirmed >= 0.75 * self.true
        return few_errors and decided and self.false_contradicted >= 0.85 * self.false


def load_sentences() -> Iterator[Sentence]:
    """Every second sentence of each list is held out."""
    for report in tomllib.loads(SENTENCES.read_text("utf-8"))["report"]:
        for truth in (True, False):
            for index, text in enumerate(report["true" if truth else "false"]):
                yield Sentence(report["path"], text, truth, index % 2 == 1)


def judge(sentence: Sentence) -> JudgedSentence:
    """Each sentence is checked as a text of its own."""
    profile, known = _report(sentence.report)
    found = verify_text(sentence.text, profile.launches, known=known)
    verdicts = [verdict for each in found for verdict in each.verdicts]
    reasons = [f"{row.verdict}: {row.reason}" for each in found for row in each.checks]
    reasons += [f"{row.verdict}: {row.reason}" for each in found for row in each.relations]
    return JudgedSentence(sentence, _outcome(verdicts), tuple(reasons))


@cache
def _report(path: str) -> tuple[Profile, ComputedValues]:
    profile = read_profile(ROOT / path)
    return profile, computed_values([profile])


def _outcome(verdicts: Sequence[ClaimVerdict]) -> Outcome:
    if "contradicted" in verdicts:
        return Outcome.CONTRADICTED
    if verdicts and all(verdict == "confirmed" for verdict in verdicts):
        return Outcome.CONFIRMED
    return Outcome.UNCLEAR


def figures_of(judged: Iterable[JudgedSentence]) -> Figures:
    counted = [(each.sentence.is_true, each.outcome) for each in judged]
    truths = [truth for truth, _ in counted]
    return Figures(
        truths.count(True),
        counted.count((True, Outcome.CONFIRMED)),
        counted.count((True, Outcome.CONTRADICTED)),
        truths.count(False),
        counted.count((False, Outcome.CONFIRMED)),
        counted.count((False, Outcome.CONTRADICTED)),
    )


# --- the command


def main(argv: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m evals.grounding.known_sentences", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the sentences not decided right")
    args = parser.parse_args(argv)
    judged = [judge(sentence) for sentence in load_sentences()]
    held_out = [each for each in judged if each.sentence.held_out]
    lines = [f"all sentences: {_summary(judged)}", f"held-out ones: {_summary(held_out)}"]
    for each in judged if args.list else ():
        right = Outcome.CONFIRMED if each.sentence.is_true else Outcome.CONTRADICTED
        if each.outcome is not right:
            mark = "ERROR " if each.is_error else ""
            truth = "true" if each.sentence.is_true else "false"
            lines.append(f"{mark}{truth}, {each.outcome}: {each.sentence.text}")
            lines += [f"    {reason}" for reason in each.reasons]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if figures_of(judged).meet() else 1


def _summary(judged: Sequence[JudgedSentence]) -> str:
    figures = figures_of(judged)
    return (
        f"of {figures.false} false {figures.false_confirmed} confirmed, "
        f"{figures.false_contradicted} contradicted; of {figures.true} true "
        f"{figures.true_contradicted} contradicted, {figures.true_confirmed} confirmed"
    )


if __name__ == "__main__":
    sys.exit(main())
