"""Which GPU a launch ran on, in SQL over `launches`: one definition for all commands on a store.

A GPU is its name without the maker, its compute capability and its number of SMs: older versions of
ncu write `TITAN V` and newer ones `NVIDIA TITAN V`, and a MIG slice has the name of the whole GPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from keet.corpus.store.reader import Store
from keet.corpus.store.views import quoted

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
    cases = " ".join(f"WHEN {_is(gpu)} THEN {quoted(label)}" for gpu, label in labels.items())
    return f"(SELECT * REPLACE (CASE {cases} END AS device) FROM launches)"


def gpu_labels(gpus: Sequence[StoredGpu]) -> dict[StoredGpu, str]:
    """The longest name that the store has for each GPU, with what tells it from others."""
    alike: dict[str, list[StoredGpu]] = defaultdict(list)
    for gpu in gpus:
        alike[gpu.name].append(gpu)
    return {gpu: _label(gpu, alike[gpu.name]) for gpu in gpus}


def _label(gpu: StoredGpu, alike: Sequence[StoredGpu]) -> str:
    name = max((each.device or UNKNOWN_GPU for each in alike), key=len)
    differs = []
    if len({each.sm_count for each in alike}) > 1:
        differs.append(f"{gpu.sm_count or '?'} SMs")
    if len({each.compute_capability for each in alike}) > 1:
        differs.append(f"compute capability {gpu.compute_capability or '?'}")
    return f"{name} ({', '.join(differs)})" if differs else name


def _is(gpu: StoredGpu) -> str:
    cells = (_literal(cell) for cell in gpu)
    pairs = zip(StoredGpu._fields, cells)
    return " AND ".join(f"{column} IS NOT DISTINCT FROM {cell}" for column, cell in pairs)


def _literal(cell: str | int | None) -> str:
    return "NULL" if cell is None else quoted(cell) if isinstance(cell, str) else str(cell)
