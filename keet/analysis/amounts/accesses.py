"""What the load, store and atomic instructions of a launch cost, one by one.

Sectors are what an access moves, wavefronts are the passes through L1 that it takes. The two
differ: all threads of a warp that load the same 16 bytes touch one sector, but L1 returns 16 bytes
to each of them, at most 128 bytes per wavefront, which takes four. Neighbouring threads that load
8 bytes each touch eight sectors in two wavefronts.

Wavefronts of shared memory are counted. Those of a load from global memory follow from its width
where the warp touches no more lines of 128 bytes than the data fill: with them, the counter of L1's
data stage is met within 2 % by launches that have no other accesses (H200). Where it touches more
lines, a wavefront may serve one or two of them, so that the number is not known.

Loads that are issued one after the other, although they could be issued together, are told where
warps wait for them in a notable part of the samples. With a unit that is busy, loads that are
issued together would wait for the unit instead: the text says so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.analysis.archetype import Language, language_of
from keet.analysis.code_names import function_start, line_text
from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.hotspots.source_lines import ACCESS_BYTES, LEAST_SAMPLES
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.memory_work import SECTORS_PER_LINE
from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parameters import NEGLIGIBLE, NOTABLE_PART
from keet.analysis.remedy_conditions.on_chip import MOST_REGISTERS_PER_THREAD
from keet.analysis.time_model import LEADS
from keet.documents.amounts import LineAccessDocument, RoundTripDocument, SerialLoadsDocument
from keet.evidence import Evidence, Sentence
from keet.formatting import enumerated, noun_for, plural_of
from keet.profile import Location
from keet.profile.launch import file_name

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.serial_loads import RoundTrip, SerialLoads
    from keet.analysis.machine_code.launch_code import MachineCode


Memory = Literal["global", "local", "shared"]
Operation = Literal["load", "store", "atomic", "copy"]

_MEMORIES: Mapping[int, Memory] = {4: "global", 8: "local", 16: "shared", 20: "global"}
"""By ncu's codes in `memory_type`; the last are copies from global to shared memory."""
_OPERATIONS: Mapping[int, Operation] = {2: "load", 4: "store", 6: "copy"}
"""By ncu's codes in `memory_access_type`; atomics have others, or none."""
PASS_BYTES = 128
"""Bytes that a wavefront moves at most."""
_CHECKED_CAPABILITY = (9, 0)
"""Compute capability of the launches that wide loads were checked with."""
_WORD_BYTES = 4
"""Bytes per thread that one pass returns to a whole warp."""
_WHOLE_WARP = 31.5
"""Threads per instruction from which nearly all warps are complete."""
_ROUNDING_ERROR = 0.02
"""Averages that differ by no more are the same."""
_ROWS_PER_DOUBLING = 2
"""Rows per factor of two in sectors or wavefronts."""
MOST_ROWS = 32


class MemoryAccess(NamedTuple):
    """One instruction. Its numbers are sums over all warps; `None`: not counted."""

    address: int
    memory: Memory
    operation: Operation
    width: int | None
    """Bytes per thread."""
    executed: float
    threads: float | None
    wavefronts_of_data: float
    """Passes that its data fill: one per instruction at least."""
    cost: float = 0.0
    """Passes through L1, at most about so many: for the order of rows."""
    sectors: float | None = None
    sectors_needed: float | None = None
    lines: float | None = None
    """Lines of 128 bytes that warps touch in L1."""
    shared_wavefronts: float | None = None
    shared_wavefronts_needed: float | None = None

    def wavefronts(self, capability: tuple[int, ...]) -> float | None:
        """`None` where they are not known: see the module."""
        if self.memory == "shared":
            return self.shared_wavefronts
        if self.memory != "global" or self.operation != "load" or not self.width:
            return None
        if self.width > _WORD_BYTES and capability != _CHECKED_CAPABILITY:
            return None
        if self.lines is None or self.threads is None:
            return None
        is_whole = self.threads >= _WHOLE_WARP * self.executed
        is_filled = self.lines <= (1 + _ROUNDING_ERROR) * self.wavefronts_of_data
        return self.wavefronts_of_data if is_whole and is_filled else None


