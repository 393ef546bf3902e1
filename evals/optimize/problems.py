"""Facts about each problem: how hard its flaw is to see, and its minimum time.

The minimum time (floor) is what compulsory traffic and arithmetic take at the nominal peak of the
machine. A time below it cannot be honest, and the share that a program reaches shows how much could
be left. It is only a bound: if something else limits the problem (dependent steps, launches,
exponentials), no program comes near it.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from kernels_samples.samples import Sample, load_samples

Difficulty = Literal["visible", "hidden", "decoy", "healthy"]
DIFFICULTIES: dict[Difficulty, str] = {
    "visible": "a strong reader of the source names the cause",
    "hidden": "it takes the data, the sizes or the compiler",
    "decoy": "hidden, and something else in the source looks worse",
    "healthy": "nothing to mend",
}
_FACTS = Path(__file__).with_name("problems.toml")


class ProblemFacts(BaseModel):
    """A table of problems.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    difficulty: Difficulty
    reason: str
    compulsory_read: int = Field(ge=0)
    compulsory_write: int = Field(ge=0)
    compulsory_host: int = Field(0, ge=0)
    compulsory_flops: dict[str, int] = {}
    """By pipe: the names of `FLOPS_A_CLOCK` in gpu/scorer/floor.py."""
    note: str

    @property
    def compulsory_bytes(self) -> int:
        """Bytes from and to device memory."""
        return self.compulsory_read + self.compulsory_write


@cache
def load_problems() -> dict[str, ProblemFacts]:
    """By sample: only CUDA samples, which a model can submit as one file."""
    content = tomllib.loads(_FACTS.read_text(encoding="utf-8"))
    return {name: ProblemFacts.model_validate(table) for name, table in content.items()}


@cache
def difficulty_of(name: str) -> Difficulty | None:
    """Of any sample: Triton samples are not problems here, but there are questions about them."""
    if facts := load_problems().get(name):
        return facts.difficulty
    sample = next((each for each in load_samples() if each.name == name), None)
    if sample is None:
        return None
    return "healthy" if sample.healthy else "hidden" if "hidden" in sample.kinds else "visible"


@cache
def known_samples() -> dict[str, Sample]:
    return {sample.name: sample for sample in load_samples() if sample.language == "cuda"}


def best_known_us(sample: Sample) -> float:
    """The fastest measured variant; a run may beat it."""
    assert sample.measured is not None, f"{sample.name} was not measured: make samples"
    return min(timing.median_us for timing in sample.measured.variants.values())


def best_known_speedup(sample: Sample) -> float:
    """Relative to `slow`: ratios are more comparable between machines than times."""
    assert sample.measured is not None, f"{sample.name} was not measured: make samples"
    return sample.measured.variants["slow"].median_us / best_known_us(sample)
