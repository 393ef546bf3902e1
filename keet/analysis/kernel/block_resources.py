"""What a block takes of an SM (registers, shared memory), how many fit, and what limits them."""

from __future__ import annotations

import math
from typing import NamedTuple

from keet.analysis.kernel.inactive_threads import WARP
from keet.analysis.kernel.resident_warps import resident_blocks
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parameters import Parameter
from keet.evidence import Evidence, Sentence
from keet.formatting import noun_for
from keet.profile import Workload
from keet.units import Quantity

CLEARLY_FEWER = Parameter(
    0.9, "warps that an SM has, of those that fit, below which both are printed", "judgement"
)


class BlockResources(NamedTuple):
    """`None`: the report does not say."""

    registers: Evidence | None
    """Per thread."""
    spills: Evidence | None
    """Loads and stores of spilled registers that a thread executes; 0: there are none."""
    shared: Evidence | None
    """Bytes per block that the kernel asks for, static and dynamic, without the driver's."""
    fit: Evidence | None
    """Blocks that fit on an SM at a time."""
    given: Evidence | None
    """Blocks per SM that the grid has, rounded up, where that is fewer."""
    warps: Evidence | None
    """Warps of these blocks: those that fit, or that the grid has."""
    most_warps: Evidence | None
    """That an SM can hold."""
    achieved: Evidence | None
    """Warps per SM while it is active, on average."""
    limits: tuple[str, ...]
    """What lets no more warps onto an SM; empty if it holds as many as it can, or not known."""
    waves: Evidence | None
    few: tuple[Evidence, Evidence] | None
    """Blocks of the grid and SMs, if there are fewer blocks."""

    @property
    def blocks(self) -> Evidence | None:
        """Blocks that an SM holds at a time."""
        return self.given or self.fit

    @property
    def has_spills(self) -> bool:
        return self.spills is not None and self.spills.value > 0


@cached_per_view
def block_resources(view: LaunchView) -> BlockResources | None:
    """None for ranges and graphs, whose values are sums or maxima over several launches."""
    if view.launch.workload is not Workload.KERNEL:
        return None
    resident = resident_blocks(view)
    fit, given = (resident.fit, resident.given) if resident else (None, None)
    warps, most = _warps(view, given or fit), view.get("device_warps_per_sm")
    limits: tuple[str, ...] = ()
    if resident is not None and warps is not None and (most is None or warps.value < most.value):
        limits = ("grid",) if given else resident.limits
    if given is None and not _is_as_reported(view, warps):
        warps, limits = view.get("theoretical_warps_per_sm"), ()
    return BlockResources(
        registers=view.get("registers_per_thread"),
        spills=_spills(view),
        shared=_shared_memory(view),
        fit=fit,
        given=given,
        warps=warps,
        most_warps=most,
        achieved=view.get("achieved_warps_per_sm"),
        limits=limits,
        waves=view.get("waves_per_sm"),
        few=_few(view),
    )


def _few(view: LaunchView) -> tuple[Evidence, Evidence] | None:
    grid, sms = view.get("grid_size"), view.get("device_sm_count")
    return (grid, sms) if grid and sms and grid.value < sms.value else None


def _shared_memory(view: LaunchView) -> Evidence | None:
    parts = [view.get(each) for each in ("shared_memory_static", "shared_memory_dynamic")]
    known = [each for each in parts if each is not None]
    if not known:
        return None
    size = Quantity(sum(each.value for each in known), "byte")
    label = "shared memory per block"
    return view.ledger.derived("shared_bytes_per_block", size, label, *known)


def _warps(view: LaunchView, blocks: Evidence | None) -> Evidence | None:
    block = view.get("block_size")
    if blocks is None or block is None or not block.value:
        return None
    each = math.ceil(float(block.value) / WARP)
    label = "warps that an SM holds at a time, by its blocks"
    warps = Quantity(each * float(blocks.value), "")
    return view.ledger.derived("warps_per_sm_by_blocks", warps, label, blocks, block)


def _is_as_reported(view: LaunchView, warps: Evidence | None) -> bool:
    """Clusters and barriers limit blocks too: then the report's number of warps is lower."""
    told = view.value("theoretical_warps_per_sm")
    return warps is None or told is None or abs(float(warps.value) - told) < 1


def _spills(view: LaunchView) -> Evidence | None:
    counted = view.get("spilling_requests")
    grid, block = view.get("grid_size"), view.get("block_size")
    if counted is None or grid is None or block is None or not grid.value or not block.value:
        return None
    warps = float(grid.value) * math.ceil(float(block.value) / WARP)
    each = Quantity(float(counted.value) / warps, "")
    label = "loads and stores of spilled registers per thread"
    return view.ledger.derived("spills_per_thread", each, label, counted, grid, block)


def blocks_text(known: BlockResources) -> Sentence | None:
    """`2 blocks per SM`; `1 block per SM (8 fit)` where the grid has no more, `1 block on 132 SMs`
    where it has fewer than there are SMs."""
    if known.blocks is None:
        return None
    if known.few is not None:
        grid, sms = known.few
        word = noun_for(grid.value, "block")
        return Sentence("{grid:count} {word} on {sms:count} SMs", grid=grid, word=word, sms=sms)
    word = noun_for(known.blocks.value, "block")
    if known.given is None or known.fit is None:
        return Sentence("{number:.0f} {word} per SM", number=known.blocks, word=word)
    text = "{number:.0f} {word} per SM ({fit:.0f} fit)"
    return Sentence(text, number=known.given, word=word, fit=known.fit)


def warps_text(known: BlockResources, *, averaged: bool = False) -> Sentence | None:
    """`32 warps per SM (of 64; registers; 21 on average)`. Where the grid has no more, `for each
    SM`, because a report's warps per SM are those that fit; `in each block` where it has fewer than
    SMs."""
    if known.warps is None:
        return None
    per = "in each block" if known.few else "for each SM" if known.given else "per SM"
    word = noun_for(known.warps.value, "warp")
    text = Sentence("{warps:number} {word} {per}", warps=known.warps, word=word, per=per)
    if known.few:
        return text
    of = Sentence("of {most:number}", most=known.most_warps) if known.most_warps else None
    held = known.achieved
    is_less = held is not None and float(held.value) < CLEARLY_FEWER * float(known.warps.value)
    mean = None
    if averaged and is_less and held is not None:
        mean = Sentence("{held:.0f} on average", held=held._replace(unit=""))
    by = Sentence("; ").join(filter(None, (of, " and ".join(known.limits), mean)))
    return Sentence("{text} ({by})", text=text, by=by) if by else text