@cached_per_view
def memory_accesses(view: LaunchView) -> tuple[MemoryAccess, ...]:
    """Every executed one, in the order of the code; empty if the report does not have them."""
    kinds = view.by_address("memory_type")
    if not kinds or not view.table.executed:
        return ()
    operations = view.by_address("memory_access_type")
    if not operations and view.launch.metric("memory_access_type") is None:
        return ()
    sizes = view.by_address("memory_access_size_type")

    def at(address: int, column: Mapping[int, int] | None) -> float | None:
        return None if column is None else float(column.get(address, 0))

    def counted(metric_id: str, address: int) -> float | None:
        return at(address, view.table.column(metric_id))

    accesses = []
    for address in sorted(kinds):
        memory = _MEMORIES.get(int(kinds[address]))
        runs = view.table.executed.get(address, 0)
        if memory is None or not runs:
            continue
        width = ACCESS_BYTES.get(sizes.get(address, 0))
        data = runs * max(1.0, (width or 1) * WARP / PASS_BYTES)
        kind = _OPERATIONS.get(int(operations.get(address, 0)), "atomic")
        threads = at(address, view.table.threads)
        access = MemoryAccess(address, memory, kind, width, float(runs), threads, data)
        if memory == "shared":
            wavefronts = counted("src_shared_wavefronts", address)
            needed = counted("src_shared_wavefronts_ideal", address)
            access = access._replace(
                shared_wavefronts=wavefronts,
                shared_wavefronts_needed=needed,
                cost=wavefronts or data,
            )
        else:
            moved = counted(f"src_l2_sectors_{memory}", address)
            passes = (moved or 0.0) / SECTORS_PER_LINE
            if memory == "global":
                lines = counted("src_l1_tag_requests_global", address)
                needed = counted("src_l2_sectors_global_ideal", address)
                access = access._replace(sectors_needed=needed, lines=lines)
                passes = passes if lines is None else lines
            access = access._replace(sectors=moved, cost=max(data, passes))
        accesses.append(access)
    return tuple(accesses)


def uniform_accesses(
    view: LaunchView, accesses: Iterable[MemoryAccess]
) -> Mapping[int, bool | None]:
    """By address: whether all threads of a warp access the same one, by the machine code. Not where
    the counters contradict it."""
    if view.code is None:
        return {}
    from keet.analysis.machine_code.analyses.address_patterns import is_uniform
    from keet.analysis.machine_code.analyses.reuse import address_polynomial

    code, uniform = view.code, dict[int, bool | None]()
    offsets = {access.position: access.offset for access in code.accesses}
    for access in accesses:
        position = code.program.positions.get(access.address)
        if position is None or access.memory == "local":
            continue  # each thread has local memory of its own
        offset = offsets.get(position)
        if offset is None:
            offset = address_polynomial(code.program, code.evaluation, position)
        answer = is_uniform(offset, view.launch.block)
        uniform[access.address] = None if answer is _contradicted(access) else answer
    return uniform


def _contradicted(access: MemoryAccess) -> bool | None:
    """What can't be true of an access by its counters: that one address needs several passes or
    sectors, or that the words of a whole warp share a sector."""
    if access.memory == "shared":
        many = access.shared_wavefronts or 0.0
        return True if many > (1 + _ROUNDING_ERROR) * access.wavefronts_of_data else None
    if access.sectors is None:
        return None
    if access.sectors > (1 + _ROUNDING_ERROR) * access.executed:
        return True
    is_whole = access.threads is not None and access.threads >= _WHOLE_WARP * access.executed
    return False if is_whole and (access.width or 1) > 1 else None


