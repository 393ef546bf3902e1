"""How benchmarks measure and print: times, ratios to a yardstick, exponents, and budgets.

Times are of the processor unless a line says otherwise: those of the clock depend on what else runs.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

KEET = str(Path(sys.executable).with_name("keet"))


# --- budgets


class Budget(NamedTuple):
    """A limit that a number must not exceed, or must reach."""

    limit: float
    is_least: bool = False
    text: str = ""
    """Of the limit, where its digits say less: 1/6."""

    def holds(self, value: float) -> bool:
        """NaN (not measurable) never meets a budget."""
        return value >= self.limit if self.is_least else value <= self.limit

    def words(self, value: float) -> str:
        sign = ">=" if self.is_least else "<="
        word = "holds" if self.holds(value) else "MISSED"
        return f"(budget {sign} {self.text or f'{self.limit:g}'}, {word})"


def at_most(limit: float, text: str = "") -> Budget:
    return Budget(limit, text=text)


def at_least(limit: float) -> Budget:
    return Budget(limit, is_least=True)


def line(value: float, budget: Budget | None, amounts: str, what: str) -> str:
    words = budget.words(value) if budget else "(no budget)"
    return f"  {value:5.2f} {words:24}  {amounts}  {what}"


# --- times


class Spent(NamedTuple):
    """Time and memory of a program, including the processes that it started and waited for."""

    cpu: float
    """Seconds of all processors."""
    wall: float
    """Seconds of the clock."""
    peak: int
    """Bytes of the largest process."""
    out: str


def spent(
    command: Sequence[str],
    given: str = "",
    environment: Mapping[str, str] | None = None,
    accepted: Sequence[int] = (0,),
) -> Spent:
    """Run a program to its end. Raises `CalledProcessError` for an exit code that is none of the
    `accepted`. Modules are compiled once, as where keet is installed, and not by each run."""
    own = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile("w+") as into, tempfile.TemporaryFile("w+") as out:
        into.write(given)
        into.seek(0)
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=into, stdout=out, env={**own, **(environment or {})}
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in accepted:
            raise subprocess.CalledProcessError(process.returncode, command)
        out.seek(0)
        text = out.read()
    return Spent(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * _RSS_UNIT, text)


_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


# --- ratios


class Ratio(NamedTuple):
    """Medians of interleaved runs, and the median of the ratios of neighbours."""

    ours: float
    theirs: float
    ratio: float

    @property
    def milliseconds(self) -> str:
        return f"{self.ours * 1e3:6.1f} ms / {self.theirs * 1e3:6.1f} ms"


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio:
    ours, theirs = zip(*pairs)
    ratio = statistics.median(a / b for a, b in pairs)
    return Ratio(statistics.median(ours), statistics.median(theirs), ratio)


def compared(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> Ratio:
    return ratio_of([(ours(), theirs()) for _ in range(rounds)])


class Programs(NamedTuple):
    """Two programs compared."""

    cpu: Ratio
    wall: Ratio

    @property
    def amounts(self) -> str:
        return f"{self.cpu.milliseconds} of CPU time ({self.wall.ratio:.2f} by the clock)"


def compared_programs(ours: Sequence[str], theirs: Sequence[str], rounds: int) -> Programs:
    runs = [(spent(ours), spent(theirs)) for _ in range(rounds)]
    return Programs(
        ratio_of([(a.cpu, b.cpu) for a, b in runs]), ratio_of([(a.wall, b.wall) for a, b in runs])
    )


# --- growth


class Point(NamedTuple):
    size: float
    seconds: float


def exponent(points: Sequence[Point], start: float = 0.0) -> float:
    """The power of the size that the seconds grow with: 1 is linear, 2 quadratic. `start`: seconds
    that are the same for every size. NaN where a point took no longer than that."""
    if any(point.seconds <= start for point in points):
        return math.nan
    sizes = [math.log(point.size) for point in points]
    seconds = [math.log(point.seconds - start) for point in points]
    return statistics.linear_regression(sizes, seconds).slope
