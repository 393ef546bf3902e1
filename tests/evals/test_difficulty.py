"""Every CUDA sample has a difficulty."""

from evals.difficulty import DIFFICULTIES, difficulties, difficulty_of
from kernels_samples.samples import load_samples


def test_every_sample_has_one() -> None:
    samples = load_samples()
    cuda = {sample.name for sample in samples if sample.language == "cuda"}
    assert {*difficulties()} == cuda
    assert {difficulty_of(sample.name) for sample in samples} == {*DIFFICULTIES}
    assert difficulty_of("no such sample") is None
