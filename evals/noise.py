"""How far two captures of an unchanged kernel differ: the noise that `keet diff` assumes.

    python -m evals.noise summary evals/results/noise_h200_*.csv
    python -m evals.noise table                                     what `keet diff` makes of it

Each file has the captures of one session: CUDA samples (`slow` and `fast`), each timed several
times by `ncu --metrics gpu__time_duration.sum --clock-control none`, with caches flushed (setting
same) and with `--cache-control none` (warm). `summary` compares the captures of a file with one
another, with those of other files, and with the samples' reports, which are of sessions of their
own.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from keet.comparison.timing.pair_timing import deviation_across_days, deviation_within_hour
from keet.report import read_profile
from kernels_samples.samples import load_samples

_BINS = ((0, 20_000), (20_000, 100_000), (100_000, math.inf))
Captures = Mapping[tuple[str, str, str], Sequence[float]]
"""Nanoseconds by sample, variant and setting."""


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


def between(one: Captures, other: Captures) -> Iterator[tuple[float, float]]:
    """The same for two sessions, using the median of each."""
    for key, times in one.items():
        if key[2] == "same" and key in other:
            before, after = statistics.median(times), statistics.median(other[key])
            yield before, math.log(after / before)


def shipped(names: Iterable[str]) -> Captures:
    """The samples' own reports, as captures."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for sample in load_samples():
        for variant in ("slow", "fast") if sample.name in names else ():
            profile = read_profile(sample.report(variant))
            named = (each for each in profile.launches if each.kernel.startswith(sample.kernel))
            if launch := next(named, None):
                found[sample.name, variant, "same"] = [launch.rank_time]
    return found


def warm_over_cold(captures: Captures) -> Iterator[float]:
    for (name, variant, setting), times in captures.items():
        cold = captures.get((name, variant, "same"))
        if setting == "warm" and cold:
            yield statistics.fmean(times) / statistics.fmean(cold)


def rms(logs: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(x * x for x in logs))


def summary(sessions: Sequence[Captures]) -> Iterator[str]:
    names = {key[0] for captures in sessions for key in captures}
    every = [*sessions, shipped(names)]
    yield "two captures of one session:"
    yield from _by_length([pair for captures in sessions for pair in within(captures)])
    yield "captures of two sessions, the samples' reports included:"
    pairs = itertools.combinations(every, 2)
    yield from _by_length([pair for one, other in pairs for pair in between(one, other)])
    ratios = sorted(ratio for captures in sessions for ratio in warm_over_cold(captures))
    yield (
        f"caches left warm, over flushed: {ratios[0]:.2f} to {ratios[-1]:.2f}, "
        f"median {statistics.median(ratios):.2f}, {len(ratios)} pairs"
    )


def _by_length(pairs: Sequence[tuple[float, float]]) -> Iterator[str]:
    for low, high in _BINS:
        logs = [change for ns, change in pairs if low <= ns < high]
        if logs:
            yield (
                f"  {low / 1000:.0f} us and longer: {rms(logs):.1%} root mean square, "
                f"{max(map(abs, logs)):.1%} at most, {len(logs)} pairs"
            )


_WAYS = (
    ("1", 1, 1, 1),
    ("3, one session per side", 3, 1, 1),
    ("5, one session per side", 5, 1, 1),
    ("3, each on another day", 3, 3, 1),
    ("5, each on another day", 5, 5, 1),
    ("3, both sides alternating in one session", 3, 1, 0),
    ("5, both sides alternating in one session", 5, 1, 0),
)
"""Runs per side, number of sessions, and whether the sides are from different sessions."""
_LENGTHS = (1e6, 1e5, 2e4, 5e3)


def table() -> Iterator[str]:
    """The noise that `keet diff` computes if runs differ exactly as much as it assumes."""
    for label, runs, sessions, differ in _WAYS:
        cells = [f"{_noise(ns, runs, sessions, differ):.1%}" for ns in _LENGTHS]
        yield f"| {label} | {' | '.join(cells)} |"


def _noise(ns: float, runs: int, sessions: int, differ: int) -> float:
    """Two standard deviations of the ratio of two means."""
    within = deviation_within_hour(ns) ** 2
    between = differ * (deviation_across_days(ns) ** 2 - within)
    return 2 * math.sqrt(between / sessions + within / runs)


def main() -> None:
    parser = argparse.ArgumentParser(prog="evals.noise", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("summary").add_argument("files", type=Path, nargs="+")
    commands.add_parser("table")
    args = parser.parse_args()
    is_table = args.command == "table"
    lines = table() if is_table else summary([read(path) for path in args.files])
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