@cached_per_view
def line_accesses(view: LaunchView) -> tuple[LineAccessDocument, ...]:
    """Those that take at least a hundredth of the passes through L1, by line and kind. Most passes
    first."""
    accesses = memory_accesses(view)
    total = sum(access.cost for access in accesses)
    if not total:
        return ()
    located = view.launch.locate([access.address for access in accesses])
    groups: dict[object, list[MemoryAccess]] = defaultdict(list)
    for access in accesses:
        groups[_kind(access, located)].append(access)
    least = NEGLIGIBLE * total
    large = [group for group in groups.values() if sum([access.cost for access in group]) >= least]
    uniform = uniform_accesses(view, chain.from_iterable(large))
    rows: list[tuple[float, list[MemoryAccess]]] = []
    for group in large:
        by_answer: dict[bool | None, list[MemoryAccess]] = defaultdict(list)
        for access in group:
            by_answer[uniform.get(access.address)].append(access)
        rows += [(sum([access.cost for access in same]), same) for same in by_answer.values()]
    rows.sort(key=lambda row: (-row[0], row[1][0].address))
    start = min(view.table.executed or (), default=0)
    return tuple(_row(view, group, located, uniform, start) for _, group in rows[:MOST_ROWS])


def _kind(access: MemoryAccess, located: Mapping[int, Location]) -> object:
    """What a row has in common, about as many sectors or wavefronts included; an instruction
    without a line is a row of its own."""
    place = located.get(access.address, access.address)
    moved = (access.sectors or access.shared_wavefronts or 0.0) / access.executed
    about = round(_ROWS_PER_DOUBLING * math.log2(moved)) if moved else 0
    return place, access.memory, access.operation, access.width, about


def _row(
    view: LaunchView,
    members: Sequence[MemoryAccess],
    located: Mapping[int, Location],
    uniform: Mapping[int, bool | None],
    start: int,
) -> LineAccessDocument:
    first, runs = members[0], sum(access.executed for access in members)
    place, is_uniform = located.get(first.address), uniform.get(first.address)
    line = line_text(place) if place else None
    enter = view.ledger.numbers(f"access.{first.address - start:x}.", line=line)
    executed = enter("executed", runs, "executed by warps")
    columns = {
        "sectors": [access.sectors for access in members],
        "sectors_needed": [access.sectors_needed for access in members],
        "wavefronts": [access.wavefronts(view.capability) for access in members],
        "wavefronts_needed": [access.shared_wavefronts_needed for access in members],
    }
    amounts = {
        name: None if None in column else sum(filter(None, column)) / runs
        for name, column in columns.items()
    }
    numbers = {
        name: enter(name, amount, f"{name.replace('_', ' ')} per warp instruction")
        for name, amount in amounts.items()
        if amount is not None
    }
    kind = f"{first.memory} {plural_of(first.operation)}"
    text = Sentence("{executed:count} warp-wide {kind}", executed=executed, kind=kind)
    if first.width is not None:
        width = enter("width", first.width, "bytes per thread", "byte")
        text = Sentence("{text} of {width} per thread", text=text, width=width)
    if is_uniform:
        text = Sentence("{text}, the same address in all threads of a warp", text=text)
    costs = [
        _cost(noun, numbers[f"{noun}s"], numbers.get(f"{noun}s_needed"))
        for noun in ("sector", "wavefront")
        if f"{noun}s" in numbers
    ]
    if costs:
        text = Sentence("{text}: {costs} each", text=text, costs=Sentence(", ").join(costs))
    return LineAccessDocument(
        text=text,
        evidence=tuple(text.evidence.values()),
        file=place.file if place else None,
        line=place.line if place else None,
        offset=first.address - function_start(view.launch.function_starts, first.address),
        instructions=len(members),
        memory=first.memory,
        operation=first.operation,
        width=first.width,
        is_uniform=is_uniform,
        executed=runs,
        **amounts,
    )


def place_of(row: LineAccessDocument) -> str:
    """`slow.cu:7`; `+0x150` without a source line."""
    return f"{file_name(row.file)}:{row.line}" if row.file else f"+{row.offset:#x}"


def _cost(noun: str, number: Evidence, needed: Evidence | None) -> Sentence:
    """`4.3 sectors (4.0 needed)`."""
    plural = noun_for(number.value, noun)
    if needed is None or number.value <= (1 + _ROUNDING_ERROR) * needed.value:
        return Sentence("{number:.1f} {noun}", number=number, noun=plural)
    text = "{number:.1f} {noun} ({needed:.1f} needed)"
    return Sentence(text, number=number, noun=plural, needed=needed)


