"""Loops as the source has them: where they stand, and how often they run if they were unrolled.

An unrolled loop runs several copies of its body per trip of the machine's loop, and what is left
over in a second loop or in code after it. If the source has the number of iterations, trips tell
how many copies there are. Else the step of the counter in the exit condition, over the step in the
source, does, if the counter is compared with a number that is not scaled: a counter of bytes has
large steps, too.

Loops that end by what they load: retries of compare-and-swap, searches, and loops that a load
ends.

Shared memory has no native addition of floats or 64-bit integers: the compiler writes a loop of
load, addition and compare-and-swap. A warp whose threads update different addresses runs it once
per update. Each further round serves threads whose swap failed, because another thread changed the
word first. Spin locks and hand-written loops such as a maximum of floats work the same way.

In a search, every iteration looks at one element, and nearly all of them find nothing. All threads
of a warp look at the same element, so that the same list is searched again by every warp. What
looks alike is left out: loops in which each thread has elements of its own (they may have to be
read once), that compute, store or exchange something in every iteration (rare paths and bounds
checks beside other work), whose condition changes with what was found (a running maximum), and
whose addresses are loaded (binary searches, lists).

Where a load ends the loop, no iteration can start before the load of the one before has returned. A
search for a marker at the end of a list is such a loop. Its loads could be issued several at a time
if the length were known, or if it read ahead. A loop that waits for another thread loads the same
address again: it is left out, as are loads whose address the load before returned.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from keet.analysis.machine_code.analyses.loop_chains import FAR
from keet.analysis.machine_code.analyses.purpose import values_of_address
from keet.analysis.machine_code.analyses.reuse import Access
from keet.analysis.machine_code.flow.control_flow import Loop, reached
from keet.analysis.machine_code.flow.program import Kind, Locate, SassProgram, SsaValue, trips_of
from keet.analysis.machine_code.instructions.instruction import Instruction, is_predicate
from keet.analysis.machine_code.instructions.opcodes import SHARED, Role
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.polynomial import add
from keet.analysis.parameters import MAJORITY, NEARLY_ALL, Parameter
from keet.profile import Location


class For(NamedTuple):
    """A `for` of the source, as far as its numbers are known."""

    step: int | None
    """What it adds to its counter, without the sign."""
    iterations: int | None
    """Unless something in it ends it."""


Headers = Callable[[Location], For | None]
"""The `for` at a line; `None` if there is none."""


class SourceLoop(NamedTuple):
    loops: tuple[Loop, ...]
    """The machine's loops: the main one, then those for what is left over."""
    place: Location | None
    copies: int | None
    """Iterations of the source per trip of the main loop; `None` if not known: then `iterations`
    are trips."""
    iterations: float
    """Per entry, as an average over warps."""
    entries: int
    is_even: bool
    """Whether all warps do as many in every entry."""
    runs: float
    """Iterations in `loops` alone, of all warps."""


def source_loops(
    program: SassProgram,
    evaluation: Evaluation,
    accesses: Sequence[Access],
    places: Locate,
    headers: Headers,
) -> list[SourceLoop]:
    """One entry per loop that ran, in the order of the code. Empty without execution counts."""
    unrolled = _Unrolled(program, evaluation, accesses, places, headers)
    alike: dict[object, list[Loop]] = {}
    for loop in sorted(program.flow.loops, key=lambda loop: program.flow.blocks[loop.header].start):
        if loop.trips is not None:
            place = unrolled.place(loop)
            alike.setdefault((place, loop.parent) if place else loop.index, []).append(loop)
    entries = [entry for loops in alike.values() for entry in unrolled.joined(loops)]
    return sorted(entries, key=lambda entry: program.flow.blocks[entry.loops[0].header].start)


def iterations_of(program: SassProgram, loop: Loop) -> float | None:
    """Trips per entry. A loop that tests its condition at the top runs its head once more."""
    if loop.trips is None or not _is_tested_first(program, loop):
        return loop.trips
    return loop.trips - 1


