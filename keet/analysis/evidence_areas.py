"""Which part of the hardware a measured number is about, by its id.

A model's reasons for a cause have to be about what the finding rests on: that a grid has many
blocks says nothing about bank conflicts, however true it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

Area = Literal[
    "dram", "l2", "slices", "global", "shared", "local", "atomics", "host", "memory waits",
    "barriers", "fetch", "waits", "instructions", "pipes", "fp64", "fma", "xu", "issue", "lanes",
    "occupancy", "grid", "waves", "balance", "time",
]  # fmt: skip
_AREAS: Mapping[Area, str] = {
    "dram": r"dram|hbm|device_misses|distinct|bytes_once|reads_per_byte|^mem_|^memory_thr",
    "l2": r"(?:^|_)(?:l2|lts)(?!_slice)|reads_per_byte",
    "slices": r"slice|hot_line",
    "global": r"global|(?:^|_)l1(?:_|tex)|sectors|access_width|widest|requested|lsu",
    "shared": r"(?:^|_)shared_(?!memory)|bank_conflict|wavefront|ldmatrix",
    "local": r"local|spill|stack_size",
    "atomics": r"atom|reduction|_cas_|(?:^|_)red(?:_|$)",
    "host": r"host|sysmem|syslts|pcie|nvlink|c2c|peer",
    "memory waits": r"(?:long|short)_scoreboard|(?:lg|mio)_throttle|drain|imc_miss",
    "barriers": r"(?<!_limit_)barrier|membar|(?:^|_)bar(?:_|$)|sync",
    "fetch": r"no_instruction|icc_|gcc_inst|program|function",
    "waits": r"stall|scoreboard|throttle|eligible|warp_cycles|latency|sample|wait",
    "instructions": r"inst|opcode|integer|division|overhead|address|conversion",
    "pipes": r"pipe|flop|tensor|idc|(?:^|_)(?:alu|fma|xu|lsu|adu|fp16|fp64)(?:_|$)|sm_thr",
    "fp64": r"fp64|d(?:add|mul|fma)|double|conversion",
    "fma": r"fma|tensor|fp16|fp32|flop",
    "xu": r"(?:^|_)xu|mufu|sfu",
    "issue": r"issue|ipc|inst_executed|sm_busy",
    "lanes": r"threads_(?:per|exec|unexec)|thread_inst|pred_|diverge|branch|lanes",
    "occupancy": r"occupancy|limit_|warps|registers|shared_memory|block_size",
    "grid": r"grid|sm_count|blocks|threads_launched",
    "waves": r"waves",
    "balance": r"evenness|active_cycles|longest|idle",
    "time": r"duration|launch|gap|elapsed|start",
}
"""Patterns: `re` keeps those that are used, and most commands use none."""


def areas_of(ids: Iterable[str]) -> frozenset[Area]:
    """`ids`: of evidence. What the device has (`device_sm_count`), what a model states and what
    keet forecasts was not measured of the launch: it is in no area."""
    slugs = {re.split(r"[@#]", name)[0] for name in ids}
    measured = [slug for slug in slugs if not slug.startswith(("device_", "claimed_", "forecast_"))]
    areas = (
        area for area, pattern in _AREAS.items() if any(re.search(pattern, id_) for id_ in measured)
    )
    return frozenset(areas)
