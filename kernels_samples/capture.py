"""Builds, checks, times and profiles samples, and writes what was measured. `make samples` runs it.

Needs a GPU, nvcc, ncu and keet; Python samples need torch and triton too.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from keet.report.input import zstd
from keet.version import __version__
from kernels_samples.machine import machine_facts
from kernels_samples.samples import HERE, Sample, load_sample, load_samples

WORK = Path("/tmp/keet-samples")
"""A neutral folder, because the paths of sources and programs are written into the reports."""
MARK = "# Measured by `make samples`: nothing below this line is edited by hand.\n"
MAX_REPORT = 700_000
"""Bytes before compression."""
LEVEL = 22
"""Zstandard's strongest. The window is no larger than the report, so that every reader takes it."""
SAMPLES = 300
"""Maximum warp samples per launch: enough to rank the top one or two lines, and the report stays
small."""
CYCLES_A_US, SMS = 1700, 132
"""Rough values of an H200; they only determine the number of samples."""
_AT_ONCE = 6
"""Programs that are checked at the same time; they are timed one by one."""


class Failure(Exception):
    """One sample failed; the others continue."""


class Program(NamedTuple):
    """One variant, ready to run."""

    sample: Sample
    variant: str
    command: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return WORK / self.sample.name

    def run(self, *options: object) -> dict[str, Any]:
        """Run it and return its JSON line; raises if the result is wrong."""
        command = [*self.command, *map(str, options)]
        done = _call(command, self.folder)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            said = (done.stderr + done.stdout).strip()[-400:]
            raise Failure(f"{self.variant} {' '.join(command[1:])}: {said}")
        result: dict[str, Any] = json.loads(lines[-1])
        return result