def _is_tested_first(program: SassProgram, loop: Loop) -> bool:
    """Whether the head only decides if there is another iteration."""
    head = program.flow.blocks[loop.header]
    is_work = any(
        program.code[position].role in _WORK_ROLES for position in range(head.start, head.end)
    )
    leaves = any(successor not in loop.blocks for successor in head.successors)
    return leaves and not is_work and loop.header not in loop.latches


_WORK_ROLES = (
    Role.FLOAT,
    Role.TENSOR,
    Role.LOAD,
    Role.STORE,
    Role.ATOMIC,
    Role.SHUFFLE,
    Role.CONVERSION,
)
"""Instructions that loops exist for; each copy of the body has its own."""
_SAME_COUNT_ERROR = 0.005
"""Counts that differ by no more are the same."""
_MOST_STEPS = 4
"""From a branch to the comparison: through copies of the predicate."""


def _is_effect(instruction: Instruction) -> bool:
    return instruction.role in (Role.STORE, Role.ATOMIC, Role.COPY) or instruction.opcode == "BAR"


_Group = tuple[Location | None, str]
"""Instructions with one opcode at one line."""


class _Unrolled:
    def __init__(
        self,
        program: SassProgram,
        evaluation: Evaluation,
        accesses: Sequence[Access],
        places: Locate,
        headers: Headers,
    ) -> None:
        self.program, self.evaluation = program, evaluation
        self.accesses, self.places, self.headers = accesses, places, headers
        self._places: dict[int, Location | None] = {}

    def place(self, loop: Loop) -> Location | None:
        """The line of the branch to the loop's head, where people write its condition. If that
        branch has none: of the branch that leaves the loop."""
        if loop.index not in self._places:
            self._places[loop.index] = self._place(loop)
        return self._places[loop.index]

    def _place(self, loop: Loop) -> Location | None:
        flow = self.program.flow
        latches = [flow.blocks[latch] for latch in sorted(loop.latches)]
        branches = [latch.end - 1 for latch in latches if len(latch.successors) > 1]
        ends = [*branches[-1:], *flow.leaving(loop)[:1], latches[-1].end - 1]
        places = [place for end in ends if (place := self.places(end))]
        written = (location for location in places if self.headers(location) is not None)
        return next(written, next(iter(places), None))

    def joined(self, loops: Sequence[Loop]) -> list[SourceLoop]:
        """Loops of one line: each alone, or an unrolled one and the loops for what it leaves, which
        may run before it."""
        pairs = [(loop, self.copies(loop)) for loop in loops]
        most = max(copies or 0 for _, copies in pairs)
        groups: list[list[tuple[Loop, int | None]]] = []
        if any(copies is None for _, copies in pairs):
            # What is left over by a loop that is not understood is not, either.
            groups = [[(loop, None)] for loop in loops]
        elif sum(copies == most for _, copies in pairs) == 1:
            groups = [sorted(pairs, key=lambda pair: -(pair[1] or 0))]
        else:
            for loop, copies in pairs:
                if copies == most or not groups:
                    groups.append([])
                groups[-1].append((loop, copies))
        is_alone = len(groups) == 1
        return [whole for group in groups for whole in self._whole(group, is_alone=is_alone)]

    def _whole(
        self, group: Sequence[tuple[Loop, int | None]], *, is_alone: bool
    ) -> list[SourceLoop]:
        main, copies = group[0]
        entries = main.entries or 1
        plain = [self._of_trips(loop) for loop, _ in group]
        if copies is None:
            return plain
        is_even = all(part.is_even for part in plain)
        runs = sum(part.runs * (count or 1) for part, (_, count) in zip(plain, group, strict=True))
        loops = tuple(loop for loop, _ in group)
        left = self._left_over(main, copies, loops)
        is_one = len(group) == 1 and left == 0
        # Threads of a warp that leave the main loop at different trips do the rest one after the
        # other: the parts do not add up to the iterations of one thread.
        if left is None or (left and not is_alone) or not (is_even or is_one):
            return plain
        place, is_even = self.place(main), is_even and left % entries == 0
        return [SourceLoop(loops, place, copies, (runs + left) / entries, entries, is_even, runs)]

    def _of_trips(self, loop: Loop) -> SourceLoop:
        """A loop whose iterations in the source are not known."""
        trips, entries = iterations_of(self.program, loop) or 1.0, loop.entries or 1
        is_even = trips_of(self.program, loop)[1]
        return SourceLoop((loop,), self.place(loop), None, trips, entries, is_even, trips * entries)

    # --- copies of the body

    def copies(self, loop: Loop) -> int | None:
        """Copies of the body in the loop; `None` if not known."""
        place = self.place(loop)
        header = self.headers(place) if place else None
        trips, is_even = trips_of(self.program, loop)
        if header and header.iterations and trips and is_even:
            copies, left = divmod(header.iterations, trips)
            if not left and self._effects(loop) % copies == 0:
                return copies
        groups = self._groups(loop)
        single = sum(count == 1 for count in groups.values())
        if single > MAJORITY * len(groups) or self._effects(loop) == 1:
            return 1
        step, is_sure = self._step(loop) if header else (None, False)
        if not header or not step or not header.step or step % header.step:
            return None
        copies = step // header.step
        if header.iterations and trips and copies * trips > header.iterations:
            return None
        fitting = sum(count % copies == 0 for count in groups.values())
        return copies if is_sure or fitting > NEARLY_ALL * len(groups) else None

    def _effects(self, loop: Loop) -> int:
        """A number that the copies of the body divide: how many barriers, stores, inner loops and
        loads from moving addresses it has. Those of two iterations can't be merged. Arrivals at a
        barrier (BAR.ARV) count, too. 0: none."""
        code, counter = self.program.code, self.evaluation.counter(loop)
        trips = self.program.counts[self.program.flow.blocks[loop.header].start]
        moving = {access.position for access in self.accesses if (counter,) in access.offset.terms}
        effects = Counter(
            code[position].opcode
            for position in self._own(loop)
            if self.program.counts[position] == trips
            and (position in moving or _is_effect(code[position]))
        )
        inner = [nested for nested in self.program.flow.loops if nested.parent == loop.index]
        places = Counter(self.place(nested) for nested in inner)
        return math.gcd(*effects.values(), *places.values())

    def _own(self, loop: Loop | None) -> list[int]:
        """Positions that ran in a loop, or outside all loops, without inner loops."""
        flow = self.program.flow
        index = loop.index if loop else None
        blocks = loop.blocks if loop else range(len(flow.blocks))
        return self.program.ran_in(block for block in blocks if flow.loop_of.get(block) == index)

    def _group(self, position: int) -> _Group:
        return self.places(position), self.program.code[position].opcode

    def _groups(self, loop: Loop) -> Counter[_Group]:
        code = self.program.code
        own = (position for position in self._own(loop) if code[position].role in _WORK_ROLES)
        return Counter(map(self._group, own))

    def _step(self, loop: Loop) -> tuple[int | None, bool]:
        """What a trip adds to the counter that the exit condition compares, and whether the counter
        certainly counts as the source does: it is compared with a number that nothing scales."""
        position = self._comparison(loop)
        if position is None:
            return None, False
        sources = self.program.code[position].sources[:2]
        numbers = [self.evaluation.operand(operand, position) for operand in sources]
        if len(numbers) < 2 or numbers[0] is None or numbers[1] is None:
            return None, False
        block = self.program.flow.block_of[position]
        apart = self.evaluation.resolved(add(numbers[0], numbers[1], -1), block)
        name, counter = f"loop{loop.index}", self.evaluation.counter(loop)
        changing = [
            product for product in apart.terms if any(name in symbol.depends for symbol in product)
        ]
        limits = [product for product in apart.terms if product not in changing and product]
        is_plain = any(len(product) == 1 and abs(apart.terms[product]) == 1 for product in limits)
        pointers = {access.pointer for access in self.accesses}
        is_address = any(symbol.name in pointers for symbol in apart.symbols)
        if changing != [(counter,)]:
            return None, False
        step = abs(apart.terms[counter,])
        return step, step == 1 or (is_plain and not is_address)

    def _comparison(self, loop: Loop) -> int | None:
        """Position of the integer comparison that decides about the next trip."""
        program, blocks = self.program, self.program.flow.blocks
        exits = program.flow.leaving(loop)
        latches = {blocks[latch].end - 1 for latch in loop.latches}
        ends = [branch for branch in exits if branch in latches] or exits
        if len(ends) != 1:
            return None
        position = ends[0]
        for _ in range(_MOST_STEPS):
            tested = [
                source
                for value in program.values.read[position].values()
                if is_predicate(program.values.all[value].register)
                for source in program.values.definitions(value, 4)
            ]
            if len(tested) != 1:
                return None
            position = tested[0]
            instruction = program.code[position]
            # Of a 64-bit comparison, the first is that of the low words.
            if instruction.base == "ISETP" and not instruction.has("EX"):
                return position
            if instruction.base not in ("ISETP", "PLOP3"):
                return None
        return None

    def _left_over(self, main: Loop, copies: int, loops: Sequence[Loop]) -> float | None:
        """Iterations, of all warps, that run outside the loops; `None` if not known, or if warps
        may come to them that do not enter the main loop."""
        program, flow = self.program, self.program.flow
        parent = flow.loops[main.parent] if main.parent is not None else None
        groups = self._groups(main)
        outside, blocks = Counter[_Group](), {loop.header for loop in loops}
        for position in self._own(parent):
            if (group := self._group(position)) in groups:
                outside[group] += program.counts[position]
                blocks.add(flow.block_of[position])
        is_hoisted = copies == 1 and len(outside) <= NEARLY_ALL * len(groups)
        if len(blocks) == 1 or (is_hoisted and len(loops) == 1):
            return 0.0
        above = self._common_dominator(blocks)
        if above < 0 or program.counts[flow.blocks[above].start] > (main.entries or 1):
            return None
        left_over = [
            outside[group] * copies / count
            for group, count in groups.most_common()
            if count % copies == 0
        ]
        # Values that the loop starts with are computed at the same lines, too.
        least = min(left_over, default=None)
        if least is None or max(left_over) - least > _SAME_COUNT_ERROR * max(1.0, least):
            return None
        return least

    def _common_dominator(self, blocks: Collection[int]) -> int:
        """-1 if there is none."""
        first, *others = ([*self.program.flow.above(block)] for block in blocks)
        return next((at for at in first if all(at in other for other in others)), -1)


