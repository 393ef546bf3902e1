"""Makes questions about the shape of a launch: what limits its blocks, waves, bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence

from evals.mcq.fixed_ranges import four, wrong_reasons
from evals.mcq.kinds.measured_values import Scale, scale_drafts
from evals.mcq.kinds.units_stalls_lines import apart, launch_of, name_of
from evals.mcq.option_design import Draft, Fact
from evals.mcq.report_facts import LIMITS, Facts, metric

_EACH = 3
"""Questions per answer: few, because most can be answered from the source."""


# --- what limits the blocks of an SM

FIRST = {
    "Registers alone": {"registers"},
    "Warp slots alone": {"warp slots"},
    "Registers and warp slots, both at the same number of blocks": {"registers", "warp slots"},
}
SHARED = "Shared memory, alone or together with another limit"


def occupancy_drafts(reports: Sequence[Facts]) -> list[Draft]:
    mixed = random.Random("occupancy").sample(reports, len(reports))
    return [
        _occupancy_draft(facts, label)
        for label in (*FIRST, SHARED)
        for facts in apart([one for one in mixed if first_limit(one) == label])[:_EACH]
    ]


def first_limit(facts: Facts) -> str | None:
    lowest = min(facts.limits.values())
    holders = {name for name, limit in facts.limits.items() if limit == lowest}
    if "shared memory" in holders:
        return SHARED
    return next((label for label, names in FIRST.items() if names == holders), None)


def _occupancy_draft(facts: Facts, label: str) -> Draft:
    told = "blocks allowed: " + "; ".join(
        f"{name} {facts.limits[name]} ({LIMITS[name]})" for name in LIMITS
    )
    return Draft(
        "occupancy",
        name_of(facts),
        (facts,),
        f"{launch_of()} What keeps one more of its blocks from being resident on an SM?",
        (label, *(other for other in (*FIRST, SHARED) if other != label)),
        told,
        wrong_reasons(told),
        tuple(Fact(facts.limits[name], _LIMIT_WORDS[name]) for name in sorted(_holders(label))),
    )


def _holders(label: str) -> set[str]:
    return FIRST.get(label, {"shared memory"})


_LIMIT_WORDS = {
    "registers": "Block Limit Registers|registers",
    "shared memory": "Block Limit Shared|shared memory",
    "warp slots": "Block Limit Warps|warps",
}


# --- waves and bytes

_WAVES = "launch__waves_per_multiprocessor"
WAVES = Scale(
    "waves",
    "How many waves of blocks is its grid: blocks of the grid over blocks that all SMs can hold "
    "at a time?",
    metric(_WAVES),
    four((1, 6, 18), "waves"),
    _WAVES,
    "[Ww]aves",
    _EACH,
    surprising=False,
)
TRAFFIC = Scale(
    "dram",
    "How many bytes did DRAM move during the launch, read and written together?",
    lambda facts: facts.dram_bytes / 1e6,
    four((30, 125, 300), "MB"),
    "dram__bytes_read.sum + dram__bytes_write.sum, in MB,",
    "dram__bytes|DRAM",
    _EACH,
    surprising=False,
)


def wave_drafts(reports: Sequence[Facts]) -> list[Draft]:
    return scale_drafts("waves", [WAVES], reports)


def traffic_drafts(reports: Sequence[Facts]) -> list[Draft]:
    """The needed number is what DRAM read, because no text gives the sum with what it wrote."""
    return [
        draft._replace(needs=(_bytes_read(draft.facts[0]),))
        for draft in scale_drafts("traffic", [TRAFFIC], reports)
    ]


def _bytes_read(facts: Facts) -> Fact:
    read = facts.need("dram__bytes_read.sum")
    return Fact(read / 1e6 if read < 1e9 else read / 1e9, TRAFFIC.words)
