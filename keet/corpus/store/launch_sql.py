"""SQL over `launches`: the GPU, the selection by --device and --kernel, the time that counts.

One definition for all commands on a store. A GPU is its name without the maker, its compute
capability and its number of SMs: older versions of ncu write `TITAN V` and newer ones `NVIDIA TITAN
V`, and a MIG slice has the name of the whole GPU.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from keet.analysis.limits import LEAST_KERNEL_NS
from keet.analysis.replay_gap import REPLAY_DIFFERS
from keet.corpus.store.reader import Store
from keet.corpus.store.views import quoted
from keet.errors import UsageError
from keet.findings import findings

_MAKER = "NVIDIA "
GPU_NAME = (
    f"CASE WHEN starts_with(device, '{_MAKER}') THEN substr(device, {len(_MAKER) + 1}) "
    "ELSE device END"
)
GPU_KEYS = ("gpu", "compute_capability", "sm_count")
"""Columns that tell GPUs apart, where `GPU_NAME` is selected as `gpu`."""
UNKNOWN_GPU = "unknown GPU"


class StoredGpu(NamedTuple):
    """A GPU as launches of the store have it."""

    device: str | None
    compute_capability: str | None
    sm_count: int | None

    @property
    def name(self) -> str:
        return (self.device or UNKNOWN_GPU).removeprefix(_MAKER)


def launches_by_gpu(store: Store) -> str:
    """`launches` as SQL, with one text per GPU in the column `device`."""
    columns = ", ".join(StoredGpu._fields)
    rows = store.query(f"SELECT DISTINCT {columns} FROM launches ORDER BY ALL").rows
    labels = gpu_labels([StoredGpu(*row) for row in rows])
    if all(gpu.device == label for gpu, label in labels.items()):
        return "launches"
    cases = []
    for gpu, label in labels.items():
        pairs = zip(StoredGpu._fields, map(_literal, gpu))
        is_gpu = " AND ".join(f"{column} IS NOT DISTINCT FROM {cell}" for column, cell in pairs)
        cases.append(f"WHEN {is_gpu} THEN {quoted(label)}")
    return f"(SELECT * REPLACE (CASE {' '.join(cases)} END AS device) FROM launches)"


def gpu_labels(gpus: Sequence[StoredGpu]) -> dict[StoredGpu, str]:
    """The longest name that the store has for each GPU, with what tells it from others."""
    alike: dict[str, list[StoredGpu]] = defaultdict(list)
    for gpu in gpus:
        alike[gpu.name].append(gpu)
    labels = {}
    for gpu in gpus:
        _, capabilities, sms = map(set, zip(*alike[gpu.name]))
        name = max((each.device or UNKNOWN_GPU for each in alike[gpu.name]), key=len)
        differs = [f"{gpu.sm_count or '?'} SMs"] if len(sms) > 1 else []
        if len(capabilities) > 1:
            differs.append(f"compute capability {gpu.compute_capability or '?'}")
        labels[gpu] = f"{name} ({', '.join(differs)})" if differs else name
    return labels


def _literal(cell: str | int | None) -> str:
    return "NULL" if cell is None else quoted(cell) if isinstance(cell, str) else str(cell)


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


def does_more_work() -> str:
    """Whether a row of `findings` gains more work in the same time: a launch alone saves none."""
    whole = [spec.id for spec in findings().values() if spec.of_launches]
    variants = [f"{spec.id} {each}" for spec in findings().values() for each in spec.more_work]
    variant = "id || ' ' || coalesce(variant, '')"
    return f"(list_contains({whole}, id) OR list_contains({variants}, {variant}))"


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
    """Raises UsageError if nothing matches. A GPU matches by any of its names."""
    conditions, parameters = [], {}
    for option, pattern, column, columns in (
        ("device", device, "gpu", f"device, {GPU_NAME}"),
        ("kernel", kernel, "kernel_full", "kernel, kernel_full"),
    ):
        if pattern is None:
            conditions.append("true")
            continue
        rows = store.query(f"SELECT DISTINCT {columns} FROM launches").rows
        # Python's regular expressions, as everywhere in keet; duckdb's differ.
        chosen = {str(row[1]) for row in rows if any(pattern.search(str(name)) for name in row)}
        if not chosen:
            known = sorted({str(row[0]) for row in rows})
            others = f" and {len(known) - 3} more" if len(known) > 3 else ""
            raise UsageError(
                f"--{option} {pattern.pattern!r} matches no launch; the store has "
                f"{', '.join(known[:3])}{others}; see: keet top {store.path}"
            )
        conditions.append(f"coalesce({column}, 'None') IN (SELECT unnest(${option}s))")
        parameters[f"{option}s"] = sorted(chosen)
    on_devices, named = conditions
    return LaunchFilter(on_devices, named, parameters)
