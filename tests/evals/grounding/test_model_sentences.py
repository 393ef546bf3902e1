"""The bars of `python -m evals.grounding.model_sentences`."""

from itertools import takewhile

from evals.grounding.model_sentences import (
    false_sentences,
    planted_sentences,
    report,
    true_sentences,
)
from keet.verification.relation_check import OPEN


def test_no_false_sentence_is_printed_as_checked_and_true_ones_are_kept() -> None:
    lines = list(report())
    table = {
        line[:32].strip(): [*map(int, line[32:].split())] for line in takewhile(bool, lines[2:])
    }
    everything, *verdicts = table["all"]
    assert everything == sum(verdicts)
    assert everything == len([*false_sentences(), *planted_sentences()])
    assert verdicts[-1] == 0  # passed as checked
    for kind in ("laundered literals", "false comparison", "wrong operations"):
        assert table[kind] == [table[kind][0], table[kind][0], 0, 0, 0]  # refused
    assert min(len(list(false_sentences())), len(list(planted_sentences()))) >= 60
    assert len(list(true_sentences())) >= 60
    marked = [line for line in lines if line.startswith("true but refused: ")]
    assert len([line for line in marked if not line.endswith(f": {OPEN}")]) <= 2
    assert len(marked) <= 6
