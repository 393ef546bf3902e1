"""Sentences about the instructions of one source line: accesses, loops, possible changes."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.sass import MachineCode
from keet.analysis.sass.analyses.atomics import Atomic
from keet.analysis.sass.analyses.loop_chains import LoopChains
from keet.analysis.sass.analyses.loop_invariants import Invariant
from keet.analysis.sass.analyses.reuse import LOADED, SEVERAL, Access, at_most
from keet.analysis.sass.analyses.widths import Merge
from keet.analysis.sass.polynomials.polynomial import Polynomial
from keet.formatting import count_noun, share_text
from keet.render.common.hotspot_rows import why_unbounded
from keet.render.common.line_facts import LineFacts, LoopFacts, RoutineFacts, known_stride
from keet.render.common.machine_code import FormWords, Offset, distinct_text, line_text, size_text
from keet.units import format_number

_ACCESSES = 12
_CONSTANTS = 4
_POSITIONS = 8
"""Maximum number of offsets that are listed."""


Item = tuple[str, str]
"""A label and a text."""


def access_items(
    code: MachineCode, facts: LineFacts, words: FormWords, offset: Offset
) -> list[Item]:
    """Addresses and bytes of the accesses with most bytes, in the order of the code.

    Accesses that differ only by a constant are combined.
    """
    groups: dict[object, list[Access]] = {}
    for access in facts.accesses:
        varying = tuple(term for term in access.offset.key if term[0])
        key = (access.pointer, access.kind, access.width, varying)
        groups.setdefault(key, []).append(access)
    ranked = sorted(groups.values(), key=lambda own: -(_requested(own) or 0))
    shown = sorted(ranked[:_ACCESSES], key=lambda own: own[0].position)
    items = [_access_item(code, own, words, offset) for own in shown]
    left = sum(map(len, ranked[_ACCESSES:]))
    return [*items, ("", f"{left} more with fewer bytes: --format json")] if left else items


def _access_item(
    code: MachineCode, own: Sequence[Access], words: FormWords, offset: Offset
) -> Item:
    first = own[0]
    pointer = {LOADED: "a loaded pointer", SEVERAL: "one of several pointers"}.get(
        first.pointer, code.pointer_name(first.pointer)
    )
    label = f"{offset(first.position)} {first.kind}, {first.width} B"
    if len(own) == 1:
        return label, f"{pointer} + {words.text(first.offset)}\n{_size_text(own)}"
    constants = sorted({access.offset.constant for access in own})
    varying = Polynomial({product: c for product, c in first.offset.terms.items() if product})
    listed = ", ".join(f"{each}" for each in constants[:_CONSTANTS])
    more = f", … {constants[-1]}" if len(constants) > _CONSTANTS else ""
    text = f"and {len(own) - 1} more: {pointer} + {words.text(varying)} + [{listed}{more}]"
    return label, f"{text}\n{_size_text(own)}"


def _requested(own: Sequence[Access]) -> int | None:
    sizes = [access.requested_bytes for access in own]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _size_text(own: Sequence[Access]) -> str:
    requested = _requested(own)
    basis = "bound" if all(access.basis == "bound" for access in own) else "estimate"
    distinct = distinct_text(at_most(own), basis, requested, why_unbounded(own))
    return f"requested {size_text(requested)}; distinct {distinct}; {stride_text(own[0])}"


def stride_text(access: Access) -> str:
    stride = known_stride(access)
    if stride is None:
        return "lane stride unknown"
    if stride == 0:
        return "the lanes of a warp share the address"
    packed = " (packed)" if abs(stride) == access.width else ""
    return f"lane stride {stride:,} B{packed}"


def merge_item(merge: Merge, code: MachineCode, offset: Offset) -> Item:
    kind = "loads" if code.program.code[merge.positions[0]].writes else "stores"
    aligned = {
        True: "the first address is aligned to that if the array is",
        False: "the first address is not aligned to that",
        None: "whether the address is aligned depends on unknown numbers",
    }[merge.is_aligned]
    return (
        f"{len(merge.positions)} {kind}",
        f"of {merge.width} B access consecutive bytes of each thread "
        f"({offsets_text(merge.positions, offset)}): accesses of {merge.merged_width} B could "
        f"replace them; {aligned}",
    )


def atomic_item(atomic: Atomic, offset: Offset) -> Item:
    scope = "of a block" if atomic.memory == "shared" else "of the launch"
    count = atomic.addresses_at_most
    bound = f", at most {count:,} addresses {scope}" if count else ""
    result = "its result is used" if atomic.has_result else "its result is not used"
    return f"{offset(atomic.position)} {atomic.memory}", f"{atomic.spread}{bound}; {result}"


def loop_item(each: LoopFacts, offset: Offset, code: MachineCode) -> Item:
    loop = each.loop
    start = offset(code.program.flow.blocks[loop.header].start)
    where = f", {line_text(each.line)}" if each.line else ""
    trips = "unknown" if loop.trips is None else format_number(round(loop.trips, 2))
    noun = "iteration" if loop.trips == 1 else "iterations"
    head = f"from {start}{where}: {trips} {noun} per entry on average"
    return f"loop{loop.index}", f"{head}{_chains_text(each.chains) if each.chains else ''}"


def _chains_text(chains: LoopChains) -> str:
    parts = [
        f", {chains.instructions:,} instructions per iteration, "
        f"{share_text(chains.share, 1)} of all executed instructions"
    ]
    if chains.loads:
        depth = (
            "which do not need each other's results"
            if chains.load_depth <= 1
            else f"up to {chains.load_depth} have to wait for each other"
        )
        together = format_number(round(chains.independent_loads, 1))
        loads = f"{count_noun(chains.loads, 'load')} per iteration"
        if chains.loads > 1:
            loads += f", {depth}: {together} can be in flight together"
        parts.append(loads)
    recurrence = chains.recurrence
    if recurrence is None and chains.is_through_shared:
        parts.append(
            "an iteration may need the one before through shared memory, which the loop stores to "
            "and loads from"
        )
    elif recurrence is None:
        parts.append("no iteration needs the result of the one before, apart from the counter")
    else:
        count = len(recurrence.positions)
        loads = f" with {recurrence.loads} loads" if recurrence.loads else ""
        parts.append(
            f"each iteration needs the one before through a chain of "
            f"{count_noun(count, 'instruction')}{loads}"
        )
    return "; ".join(parts)


def invariant_item(each: Invariant, offset: Offset) -> Item:
    count = len(each.positions)
    noun = "instruction gives" if count == 1 else "instructions give"
    proviso = ", if the memory they read does not change" if each.loads else ""
    return (
        f"loop{each.loop}",
        f"{count} {noun} the same result in every iteration "
        f"({share_text(each.share, 1)} of all executed instructions): candidates to move out of "
        f"the loop{proviso} ({offsets_text(each.positions, offset)})",
    )


def routine_items(facts: LineFacts) -> list[Item]:
    """Which instructions of routines are counted at another line than the one that calls them."""
    calls = [
        ("", f"calls a routine counted at {line_text(each.line)} ({_routine(each)}), not here")
        for each in facts.calls
    ]
    callers = [
        ("", f"{_routine(each)}: a routine that only {line_text(each.line)} calls")
        for each in facts.callers
    ]
    return calls + callers


def _routine(each: RoutineFacts) -> str:
    noun = "instruction" if each.instructions == 1 else "instructions"
    samples = "sample" if each.samples == 1 else "samples"
    return (
        f"{each.instructions:,} {noun}, {each.executed:,} executed warp instructions, "
        f"{each.samples:,} {samples}"
    )


BEHIND_EXIT = (
    "the hardware counts these samples at the instruction behind EXIT: "
    "the warp has ended and waits for its stores"
)


def drain_items(code: MachineCode, facts: LineFacts, offset: Offset) -> list[Item]:
    """Explains samples at an instruction that no warp executes."""
    return [
        (offset(each.position), BEHIND_EXIT)
        for each in facts.instructions
        if any(wait.reason == "drain" for wait in each.waits)
        and is_behind_exit(code, each.position)
    ]


def is_behind_exit(code: MachineCode, position: int) -> bool:
    return position > 0 and code.program.code[position - 1].opcode == "EXIT"


def offsets_text(positions: Sequence[int], offset: Offset) -> str:
    shown = ", ".join(offset(each) for each in positions[:_POSITIONS])
    return shown + (", …" if len(positions) > _POSITIONS else "")