@cached_per_view
def serial_loads(view: LaunchView) -> SerialLoadsDocument | None:
    """Of the loop, or of the code outside of loops, whose avoidable round trips take most samples;
    None where they do not matter."""
    region = _most_avoidable(view)
    if region is None or view.code is None:
        return None
    from keet.analysis.machine_code.launch_code import loop_line

    code, every = view.code, sum(wait.samples for wait in view.code.waits)
    samples = sum(trip.samples for trip in region.trips)
    enter = view.ledger.numbers("serial_")
    share = view.ledger.numbers("serial_", *filter(None, (view.get("samples_total"),)))
    waiting, avoided = (100 * part / every for part in (samples, region.avoidable_samples))
    cited = [
        enter("round_trips", len(region.trips), "round trips to memory, one after the other"),
        enter("trips_needed", region.needed, _NEEDED_TRIPS),
        share("waits", waiting, "of the samples wait for loads of these round trips", "%"),
        share("avoidable", avoided, _AVOIDABLE_WAITS, "%"),
    ]
    trips, needed, waits, avoidable = cited
    where, loop = Sentence("per thread, one after the other"), None
    if region.loop is not None:
        loop = loop_line(code, code.program.flow.loops[region.loop])
        label = "trips of the loop that has the round trips"
        cited.append(enter("iterations", region.passes, label))
        words = "one after the other in each of the {n:.0f} trips of the loop{at}"
        if region.passes < _HARDLY_REPEATED:
            words = "one after the other in a trip of the loop{at}"
        where = Sentence(words, n=cited[-1], at=f" at {line_text(loop)}" if loop else "")
    remedy = _remedy(code, region, language_of(view.launch))
    summary = Sentence(
        "{trips} round trips to memory {where}, of which {needed} would remain: {why}; {waits:.0f} "
        "of the samples wait for these loads",
        trips=trips,
        where=where,
        needed=needed,
        why=_why(code, region),
        waits=waits,
    )
    text = Sentence("{summary}; {remedy}", summary=summary, remedy=remedy)
    if (busy := _busy(view)) is not None:
        cited.append(busy.reached)
        text = Sentence(
            "{text}; {unit} is busy for {part:.0f} of the time, and what that leaves is the most "
            "that can be gained",
            text=text,
            unit=busy.spoken,
            part=busy.reached,
        )
    return SerialLoadsDocument(
        text=text,
        summary=summary,
        evidence=tuple(cited),
        round_trips=float(trips.value),
        needed=float(needed.value),
        loads=float(sum(len(trip.loads) for trip in region.trips)),
        loop=loop,
        iterations=None if region.loop is None else region.passes,
        waits_pct=float(waits.value),
        avoidable_pct=float(avoidable.value),
        pointers=_pointers(code, region),
        trips=tuple(_trip(view, code, trip, every) for trip in region.trips),
        remedy=remedy,
    )


_NEEDED_TRIPS = "of these that would remain if loads were issued together"
_AVOIDABLE_WAITS = "of the samples wait for round trips that could be avoided"


def avoidable_loads(view: LaunchView) -> SerialLoads | None:
    """The round trips that `serial_loads` is about, if no unit is so busy that it is the limit."""
    return None if _busy(view) is not None else _most_avoidable(view)


def _busy(view: LaunchView) -> Ceiling | None:
    top = next(iter(view.ceilings.ranked), None)
    return top if top is not None and top.share >= LEADS else None


@cached_per_view
def _most_avoidable(view: LaunchView) -> SerialLoads | None:
    if view.code is None:
        return None
    regions = [region for region in view.code.serial_loads if region.avoidable]
    every = sum(wait.samples for wait in view.code.waits)
    region = max(regions, key=lambda region: region.avoidable_samples, default=None)
    if region is None or every < LEAST_SAMPLES:
        return None
    return region if region.avoidable_samples >= NOTABLE_PART * every else None


# --- documents


def _trip(view: LaunchView, code: MachineCode, trip: RoundTrip, every: int) -> RoundTripDocument:
    line = _line(code, trip.loads[0])
    after = None if trip.after is None else _line(code, trip.after)
    reason = trip.reason
    if reason == "unknown" and after is None:
        used = view.value("registers_per_thread")
        reason = "registers" if used is not None and used >= MOST_REGISTERS_PER_THREAD else reason
    return RoundTripDocument(
        file=line.file if line else None,
        line=line.line if line else None,
        loads=len(trip.loads),
        after_file=after.file if after else None,
        after_line=after.line if after else None,
        reason=reason,
        is_avoidable=trip.is_avoidable,
        samples_pct=100 * trip.samples / every,
    )


