"""What a block takes of an SM (registers, memory), how many fit, and what limits them: as facts, in
words, and as a row of amounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.limits import SAME_COUNT
from keet.analysis.machine_code.instructions.opcodes import LOCAL, STACK
from keet.analysis.parallelism.inactive_threads import per_warp, warps_of_block
from keet.analysis.parallelism.resident_warps import BLOCK_SLOTS, resident_blocks
from keet.analysis.parameters import Parameter
from keet.documents.amounts import ResourcesDocument
from keet.evidence import Evidence, Sentence, finite
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
    fit, by_grid = (resident.fit, resident.given) if resident else (None, None)
    warps, most = _warps(view, by_grid or fit), view.get("device_warps_per_sm")
    limits: tuple[str, ...] = ()
    if resident is not None and warps is not None and (most is None or warps.value < most.value):
        limits = ("grid",) if by_grid else resident.limits
    theoretical = view.get("theoretical_warps_per_sm") if by_grid is None else None
    if warps and theoretical and abs(float(warps.value) - float(theoretical.value)) >= 1:
        warps, limits = theoretical, ()  # clusters and barriers limit blocks too
    return BlockResources(
        registers=view.get("registers_per_thread"),
        spills=_spills(view),
        shared=_shared_memory(view),
        fit=fit,
        given=by_grid,
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
    sizes = [*filter(None, map(view.get, ("shared_memory_static", "shared_memory_dynamic")))]
    size, label = Quantity(sum(part.value for part in sizes), "byte"), "shared memory per block"
    return view.ledger.derived("shared_bytes_per_block", size, label, *sizes) if sizes else None


def _warps(view: LaunchView, blocks: Evidence | None) -> Evidence | None:
    block, warps_per_block = view.get("block_size"), warps_of_block(view)
    if blocks is None or block is None or warps_per_block is None:
        return None
    label = "warps that an SM holds at a time, by its blocks"
    warps = Quantity(warps_per_block * float(blocks.value), "")
    return view.ledger.derived("warps_per_sm_by_blocks", warps, label, blocks, block)


def _spills(view: LaunchView) -> Evidence | None:
    counted = view.get("spilling_requests")
    label = "loads and stores of spilled registers per thread"
    return counted and per_warp(view, "spills_per_thread", label, float(counted.value), counted)


def blocks_text(block: BlockResources) -> Sentence | None:
    """`2 blocks per SM`; `1 block per SM (8 fit)` where the grid has no more, `1 block on 132 SMs`
    where it has fewer than there are SMs."""
    if block.blocks is None:
        return None
    if block.few is not None:
        grid, sms = block.few
        word = noun_for(grid.value, "block")
        return Sentence("{grid:count} {word} on {sms:count} SMs", grid=grid, word=word, sms=sms)
    word = noun_for(block.blocks.value, "block")
    if block.given is None or block.fit is None:
        return Sentence("{number:.0f} {word} per SM", number=block.blocks, word=word)
    text = "{number:.0f} {word} per SM ({fit:.0f} fit)"
    return Sentence(text, number=block.given, word=word, fit=block.fit)


def warps_text(block: BlockResources, *, averaged: bool = False) -> Sentence | None:
    """`32 warps per SM (of 64; registers; 21 on average)`. Where the grid has no more, `for each
    SM`, because a report's warps per SM are those that fit; `in each block` where it has fewer than
    SMs."""
    if block.warps is None:
        return None
    per = "in each block" if block.few else "for each SM" if block.given else "per SM"
    word = noun_for(block.warps.value, "warp")
    text = Sentence("{warps:number} {word} {per}", warps=block.warps, word=word, per=per)
    if block.few:
        return text
    of = Sentence("of {most:number}", most=block.most_warps) if block.most_warps else None
    held = block.achieved
    is_less = held is not None and float(held.value) < CLEARLY_FEWER * float(block.warps.value)
    mean = None
    if averaged and is_less and held is not None:
        mean = Sentence("{held:.0f} on average", held=held._replace(unit=""))
    by = Sentence("; ").join(filter(None, (of, " and ".join(block.limits), mean)))
    return Sentence("{text} ({by})", text=text, by=by) if by else text


# --- the row of amounts


@cached_per_view
def resources(view: LaunchView) -> ResourcesDocument | None:
    """None where the report says nothing of it, and for ranges and graphs."""
    block = block_resources(view)
    if block is None:
        return None
    spilled = _spilled_bytes(view)
    barriers, local = _barriers(view), _local_bytes(view)
    parts = list(_parts(block, spilled))
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
        registers_per_thread=finite(block.registers),
        local_bytes_per_thread=finite(local),
        spilled_bytes_per_thread=finite(spilled if block.has_spills else block.spills),
        spills_per_thread=finite(block.spills),
        shared_bytes_per_block=finite(block.shared),
        blocks_per_sm=finite(block.blocks),
        blocks_that_fit=finite(block.fit),
        warps_per_sm=finite(block.warps),
        achieved_warps_per_sm=finite(block.achieved),
        limited_by=tuple("blocks" if limit == BLOCK_SLOTS else limit for limit in block.limits),
        waves=finite(block.waves),
        barriers_per_block=finite(barriers),
    )


def _parts(block: BlockResources, spilled: Evidence | None) -> Iterator[Sentence]:
    if block.registers is not None:
        yield Sentence("{registers:number} registers per thread", registers=block.registers)
    if block.has_spills and block.spills is not None:
        yield Sentence("{spills:.0f} spills per thread", spills=block.spills)
        if spilled is not None:
            yield Sentence("{spilled} of spilled registers per thread", spilled=spilled)
    if block.shared is not None:
        some = Sentence("{shared} of shared memory per block", shared=block.shared)
        yield some if block.shared.value else Sentence("no shared memory")
    if (blocks := blocks_text(block)) is not None:
        yield blocks
    if (warps := warps_text(block)) is not None:
        yield warps
    if block.achieved is not None:
        yield Sentence("{held:number} warps on average", held=block.achieved)
    if block.waves is not None:
        yield Sentence("{waves:.1f} waves", waves=block.waves)


def _barriers(view: LaunchView) -> Evidence | None:
    """That a block waits at, by how often its warps execute them; None without machine code."""
    if view.code is None:
        return None
    program = view.code.program
    executed = sum(program.counts[at] for at in program.ran if program.code[at].is_barrier)
    return per_warp(view, "barriers_per_block", "barriers per block", executed)


def _local_bytes(view: LaunchView) -> Evidence | None:
    """What the kernel takes off the address of local memory at its start; without functions that
    it calls. None without machine code."""
    if view.code is None:
        return None
    from keet.analysis.machine_code.polynomials.opcode_rules import signed

    adds = ("IADD3", "VIADD", "IADD")
    of_stack = (e for e in view.code.program.code if STACK in e.writes and e.opcode in adds)
    first = next(of_stack, None)
    size = -sum(signed(number.value) for number in first.sources) if first is not None else 0
    label = "local memory of a thread"
    return view.ledger.derived("local_bytes_per_thread", Quantity(max(0, size), "byte"), label)


_STACK_WRITES_AT_START = 2
"""The address is read, and the size is taken off."""


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
        instruction = program.code[position]
        if (
            instruction.opcode not in LOCAL
            or instruction.memory is None
            or instruction.memory.name != STACK
        ):
            continue
        executed += program.counts[position]
        slots.update(range(instruction.memory.value, instruction.memory.value + instruction.width))
    is_same = abs(executed - counted.value) <= SAME_COUNT * counted.value
    if len(moved) > _STACK_WRITES_AT_START or not is_same:
        return None
    label = "local memory of a thread that holds spilled registers"
    size = Quantity(len(slots), "byte")
    return view.ledger.derived("spilled_bytes_per_thread", size, label, counted)
