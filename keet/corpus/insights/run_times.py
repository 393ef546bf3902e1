"""Times of whole runs, for the GPUs on which the run of every report is known.

Times of runs and of single launches do not add up: where the run of one report is not known, all
launches on that GPU count as profiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from keet.corpus.chosen import REPLAY_GAP
from keet.corpus.insights.points import Source, literals

GPU = "coalesce(device, 'unknown GPU')"


class RunTimes(NamedTuple):
    """Where times are of whole runs, as parts of SQL over `launches`."""

    not_profiled_us: Mapping[str, float]
    """By GPU whose runs are known: time of the kernels that no launch stands for."""
    notes: tuple[str, ...]

    @property
    def spent(self) -> str:
        """Microseconds that a launch counts for."""
        if not self.not_profiled_us:
            return "duration_us"
        return f"CASE WHEN {self._known} THEN run_time_us ELSE duration_us END"

    @property
    def holds(self) -> str:
        """Whether the forecast of a launch holds for that time."""
        return f"NOT ({self._known} AND {REPLAY_GAP})" if self.not_profiled_us else "true"

    @property
    def _known(self) -> str:
        return f"{GPU} IN ({literals(sorted(self.not_profiled_us))})"


class _Count(NamedTuple):
    device: str
    is_whole: bool
    files: int
    runs: int


def run_times(store: Source) -> RunTimes:
    rows = store.query(
        f"SELECT {GPU}, bool_and(run_time_us IS NOT NULL), count(DISTINCT report_sha256), "
        "count(DISTINCT report_sha256) FILTER (run_time_us IS NOT NULL) "
        "FROM launches WHERE duration_us > 0 GROUP BY 1 ORDER BY 1"
    ).rows
    counts = [_Count(*row) for row in rows]
    missed = _not_profiled(store) if any(each.is_whole for each in counts) else {}
    known = {each.device: missed.get(each.device, 0.0) for each in counts if each.is_whole}
    return RunTimes(known, tuple(_notes(counts)))


def _not_profiled(store: Source) -> dict[str, float]:
    rows = store.query(
        "SELECT gpu, sum(run_unprofiled_us) FROM "
        f"(SELECT DISTINCT {GPU} AS gpu, report_sha256 FROM launches WHERE run_time_us IS NOT NULL)"
        " JOIN files ON sha256 = report_sha256 WHERE status = 'done' GROUP BY gpu"
    ).rows
    return {gpu: time or 0.0 for gpu, time in rows}


def _notes(counts: list[_Count]) -> Iterator[str]:
    for each in counts:
        if each.runs and not each.is_whole:
            yield (
                f"the whole run is known for {each.runs:,} of {each.files:,} files on "
                f"{each.device}: clusters there count launches as profiled"
            )
