"""What a block takes of an SM (registers, memory), how many fit, and what limits them: as facts, in
words, and as a row of amounts.

Also times that a launch can't fall below, each with its assumption: a unit that was busy for 60 %
of the elapsed cycles needs 60 % of the launch's time for its work at its peak, and proportionally
less for less work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.candidate import removed_part
from keet.analysis.hardware.ceilings import PIPES
from keet.analysis.hardware.stages import measured_stage
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE, LOCAL, STACK
from keet.analysis.parallelism.inactive_threads import per_warp, warps_of_block
from keet.analysis.parallelism.resident_warps import BLOCK_SLOTS, resident_blocks
from keet.analysis.parameters import MAJORITY, NEARLY_ALL, NEGLIGIBLE, SAME_COUNT, Parameter
from keet.documents.amounts import BoundDocument, ResourcesDocument
from keet.evidence import Evidence, Sentence, finite
from keet.formatting import noun_for
from keet.profile import Workload
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode


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
    grid, sms = view.get("grid_size"), view.get("device_sm_count")
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
        few=(grid, sms) if grid and sms and grid.value < sms.value else None,
    )


def _shared_memory(view: LaunchView) -> Evidence | None:
    sizes = [*filter(None, map(view.get, ("shared_memory_static", "shared_memory_dynamic")))]
    size, label = Quantity(sum(part.value for part in sizes), "byte"), "shared memory per block"
    return view.ledger.derived("shared_bytes_per_block", size, label, *sizes) if sizes else None


def _warps(view: LaunchView, blocks: Evidence | None) -> Evidence | None:
    block, warps_per_block = view.get("block_size"), warps_of_block(view)
    if blocks is None or block is None or warps_per_block is None:
        return None
    label = "warps that an SM holds at a time, by its blocks"
    warps = warps_per_block * float(blocks.value)
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
    return view.ledger.derived("local_bytes_per_thread", max(0, size), label, unit="byte")


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
    moved = [at for at in program.ran if STACK in program.code[at].writes]
    for position in program.ran:
        instruction, memory = program.code[position], program.code[position].memory
        if instruction.opcode in LOCAL and memory is not None and memory.name == STACK:
            executed += program.counts[position]
            slots.update(range(memory.value, memory.value + instruction.width))
    is_same = abs(executed - counted.value) <= SAME_COUNT * counted.value
    if len(moved) > _STACK_WRITES_AT_START or not is_same:
        return None
    label = "local memory of a thread that holds spilled registers"
    return view.ledger.derived("spilled_bytes_per_thread", len(slots), label, counted, unit="byte")


def _on_data(code: MachineCode) -> list[int]:
    """Positions of executed instructions that compute with data."""
    return [at for at in code.program.ran if code.purposes[at].value == "value"]


@cached_per_view
def bounds(view: LaunchView) -> tuple[BoundDocument, ...]:
    return tuple(_bounds(view))


class Floor(NamedTuple):
    """A bound as the last sentence of a finding."""

    text: Sentence | None
    evidence: tuple[Evidence, ...]


_FLOORS = {
    "bytes_once": "If each byte were moved once, DRAM would need at least",
    "arithmetic": "The arithmetic on data alone would need at least",
}


def floor(view: LaunchView, *names: str) -> Floor:
    """Of the first of these bounds that is known. Empty if none is, or if it is nearly all of the
    time."""
    by_id = {bound.id: bound for bound in bounds(view)}
    for bound in (by_id[name] for name in names if name in by_id):
        time, _, duration = bound.evidence
        if float(time.value) * 1e3 > NEARLY_ALL * float(duration.value):
            break
        form, said = "{said} {time:base} of the {duration:base}.", _FLOORS[bound.id]
        return Floor(Sentence(form, said=said, time=time, duration=duration), (time, duration))
    return Floor(None, ())


def _bounds(view: LaunchView) -> Iterator[BoundDocument]:
    dram, issue = view.ceilings.reached("DRAM"), view.ceilings.reached("issue")
    if dram is not None and dram.value > 0:
        yield from _bound(view, "same_bytes", "if the same bytes are moved", dram)
        once = _bytes_once(view)
        if once is not None:
            part, *sources = once
            said = "if each byte is moved once"
            yield from _bound(view, "bytes_once", said, dram, part, *sources)
    if issue is not None and issue.value > 0:
        said = "if the same instructions are executed"
        pipes = filter(None, map(view.ceilings.reached, PIPES))
        busiest = max((issue, *pipes), key=lambda reached: reached.value)
        yield from _bound(view, "same_instructions", said, busiest)
        if view.code is not None and view.code.program.executed:
            part = sum(share for purpose, share in view.code.mix if purpose.value == "value")
            if part and _is_float(view.code):
                said = "if only the arithmetic on data is executed"
                busy, part = _busiest_of_arithmetic(view, view.code, issue, part)
                yield from _bound(view, "arithmetic", said, busy, part)


_SLOW_PIPES = {"fp64": BY_PIPE["FP64"], "tensor": frozenset[str]()}
"""Pipes beside FMA that an instruction may occupy for several cycles, with the opcodes that they
execute, all for as long; none where all that they execute is arithmetic on data."""


def _busiest_of_arithmetic(
    view: LaunchView, code: MachineCode, issue: Evidence, part: float
) -> tuple[Evidence, float]:
    """What the arithmetic on data keeps busy longest, and its part of that unit's work: the issue
    slots, of which it has `part`, or a slow pipe."""
    units, values = [(issue, part)], _on_data(code)
    if (fma := measured_stage(view.ledger, "fma")) is not None:
        units.append((fma.busy, removed_part(view, dict.fromkeys(values, 1.0), "FMA")))
    for pipe, opcodes in _SLOW_PIPES.items():
        if (stage := measured_stage(view.ledger, pipe)) is None:
            continue
        on_pipe = [at for at in code.program.ran if code.program.code[at].opcode in opcodes]
        needed = [at for at in values if code.program.code[at].opcode in opcodes]
        whole = float(not opcodes)
        units.append((stage.busy, code.share(needed) / code.share(on_pipe) if on_pipe else whole))
    return max(units, key=lambda unit: float(unit[0].value) * unit[1])


def _bound(
    view: LaunchView, name: str, said: str, busy: Evidence, part: float = 1.0, *sources: Evidence
) -> Iterator[BoundDocument]:
    """The time of a unit's work at its peak, or of a part of it."""
    duration = view.get("duration")
    if duration is None or not duration.value > 0:
        return
    share = min(1.0, float(busy.value) / 100) * part
    if share < NEGLIGIBLE:  # another limit is far above it
        return
    us = float(duration.value) / 1e3 * share
    time = view.ledger.derived(
        f"bound_{name}", us, f"least time {said}", duration, busy, *sources, unit="us"
    )
    text = Sentence("{said}: {time:base}", said=said, time=time)
    yield BoundDocument(id=name, assumption=said, us=us, text=text, evidence=(time, busy, duration))