def _line(code: MachineCode, position: int) -> Location | None:
    from keet.analysis.machine_code.launch_code import calling_line

    return calling_line(code, position)


# --- words

_MOST_NAMED_LINES = 6
_HARDLY_REPEATED = 1.5
"""Iterations up to which a loop hardly repeats anything."""


def first_avoidable(region: SerialLoads) -> RoundTrip:
    """The avoidable round trip with most samples by the first reason of `_REASON_TEXTS`."""
    order = [*_REASON_TEXTS]
    trips = [trip for trip in region.trips if trip.is_avoidable and trip.reason in order]
    return min(trips, key=lambda trip: (order.index(str(trip.reason)), -trip.samples))


_REASON_TEXTS = {
    "store": "the load{at} is issued after the store{there}, which may write what it reads",
    "atomic": "the load{at} is issued after the atomic{there}, which may change what it reads",
    "volatile": "the load{at} stays in its order because of volatile or atomic loads",
    "branch": "the load{at} is issued after the branch{there}, although it needs no result of the "
    "loads before",
}
"""By the reason; those that can be told most about first."""


def _why(code: MachineCode, region: SerialLoads) -> Sentence:
    trip = first_avoidable(region)
    load, after = _line(code, trip.loads[0]), None
    if trip.after is not None and trip.reason != "volatile":
        after = _line(code, trip.after)
    at = f" at {line_text(load)}" if load else ""
    there = f" at {line_text(after)}" if after else ""
    return Sentence(_REASON_TEXTS[str(trip.reason)], at=at, there=there)


def _remedy(code: MachineCode, region: SerialLoads, language: Language) -> str:
    """What to change, with the lines."""
    reason = first_avoidable(region).reason
    moved = [trip for trip in region.trips if trip.is_avoidable and trip.reason == reason]
    lines = _lines(code, (load for trip in moved for load in trip.loads))
    earlier = _lines(code, (load for trip in region.trips for load in trip.loads))
    loads = f"the loads at {enumerated(lines)}" if lines else "these loads"
    if region.loop is not None and set(lines) >= set(earlier):
        loads = f"{loads} for all iterations that are unrolled"
    if reason == "volatile":
        return f"issue {loads} before the first result is used, or load without volatile"
    # Where the first thing stands that one of these round trips comes after.
    first = next((trip.after for trip in moved if trip.after is not None), None)
    line = None if first is None else _line(code, first)
    at = f" at {line_text(line)}" if line else ""
    if reason == "branch":
        return f"issue {loads} before the branch{at}"
    advice = f"issue {loads} before the first {reason}{at}"
    if language != "CUDA C++":
        return advice
    declared = enumerated(_pointers(code, region) or ("the pointers",))
    return f"{advice}, or declare {declared} __restrict__"


def _lines(code: MachineCode, positions: Iterable[int]) -> list[str]:
    """Each line once, in the order of the file; of the first file alone."""
    lines = [line for position in positions if (line := _line(code, position)) is not None]
    numbers = sorted({line.line for line in lines if line.file == lines[0].file})
    named = numbers[:_MOST_NAMED_LINES]
    return [f"{file_name(lines[0].file)}:{line}" for line in named]


def _pointers(code: MachineCode, region: SerialLoads) -> tuple[str, ...]:
    """Names of the pointers of avoidable loads and of the stores before them, as far as the source
    has them."""
    pointer_of = {access.position: access.pointer for access in code.accesses}
    reasons = ("store", "atomic")
    trips = [trip for trip in region.trips if trip.is_avoidable and trip.reason in reasons]
    ends = [trip.after for trip in trips if trip.after is not None]
    loads = [load for trip in trips for load in trip.loads]
    pointers = dict.fromkeys(pointer_of[at] for at in (*loads, *ends) if at in pointer_of)
    return tuple(code.names[pointer] for pointer in pointers if pointer in code.names)
