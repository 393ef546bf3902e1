"""How far two captures of one unchanged kernel differ: what `keet diff` takes for noise.

    python -m evals.noise capture --runs 3 > evals/results/noise_h200.csv    needs a GPU, nvcc, ncu
    python -m evals.noise summary evals/results/noise_h200.csv

`capture` builds samples and has ncu time each several times, with caches flushed and left warm.
`summary` compares these captures with one another, and with the samples' reports, which were made
in another session.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from keet.ingest import read_profile
from kernels_samples.samples import HERE, Sample, load_samples

_METRICS = ("gpu__time_duration.sum", "gpc__cycles_elapsed.avg.per_second")
_HEADER = ("name", "variant", "setting", "run", "kernel", "ns", "sm_hz")
_SETTINGS = {"same": (), "warm": ("--cache-control", "none")}
_BINS = ((0, 20_000), (20_000, 100_000), (100_000, math.inf))
Captures = Mapping[tuple[str, str, str], Sequence[float]]
"""Nanoseconds by sample, variant and setting."""


def capture(samples: Iterable[Sample], runs: int) -> Iterator[tuple[object, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        work = shutil.copytree(HERE, Path(folder) / "samples")
        built = [s for s in samples if s.language == "cuda" and _build(work / s.name)]
        for run, sample in itertools.product(range(1, runs + 1), built):
            for variant, setting in itertools.product(("slow", "fast"), _SETTINGS):
                for kernel, ns, hz in _timed(work / sample.name, sample.kernel, variant, setting):
                    yield sample.name, variant, setting, run, kernel, ns, hz


def _build(folder: Path) -> bool:
    commands = [
        ["nvcc", "-std=c++17", "-O3", "-arch=native", "-lineinfo", "-o", v, f"{v}.cu", "problem.cu",
         "../harness/harness.cu"] for v in ("slow", "fast")
    ]  # fmt: skip
    return all(subprocess.run(c, cwd=folder, check=False).returncode == 0 for c in commands)


def _timed(folder: Path, kernel: str, variant: str, setting: str) -> Iterator[tuple[str, str, str]]:
    command = [
        *("ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"),
        *("--metrics", ",".join(_METRICS), *_SETTINGS[setting]),
        *("--kernel-id", f"::regex:^{kernel}:1", f"./{variant}", "--seed", "1", "--once"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    for row in list(csv.DictReader(io.StringIO("\n".join(lines))))[1:]:  # the first has units
        ns, hz = (row[metric].replace(",", "") for metric in _METRICS)
        yield row["Kernel Name"].partition("(")[0], ns, hz


# --- what they show


def read(path: Path) -> Captures:
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        found[row["name"], row["variant"], row["setting"]].append(float(row["ns"]))
    return found


def within(captures: Captures) -> Iterator[tuple[float, float]]:
    """Duration, and the logarithm of the ratio of two captures of one session."""
    for (_, _, setting), times in captures.items():
        if setting == "same":
            for one, other in itertools.combinations(times, 2):
                yield one, math.log(other / one)


def between(captures: Captures) -> Iterator[tuple[float, float]]:
    """The same, of the session and the sample's report."""
    for (name, variant, setting), times in captures.items():
        shipped = _shipped(name, variant) if setting == "same" else None
        if shipped:
            middle = statistics.median(times)
            yield middle, math.log(shipped / middle)


def _shipped(name: str, variant: str) -> float | None:
    sample = next(each for each in load_samples() if each.name == name)
    profile = read_profile(HERE / name / f"{variant}.ncu-rep")
    named = (each for each in profile.launches if each.kernel.startswith(sample.kernel))
    launch = next(named, None)
    return launch.rank_time if launch else None


def warm_over_cold(captures: Captures) -> Iterator[float]:
    for (name, variant, setting), times in captures.items():
        cold = captures.get((name, variant, "same"))
        if setting == "warm" and cold:
            yield statistics.fmean(times) / statistics.fmean(cold)


def rms(logs: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(x * x for x in logs))


def summary(captures: Captures) -> Iterator[str]:
    for label, pairs in (
        ("two captures of one session", list(within(captures))),
        ("a capture and the shipped report, of another session", list(between(captures))),
    ):
        yield f"{label}:"
        for low, high in _BINS:
            logs = [change for ns, change in pairs if low <= ns < high]
            if logs:
                most = max(map(abs, logs))
                yield (
                    f"  {low / 1000:.0f} us and longer: {rms(logs):.1%} root mean square, "
                    f"{most:.1%} at most, {len(logs)} pairs"
                )
    ratios = sorted(warm_over_cold(captures))
    yield (
        f"caches left warm, over flushed: {ratios[0]:.2f} to {ratios[-1]:.2f}, "
        f"median {statistics.median(ratios):.2f}, {len(ratios)} kernels"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="evals.noise", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("capture")
    taking.add_argument("names", nargs="*", help="samples; all of CUDA if none")
    taking.add_argument("--runs", type=int, default=3)
    commands.add_parser("summary").add_argument("file", type=Path)
    args = parser.parse_args()
    if args.command == "summary":
        sys.stdout.writelines(f"{line}\n" for line in summary(read(args.file)))
        return
    writer = csv.writer(sys.stdout)
    writer.writerow(_HEADER)
    chosen = [s for s in load_samples() if not args.names or s.name in args.names]
    for row in capture(chosen, args.runs):
        writer.writerow(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
