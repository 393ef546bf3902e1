"""Sentences about the instructions of one source line: accesses, loops, possible changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.code_names import FormWords, Offset, line_text
from keet.analysis.examined import why_unbounded
from keet.analysis.line_facts import LineFacts, LineLoop, known_stride
from keet.analysis.sass import MachineCode
from keet.analysis.sass.analyses.loop_chains import LoopChains
from keet.analysis.sass.analyses.reuse import LOADED, SEVERAL, Access, at_most
from keet.analysis.sass.polynomials.polynomial import Polynomial
from keet.documents.hotspots import (
    AtomicDocument,
    InvariantDocument,
    LineDocument,
    MergeDocument,
    RoutineDocument,
)
from keet.evidence import Sentence, constant, counted
from keet.pages.hotspots import distinct_text, size_text

_ACCESSES = 12
_CONSTANTS = 4
_POSITIONS = 8
"""Maximum number of offsets that are listed."""


Item = tuple[str, str]
"""A label and a text."""


def line_items(code: MachineCode, facts: LineFacts) -> list[tuple[str, str, Sequence[Item]]]:
    """Headings, in full and short, and what is to say below each."""
    words = FormWords(code, facts.offset)
    offset = facts.offset
    sections: list[tuple[str, str, Sequence[Item]]] = [
        ("Memory accesses", "Memory accesses", _access_items(code, facts, words)),
        (
            "Accesses that could be wider",
            "Could be wider",
            [_merge_item(each, code, offset) for each in facts.merges],
        ),
        ("Atomics", "Atomics", [_atomic_item(each, offset) for each in facts.atomics]),
        ("Drain", "Drain", list(_drain_items(code, facts))),
        ("Routines", "Routines", routine_items(facts)),
        (
            "Loops around the line",
            "Loops around it",
            [loop_item(each, offset) for each in facts.loops],
        ),
        (
            "The same in every iteration",
            "Same every iteration",
            [_invariant_item(each, offset) for each in facts.invariants],
        ),
    ]
    # The accesses decide which words have to be explained.
    sections.append(("Words in addresses (bytes)", "Words in addresses", words.legend))
    return [section for section in sections if section[2]]


def _access_items(code: MachineCode, facts: LineFacts, words: FormWords) -> list[Item]:
    """Addresses and bytes of the accesses with most bytes, in the order of the code.

    Accesses that differ only by a constant are combined.
    """
    groups: dict[object, list[Access]] = {}
    for each in facts.accesses:
        access = each.access
        varying = tuple(term for term in access.offset.key if term[0])
        key = (access.pointer, access.kind, access.width, varying)
        groups.setdefault(key, []).append(access)
    ranked = sorted(groups.values(), key=lambda own: -(_requested(own) or 0))
    shown = sorted(ranked[:_ACCESSES], key=lambda own: own[0].position)
    items = [_access_item(code, own, words, facts.offset) for own in shown]
    if left := sum(map(len, ranked[_ACCESSES:])):
        more = constant(left, "", "more accesses")
        items.append(("", Sentence("{more:d} more with fewer bytes: --format json", more=more)))
    return items


def _access_item(
    code: MachineCode, own: Sequence[Access], words: FormWords, offset: Offset
) -> Item:
    first = own[0]
    pointer = {LOADED: "a loaded pointer", SEVERAL: "one of several pointers"}.get(
        first.pointer, code.pointer_name(first.pointer)
    )
    label = Sentence(
        "{offset} {kind}, {width:d}",
        offset=offset(code.program.code[first.position].address),
        kind=first.kind,
        width=constant(first.width, "B", "bytes per thread"),
    )
    if len(own) == 1:
        return label, Sentence(
            "{pointer} + {form}\n{size}",
            pointer=pointer,
            form=words.text(first.offset),
            size=_size_text(own),
        )
    constants = sorted({access.offset.constant for access in own})
    varying = Polynomial({product: c for product, c in first.offset.terms.items() if product})
    listed = ", ".join(f"{each}" for each in constants[:_CONSTANTS])
    last = f", … {constants[-1]}" if len(constants) > _CONSTANTS else ""
    return label, Sentence(
        "and {more:d} more: {pointer} + {form} + [{offsets}]\n{size}",
        more=constant(len(own) - 1, "", "more accesses"),
        pointer=pointer,
        form=words.text(varying),
        offsets=listed + last,
        size=_size_text(own),
    )


def _requested(own: Sequence[Access]) -> int | None:
    sizes = [access.requested_bytes for access in own]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _size_text(own: Sequence[Access]) -> Sentence:
    requested = _requested(own)
    basis = "bound" if all(access.basis == "bound" for access in own) else "estimate"
    return Sentence(
        "requested {requested}; distinct {distinct}; {stride}",
        requested=size_text(requested),
        distinct=distinct_text(at_most(own), basis, requested, why_unbounded(own)),
        stride=stride_text(own[0]),
    )


def stride_text(access: Access) -> Sentence:
    stride = known_stride(access)
    if stride is None:
        return Sentence("lane stride unknown")
    if stride == 0:
        return Sentence("the lanes of a warp share the address")
    return Sentence(
        "lane stride {stride:,d}{packed}",
        stride=constant(stride, "B", "lane stride"),
        packed=" (packed)" if abs(stride) == access.width else "",
    )


def _merge_item(merge: MergeDocument, code: MachineCode, offset: Offset) -> Item:
    first = code.program.code[code.program.positions[merge.addresses[0]]]
    aligned = {
        True: "the first address is aligned to that if the array is",
        False: "the first address is not aligned to that",
        None: "whether the address is aligned depends on unknown numbers",
    }[merge.is_aligned]
    return counted(len(merge.addresses), "load" if first.writes else "store"), Sentence(
        "of {width:d} access consecutive bytes of each thread ({offsets}): accesses of "
        "{merged:d} could replace them; {aligned}",
        width=constant(merge.width, "B", "bytes per access"),
        offsets=_offsets_text(merge.addresses, offset),
        merged=constant(merge.merged_width, "B", "bytes per merged access"),
        aligned=aligned,
    )


def _atomic_item(atomic: AtomicDocument, offset: Offset) -> Item:
    bound: str = ""
    if count := atomic.addresses_at_most:
        bound = Sentence(
            ", at most {count:,d} addresses {scope}",
            count=constant(count, "", "addresses"),
            scope="of a block" if atomic.memory == "shared" else "of the launch",
        )
    return f"{offset(atomic.address)} {atomic.memory}", Sentence(
        "{spread}{bound}; its result is {used}",
        spread=atomic.spread,
        bound=bound,
        used="used" if atomic.has_result else "not used",
    )


def loop_item(loop: LineLoop, offset: Offset, *, has_line: bool = True) -> Item:
    trips = None if loop.trips is None else round(loop.trips, 2)
    text = Sentence(
        "from {start}{where}: {trips} {noun} per entry on average{chains}",
        start=offset(loop.address),
        where=f", {line_text(loop.location)}" if has_line and loop.location else "",
        trips="unknown" if trips is None else constant(trips, "", "iterations per entry"),
        noun="iteration" if loop.trips == 1 else "iterations",
        chains=_chains_text(loop.chains) if loop.chains else "",
    )
    return loop.name, text


def _chains_text(chains: LoopChains) -> Sentence:
    parts = [
        Sentence(
            ", {instructions:,d} instructions per iteration, {share:.1f} of all executed "
            "instructions",
            instructions=constant(chains.instructions, "", "instructions per iteration"),
            share=constant(100 * chains.share, "%", "share of the executed instructions"),
        )
    ]
    if chains.loads:
        loads = Sentence("{loads} per iteration", loads=counted(chains.loads, "load"))
        if chains.loads > 1:
            depth = Sentence(
                "up to {depth:d} have to wait for each other",
                depth=constant(chains.load_depth, "", "loads that need each other's results"),
            )
            loads = Sentence(
                "{loads}, {depth}: {together} can be in flight together",
                loads=loads,
                depth=depth if chains.load_depth > 1 else "which do not need each other's results",
                together=constant(round(chains.independent_loads, 1), "", "independent loads"),
            )
        parts.append(loads)
    recurrence = chains.recurrence
    if recurrence is None and chains.is_through_shared:
        parts.append(
            Sentence(
                "an iteration may need the one before through shared memory, which the loop "
                "stores to and loads from"
            )
        )
    elif recurrence is None:
        text = "no iteration needs the result of the one before, apart from the counter"
        parts.append(Sentence(text))
    else:
        count = constant(recurrence.loads, "", "loads of the chain")
        loads = Sentence(" with {count:d} loads", count=count) if recurrence.loads else Sentence()
        parts.append(
            Sentence(
                "each iteration needs the one before through a chain of {instructions}{loads}",
                instructions=counted(len(recurrence.positions), "instruction"),
                loads=loads,
            )
        )
    return Sentence("; ").join(parts)


def _invariant_item(each: InvariantDocument, offset: Offset) -> Item:
    count = len(each.addresses)
    return each.loop, Sentence(
        "{instructions} {give} the same result in every iteration ({share:.1f} of all executed "
        "instructions): candidates to move out of the loop{proviso} ({offsets})",
        instructions=counted(count, "instruction"),
        give="gives" if count == 1 else "give",
        share=constant(100 * each.share, "%", "share of the executed instructions"),
        proviso=", if the memory they read does not change" if each.loads else "",
        offsets=_offsets_text(each.addresses, offset),
    )


def routine_items(facts: LineDocument) -> list[Item]:
    """Which instructions of routines are counted at another line than the one that calls them."""
    calls = "calls a routine counted at {line} ({routine}), not here"
    callers = "{routine}: a routine that only {line} calls"
    return [
        ("", Sentence(text, line=line_text(each.location), routine=_routine(each)))
        for text, routines in ((calls, facts.calls), (callers, facts.callers))
        for each in routines
    ]


def _routine(each: RoutineDocument) -> Sentence:
    return Sentence(
        "{instructions}, {executed:,d} executed warp instructions, {samples}",
        instructions=counted(each.instructions, "instruction"),
        executed=constant(each.executed, "", "executed warp instructions"),
        samples=counted(each.samples, "sample"),
    )


BEHIND_EXIT = (
    "the hardware counts these samples at the instruction behind EXIT: "
    "the warp has ended and waits for its stores"
)


def _drain_items(code: MachineCode, facts: LineFacts) -> Iterator[Item]:
    """Explains samples at an instruction that no warp executes."""
    for each in facts.instructions:
        is_drained = any(wait.reason == "drain" for wait in each.waits)
        if is_drained and is_behind_exit(code, each.position):
            yield each.offset, BEHIND_EXIT


def is_behind_exit(code: MachineCode, position: int) -> bool:
    return position > 0 and code.program.code[position - 1].opcode == "EXIT"


def _offsets_text(addresses: Sequence[int], offset: Offset) -> str:
    shown = ", ".join(map(offset, addresses[:_POSITIONS]))
    return shown + (", …" if len(addresses) > _POSITIONS else "")