_MOST_VALUES = 256
"""Most values that are followed back from a loop's exit, an address or a condition."""


class RetryLoop(NamedTuple):
    swap: int
    """Position of the compare-and-swap."""
    memory: Literal["global", "shared"]
    entries: int
    """How often warps entered the loop: their updates."""
    executions: int
    """Executions of the compare-and-swap, in warps."""
    repeated: Mapping[int, int]
    """Executions beyond one per update, by position: in the loop, and where its threads meet."""


def retry_loops(program: SassProgram) -> list[RetryLoop]:
    """The loops that ran, in the order of the code. Empty without execution counts."""
    loops = []
    for position in program.where(_is_swap) if program.executed else ():
        around = program.loops_at(position)
        if around and (entries := around[0].entries) and _retries(program, around[0], position):
            memory = memory_of(program.code[position])
            repeated = _repeated(program, around[0], entries)
            loops.append(RetryLoop(position, memory, entries, program.counts[position], repeated))
    return loops


def memory_of(atomic: Instruction) -> Literal["global", "shared"]:
    return "shared" if atomic.opcode in SHARED else "global"


def _is_swap(instruction: Instruction) -> bool:
    """Whether it is a compare-and-swap. If the new value is the expected one, it only waits for
    another thread's value."""
    if instruction.role is not Role.ATOMIC or not instruction.has("CAS", "CAST"):
        return False
    expected_and_new = instruction.text.rstrip(" ;").split(",")[-2:]
    return len({operand.strip() for operand in expected_and_new}) == 2


