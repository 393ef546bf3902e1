"""The harness for Python kernels: what harness.h does for CUDA C++, over torch.

PROGRAM [--seed N] [--launches N] [--once]; --once runs the work a single time, for a profiler.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable

import torch

WARM_UP = 5
COLD_BYTES = 256 << 20


class Run:
    def __init__(self) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--launches", type=int, default=30)
        parser.add_argument("--once", action="store_true")
        self._options = parser.parse_args()
        # Inputs are drawn on the host: no kernel but the sample's own runs under a profiler.
        self.random = torch.Generator().manual_seed(self._options.seed)
        self._outputs: list[torch.Tensor] = []
        self._times_us: list[float] = []
        self._checksum = 0.0
        self._worst = 0.0
        self._checked = self._wrong = self._not_finite = 0

    def uniform(
        self, *shape: int, low: float, high: float, dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """Numbers on the host, uniform in [low, high)."""
        values = torch.rand(*shape, generator=self.random)
        return (values * (high - low) + low).to(dtype)

    def input(self, values: torch.Tensor) -> torch.Tensor:
        return values.cuda()

    def output(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """An array on the device whose every byte is 0xFF before each run."""
        host = torch.zeros(*shape, dtype=dtype)
        host.view(torch.uint8).fill_(0xFF)
        self._outputs.append(host.cuda())
        return self._outputs[-1]

    def measure(self, work: Callable[[], object]) -> None:
        if self._options.once:
            work()
            torch.cuda.synchronize()
            return
        cold = torch.zeros(COLD_BYTES // 4, device="cuda")
        for turn in range(WARM_UP + self._options.launches):
            for output in self._outputs:
                output.view(torch.uint8).fill_(0xFF)
            cold.sum()  # reads: leaves a cold L2 with nothing to be written back
            elapsed = _timed(work)
            if turn >= WARM_UP:
                self._times_us.append(1e3 * elapsed)

    def check(
        self,
        result: torch.Tensor,
        expected: torch.Tensor,
        *,
        relative: float,
        absolute: float = 0.0,
        rows: torch.Tensor | None = None,
    ) -> None:
        """Holds the result, or these rows of it, against the float64 reference."""
        on_host = result.detach().cpu().to(torch.float64)
        self._not_finite += int((~torch.isfinite(on_host)).sum())
        weights = torch.rand(
            on_host.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64
        )
        self._checksum += float((torch.nan_to_num(on_host) * (weights + 0.5)).sum())
        picked = on_host if rows is None else on_host[rows]
        allowed = absolute + relative * expected.abs()
        over = (picked - expected).abs() / allowed
        self._checked += over.numel()
        self._wrong += int((~(over <= 1)).sum())
        self._worst = max(self._worst, float(torch.nan_to_num(over).max()))

    def finish(self) -> None:
        ok = bool(self._checked) and not self._wrong and not self._not_finite
        line: dict[str, object] = {
            "program": sys.argv[0],
            "seed": self._options.seed,
            "ok": ok,
            "checked": self._checked,
            "wrong": self._wrong,
            "not_finite": self._not_finite,
            "worst_error_over_allowed": self._worst,
            "checksum": self._checksum,
        }
        if self._times_us:
            times = self._times_us if len(self._times_us) > 1 else 2 * self._times_us
            deciles = statistics.quantiles(times, n=10, method="inclusive")
            line |= {
                "launches": len(self._times_us),
                "median_us": round(statistics.median(self._times_us), 3),
                "p10_us": round(deciles[0], 3),
                "p90_us": round(deciles[-1], 3),
                "times_us": [round(time, 2) for time in self._times_us],
            }
        print(json.dumps(line))
        sys.exit(0 if ok else 1)


def _timed(work: Callable[[], object]) -> float:
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop))
