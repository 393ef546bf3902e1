"""The kept truth of the programs with known amounts is that of their sources."""

import json

import pytest

from evals.amounts import invariant_truth
from evals.amounts.sources import HERE


def test_loads_that_stay_the_same_are_those_of_the_source() -> None:
    kept = json.loads((HERE / "invariant_truth.json").read_text())
    assert kept == invariant_truth.truths(invariant_truth.SOURCE, invariant_truth.PLANTED)
    assert sum(len(loads) == 1 for loads in kept.values()) == 10
    assert sum(not loads for loads in kept.values()) == 22


@pytest.mark.slow
def test_known_amounts_are_those_of_the_source() -> None:
    pytest.importorskip("numpy")
    from evals.amounts import known_truth

    kept = json.loads((HERE / "known_truth.json").read_text())
    assert kept == known_truth.all_truths()
    for kernel, told in kept.items():
        assert list(told["arrays"]) == known_truth.SOURCE.pointers(kernel)
