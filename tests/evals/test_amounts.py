"""The kept truth of the programs with known amounts is that of their sources."""

import pytest

from evals.amounts.emulated import CUDA_INCLUDE, HERE, PROGRAMS, Source, differences, truth_of
from tests.evals.conftest import ALL


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_truth_is_about_the_kernels_of_the_source(program: str) -> None:
    source = Source(HERE / f"{program}.cu")
    truth = truth_of(program)
    assert list(truth) == source.kernels()
    for kernel, known in truth.items():
        if program.startswith("known"):
            assert list(known["arrays"]) == source.pointers(kernel)
            stored = [array["elements_stored"] for array in known["arrays"].values()]
            assert known["item"] == max(stored)
        else:
            for load in known:
                assert load["array"] in source.pointers(kernel)
                assert {load["load_line"], load["loop_line"]} <= {*source.body(kernel)}


def test_a_third_of_the_kernels_with_loops_read_the_same_again() -> None:
    kept = truth_of("invariant")
    assert sum(len(loads) == 1 for loads in kept.values()) == 10
    assert sum(not loads for loads in kept.values()) == 22


@pytest.mark.slow
@pytest.mark.skipif(not ALL, reason="takes minutes; set KEET_TEST_ALL_EVALS")
@pytest.mark.parametrize("program", ["known", "invariant"])
def test_known_amounts_are_those_that_a_run_of_the_source_counts(program: str) -> None:
    if not CUDA_INCLUDE.is_dir():
        pytest.skip("needs g++ and CUDA's headers")
    assert differences(program) == []
