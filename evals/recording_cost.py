"""Measures the cost of recording a plain run, and how far recorded times differ from run to run.

On a machine with a GPU, after tests/data/programs/runs/capture.sh has built the programs:

    python -m evals.recording_cost measure evals/results/plain_runs_h200_1.csv [PROGRAM ...]

Anywhere, over the sessions:

    python -m evals.recording_cost summary evals/results/plain_runs_h200_*.csv
"""

from __future__ import annotations

import csv
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

BUILD = Path("/tmp/keet-runs")
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
RUNS = 5


class Row(NamedTuple):
    """One kernel of one run; for a run without the recorder, only the run."""

    program: str
    run: int
    wall_s: float
    kernel: str
    launches: int
    busy_ns: float


def measure(target: Path, programs: Sequence[str]) -> None:
    """Alternates runs with and without the recorder."""
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        for program in programs:
            _wall(program, {})  # the first run loads everything from disk
            for run in range(RUNS):
                writer.writerow(Row(program, run, _wall(program, {}), "", 0, 0.0))
                writer.writerows(_recorded(program, run))
            file.flush()


def _wall(program: str, environment: dict[str, str]) -> float:
    began = time.monotonic()
    subprocess.run(
        shlex.split(program),
        cwd=BUILD,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return round(time.monotonic() - began, 4)


def _recorded(program: str, run: int) -> Iterator[Row]:
    from keet.collect.plain_run import INJECTION
    from keet.collect.recorder import build_recorder, read_recording
    from keet.profile.timeline import tabulate

    with tempfile.TemporaryDirectory() as folder:
        own = {INJECTION: str(build_recorder()), "KEET_RECORD_DIR": folder}
        wall = _wall(program, own)
        table = tabulate(read_recording(Path(folder)).records, "cupti")
    kernels: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for kernel in table.kernels:
        kernels[kernel.name][0] += kernel.launches
        kernels[kernel.name][1] += kernel.busy_ns
    for name, (launches, busy) in kernels.items():
        yield Row(program, run, wall, name[:60], int(launches), round(busy))


# --- the summary


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


def main(words: Sequence[str]) -> int:
    if len(words) > 1 and words[0] == "measure":
        measure(Path(words[1]), words[2:] or PROGRAMS)
    elif len(words) > 1 and words[0] == "summary":
        sys.stdout.write(summary([Path(word) for word in words[1:]]) + "\n")
    else:
        sys.stderr.write(__doc__ or "")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
