"""Loads from far memory that a thread waits for one after the other: round trips.

Loads that are issued before the first use of any of them are on their way together: one round trip.
The use makes the warp wait, and a load after it begins the next round trip. A round trip is needed
if one of its loads needs what the one before returned: as its address or guard (a gather), or for a
branch that decides whether the load runs. Else it could have been issued earlier, and what stands
between the wait and the load tells why the compiler did not: mostly a store through a pointer that
may lead to the same data.

A region is one iteration of a loop, or the code outside of loops. Inner loops are regions of their
own. Only what most passes of a region run is looked at. Round trips of different iterations are not
compared: a loop that loads anew in each iteration is not serial in this sense. Nor is code that
loads one step ahead: when it waits, the load of the next step is on its way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from keet.analysis.machine_code.analyses.blame import Wait
from keet.analysis.machine_code.analyses.loop_chains import FAR
from keet.analysis.machine_code.analyses.purpose import values_of_address
from keet.analysis.machine_code.analyses.reuse import LOADED, SEVERAL, Access
from keet.analysis.machine_code.flow.control_flow import Loop, reached
from keet.analysis.machine_code.flow.program import Kind, SassProgram, SsaValue
from keet.analysis.machine_code.instructions.opcodes import (
    GLOBAL_ATOMICS,
    GLOBAL_LOADS,
    GLOBAL_STORES,
    Role,
    words,
)
from keet.analysis.machine_code.polynomials.polynomial import add
from keet.analysis.parameters import MAJORITY, NOTABLE_PART

Reason = Literal[
    "store", "branch", "volatile", "atomic", "barrier", "registers", "address", "unknown"
]
"""Why a load is not issued in the round trip before. `registers` is not decided here."""


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Loads that are on their way together."""

    loads: tuple[int, ...]
    """Positions, in the order in which they run."""
    reason: Reason | None = None
    """Why the first of them is not issued in the round trip before; None for the first."""
    after: int | None = None
    """Position of what stands before it: the store, the branch, the load whose result it needs."""
    is_avoidable: bool = False
    samples: int = 0
    """That wait for one of the loads."""
    level: int = 0
    """Which round trip it would be if all that can be were issued together, from 1."""


@dataclass(frozen=True, slots=True)
class SerialLoads:
    """The round trips of one region."""

    loop: int | None
    """Index of the loop of which it is one iteration; None: code outside of loops."""
    passes: float
    """How often a warp that gets there runs the region."""
    trips: tuple[RoundTrip, ...]
    needed: int
    """Round trips if none is avoidable: the longest chain of loads that need each other, and those
    that are kept apart by a barrier or for a reason that is not known."""

    @property
    def avoidable(self) -> int:
        return len(self.trips) - self.needed if any(e.is_avoidable for e in self.trips) else 0

    @property
    def avoidable_samples(self) -> int:
        """Of round trips that are issued together, the longest wait remains."""
        longest = dict[int, int]()
        for trip in self.trips:
            longest[trip.level] = max(longest.get(trip.level, 0), trip.samples)
        return sum(trip.samples for trip in self.trips) - sum(longest.values())


def serial_loads(
    program: SassProgram, waits: Sequence[Wait], accesses: Callable[[], Sequence[Access]]
) -> list[SerialLoads]:
    """The regions in which warps wait for loads for a notable part of the samples, the largest part
    first."""
    flow = program.flow
    loads: dict[int | None, list[int]] = {}
    for position in program.ran:
        if program.code[position].opcode in GLOBAL_LOADS:
            loads.setdefault(flow.loop_of.get(flow.block_of[position]), []).append(position)
    samples = Counter[int]()
    for wait in waits:
        if wait.reason in _LONG_WAITS and wait.producers:
            samples[wait.producers[0]] += wait.samples
    least = NOTABLE_PART * sum(wait.samples for wait in waits)
    hot = [
        (index, positions)
        for index, positions in loads.items()
        if len(positions) > 1 and sum(samples[load] for load in positions) >= least > 0
    ]
    if not hot:
        return []
    called = {block for blocks in flow.routines.values() for block in blocks}
    code = _Code(program, {access.position: access for access in accesses()}, samples, called)
    loops = {index: None if index is None else flow.loops[index] for index, _ in hot}
    regions = [_Region(code, loops[index], positions).result() for index, positions in hot]
    return sorted(regions, key=lambda region: -sum(trip.samples for trip in region.trips))


