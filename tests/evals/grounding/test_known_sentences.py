"""`keet verify` on sentences whose truth is known: few errors, and most sentences decided."""

import pytest

from evals.grounding.known_sentences import Figures, load_sentences, main


def test_there_are_enough_sentences() -> None:
    sentences = list(load_sentences())
    assert len({each.text for each in sentences}) == 150
    assert sum(each.is_true for each in sentences) == 60
    assert len({each.report for each in sentences}) >= 8


def test_the_thresholds_can_be_met_and_missed() -> None:
    good = Figures(60, 50, 0, 90, 0, 80)
    assert good.meet()
    assert not good._replace(false_confirmed=3).meet()
    assert not good._replace(true_contradicted=3).meet()
    assert not good._replace(true_confirmed=10).meet()
    assert not good._replace(false_contradicted=10).meet()


@pytest.mark.slow
def test_the_figures_are_printed(capsys: pytest.CaptureFixture[str], wording) -> None:
    assert main([]) == 0
    first, second = capsys.readouterr().out.splitlines()
    wording(first)
    assert second.startswith("held-out ones: of 41 false ")
