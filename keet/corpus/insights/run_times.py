"""Times of whole runs, for the GPUs on which the run of every report is known.

Times of runs and of single launches do not add up: where the run of one report is not known, all
launches on that GPU count as profiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keet.corpus.insights.points import QuerySource, literals
from keet.corpus.top.launch_filter import ALIKE, REPLAY_GAP
from keet.records import NamedTuple

GPU = "coalesce(device, 'unknown GPU')"


class RunTimeSql(NamedTuple):
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
    def forecast_for(self) -> str:
        """The part of `spent` that the forecast of a launch is for: launches like it."""
        if not self.not_profiled_us:
            return "duration_us"
        return f"CASE WHEN {self._known} THEN {ALIKE} ELSE duration_us END"

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


def run_times(store: QuerySource) -> RunTimeSql:
    rows = store.query(
        f"SELECT {GPU}, bool_and(run_time_us IS NOT NULL), count(DISTINCT report_sha256), "
        "count(DISTINCT report_sha256) FILTER (run_time_us IS NOT NULL) "
        "FROM launches WHERE duration_us > 0 GROUP BY 1 ORDER BY 1"
    ).rows
    counts = [_Count(*row) for row in rows]
    whole = [each.device for each in counts if each.is_whole]
    found = _of_files(store) if whole else {}
    of_gpus = {gpu: found.get(gpu, _OfFiles(0.0, 0)) for gpu in whole}
    known = {gpu: each.not_profiled_us for gpu, each in of_gpus.items()}
    summed = [_sums_note(gpu, each.summed) for gpu, each in of_gpus.items() if each.summed]
    return RunTimeSql(known, (*_notes(counts), *summed))


class _OfFiles(NamedTuple):
    not_profiled_us: float
    summed: int
    """Runs whose times are sums of durations."""


def _of_files(store: QuerySource) -> dict[str, _OfFiles]:
    rows = store.query(
        "SELECT gpu, sum(run_unprofiled_us), count(*) FILTER (NOT run_overlap_known) FROM "
        f"(SELECT DISTINCT {GPU} AS gpu, report_sha256 FROM launches WHERE run_time_us IS NOT NULL)"
        " JOIN files ON sha256 = report_sha256 WHERE status = 'done' GROUP BY gpu"
    ).rows
    return {gpu: _OfFiles(time or 0.0, summed) for gpu, time, summed in rows}


def _sums_note(gpu: str, summed: int) -> str:
    tables = "the table of 1 run" if summed == 1 else f"the tables of {summed:,} runs"
    return (
        f"{tables} on {gpu} {'does' if summed == 1 else 'do'} not tell which kernels ran at the "
        "same time: times there are sums of durations"
    )


def _notes(counts: list[_Count]) -> Iterator[str]:
    for each in counts:
        if each.runs and not each.is_whole:
            yield (
                f"the part of the whole run that was profiled is known for {each.runs:,} of "
                f"{each.files:,} files on {each.device}: clusters there count launches as profiled"
            )