def _bytes_once(view: LaunchView) -> tuple[float, Evidence, Evidence] | None:
    """The share of DRAM's traffic that is left if each byte moves once: it is known only if all
    arrays are, and not more than what was moved."""
    from keet.analysis.amounts.arrays import arrays  # only amounts need it

    moved = view.total("dram_bytes", "bytes of DRAM", "dram_bytes_read", "dram_bytes_written")
    every = arrays(view)
    if moved is None or not moved.value or not every:
        return None
    known = [array for array in every if array.distinct_bytes is not None]
    asked = sum(array.l1_bytes or 0.0 for array in every)
    bounded = sum(array.l1_bytes or 0.0 for array in known)
    if not known or not asked or bounded < NEARLY_ALL * asked:
        return None
    needed = sum(  # what is updated is read, then written
        (array.distinct_bytes or 0.0) * (2 if array.access == "updated" else 1) for array in known
    )
    once = view.ledger.derived(
        "bytes_once", needed, "distinct bytes of all arrays", moved, unit="byte"
    )
    return min(1.0, needed / float(moved.value)), once, moved


def _is_float(code: MachineCode) -> bool:
    """Whether most of the arithmetic on data is in floats or on tensor cores: that of integers is
    hard to tell from indices and conditions, as in a random number that a condition needs."""
    values = _on_data(code)
    floats = [at for at in values if code.program.code[at].role.name in ("FLOAT", "TENSOR")]
    return code.share(floats) >= MAJORITY * code.share(values)
