"""chances[i] = softmax(scores[i] / temperature) for every row i."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from harness import Run

ROWS, WIDTH = 12288, 4096
TEMPERATURE = 0.75

Launch = Callable[[torch.Tensor, torch.Tensor, float], None]


def main(launch: Launch) -> None:
    run = Run()
    scores = run.uniform(ROWS, WIDTH, low=-4.0, high=4.0)
    scores_there = run.input(scores)
    chances = run.output(ROWS, WIDTH)

    run.measure(lambda: launch(scores_there, chances, TEMPERATURE))

    rows = torch.randint(ROWS, (64,), generator=run.random)
    expected = torch.softmax(scores[rows].double() / TEMPERATURE, dim=1)
    run.check(chances, expected, relative=1e-4, absolute=1e-9, rows=rows)
    run.finish()
