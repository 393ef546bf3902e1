"""SQL that selects launches (--device, --kernel), and the time that each launch counts for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from keet.analysis.limits import LEAST_KERNEL_NS
from keet.analysis.replay_gap import REPLAY_DIFFERS
from keet.corpus.store.gpus import GPU_KEYS, GPU_NAME
from keet.corpus.store.reader import Store
from keet.errors import UsageError

TIME_BASE = (*GPU_KEYS, "in_run")
"""Part of the key of every group: times of two GPUs do not compare, nor do times of whole runs and
of single launches."""
REPLAY_GAP = (
    f"coalesce(plain_us > {REPLAY_DIFFERS} * duration_us "
    f"OR (duration_us > {REPLAY_DIFFERS} * plain_us "
    f"AND duration_us - plain_us > {LEAST_KERNEL_NS / 1e3}), false)"
)
"""Whether profiled time and time in the run differ: see `keet.analysis.replay_gap`."""
ALIKE = "least(run_time_us, run_alike_us)"
"""The part of `run_time_us` in launches of similar length; all of it if the run table does not have
that (`least` ignores NULL)."""
_COUNTED = (
    "run_time_us IS NOT NULL AS in_run, coalesce(run_time_us, duration_us) AS spent_us, "
    f"CASE WHEN run_time_us IS NULL THEN duration_us ELSE {ALIKE} END AS alike_us, "
    f"run_time_us IS NOT NULL AND {REPLAY_GAP} AS replay_gap"
)

Parameters = dict[str, list[str]]
"""Parameters of a query, by name."""


class LaunchFilter(NamedTuple):
    """The launches that --device and --kernel select, as SQL."""

    on_devices: str
    named: str
    parameters: Parameters
    has_runs: bool = True
    """False: no report has a run table, so queries about runs are skipped."""

    @property
    def source(self) -> str:
        """All launches on the selected GPUs; the column `named` is true for selected kernels."""
        launches = f"SELECT *, {GPU_NAME} AS gpu, {self.named} AS named, {_COUNTED} FROM launches"
        return f"(SELECT * FROM ({launches}) WHERE {self.on_devices})"

    @property
    def runs(self) -> str:
        """Reports with a run table, and the time of the run; once per value of `TIME_BASE`."""
        pool = ", ".join(TIME_BASE)
        reports = f"SELECT DISTINCT {pool}, report_sha256 FROM {self.source} WHERE in_run"
        of_run = "run_total_us, run_unprofiled_us, run_overlap_known"
        files = f"SELECT sha256, {of_run} FROM files WHERE status = 'done'"
        return f"(FROM ({reports}) JOIN ({files}) ON sha256 = report_sha256)"


def choose(
    store: Store, device: re.Pattern[str] | None, kernel: re.Pattern[str] | None
) -> LaunchFilter:
    """Raises UsageError if nothing matches."""
    on_devices, devices = _on_devices(store, device)
    named, names = _named(store, kernel)
    return LaunchFilter(on_devices, named, {**devices, **names})


def _on_devices(store: Store, pattern: re.Pattern[str] | None) -> tuple[str, Parameters]:
    """A GPU matches by any of its names."""
    if pattern is None:
        return "true", {}
    rows = store.query(f"SELECT DISTINCT {GPU_NAME}, device FROM launches").rows
    chosen = {str(gpu) for gpu, device in rows if _matches(pattern, gpu, device)}
    if not chosen:
        raise _no_match(store, "--device", pattern, [device for _, device in rows])
    return "coalesce(gpu, 'None') IN (SELECT unnest($devices))", {"devices": sorted(chosen)}


def _named(store: Store, pattern: re.Pattern[str] | None) -> tuple[str, Parameters]:
    if pattern is None:
        return "true", {}
    rows = store.query("SELECT DISTINCT kernel, kernel_full FROM launches").rows
    chosen = {str(full) for kernel, full in rows if _matches(pattern, kernel, full)}
    if not chosen:
        raise _no_match(store, "--kernel", pattern, [kernel for kernel, _ in rows])
    return "coalesce(kernel_full, 'None') IN (SELECT unnest($kernels))", {"kernels": sorted(chosen)}


def _matches(pattern: re.Pattern[str], *names: object) -> bool:
    """With Python's regular expressions, as everywhere in keet; duckdb's differ."""
    return any(pattern.search(str(name)) for name in names)


def _no_match(
    store: Store, option: str, pattern: re.Pattern[str], names: Sequence[object]
) -> UsageError:
    known = sorted({str(name) for name in names})
    others = f" and {len(known) - 3} more" if len(known) > 3 else ""
    return UsageError(
        f"{option} {pattern.pattern!r} matches no launch; the store has "
        f"{', '.join(known[:3])}{others}; see: keet top {store.path}"
    )