def _retries(program: SassProgram, loop: Loop, swap: int) -> bool:
    """Whether the loop repeats the swap of one word until it succeeds.

    The address stays (probes of a hash table go to another one), and a branch out of the loop
    depends on the result.
    """
    exits = program.flow.leaving(loop)
    is_one = _has_one_address(program, loop, swap)
    return is_one and any(_depends(program, loop, exit_, swap) for exit_ in exits)


def stays(program: SassProgram, loop: Loop, value: int, depth: int = 8) -> bool:
    """Whether a value is the same in all rounds."""
    made = program.values.all[value]
    if made.block not in loop.blocks:
        return True
    if made.kind is not Kind.DEFINITION or not depth:
        return False
    if program.code[made.position].role in (Role.LOAD, Role.ATOMIC, Role.UNKNOWN):
        return False
    return all(stays(program, loop, source, depth - 1) for source in program.values.behind(made))


def _depends(program: SassProgram, loop: Loop, branch: int, swap: int) -> bool:
    """Whether a branch depends on the swap's result of the same round, by value or by path."""
    values, flow = program.values, program.flow

    def following(index: int) -> list[int]:
        value = values.all[index]
        is_earlier = value.kind is Kind.JOIN and value.block == loop.header
        if value.block not in loop.blocks or is_earlier:
            return []  # of an earlier round
        above = flow.dominators.get(value.block, -1)
        is_chosen = value.kind is Kind.JOIN and above in loop.blocks
        chosen = values.read[flow.blocks[above].end - 1].values() if is_chosen else ()
        return [*values.behind(value, with_guard=True), *chosen]

    behind = reached(values.read[branch].values(), following, _MOST_VALUES)
    return not behind.keys().isdisjoint(values.written[swap].values())


