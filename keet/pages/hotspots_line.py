"""The page of `keet hotspots --line FILE:LINE`: all that is known about one source line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from keet.analysis.code_names import FormWords, Offset, line_text, sass_text, with_more
from keet.analysis.hotspots.examined import Examined, why_unbounded
from keet.analysis.hotspots.line_facts import (
    LineFacts,
    LineLoop,
    LineWait,
    known_stride,
    samples_at,
)
from keet.analysis.hotspots.source_lines import Hotspots
from keet.analysis.machine_code.analyses.loop_chains import LoopChains
from keet.analysis.machine_code.analyses.reuse import LOADED, SEVERAL, Access, at_most
from keet.analysis.machine_code.launch_code import MachineCode
from keet.analysis.machine_code.polynomials.polynomial import Polynomial
from keet.catalog import stalls
from keet.documents.hotspots import (
    AtomicDocument,
    HotspotsLaunch,
    InvariantDocument,
    LineDocument,
    MergeDocument,
    RoutineDocument,
)
from keet.documents.shared_types import Skipped
from keet.evidence import Evidence, Reference, Sentence, constant, counted
from keet.formatting import listed
from keet.pages import blocks
from keet.pages.blocks import (
    Block,
    Cell,
    Code,
    Column,
    Gap,
    Heading,
    Items,
    Notice,
    Page,
    Span,
    Table,
    Text,
    Words,
)
from keet.pages.hotspots import (
    distinct_text,
    opaque_notes,
    producer_text,
    purposes_text,
    size_text,
    waiting_for,
)
from keet.profile import Absent, Launch, Location
from keet.profile.launch import file_name

_AWAITED = 5
"""Number of waiting lines that are listed."""
_LAUNCHES_NAMED = 6
_ACCESSES = 12
_CONSTANTS = 4
_POSITIONS = 8
"""Maximum number of offsets that are listed."""


Item = tuple[str, str]
"""A label and a text."""


def line_page(
    launches: Sequence[HotspotsLaunch],
    place: Location,
    others: str = "",
    instructions: slice = slice(None),
    *,
    addresses: bool = True,
) -> Page:
    """`others`: what `other_launches` says. `instructions`: those that are listed. `addresses`:
    whether forms of addresses are printed, which have names of the source."""
    shown: list[Block] = []
    opaque: dict[Skipped, list[Launch]] = {}
    for launch in launches:
        shown += [Gap()] if shown else []
        shown += _launch(launch, place, instructions, addresses=addresses)
        if isinstance(launch, Examined) and (missing := launch.opaque):
            opaque.setdefault(missing, []).append(launch.launch)
    if others:
        shown += [Gap(), Text(others, "muted")]
    return Page([*shown, *opaque_notes(opaque)], line_text(place))


def other_launches(rest: Sequence[tuple[Launch, Hotspots | Absent]], how: str) -> Sentence:
    """Launches that have the same line, and how to see them; empty without one."""
    if not rest:
        return Sentence()
    names = [
        Sentence(
            "{launch} ({samples:,d})",
            launch=f"#{launch.id} {launch.kernel}",
            samples=constant(samples_at(spots), "", "samples on the line"),
        )
        for launch, spots in rest[:_LAUNCHES_NAMED]
    ]
    return Sentence(
        "Also in other launches (samples on the line): {names}; {how}",
        names=with_more(Sentence(", ").join(names), len(rest) - _LAUNCHES_NAMED),
        how=how,
    )


def _launch(
    hotspots: HotspotsLaunch, place: Location, listed: slice, *, addresses: bool
) -> Iterator[Block]:
    words = (Span(f"#{hotspots.id} ", "muted"), Span(hotspots.kernel, "name"), " ")
    yield Heading((words, Span(line_text(place), "place")), 2, "")
    if not isinstance(hotspots, Examined):
        why = hotspots.skipped[0]
        yield Notice(f"{why.reason}; {why.remedy}")
        return
    if hotspots.rows and (text := hotspots.rows[0].source):
        yield Code([" ".join(text.split())], "cuda", has_bar=False, indent=2)
    facts, code = hotspots.line, hotspots.code
    if not isinstance(facts, LineFacts) or code is None:
        yield from map(Text, _summary(hotspots, None))
        return
    yield from map(Text, (*_summary(hotspots, facts), *_awaited(facts, hotspots)))
    yield from (Gap(), _instructions(code, facts, listed, hotspots.launch.function_starts))
    for heading, _, items in line_items(code, facts if addresses else replace(facts, accesses=[])):
        yield from (Gap(), Heading(heading, 3))
        yield Items(
            [
                blocks.Item(line, Span("" if number else label, "label"))
                for label, text in items
                for number, line in enumerate(_lines(text))
            ],
            mark="",
            indent=2,
        )


def _lines(text: str) -> list[str]:
    """The lines of a text; those of a sentence keep their evidence."""
    if not isinstance(text, Sentence):
        return text.split("\n")
    lines: list[list[str | Reference]] = [[]]
    for part in text.parts:
        first, *rest = part.split("\n") if isinstance(part, str) else (part,)
        lines[-1].append(first)
        lines += [[each] for each in rest]
    return [Sentence.of(parts) for parts in lines]


def _summary(hotspots: Hotspots, facts: LineFacts | None) -> list[Sentence]:
    if not hotspots.rows:
        return [Sentence("No warp executed this line.")]
    where = line_text(hotspots.rows[0].location)

    def number(label: str, value: float, unit: str = "") -> Evidence:
        return hotspots.number(label, value, unit, where)

    samples = sum(spot.samples or 0 for spot in hotspots.rows)
    executed = sum(spot.executed or 0 for spot in hotspots.rows)
    first = Sentence("The report has no warp samples.")
    if hotspots.ranked_by == "samples":
        share = number("samples share", 100 * (samples / hotspots.total), "%")
        first = Sentence(
            "{samples:,d} of {total:,d} samples ({share:cell})",
            samples=number("samples", samples),
            total=hotspots.number("all samples", hotspots.total),
            share=share,
        )
    if len(hotspots.rows) == 1 and (waiting := waiting_for(hotspots.rows[0], hotspots)):
        first = Sentence("{first}; waiting: {waiting}", first=first, waiting=waiting)
    second = Sentence(
        "{executed:,d} executed warp instructions",
        executed=number("executed warp instructions", executed),
    )
    if facts is not None:
        second = Sentence(
            "{executed} ({share:cell} of all)",
            executed=second,
            share=number("instructions share", 100 * facts.executed_share, "%"),
        )
        if mix := purposes_text(facts.purposes, 4, number):
            second = Sentence("{executed}: {mix}", executed=second, mix=mix)
    return [first, second]


def _awaited(facts: LineFacts, hotspots: Hotspots) -> list[Sentence]:
    if not facts.waited_for_by:
        return []
    place = f"{file_name(facts.file)}:{facts.line}"
    listed = [
        Sentence(
            "{line} {samples:,d} ({reason})",
            line=line_text(each.location),
            samples=hotspots.number(
                f"samples {each.reason} for {place}", each.samples, "", line_text(each.location)
            ),
            reason=stalls()[each.reason].label,
        )
        for each in facts.waited_for_by[:_AWAITED]
    ]
    total = sum(each.samples for each in facts.waited_for_by)
    share = hotspots.number(
        "share of samples that wait for it", 100 * (total / hotspots.total), "%", place
    )
    text = Sentence(
        "{samples}{share} at other lines {wait} for this line: {listed}{more}",
        samples=counted(hotspots.number("samples that wait for it", total, "", place), "sample"),
        share=Sentence(" ({share:cell})", share=share) if hotspots.ranked_by == "samples" else "",
        wait="waits" if total == 1 else "wait",
        listed=Sentence(", ").join(listed),
        more=", …" if len(facts.waited_for_by) > _AWAITED else "",
    )
    return [text]


def _instructions(
    code: MachineCode, facts: LineFacts, listed: slice, starts: Sequence[int]
) -> Table:
    columns = [
        Column("offset", look="place", is_unbroken=True),
        Column("purpose", is_unbroken=True),
        Column("executed", is_number=True),
        Column("samples", is_number=True),
        Column("instruction, and what its samples wait for"),
    ]
    rows: list[list[Words | Cell]] = [
        [
            each.offset,
            each.purpose,
            f"{each.executed:,}",
            f"{each.samples:,}" if each.samples else "",
            Cell(
                Span(sass_text(code.program.code[each.position], starts), "code strong"),
                _wait_text(code, facts, each.waits[0]) if each.waits else "",
            ),
        ]
        for each in facts.instructions[listed]
    ]
    return Table(columns, rows, name="Instructions of the line", is_ruled=False)


def _wait_text(code: MachineCode, facts: LineFacts, wait: LineWait) -> Sentence:
    """For example `Long Scoreboard 92 for the load at 0x0ab0 (slow.cu:19)`."""
    text = Sentence(
        "{label} {samples:,d}",
        label=stalls()[wait.reason].label,
        samples=constant(wait.samples, "", "samples"),
    )
    if wait.producer_address is None:
        return text
    is_other = wait.producer not in (None, (facts.file, facts.line))
    named = f" ({line_text(wait.producer)})" if is_other else ""
    producer = producer_text(code, wait, facts.offset(wait.producer_address))
    awaited = with_more(f"{producer}{named}", len(wait.producers) - 1)
    return Sentence("{text} for {awaited}", text=text, awaited=awaited)


# --- what HTML says about a line, too


def line_items(code: MachineCode, facts: LineFacts) -> list[tuple[str, str, Sequence[Item]]]:
    """Headings, in full and short, and what is to say below each."""
    offset = facts.offset
    words = FormWords(code, offset)
    merges = [_merge_item(merge, code, offset) for merge in facts.merges]
    atomics = [_atomic_item(atomic, offset) for atomic in facts.atomics]
    loops = [loop_item(loop, offset) for loop in facts.loops]
    invariants = [_invariant_item(invariant, offset) for invariant in facts.invariants]
    drained = [  # samples at an instruction that no warp executes
        (instruction.offset, BEHIND_EXIT)
        for instruction in facts.instructions
        if any(wait.reason == "drain" for wait in instruction.waits)
        and is_behind_exit(code, instruction.position)
    ]
    sections: list[tuple[str, str, Sequence[Item]]] = [
        ("Memory accesses", "Memory accesses", _access_items(code, facts, words)),
        ("Accesses that could be wider", "Could be wider", merges),
        ("Atomics", "Atomics", atomics),
        ("Drain", "Drain", drained),
        ("Routines", "Routines", routine_items(facts)),
        ("Loops around the line", "Loops around it", loops),
        ("The same in every iteration", "Same every iteration", invariants),
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
    form, offsets, more = first.offset, "", Sentence()
    if len(own) > 1:
        form = Polynomial({product: c for product, c in form.terms.items() if product})
        constants = sorted({access.offset.constant for access in own})
        last = f", … {constants[-1]}" if len(constants) > _CONSTANTS else ""
        offsets = f" + [{', '.join(map(str, constants[:_CONSTANTS]))}{last}]"
        count = constant(len(own) - 1, "", "more accesses")
        more = Sentence("and {count:d} more: ", count=count)
    return label, Sentence(
        "{more}{pointer} + {form}{offsets}\n{size}",
        more=more,
        pointer=pointer,
        form=words.text(form),
        offsets=offsets,
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
        requested=size_text(requested, label="requested bytes"),
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
        offsets=listed([*map(offset, merge.addresses)], _POSITIONS),
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
    return Sentence("; ").join([*parts, _recurrence_text(chains)])


def _recurrence_text(chains: LoopChains) -> Sentence:
    if recurrence := chains.recurrence:
        count = constant(recurrence.loads, "", "loads of the chain")
        return Sentence(
            "each iteration needs the one before through a chain of {instructions}{loads}",
            instructions=counted(len(recurrence.positions), "instruction"),
            loads=Sentence(" with {count:d} loads", count=count) if recurrence.loads else "",
        )
    if chains.is_through_shared:
        return Sentence(
            "an iteration may need the one before through shared memory, which the loop stores to "
            "and loads from"
        )
    return Sentence("no iteration needs the result of the one before, apart from the counter")


def _invariant_item(each: InvariantDocument, offset: Offset) -> Item:
    count = len(each.addresses)
    return each.loop, Sentence(
        "{instructions} {give} the same result in every iteration ({share:.1f} of all executed "
        "instructions): candidates to move out of the loop{proviso} ({offsets})",
        instructions=counted(count, "instruction"),
        give="gives" if count == 1 else "give",
        share=constant(100 * each.share, "%", "share of the executed instructions"),
        proviso=", if the memory they read does not change" if each.loads else "",
        offsets=listed([*map(offset, each.addresses)], _POSITIONS),
    )


def routine_items(facts: LineDocument) -> list[Item]:
    """Which instructions of routines are counted at another line than the one that calls them."""
    calls = "calls a routine counted at {line} ({routine}), not here"
    callers = "{routine}: a routine that only {line} calls"
    return [
        ("", Sentence(text, line=line_text(routine.location), routine=_routine(routine)))
        for text, routines in ((calls, facts.calls), (callers, facts.callers))
        for routine in routines
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


def is_behind_exit(code: MachineCode, position: int) -> bool:
    return position > 0 and code.program.code[position - 1].opcode == "EXIT"
