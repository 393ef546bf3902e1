"""The cost of recording a plain run, and how far recorded times differ from run to run.

    python -m evals.recording_cost summary evals/results/plain_runs_h200_*.csv

Each file is of one session, with the programs that tests/data/programs/runs/capture.sh builds: five
runs of each without the recorder and five with it, in turn, after one that loads everything from
disk.
"""

from __future__ import annotations

import csv
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

PROGRAMS = (
    "./managed_flags 100",
    "./growing",
    "./steps many",
    "./steps one",
    "./streams serial",
    "./streams together",
    "./steps one 20000",
    "./steps many 400",
    "./names 200000",
    "python3 layers.py",
)


class Row(NamedTuple):
    """One kernel of one run; for a run without the recorder, only the run."""

    program: str
    run: int
    wall_s: float
    kernel: str
    launches: int
    busy_ns: float


def summary(paths: Sequence[Path]) -> str:
    sessions = [_read(path) for path in paths]
    return "\n".join([*_costs(sessions), "", *_noise(sessions)])


def _read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as file:
        return [
            Row(r["program"], int(r["run"]), float(r["wall_s"]), r["kernel"], int(r["launches"]),
                float(r["busy_ns"]))
            for r in csv.DictReader(file)
        ]  # fmt: skip


def _costs(sessions: Sequence[Sequence[Row]]) -> Iterator[str]:
    yield "| program | launches | without | recorded | cost | per launch |"
    yield "|---|---:|---:|---:|---:|---:|"
    for program in PROGRAMS:
        rows = [row for session in sessions for row in session if row.program == program]
        bare = statistics.median(row.wall_s for row in rows if not row.kernel)
        recorded = statistics.median(_walls(rows))
        launches = _launches(rows)
        cost = recorded - bare
        yield (
            f"| `{program}` | {launches:,} | {bare:.2f} s | {recorded:.2f} s | "
            f"{1000 * cost:.0f} ms, {cost / bare:.1%} | {1e6 * cost / launches:.1f} us |"
        )


def _walls(rows: Iterable[Row]) -> list[float]:
    """The recorded runs, each once."""
    return list({(row.run, row.wall_s): row.wall_s for row in rows if row.kernel}.values())


def _launches(rows: Iterable[Row]) -> int:
    runs: dict[tuple[int, float], int] = defaultdict(int)
    for row in rows:
        if row.kernel:
            runs[row.run, row.wall_s] += row.launches
    return int(statistics.median(runs.values()))


def _noise(sessions: Sequence[Sequence[Row]]) -> Iterator[str]:
    """Root mean square of the logarithm of the ratio of two runs' total times."""
    yield "| program | GPU time | two runs of one session | of two sessions |"
    yield "|---|---:|---:|---:|"
    for program in PROGRAMS:
        times = [_busy(session, program) for session in sessions]
        within = [pair for session in times for pair in combinations(session, 2)]
        between = [p for one, other in combinations(times, 2) for p in product(one, other)]
        whole = statistics.median(time for session in times for time in session)
        yield f"| `{program}` | {whole / 1e6:.3g} ms | {_spread(within)} | {_spread(between)} |"


def _busy(session: Sequence[Row], program: str) -> list[float]:
    runs: dict[int, float] = defaultdict(float)
    for row in session:
        if row.program == program and row.kernel:
            runs[row.run] += row.busy_ns
    return list(runs.values())


def _spread(pairs: Sequence[tuple[float, float]]) -> str:
    if not pairs:
        return "-"
    logs = [abs(math.log(one / other)) for one, other in pairs]
    return f"{math.sqrt(statistics.fmean(x * x for x in logs)):.1%} ({max(logs):.1%} at most)"


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] != "summary":
        sys.exit(__doc__)
    sys.stdout.write(summary([Path(word) for word in sys.argv[2:]]) + "\n")