def _repeated(program: SassProgram, loop: Loop, entries: int) -> dict[int, int]:
    flow = program.flow
    meeting = {
        after
        for block in loop.blocks
        for after in flow.blocks[block].successors
        if after not in loop.blocks and loop.blocks.issuperset(flow.blocks[after].predecessors)
    }
    repeated: dict[int, int] = {}
    for block in sorted(loop.blocks | meeting):
        # A loop within it runs as often as it is entered.
        inner = [nested for nested in flow.loops_around(block) if nested.depth > loop.depth]
        often = inner[-1].entries if inner and block in loop.blocks else None
        share = max(0.0, 1 - entries / often) if often else None
        for position in flow.positions([block]):
            count = program.counts[position]
            more = count - entries if share is None else int(count * share)
            if more > 0:
                repeated[position] = more
    return repeated


SELDOM = Parameter(0.05, "share of the iterations in which a search finds something", "judgement")
LEAST_SEARCHED = Parameter(32, "iterations of a search: one per lane of a warp", "judgement")
_LOOKING_ROLES = (
    *(Role.INTEGER, Role.PREDICATE, Role.CONVERSION, Role.MOVE, Role.SPECIAL, Role.CONSTANT),
    *(Role.LOAD, Role.BRANCH, Role.CONVERGENCE, Role.NOTHING),
)
"""What an iteration that finds nothing does."""


class SearchLoop(NamedTuple):
    positions: tuple[int, ...]
    """Instructions of every iteration."""
    iterations: int
    """Executed by all warps together."""
    finds: int
    """Iterations with something to do."""


def search_loops(program: SassProgram) -> list[SearchLoop]:
    """By executed instructions, the most first. Empty without execution counts."""
    made = (_search(program, loop) for loop in program.flow.loops if program.executed)
    searches = [search for search in made if search is not None]
    return sorted(searches, key=lambda search: -search.iterations * len(search.positions))


