"""Fetching and analysing SASS as ratios: cold, early and from the cache, against a bare script.

    python -m tests.benchmarks.code [REPORT]

The report is that of the sample with the largest kernel (6,679 instructions) unless one is given.
Times are of whole steps inside a process, without the interpreter's start and imports of keet; those
of the bare script are of all of it, since a child of keet has to start and import, too.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.measure import at_most, line

SAMPLES = Path(__file__).parent.parent.parent / "kernels_samples"
LARGEST = SAMPLES / "mechanism_rates" / "slow.ncu-repz"
ROUNDS = 5

BARE_SCRIPT = """
import os, sys, ncu_report
for part in ncu_report.load_report(sys.argv[1]):
    for action in part:
        ids = action.metric_by_name("inst_executed").correlation_ids()
        for index in range(ids.num_instances()):
            action.sass_by_pc(ids.value(index))
os._exit(0)
"""
"""What a user would write without keet, to see the instructions of a report."""

THROUGH_KEET = """
import sys, time
from keet.explanation.analyst import explain
from keet.ingest import read_profile
from keet.ingest.sass import disassembler
from keet.ingest.ncu_rep import reader
how, path = sys.argv[1:]
start = time.perf_counter()
profile = read_profile(path)
if how == "early":
    profile.prefetch_code(profile.launches)
if how in ("early", "late", "without"):
    explain(profile, profile.launches, 5, sass=False)
if how != "without":
    for launch in profile.launches:
        assert isinstance(launch.disassembly, dict), launch.disassembly
print(time.perf_counter() - start)
"""


ALL_ANALYSES = """
import resource, sys, time
from keet.analysis.sass.machine_code import machine_code
from keet.ingest import read_profile
(launch,) = read_profile(sys.argv[1]).launches[:1]
launch.disassembly, launch.locations
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
code = machine_code(launch)
code.chains, code.reuse, code.merges, code.atomics, code.invariants
print(time.perf_counter() - start)
print(len(code.program.code), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
"""Everything that is known about the code of a launch, its text at hand."""


class Analysis(NamedTuple):
    """All analyses of one launch's code."""

    seconds: float
    instructions: int
    kilobytes: int
    """More than was in use before, at the peak."""


def analysis(report: Path, cache: Path) -> Analysis:
    done = subprocess.run(
        [sys.executable, "-c", ALL_ANALYSES, str(report)],
        env=os.environ | {"KEET_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, instructions, kilobytes = done.stdout.split()
    return Analysis(float(seconds), int(instructions), int(kilobytes))


def command(report: Path, *options: str, cache: Path | None = None) -> float:
    """Seconds of `keet explain`, from the start of the interpreter to its end."""
    where = {"KEET_CODE_CACHE": "0"} if cache is None else {"KEET_CACHE": str(cache)}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "keet", "explain", "--no-model", str(report), *options],
        env=os.environ | where,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


def explain_lines(report: Path, cache: Path, bare_seconds: float) -> list[str]:
    """What the machine code adds to `keet explain`, scaled to 5,000 instructions."""
    name = f"{report.parent.name}/{report.name}"
    rounds = [
        (command(report, "--no-sass"), command(report), command(report, cache=cache))
        for _ in range(ROUNDS)
    ]
    found = [analysis(report, cache) for _ in range(ROUNDS)]
    size = found[0].instructions
    scale = _SIZE / size
    cold = statistics.median(cold - without for without, cold, _ in rounds)
    cached = statistics.median(cached - without for without, _, cached in rounds)
    every = statistics.median(each.seconds for each in found)
    memory = statistics.median(each.kilobytes for each in found) / 1000
    return [
        _line(cold * scale / bare_seconds, _COLD, cold, bare_seconds)
        + f"added to `keet explain {name}` ({size:,} instructions; ratio for {_SIZE:,}), cold",
        _line(cached * scale / bare_seconds, _CACHED, cached, bare_seconds)
        + "the same, text cached",
        _line(every * scale / bare_seconds, _CACHED, every, bare_seconds)
        + f"every analysis of its code, as `keet hotspots` does; {memory:.0f} MB (budget 100)",
    ]


_SIZE = 5000
_COLD, _CACHED = 1.2 / 1.1, 0.4 / 1.1
"""The budgets of 1.2 s and 0.4 s over the bare script, which takes 1.1 s for 5,000 instructions on
the machine that they were stated for."""


class Times(NamedTuple):
    """Seconds of one round."""

    bare: float
    cold: float
    cached: float
    without: float
    """Explaining alone."""
    late: float
    """Explaining, then fetching."""
    early: float
    """Explaining while the text is fetched."""


def bare(report: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", BARE_SCRIPT, str(report)], check=True)
    return time.perf_counter() - start


def through_keet(how: str, report: Path, cache: Path | None = None) -> float:
    where = {"KEET_CODE_CACHE": "0"} if cache is None else {"KEET_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", THROUGH_KEET, how, str(report)],
        env=os.environ | where,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def one_round(report: Path, cache: Path) -> Times:
    return Times(
        bare(report),
        through_keet("text", report),
        through_keet("text", report, cache),
        *(through_keet(how, report) for how in ("without", "late", "early")),
    )


def lines(report: Path = LARGEST) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        through_keet("text", report, cache)
        rounds = [one_round(report, cache) for _ in range(ROUNDS)]
        bare_seconds = statistics.median(each.bare for each in rounds)
        more = explain_lines(report, cache, bare_seconds)
    median = Times(*(statistics.median(column) for column in zip(*rounds)))
    added = statistics.median((each.early - each.without) / each.bare for each in rounds)
    cold = statistics.median(each.cold / each.bare for each in rounds)
    cached = statistics.median(each.cached / each.bare for each in rounds)
    name = f"{report.parent.name}/{report.name}"
    return [
        _line(cold, 1.1, median.cold, median.bare)
        + f"text of {name}, against a bare script that asks for each instruction",
        _line(cached, 0.05, median.cached, median.bare) + "the same from the cache",
        _line(added, 1.0, median.early - median.without, median.bare)
        + f"what it adds to explaining ({median.without * 1e3:.0f} ms) if it is started first; "
        f"{(median.late - median.without) * 1e3:.0f} ms if it is started last",
        *more,
    ]


def _line(ratio: float, budget: float, ours: float, theirs: float) -> str:
    amounts = f"{ours * 1e3:6.1f} ms / {theirs * 1e3:6.1f} ms"
    return line(ratio, at_most(budget), amounts, "")


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines(*map(Path, sys.argv[1:]))) + "\n")
