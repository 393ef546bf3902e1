"""Finds the row of the GPU table for a device."""

from __future__ import annotations

from keet.catalog.loading import Gpu, gpus

_VARIANTS = ("Laptop GPU", "Max-Q")
"""Boards that share a name with a faster one: they match only a row that names them."""


def gpu_named(name: str, compute_capability: str | None, sm_count: int | None) -> Gpu | None:
    """The row with the longest match that does not contradict the report."""
    fitting = [
        gpu
        for gpu in gpus()
        if gpu.match in name
        and compute_capability in (None, gpu.cc)
        and (sm_count is None or gpu.sms in (None, sm_count))
        and all(word in gpu.match for word in _VARIANTS if word in name)
    ]
    return max(fitting, key=lambda gpu: len(gpu.match), default=None)