def _search(program: SassProgram, loop: Loop) -> SearchLoop | None:
    flow, counts = program.flow, program.counts
    iterations = counts[flow.blocks[loop.header].start]
    if not iterations or (loop.trips or 0) < LEAST_SEARCHED:
        return None
    blocks = [block for block in sorted(loop.blocks) if flow.loop_of.get(block) == loop.index]
    times = {block: counts[flow.blocks[block].start] for block in blocks}
    usual = [block for block in blocks if times[block] > SELDOM * iterations]
    seldom = {block for block in loop.blocks if block not in usual}
    times_found = max((times[block] for block in blocks if block in seldom), default=0)
    # An inner loop belongs to what is done when something is found.
    inner = [nested for nested in flow.loops if nested.parent == loop.index]
    if not times_found or not all(_is_seldom_entered(program, nested, seldom) for nested in inner):
        return None
    positions = flow.positions(usual)
    if any(program.code[position].role not in _LOOKING_ROLES for position in positions):
        return None
    loads = [position for position in positions if program.code[position].role is Role.LOAD]
    is_same = loads and all(_is_same_in_warp(program, loop, load) for load in loads)
    if not is_same or not _is_unchanged(program, positions, seldom):
        return None
    return SearchLoop(tuple(positions), iterations, times_found)


def _is_seldom_entered(program: SassProgram, inner: Loop, seldom: Collection[int]) -> bool:
    return {*program.flow.blocks[inner.header].predecessors} - inner.blocks <= {*seldom}


def _behind(program: SassProgram, values: Iterable[int]) -> list[SsaValue]:
    """All values that these depend on; more than `_MOST_VALUES` if these are not all."""
    every = program.values.all
    followed = reached(values, lambda index: program.values.behind(every[index]), _MOST_VALUES)
    return [every[index] for index in followed]


def _is_same_in_warp(program: SassProgram, loop: Loop, load: int) -> bool:
    """Whether the address is the same for all threads of a warp, and is not loaded in the loop."""
    behind = _behind(program, values_of_address(program, load))
    written = [value.position for value in behind if value.kind is Kind.DEFINITION]
    code, block_of = program.code, program.flow.block_of
    is_of_thread = any(
        code[at].role is Role.SPECIAL and "CTAID" not in code[at].text for at in written
    )
    is_loaded = any(code[at].role is Role.LOAD and block_of[at] in loop.blocks for at in written)
    is_known = len(behind) <= _MOST_VALUES and all(value.kind is not Kind.CALL for value in behind)
    return is_known and not is_of_thread and not is_loaded


def _is_unchanged(program: SassProgram, positions: list[int], seldom: Collection[int]) -> bool:
    """Whether iterations do not depend on what earlier ones found."""
    reads = [value for position in positions for value in program.values.read[position].values()]
    return not any(
        value.kind is Kind.DEFINITION and program.flow.block_of[value.position] in seldom
        for value in _behind(program, reads)
    )


def exit_loads(program: SassProgram, loop: Loop) -> list[int]:
    """Positions of loads of the loop that decide whether it goes on, in order; those at an address
    that stays the same are left out."""
    values = program.values

    def is_load(value: SsaValue) -> bool:
        is_written = value.kind is Kind.DEFINITION and value.block in loop.blocks
        return is_written and program.code[value.position].opcode in FAR

    def following(index: int) -> Collection[int]:
        value = values.all[index]
        is_earlier = value.kind is Kind.JOIN and value.block == loop.header
        is_end = is_earlier or value.block not in loop.blocks or is_load(value)
        return () if is_end else values.behind(value)

    exits = program.flow.leaving(loop)
    tested = (index for exit_ in exits for index in values.read[exit_].values())
    behind = (values.all[index] for index in reached(tested, following))
    loads = {value.position for value in behind if is_load(value)}
    return sorted(load for load in loads if not _has_one_address(program, loop, load))


def _has_one_address(program: SassProgram, loop: Loop, access: int) -> bool:
    """Whether the address of an access is the same in all rounds."""
    return all(stays(program, loop, value) for value in values_of_address(program, access))
