"""The analyses, compared with labels by human readers and with exact counts."""

from statistics import mean

import pytest

from evals.sass.scores import blame_scores, purpose_scores, reuse_scores


@pytest.mark.parametrize("folder", ["purpose", "purpose_second"])
@pytest.mark.slow
def test_purposes_agree_with_readers(folder: str) -> None:
    scores = purpose_scores(folder)
    assert len(scores) >= 9
    assert mean(score.agreement for score in scores) >= 0.98
    assert min(score.agreement for score in scores) >= 0.94
    assert mean(score.hard for score in scores) >= 0.95


@pytest.mark.slow
def test_producers_and_bounds_agree_with_readers_and_counts() -> None:
    scores = blame_scores()
    kernels = {(score.stall.report, score.stall.launch) for score in scores}
    assert len(scores) >= 140
    assert len(kernels) >= 25
    wrong = [score for score in scores if not score.agrees]
    assert len(wrong) <= 2, wrong
    # Kernels of the casebook; `python -m evals.sass` has the samples too.
    scores = [*reuse_scores("casebook")]
    given = [score for score in scores if score.ratio is not None]
    assert [score for score in scores if score.is_below] == []
    assert len(given) >= 50
    assert sum(0.5 <= (score.ratio or 0) <= 2 for score in given) >= 0.95 * len(given)
