"""What a block takes of an SM, and how many fit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from keet.analysis.kernel.block_resources import (
    BlockResources,
    block_resources,
    blocks_text,
    warps_text,
)
from keet.analysis.kernel.inactive_threads import WARP
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.limits import SAME_COUNT
from keet.analysis.sass.instructions.opcodes import LOCAL, STACK
from keet.documents.amounts import ResourcesDocument
from keet.evidence import Evidence, Sentence, finite
from keet.formatting import noun_for
from keet.units import Quantity


@cached_per_view
def resources(view: LaunchView) -> ResourcesDocument | None:
    """None where the report says nothing of it, and for ranges and graphs."""
    known = block_resources(view)
    if known is None:
        return None
    spilled = _spilled_bytes(view)
    barriers, local = _barriers(view), _local_bytes(view)
    parts = list(_parts(known, spilled))
    if local is not None and local.value:
        parts.insert(1, Sentence("{local} of local memory per thread", local=local))
    if barriers is not None:
        word = noun_for(barriers.value, "barrier")
        text = "{number:number} {word} per block" if barriers.value else "no barriers"
        parts.append(Sentence(text, number=barriers, word=word))
    if not parts:
        return None
    text = Sentence(", ").join(parts)
    return ResourcesDocument(
        text=text,
        evidence=tuple(text.evidence.values()),
        registers_per_thread=finite(known.registers),
        local_bytes_per_thread=finite(local),
        spilled_bytes_per_thread=finite(spilled if known.has_spills else known.spills),
        spills_per_thread=finite(known.spills),
        shared_bytes_per_block=finite(known.shared),
        blocks_per_sm=finite(known.blocks),
        blocks_that_fit=finite(known.fit),
        warps_per_sm=finite(known.warps),
        achieved_warps_per_sm=finite(known.achieved),
        limited_by=tuple("blocks" if each == "block slots" else each for each in known.limits),
        waves=finite(known.waves),
        barriers_per_block=finite(barriers),
    )


def _parts(known: BlockResources, spilled: Evidence | None) -> Iterator[Sentence]:
    if known.registers is not None:
        yield Sentence("{registers:number} registers per thread", registers=known.registers)
    if known.has_spills and known.spills is not None:
        yield Sentence("{spills:.0f} spills per thread", spills=known.spills)
        if spilled is not None:
            yield Sentence("{spilled} of spilled registers per thread", spilled=spilled)
    if known.shared is not None:
        some = Sentence("{shared} of shared memory per block", shared=known.shared)
        yield some if known.shared.value else Sentence("no shared memory")
    if (blocks := blocks_text(known)) is not None:
        yield blocks
    if (warps := warps_text(known)) is not None:
        yield warps
    if known.achieved is not None:
        yield Sentence("{held:number} warps on average", held=known.achieved)
    if known.waves is not None:
        yield Sentence("{waves:.1f} waves", waves=known.waves)


def _barriers(view: LaunchView) -> Evidence | None:
    """That a block waits at, by how often its warps execute them; None without machine code."""
    grid, block = view.get("grid_size"), view.get("block_size")
    if view.code is None or not grid or not block:
        return None
    code = view.code
    executed = sum(
        code.program.counts[at] for at in code.program.ran if code.program.code[at].is_barrier
    )
    warps = float(grid.value) * math.ceil(float(block.value) / WARP)
    each, label = Quantity(executed / warps, ""), "barriers per block"
    return view.ledger.derived("barriers_per_block", each, label, grid, block)


_SETTING = 2
"""Instructions that set it: at the start, the address is read and the size is taken off."""


def _local_bytes(view: LaunchView) -> Evidence | None:
    """What the kernel takes off the address of local memory at its start; without functions that
    it calls. None without machine code."""
    if view.code is None:
        return None
    from keet.analysis.sass.polynomials.opcode_rules import signed

    size = 0
    for each in view.code.program.code:
        if STACK in each.writes and each.opcode in ("IADD3", "VIADD", "IADD"):
            size = -sum(signed(one.value) for one in each.sources)
            break
    label = "local memory of a thread"
    return view.ledger.derived("local_bytes_per_thread", Quantity(max(0, size), "byte"), label)


def _spilled_bytes(view: LaunchView) -> Evidence | None:
    """Local memory of a thread that holds spilled registers, from the addresses of the machine
    code. None unless those at fixed addresses are executed as often as spills were counted: an
    array that is only accessed at fixed addresses looks the same."""
    counted = view.get("spilling_requests")
    if counted is None or not counted.value or view.code is None:
        return None
    program, slots, executed = view.code.program, set[int](), 0
    moved = [at for at in program.ran if any(name == STACK for name in program.code[at].writes)]
    for position in program.ran:
        each = program.code[position]
        if each.opcode not in LOCAL or each.memory is None or each.memory.name != STACK:
            continue
        executed += program.counts[position]
        slots.update(range(each.memory.value, each.memory.value + each.width))
    if len(moved) > _SETTING or abs(executed - counted.value) > SAME_COUNT * counted.value:
        return None
    label = "local memory of a thread that holds spilled registers"
    size = Quantity(len(slots), "byte")
    return view.ledger.derived("spilled_bytes_per_thread", size, label, counted)
