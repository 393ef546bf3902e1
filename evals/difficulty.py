"""How hard the flaw of a sample is to see in its source."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from kernels_samples.samples import load_samples

Difficulty = Literal["visible", "hidden", "decoy", "healthy"]
DIFFICULTIES: dict[Difficulty, str] = {
    "visible": "a strong reader of the source names the cause",
    "hidden": "it takes the data, the sizes or the compiler",
    "decoy": "hidden, and something else in the source looks worse",
    "healthy": "nothing to mend",
}
_JUDGED = Path(__file__).with_name("difficulties.toml")


@cache
def difficulties() -> dict[str, Difficulty]:
    """By CUDA sample."""
    content = tomllib.loads(_JUDGED.read_text(encoding="utf-8"))
    return {name: table["difficulty"] for name, table in content.items()}


@cache
def difficulty_of(name: str) -> Difficulty | None:
    """Of any sample; of a Triton sample by its kinds. None: there is no such sample."""
    if known := difficulties().get(name):
        return known
    sample = next((each for each in load_samples() if each.name == name), None)
    if sample is None:
        return None
    return "healthy" if sample.healthy else "hidden" if "hidden" in sample.kinds else "visible"