_LONG_WAITS = ("long_scoreboard", "long_scoreboard_pipe_l1tex")
_FAR_OPCODES = FAR - words("LDL")
_ORDERING_OPCODES = words("BAR MEMBAR ERRBAR FENCE CCTL CCTLL SYNCS UCGABAR_WAIT DEPBAR ACQBULK")
"""What no load may be moved across: the threads may exchange data there."""
_CALL_OPCODES = words("CALL UCALL BRX BRXU JMX JMXU")
_MOST_VALUES = 3000
"""Most values that are followed back from an address."""
_MOST_LOADS = 2000
"""Most loads of a region: bounds the time for hostile code."""
_MOST_BRANCHES = 1000
"""The same for branches on loaded data. With more, nothing is said of a region."""


class _Code(NamedTuple):
    """What all regions ask."""

    program: SassProgram
    accesses: Mapping[int, Access]
    samples: Mapping[int, int]
    called: Collection[int]
    """Blocks of called routines."""


class _Region:
    def __init__(self, code: _Code, loop: Loop | None, loads: Sequence[int]) -> None:
        self.shared, self.program, self.loop = code, code.program, loop
        self.usual = max(self.program.counts[load] for load in loads)
        around = [] if loop is None else self.program.flow.loops_around(loop.header)
        self.heads = {outer.header for outer in around}
        """Values that join there come from another iteration."""
        self.path = list(self._path())
        self.place = {position: place for place, position in enumerate(self.path)}
        self.far: dict[int, tuple[list[int], bool]] = {}
        self.levels: dict[int, int] = {}
        """By load: which round trip it would be in if none were avoidable, from 1."""
        self.floor = 0
        """Level of what was loaded before the last barrier."""

    def _path(self) -> Iterator[int]:
        """Positions that most passes run, in order. An inner loop is there as a whole."""
        flow, counts = self.program.flow, self.program.counts
        least, rank = MAJORITY * self.usual, self.program.flow_rank.__getitem__
        for block in flow.order:
            if block in self.shared.called or (self.loop and block not in self.loop.blocks):
                continue
            loop = self._inner_loop(block)
            if loop is not None and loop.header == block and (loop.entries or 0) > least:
                yield from flow.positions(sorted(loop.blocks, key=rank))
            elif loop is None and counts[flow.blocks[block].start] > least:
                yield from flow.positions([block])

    def _inner_loop(self, block: int) -> Loop | None:
        """The loop of this region that a block is in, the outermost one; None: in the region."""
        depth = 0 if self.loop is None else self.loop.depth
        inside = [loop for loop in self.program.flow.loops_around(block) if loop.depth > depth]
        return inside[-1] if inside else None

    def is_own(self, position: int) -> bool:
        """Whether it is in the region itself, not in an inner loop."""
        flow = self.program.flow
        index = None if self.loop is None else self.loop.index
        return flow.loop_of.get(flow.block_of[position]) == index

    def result(self) -> SerialLoads:
        passes, index = 1.0, None
        if self.loop is not None:
            outermost = self.program.flow.loops_around(self.loop.header)[-1]
            passes, index = self.usual / (outermost.entries or 1), self.loop.index
        is_bounded = len(self._branches) <= _MOST_BRANCHES
        trips = tuple(self._trips()) if is_bounded else ()
        return SerialLoads(index, passes, trips, max(self.levels.values(), default=0))

    def _trips(self) -> Iterator[RoundTrip]:
        trip, waited, step = RoundTrip(()), -1, 0
        steps: dict[int, int] = {}
        """By load that is on its way: how often the code had used an earlier result."""
        for place, position in enumerate(self.path):
            is_far = self.program.code[position].opcode in _FAR_OPCODES
            used, is_step = self._used(position, steps)
            step += is_step
            if waited < 0 and (used or (is_far and trip.loads and not self.is_own(position))):
                waited, step = place, step + 1
            if not is_far or not self.is_own(position):
                continue
            if waited >= 0 and not self._is_ahead(position, waited, steps):
                yield trip
                trip, steps = self._next(position, trip, waited), {}
            else:
                trip = self._joined(position, trip)
            steps[position] = step
            waited = -1
            if len(self.levels) > _MOST_LOADS:
                break
        if trip.loads:
            yield trip

    def _with(self, trip: RoundTrip, load: int) -> RoundTrip:
        samples = trip.samples + self.shared.samples.get(load, 0)
        level = max(trip.level, self.levels[load])
        return replace(trip, loads=(*trip.loads, load), samples=samples, level=level)

    def _next(self, load: int, before: RoundTrip, waited: int) -> RoundTrip:
        """The round trip that a load begins after a wait."""
        highest = max(self.levels.values())
        needs, level = self._needs_and_level(load)
        if level > highest or any(needed in before.loads for needed in needs):
            self.levels[load] = level
            branch = next(iter(self._deciding(load)), None)
            if branch is not None and not self._behind(self._read(load)):
                return self._with(RoundTrip((), "branch", branch), load)
            after = max(needs, key=self.place.__getitem__, default=None)
            return self._with(RoundTrip((), "address", after), load)
        if not self._is_after(self.path[waited], load):  # the other side of a branch
            self.levels[load] = highest + 1
            return self._with(RoundTrip((), "branch", self._branch_before(load)), load)
        reason, after, is_avoidable = self._between(load, waited)
        if not is_avoidable:
            level = highest + 1
        if reason == "barrier":
            self.floor = highest
        self.levels[load] = level
        return self._with(RoundTrip((), reason, after, is_avoidable), load)

    def _joined(self, load: int, trip: RoundTrip) -> RoundTrip:
        """The round trip with one more load. It may be needed for that one."""
        loads = set(trip.loads)
        highest = max((self.levels[e] for e in self.levels if e not in loads), default=0)
        needs, level = self._needs_and_level(load)
        self.levels[load] = level
        if trip.is_avoidable and level > highest:
            after = max(needs, key=self.place.__getitem__, default=None)
            trip = replace(trip, reason="address", after=after, is_avoidable=False)
        return self._with(trip, load)

    # --- what waits for what

    def _used(self, position: int, loads: Collection[int]) -> tuple[bool, bool]:
        """Whether an instruction reads what one of these loads of this pass returns; and whether it
        reads what an earlier load returned, also one of the pass before."""
        is_used = is_earlier = False
        for value in self._read(position):
            sources, is_carried = self._sources(value)
            is_used |= any(source in loads for source in sources)
            is_earlier |= is_carried or any(source not in loads for source in sources)
        return is_used, is_earlier

    def _is_ahead(self, load: int, waited: int, steps: dict[int, int]) -> bool:
        """Whether the code loads one step ahead: what it waited for belongs to an earlier step than
        a load that is still on its way. Then what has arrived is taken out of `steps`."""
        used = {
            source
            for position in self.path[waited : self.place[load]]
            for value in self._read(position)
            for source in self._sources(value)[0]
        }
        pending = {loaded: step for loaded, step in steps.items() if loaded not in used}
        awaited = [step for loaded, step in steps.items() if loaded in used]
        if not pending or not awaited or max(pending.values()) <= max(awaited):
            return False
        if not self._needs(load).isdisjoint(steps):
            return False
        for source in used:
            steps.pop(source, None)
        return True

    def _read(self, position: int) -> list[int]:
        return list(self.program.values.read[position].values())

    def _sources(self, value: int) -> tuple[list[int], bool]:
        """Far loads that may have written a value in this pass, and whether one of the pass before
        may have."""
        if value not in self.far:
            self.far[value] = self._written(value)
        return self.far[value]

    def _written(self, value: int) -> tuple[list[int], bool]:
        values, code = self.program.values, self.program.code

        def following(index: int) -> Sequence[int]:
            return () if self._is_of_pass_before(values.all[index]) else values.all[index].inputs

        behind = [values.all[index] for index in reached([value], following, _MOST_VALUES)]
        positions = (made.position for made in behind if made.kind is Kind.DEFINITION)
        carried = (made.index for made in behind if self._is_of_pass_before(made))
        before = (position for index in carried for position in values.definitions(index))
        return (
            [position for position in positions if code[position].opcode in _FAR_OPCODES],
            any(code[position].opcode in _FAR_OPCODES for position in before),
        )

    def _is_of_pass_before(self, value: SsaValue) -> bool:
        return value.kind is Kind.JOIN and value.block in self.heads

    def _behind(self, values: Sequence[int]) -> frozenset[int]:
        """The nearest far loads of this pass that values depend on; all of them if there is too
        much to follow."""
        every, code = self.program.values.all, self.program.code

        def following(index: int) -> Collection[int]:
            value, writer = every[index], self.program.writer(index)
            is_end = self._is_of_pass_before(value)
            if writer is not None:
                is_end = value.position not in self.place or writer.opcode in _FAR_OPCODES
            return () if is_end else self.program.values.behind(value)

        behind = reached(values, following, _MOST_VALUES)
        made = (every[index] for index in behind if every[index].kind is Kind.DEFINITION)
        positions = {value.position for value in made} & self.place.keys()
        path = positions if len(behind) <= _MOST_VALUES else self.path
        return frozenset(position for position in path if code[position].opcode in _FAR_OPCODES)

    def _needs(self, load: int) -> frozenset[int]:
        """Earlier loads of the region whose results a load needs. For one of an inner loop: all
        before it."""
        needed = self._behind(self._read(load))
        for branch in self._deciding(load):
            needed |= self._behind(self._read(branch))
        in_region = needed & self.levels.keys()
        return frozenset(self.levels) if len(in_region) < len(needed) else in_region

    def _needs_and_level(self, load: int) -> tuple[frozenset[int], int]:
        needs = self._needs(load)
        return needs, max([self.floor, *(self.levels[needed] for needed in needs)]) + 1

    def _deciding(self, load: int) -> Iterator[int]:
        """Branches on loaded data that decide whether a load runs, the nearest first."""
        for branch in reversed(self._branches):
            if self.place[branch] < self.place[load] and self.program.decides(branch, load):
                yield branch

    @cached_property
    def _branches(self) -> list[int]:
        """Those on loaded data, in order."""
        code = self.program.code
        branches = (position for position in self.path if code[position].role is Role.BRANCH)
        return [position for position in branches if self._behind(self._read(position))]

    # --- what stands between

    def _between(self, load: int, waited: int) -> tuple[Reason, int | None, bool]:
        """Why a load that needs no earlier result is not issued before a wait: the kind and the
        position of what stands between, and whether the load could be moved across."""
        code, block_of = self.program.code, self.program.flow.block_of
        between = self.path[waited : self.place[load]][::-1]
        for position in between:
            if self._orders(position):
                return "barrier", position, False
        for position in (load, *between):
            if code[position].role is Role.LOAD and code[position].has("STRONG", "MMIO"):
                return "volatile", position, True
        if (store := self._clash(load, between)) is not None:
            return store
        calls = any(code[position].opcode in _CALL_OPCODES for position in between)
        if calls or any(self._continues(position, load) for position in between):
            return "unknown", None, False
        if any(block_of[position] != block_of[load] for position in between):
            return "branch", self._branch_before(load), True
        return "unknown", None, False

    def _clash(self, load: int, between: Sequence[int]) -> tuple[Reason, int, bool] | None:
        """The store or atomic that a load can't be moved across."""
        code = self.program.code
        if code[load].has("CONSTANT"):  # what it reads is not written in the kernel
            return None
        written = (at for at in between if code[at].opcode in GLOBAL_STORES | GLOBAL_ATOMICS)
        nearest = dict[str, int]()
        for store in written:
            nearest.setdefault(self._may_clash(load, store), store)
        if (store := nearest.get("unknown", -1)) >= 0:
            return "unknown", store, False
        if (store := nearest.get("aliased", -1)) >= 0:
            return "atomic" if code[store].opcode in GLOBAL_ATOMICS else "store", store, True
        return None

    def _branch_before(self, load: int) -> int:
        """The nearest branch before a load."""
        before = reversed(self.path[: self.place[load]])
        branches = (at for at in before if self.program.code[at].role is Role.BRANCH)
        return next(branches, self.path[0])

    def _continues(self, position: int, load: int) -> bool:
        """Whether a load goes on with what an inner loop before it loads: it handles the rest of
        the iterations."""
        if self.is_own(position) or self.program.code[position].opcode not in GLOBAL_LOADS:
            return False
        first, second = (self.shared.accesses.get(at) for at in (position, load))
        if first is None or second is None:
            return True
        return first.pointer == second.pointer or SEVERAL in (first.pointer, second.pointer)

    def _is_after(self, position: int, load: int) -> bool:
        """Whether a path of this pass leads from a position to a load."""
        flow, rank = self.program.flow, self.program.flow_rank
        first, last = flow.block_of[position], flow.block_of[load]

        def following(block: int) -> Iterator[int]:
            after = (other for other in flow.blocks[block].successors if other not in self.heads)
            return (other for other in after if rank[other] <= rank[last])

        return last in reached([first], following)

    def _orders(self, position: int) -> bool:
        """Whether no load may be moved across: a barrier, or an inner loop that waits for what
        other threads write."""
        instruction = self.program.code[position]
        if instruction.opcode in _ORDERING_OPCODES:
            return True
        is_exchange = instruction.opcode in GLOBAL_ATOMICS or instruction.has("STRONG")
        return is_exchange and not self.is_own(position)

    def _may_clash(self, load: int, store: int) -> Literal["aliased", "never", "unknown"]:
        """Whether a load may read what a store before it wrote. `aliased`: only if two pointers or
        two indices lead to the same data, which the compiler has to expect. `unknown`: it may be
        meant."""
        first, second = (self.shared.accesses.get(at) for at in (load, store))
        if first is None or second is None or SEVERAL in (first.pointer, second.pointer):
            return "unknown"
        if first.pointer != second.pointer:
            return "aliased"
        if first.pointer == LOADED:
            addresses = (values_of_address(self.program, at) for at in (load, store))
            bases = [self._behind(address) for address in addresses]
            return "unknown" if bases[0] == bases[1] else "aliased"
        apart = add(first.offset, second.offset, -1)
        if apart.value is not None:
            return "unknown" if -first.width < apart.value < second.width else "never"
        return "aliased" if all(symbol.is_uniform for symbol in apart.symbols) else "unknown"
