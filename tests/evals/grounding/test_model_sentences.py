"""The bars of `python -m evals.grounding.model_sentences`."""

from __future__ import annotations

from collections import Counter

import pytest

from evals.grounding.model_sentences import (
    Verdict,
    false_sentences,
    judge,
    keep,
    planted_sentences,
    report,
    true_sentences,
)
from keet.verification.relation_check import OPEN


@pytest.mark.slow
def test_no_false_sentence_is_printed_as_checked() -> None:
    judged = [judge(each) for each in [*false_sentences(), *planted_sentences()]]
    assert [each for each in judged if each.verdict is Verdict.PASSED] == []
    assert len(list(false_sentences())) >= 60
    assert len(list(planted_sentences())) >= 60


def test_laundered_literals_and_false_comparisons_are_refused() -> None:
    kinds = ("laundered literals", "false comparison", "wrong operations")
    chosen = [each for each in false_sentences() if each.kind in kinds]
    assert Counter(judge(each).verdict for each in chosen) == {Verdict.REFUSED: len(chosen)}


def test_true_sentences_are_kept() -> None:
    kept = [keep(each) for each in true_sentences()]
    assert len(kept) >= 60
    marked = [each.problem for each in kept if each.problem]
    assert len([problem for problem in marked if problem != OPEN]) <= 2
    assert len(marked) <= 6


def test_the_table_adds_up() -> None:
    lines = list(report())
    (total,) = (line.split()[1:] for line in lines if line.startswith("all "))
    everything, *verdicts = map(int, total)
    assert everything == sum(verdicts)
    assert everything == len([*false_sentences(), *planted_sentences()])