def _call(command: Iterable[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(command), cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


def main() -> int:
    options = _options()
    if wrong := [name for name in options.names if name not in _names()]:
        told = f"there is no sample {wrong[0]!r}; there are {', '.join(_names())}"
        print(told, file=sys.stderr)
        return 2
    samples = [load_sample(HERE / name) for name in options.names] or load_samples()
    _copy_sources()
    machine = {**machine_facts(), "keet": __version__}
    failed = 0
    for sample, programs in build_all(samples):
        ready = all(programs)
        done = _attempt(capture, sample, programs, options, machine) if ready else None
        failed += done is None
    print(f"{len(samples) - failed} of {len(samples)} samples captured")
    return 1 if failed else 0


def _names() -> list[str]:
    return sorted(path.parent.name for path in HERE.glob("*/sample.toml"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kernels_samples.capture", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="samples (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of timing, variants in turn")
    parser.add_argument("--launches", type=int, default=30, help="timed launches a turn")
    parser.add_argument("--seeds", type=int, default=3, help="seeds that results are checked for")
    parser.add_argument("--only-profile", action="store_true", help="leave [measured] as it is")
    parser.add_argument("--only-measure", action="store_true", help="leave the reports as they are")
    parser.add_argument("--variant", action="append", help="profile only this one (repeatable)")
    parser.add_argument("--no-sweep", action="store_true", help="leave the sweeps as they are")
    return parser.parse_args()


_EXPECTED = (subprocess.TimeoutExpired, OSError, AssertionError, KeyError, ValueError)
"""Errors of a missing tool, a partial result or an invalid sample.toml."""


def _attempt(step: Any, sample: Sample, *arguments: Any) -> Any:
    """The step's result, or None after printing what failed."""
    try:
        return step(sample, *arguments)
    except Failure as problem:
        print(f"FAILED {sample.name}: {problem}", flush=True)
    except _EXPECTED as problem:
        print(f"FAILED {sample.name}: {type(problem).__name__}: {problem}", flush=True)
    return None


def _copy_sources() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    keep = shutil.ignore_patterns("*.ncu-rep*", "__pycache__", "sweep")
    shutil.copytree(HERE, WORK, ignore=keep)


# --- building


def architecture() -> str:
    return os.environ.get("ARCH", "sm_90")


def build_command(sample: Sample, variant: str, *more: str, output: str = "") -> list[str]:
    """As typed in the sample's folder."""
    return [
        *("nvcc", "-std=c++17", "-O3", f"-arch={architecture()}", "-lineinfo"),
        *sample.flags,
        *more,
        *("-o", output or variant),
        *(f"{variant}.cu", "problem.cu", "../harness/harness.cu"),
    ]


def build_all(samples: list[Sample]) -> list[tuple[Sample, list[Program | None]]]:
    """Builds all variants before anything is timed, because a compiler would disturb the times."""
    builds = [(sample, variant) for sample in samples for variant in sample.variants]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda pair: _attempt(build, *pair), builds))
    built = dict(zip(((sample.name, variant) for sample, variant in builds), made))
    return [(s, [built[s.name, variant] for variant in s.variants]) for s in samples]


def build(sample: Sample, variant: str) -> Program:
    if sample.language == "triton":
        return Program(sample, variant, (sys.executable, f"{variant}.py"))
    return _built(sample, variant, build_command(sample, variant), variant)


def _built(sample: Sample, variant: str, command: list[str], output: str) -> Program:
    done = _call(command, WORK / sample.name)
    if done.returncode:
        raise Failure(f"{output}: {done.stderr.strip()[-600:]}")
    return Program(sample, variant, (f"./{output}",))


# --- measuring


def capture(
    sample: Sample, programs: list[Program], options: argparse.Namespace, machine: dict[str, str]
) -> Path:
    """Measures, then profiles: the measured time sets the sampling interval of the profiler."""
    if not options.only_profile:
        measure(sample, programs, options, machine)
    if options.only_measure:
        return sample.folder
    wanted = [p for p in programs if p.variant in (options.variant or sample.variants)]
    swept = sample.sweep is not None and sample.sweep.variant in [p.variant for p in wanted]
    return profile_all(load_sample(sample.folder), wanted, swept=swept and not options.no_sweep)


def measure(
    sample: Sample, programs: list[Program], options: argparse.Namespace, machine: dict[str, str]
) -> None:
    check_seeds(programs, range(1, options.seeds + 1))
    rounds = [
        [program.run("--seed", 1, "--launches", options.launches) for program in programs]
        for _ in range(options.rounds)
    ]
    table = measured_table(sample, programs, rounds, options, machine)
    print(f"{sample.name}: {summary(rounds, programs)}", flush=True)
    write_measured(sample, table)


def profile_all(sample: Sample, programs: list[Program], *, swept: bool) -> Path:
    assert sample.measured is not None, "it was not measured yet"
    for program in programs:
        median = sample.measured.variants[program.variant].median_us
        profile(program, sample.report(program.variant), profile_options(sample, median))
    if swept:
        sweep(sample)
    return sample.folder


def check_seeds(programs: list[Program], seeds: Iterable[int]) -> None:
    """Checks every variant for every seed, and that the variants agree."""
    turns = [(program, seed) for seed in seeds for program in programs]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(lambda t: t[0].run("--seed", t[1], "--launches", 1), turns))
    by_seed: dict[int, list[float]] = {}
    for (_, seed), result in zip(turns, results):
        by_seed.setdefault(seed, []).append(result["checksum"])
    for seed, sums in by_seed.items():
        if max(sums) - min(sums) > 1e-3 * max(map(abs, sums)):
            raise Failure(f"checksums differ for seed {seed}: {sums}")


def summary(rounds: list[list[dict[str, Any]]], programs: list[Program]) -> str:
    parts = [f"{program.variant} {_median(rounds, i):.1f} us" for i, program in enumerate(programs)]
    return ", ".join(parts) + f", speed-up {_speedup(rounds):.2f}"


def _times(rounds: list[list[dict[str, Any]]], variant: int) -> list[float]:
    return [time for turn in rounds for time in turn[variant]["times_us"]]


def _median(rounds: list[list[dict[str, Any]]], variant: int) -> float:
    """Rounded as it is stored, so that derived values can be recomputed."""
    return round(statistics.median(_times(rounds, variant)), 2)


def _speedup(rounds: list[list[dict[str, Any]]]) -> float:
    return statistics.median(_times(rounds, 0)) / statistics.median(_times(rounds, -1))


def measured_table(
    sample: Sample,
    programs: list[Program],
    rounds: list[list[dict[str, Any]]],
    options: argparse.Namespace,
    machine: dict[str, str],
) -> str:
    ratios = [turn[0]["median_us"] / turn[-1]["median_us"] for turn in rounds]
    python = sample.language == "triton"
    run = "python3 slow.py" if python else "./slow"
    profiled = shlex.join(["keet", "profile", *profile_options(sample, _median(rounds, 0))])
    values: dict[str, Any] = {
        **machine,
        "seeds": list(range(1, options.seeds + 1)),
        "rounds": len(rounds),
        "launches": len(_times(rounds, 0)),
        "build": "" if python else " ".join(build_command(sample, "slow")),
        "run": f"{run} --seed 1",
        "profile": f"{profiled} -o slow.ncu-rep -- {run} --seed 1 --once",
        "speedup": round(_speedup(rounds), 3),
        "speedup_range": [round(min(ratios), 3), round(max(ratios), 3)],
    }
    lines = [f"[measured]\ndate = {datetime.date.today().isoformat()}"]  # noqa: DTZ011
    lines += [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    for i, program in enumerate(programs):
        lines += ["", f"[measured.variants.{program.variant}]", *_timing(rounds, i)]
    return "\n".join(lines) + "\n"


def _timing(rounds: list[list[dict[str, Any]]], variant: int) -> Iterator[str]:
    times = _times(rounds, variant)
    deciles = statistics.quantiles(times, n=10, method="inclusive")
    yield f"median_us = {_median(rounds, variant):.2f}"
    yield f"p10_us = {deciles[0]:.2f}"
    yield f"p90_us = {deciles[-1]:.2f}"
    last = rounds[-1][variant]
    yield f"checksum = {float(last['checksum'])!r}"
    yield f"worst_error_over_allowed = {float(last['worst_error_over_allowed'])!r}"


def write_measured(sample: Sample, table: str) -> Path:
    path = sample.folder / "sample.toml"
    told = path.read_text(encoding="utf-8").partition(MARK)[0].rstrip() + "\n"
    path.write_text(f"{told}\n{MARK}{table}", encoding="utf-8")
    return path


# --- profiling


def profile(program: Program, report: Path, options: list[str]) -> None:
    written = program.folder / f"{report.stem}.ncu-rep"
    command = [sys.executable, "-m", "keet", "profile", "-f", "--format", "path"]
    command += [*options, "-o", str(written)]
    done = _call([*command, "--", *program.command, "--seed", "1", "--once"], program.folder)
    if done.returncode:
        raise Failure(f"{written.name}: {done.stderr.strip()[-400:]}")
    if written.stat().st_size > MAX_REPORT:
        print(f"TOO BIG {report.name} of {program.sample.name}: {written.stat().st_size:,} bytes")
    report.parent.mkdir(exist_ok=True)
    report.write_bytes(stored(written.read_bytes(), report.suffix))


def stored(data: bytes, suffix: str) -> bytes:
    """As `zstd --ultra -22` compresses it, if the report is kept compressed."""
    if suffix != ".ncu-repz":
        return data
    return bytes(zstd.zstd.compress(data, LEVEL))  # type: ignore[attr-defined]


FIRST = ("--first", "--no-plain-run")
"""With --once, a sample launches each kernel once, so there is nothing to choose."""


def profile_options(sample: Sample, median_us: float) -> list[str]:
    """Options: the first launch of each kernel, the sample's own options, and a sampling interval
    unless the sample sets one."""
    own = [*FIRST, *own_options(sample)]
    return own if "--ncu-options" in own else [*own, *sampling(median_us)]


def sampling(median_us: float) -> list[str]:
    """Options for at most SAMPLES warp samples: each sampled address adds 39 numbers."""
    cycles = median_us * CYCLES_A_US * SMS / SAMPLES
    return ["--ncu-options", f"--warp-sampling-interval {max(0, math.ceil(math.log2(cycles)) - 5)}"]


def own_options(sample: Sample) -> list[str]:
    # torch's own kernels would bring 10 MB of code along.
    alone = ["--kernel", f"^{sample.kernel}$"] if sample.language == "triton" else []
    return [*alone, *sample.profile]


def sweep(sample: Sample) -> None:
    assert sample.sweep is not None
    for value in sample.sweep.values:
        output = f"{sample.sweep.knob}_{value:04d}"
        define = f"-D{sample.sweep.knob}={value}"
        command = build_command(sample, sample.sweep.variant, define, output=output)
        program = _built(sample, sample.sweep.variant, command, output)
        program.run("--seed", 1, "--launches", 1)
        profile(program, sample.sweep_report(value), [*own_options(sample), "--light"])


if __name__ == "__main__":
    sys.exit(main())
