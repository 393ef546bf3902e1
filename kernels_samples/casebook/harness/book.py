"""What book.h does for CUDA programs, for Triton ones: the same command line, the same JSON lines.

PROGRAM [--mode list|measure|time|profile] [--seeds 1,2,3] [--launches N]
        [--only PROBLEM/VARIANT,...] [--skip PROBLEM/VARIANT,...]

A side is one variant of the code on one problem (size, type, data). Each result is one JSON line on
stdout. `measure` checks every side for every seed, then times the sides of a problem in turns.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import sys
from collections.abc import Callable
from typing import TextIO

import torch

_WARM_UP = 3
_COLD_BYTES = 256 << 20
_NEEDS = (
    "dram_bytes",
    "fp32_flop",
    "fp64_flop",
    "tensor_flop",
    "int_op",
    "special_op",
    "link_bytes",
    "steps",
)


class Problem:
    """One problem: its data on the device, what the result must be, and the variants."""

    def __init__(self, name: str, seed: int, *, profiling: bool) -> None:
        self.name, self.seed = name, seed
        self._profiling = profiling
        self._warming = False
        self._stream = 0
        self.needs_: dict[str, float] = dict.fromkeys(_NEEDS, 0.0)
        self.variants: list[tuple[str, Callable[[], object]]] = []
        self._checks: list[
            tuple[torch.Tensor, float, float, Callable[[], torch.Tensor], list[torch.Tensor]]
        ] = []
        self._poisoned: list[torch.Tensor] = []
        self._zeroed: list[torch.Tensor] = []
        self._restored: list[tuple[torch.Tensor, torch.Tensor]] = []

    def generator(self) -> torch.Generator:
        """A source of random numbers on the device; every call gives a stream of its own."""
        self._stream += 1
        source = torch.Generator(device="cuda")
        source.manual_seed(1_000_003 * self.seed + self._stream)
        return source

    def uniform(
        self, *shape: int, low: float, high: float, dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """Device array, uniform in [low, high)."""
        values = torch.rand(shape, generator=self.generator(), device="cuda")
        return (values * (high - low) + low).to(dtype).contiguous()

    def integers(
        self, *shape: int, low: int, high: int, dtype: torch.dtype = torch.int32
    ) -> torch.Tensor:
        """Device array of whole numbers, uniform in [low, high)."""
        values = torch.randint(low, high, shape, generator=self.generator(), device="cuda")
        return values.to(dtype).contiguous()

    def state(self, values: torch.Tensor) -> torch.Tensor:
        """Device array that starts each run with these values: for work done in place."""
        device = values.cuda().clone().contiguous()
        self._restored.append((device, device.clone()))
        return device

    def output(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Device array whose every byte is 0xFF before each run; also for scratch space."""
        device = torch.empty(shape, dtype=dtype, device="cuda")
        self._poisoned.append(device)
        return device

    def zeroed(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Device array that is zero before each run: counters, accumulators. Not timed."""
        device = torch.zeros(shape, dtype=dtype, device="cuda")
        self._zeroed.append(device)
        return device

    def needs(self, **least: float) -> None:
        """The least work that any correct version has to do: as `Needs` of book.h."""
        unknown = set(least) - set(_NEEDS)
        if unknown:
            raise TypeError(f"no such need: {sorted(unknown)}")
        self.needs_.update({name: float(value) for name, value in least.items()})

    def check(
        self,
        result: torch.Tensor,
        reference: Callable[[], torch.Tensor],
        *,
        relative: float,
        absolute: float = 0.0,
    ) -> None:
        """The result must equal what `reference` returns (float64, same shape); run once."""
        self._checks.append((result, relative, absolute, reference, []))

    def variant(self, name: str, work: Callable[[], object]) -> None:
        """`work` launches everything that this variant needs to get from inputs to result."""
        self.variants.append((name, work))

    def launched(self, index: int, most: int = 2) -> None:
        """In a loop of many launches: ends profiling after `most` of them."""
        if self._profiling and not self._warming and index + 1 == most:
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()

    def prepare(self) -> None:
        for device, original in self._restored:
            device.copy_(original)
        for device in self._poisoned:
            device.view(-1).view(torch.uint8).fill_(0xFF)
        for device in self._zeroed:
            device.zero_()

    def make_references(self) -> None:
        for *_, reference, expected in self._checks:
            if not expected:
                expected.append(reference().to(torch.float64))
        torch.cuda.synchronize()

    def run_checks(self) -> tuple[bool, int, int, float]:
        wrong, not_finite, worst = 0, 0, 0.0
        for result, relative, absolute, _, expected in self._checks:
            want = expected[0].reshape(-1)
            got = result.detach().reshape(-1)
            if got.numel() != want.numel():
                raise ValueError(f"{self.name}: the reference has another size than the result")
            step = 1 << 25
            for start in range(0, want.numel(), step):
                w = want[start : start + step]
                g = got[start : start + step].to(torch.float64)
                limit = absolute + relative * w.abs()
                error = (g - w).abs()
                not_finite += int((~(torch.isfinite(g) & torch.isfinite(w))).sum())
                wrong += int((~(error <= limit)).sum())
                ratio = torch.where((limit > 0) & torch.isfinite(error), error / limit, 0.0)
                worst = max(worst, float(ratio.max()))
        return bool(self._checks) and not wrong and not not_finite, wrong, not_finite, worst


class Book:
    def __init__(self, arguments: list[str]) -> None:
        self._mode = "measure"
        self._seeds = [1, 2, 3]
        self._launches = 20
        self._only: list[str] = []
        self._skip: list[str] = []
        self._failed = 0
        self._cold: torch.Tensor | None = None
        for option, value in zip(arguments[1::2], arguments[2::2], strict=False):
            if option == "--mode":
                self._mode = value
            elif option == "--launches":
                self._launches = max(1, int(value))
            elif option == "--seeds":
                self._seeds = [int(part) for part in value.split(",") if part]
            elif option == "--only":
                self._only = [part for part in value.split(",") if part]
            elif option == "--skip":
                self._skip = [part for part in value.split(",") if part]
            else:
                print(f"{arguments[0]}: unknown option {option}", file=sys.stderr)
                sys.exit(2)
        self._lock = _wait_for_gpu() if self._mode == "profile" else None

    def problem(self, name: str, define: Callable[[Problem], object]) -> None:
        if self._only and not any(side.startswith(name + "/") for side in self._only):
            return
        if self._mode == "list":
            problem = Problem(name, self._seeds[0], profiling=False)
            define(problem)
            self._drop_unwanted(problem)
            for variant, _ in problem.variants:
                _say("side", problem, variant)
            return
        once = self._mode in ("profile", "time")
        for k in range(1 if once else len(self._seeds)):
            problem = Problem(name, self._seeds[k], profiling=self._mode == "profile")
            define(problem)
            self._drop_unwanted(problem)
            if self._mode == "measure":
                self._verify(problem)
            if (self._mode == "measure" and k + 1 == len(self._seeds)) or self._mode == "time":
                self._time(problem)
            if self._mode == "profile":
                self._profile(problem)
            del problem
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def finish(self) -> int:
        if self._mode != "list":
            torch.cuda.synchronize()
        _print({"event": "done", "failed": self._failed})
        if self._lock is not None:
            self._lock.close()
        return 1 if self._failed else 0

    def _drop_unwanted(self, problem: Problem) -> None:
        def wanted(variant: str) -> bool:
            side = f"{problem.name}/{variant}"
            return (not self._only or side in self._only) and side not in self._skip

        problem.variants = [(name, work) for name, work in problem.variants if wanted(name)]

    def _verify(self, problem: Problem) -> None:
        # References first: a variant that writes where it must not cannot spoil them.
        problem.make_references()
        for name, work in problem.variants:
            _say("start", problem, name)
            problem.prepare()
            work()
            torch.cuda.synchronize()
            ok, wrong, not_finite, worst = problem.run_checks()
            self._failed += not ok
            _say(
                "check",
                problem,
                name,
                seed=problem.seed,
                ok=ok,
                wrong=wrong,
                not_finite=not_finite,
                worst_error_over_allowed=float(f"{worst:.4g}"),
            )

    def _time(self, problem: Problem) -> None:
        times: list[list[float]] = [[] for _ in problem.variants]
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for turn in range(_WARM_UP + self._launches):
            for v, (_, work) in enumerate(problem.variants):
                problem.prepare()
                self._cool_l2()
                start.record()
                work()
                stop.record()
                stop.synchronize()
                if turn >= _WARM_UP:
                    times[v].append(round(1e3 * start.elapsed_time(stop), 2))
        for v, (name, _) in enumerate(problem.variants):
            needs = {key: _plain(value) for key, value in problem.needs_.items()}
            _say("time", problem, name, needs=needs, times_us=times[v])

    def _profile(self, problem: Problem) -> None:
        # Compiled and loaded before the profiler starts: it sees the launches alone.
        problem._warming = True
        for _, work in problem.variants:
            problem.prepare()
            work()
            torch.cuda.synchronize()
        problem._warming = False
        for name, work in problem.variants:
            _say("start", problem, name)
            problem.prepare()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_push(f"{problem.name}/{name}")
            torch.cuda.cudart().cudaProfilerStart()
            work()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
            torch.cuda.nvtx.range_pop()
            _say("profiled", problem, name)

    def _cool_l2(self) -> None:
        # Reads, never writes. Twice: the launch that follows is queued before the reading ends.
        if self._cold is None:
            self._cold = torch.zeros(_COLD_BYTES // 4, device="cuda")
        self._cold.sum()
        self._cold.sum()


def _wait_for_gpu() -> TextIO | None:
    """Before the first CUDA call: only one program at a time uses the GPU (see book.h)."""
    path = os.environ.get("BOOK_GPU_LOCK")
    if not path:
        return None
    lock = open(path, "w")  # noqa: SIM115, PTH123 - held until the program ends
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _plain(value: float) -> float | int:
    return int(value) if math.isfinite(value) and value == int(value) else value


def _say(event: str, problem: Problem, variant: str, **more: object) -> None:
    _print({"event": event, "problem": problem.name, "variant": variant, **more})


def _print(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)
