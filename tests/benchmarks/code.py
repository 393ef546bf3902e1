"""Fetching and analysing SASS as ratios: cold, early and from the cache, against a bare script.

    python -m tests.benchmarks.code [REPORT]

The report is that of the sample with the largest kernel (6,679 instructions) unless one is given.
Times are of whole steps inside a process, without the interpreter's start and imports of keet; those
of the bare script are of all of it, since a child of keet has to start and import, too.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.measure import KEET, at_most, line, spent

SAMPLES = Path(__file__).parent.parent.parent / "kernels_samples"
LARGEST = SAMPLES / "mechanism_rates" / "slow.ncu-repz"
ROUNDS = 5
SIZE = 5000
"""Instructions that the budgets of `keet explain` are for."""
COLD, CACHED = 1.2 / 1.1, 0.4 / 1.1
"""The budgets of 1.2 s and 0.4 s over the bare script, which takes 1.1 s for 5,000 instructions on
the machine that they were stated for."""

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
from keet.report import read_profile
from keet.report.disassembly import disassembler
from keet.report.ncu_rep import reader
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
from keet.analysis.machine_code.launch_code import machine_code
from keet.report import read_profile
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


class Round(NamedTuple):
    """Seconds by the clock."""

    bare: float
    cold: float
    cached: float
    without: float
    """Explaining alone."""
    late: float
    """Explaining, then fetching."""
    early: float
    """Explaining while the text is fetched."""
    command: float
    """`keet explain`, from the start of the interpreter to its end: without code."""
    command_cold: float
    command_cached: float
    analyses: float
    instructions: float
    kilobytes: float
    """Of all analyses: more than was in use before, at the peak."""


def one_round(report: Path, cache: Path) -> Round:
    fresh, kept = {"KEET_CODE_CACHE": "0"}, {"KEET_CACHE": str(cache)}
    path = str(report)
    bare = [sys.executable, "-c", BARE_SCRIPT, path]
    explain = [KEET, "explain", "--no-model", path]

    def printed(code: str, *words: str, where: dict[str, str] = fresh) -> list[float]:
        out = spent([sys.executable, "-c", code, *words], environment=where).out
        return [float(each) for each in out.split()]

    seconds, instructions, kilobytes = printed(ALL_ANALYSES, path, where=kept)
    return Round(
        bare=spent(bare).wall,
        cold=printed(THROUGH_KEET, "text", path)[0],
        cached=printed(THROUGH_KEET, "text", path, where=kept)[0],
        without=printed(THROUGH_KEET, "without", path)[0],
        late=printed(THROUGH_KEET, "late", path)[0],
        early=printed(THROUGH_KEET, "early", path)[0],
        command=spent([*explain, "--no-sass"], environment=fresh).wall,
        command_cold=spent(explain, environment=fresh).wall,
        command_cached=spent(explain, environment=kept).wall,
        analyses=seconds,
        instructions=instructions,
        kilobytes=kilobytes,
    )


def lines(report: Path = LARGEST) -> list[str]:
    with tempfile.TemporaryDirectory() as cache:
        _, *rounds = [one_round(report, Path(cache)) for _ in range(1 + ROUNDS)]  # fills the cache
    name, size = f"{report.parent.name}/{report.name}", rounds[0].instructions

    def row(ours: Callable[[Round], float], budget: float, what: str, scale: float = 1.0) -> str:
        seconds, theirs = middle(ours), middle(lambda each: each.bare)
        ratio = scale * middle(lambda each: ours(each) / each.bare)
        amounts = f"{seconds * 1e3:6.1f} ms / {theirs * 1e3:6.1f} ms"
        return line(ratio, at_most(budget), amounts, what)

    def middle(of: Callable[[Round], float]) -> float:
        return statistics.median(map(of, rounds))

    alone, late = middle(lambda r: r.without), middle(lambda r: r.late - r.without)
    memory = middle(lambda r: r.kilobytes) / 1e3
    first = f"what it adds to explaining ({alone * 1e3:.0f} ms) if it is started first"
    added = f"added to `keet explain {name}` ({size:,.0f} instructions; ratio for {SIZE:,}), cold"
    every = f"every analysis of its code, as `keet hotspots` does; {memory:.0f} MB (budget 100)"
    bare = "against a bare script that asks for each instruction"
    return [
        row(lambda r: r.cold, 1.1, f"text of {name}, {bare}"),
        row(lambda r: r.cached, 0.05, "the same from the cache"),
        row(lambda r: r.early - r.without, 1.0, f"{first}; {late * 1e3:.0f} ms if last"),
        row(lambda r: r.command_cold - r.command, COLD, added, SIZE / size),
        row(lambda r: r.command_cached - r.command, CACHED, "the same, text cached", SIZE / size),
        row(lambda r: r.analyses, CACHED, every, SIZE / size),
    ]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines(*map(Path, sys.argv[1:]))) + "\n")
