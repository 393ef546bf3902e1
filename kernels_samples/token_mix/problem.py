"""out = tokens @ weights.T in bfloat16: a linear layer without bias."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from harness import Run

TOKENS, FEATURES, WIDTH = 8448, 4096, 8192

Launch = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]


def main(launch: Launch) -> None:
    run = Run()
    tokens = run.uniform(TOKENS, WIDTH, low=-0.5, high=1.0, dtype=torch.bfloat16)
    weights = run.uniform(FEATURES, WIDTH, low=-0.5, high=1.0, dtype=torch.bfloat16)
    tokens_there, weights_there = run.input(tokens), run.input(weights)
    out = run.output(TOKENS, FEATURES, dtype=torch.bfloat16)

    run.measure(lambda: launch(tokens_there, weights_there, out))

    rows = torch.randint(TOKENS, (8,), generator=run.random)
    expected = (tokens[rows].float() @ weights.float().T).double()
    run.check(out, expected, relative=1e-2, rows=rows)
    run.finish()
