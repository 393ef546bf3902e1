"""Everything that the machine-code analysis knows about the instructions of one source line.

The rows of `keet hotspots`, one launch at a time: a large report has more than memory holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from keet.analysis.code_names import FormWords, line_text, offset_in_function, with_more
from keet.analysis.hotspots.examined import Examined, examined, shares
from keet.analysis.hotspots.source_lines import Grouping, Hotspots, find_hotspots, rows_at
from keet.analysis.machine_code.analyses.address_patterns import lane_stride
from keet.analysis.machine_code.analyses.blame import Wait
from keet.analysis.machine_code.analyses.loop_chains import LoopChains
from keet.analysis.machine_code.analyses.purpose import Purpose
from keet.analysis.machine_code.analyses.reuse import Access
from keet.analysis.machine_code.flow.control_flow import Loop
from keet.analysis.machine_code.launch_code import MachineCode
from keet.catalog import stalls
from keet.documents.document import live
from keet.documents.hotspots import (
    AccessDocument,
    AtomicDocument,
    AwaitedDocument,
    HotspotsLaunch,
    InstructionWait,
    InvariantDocument,
    LineDocument,
    LineInstruction,
    LoopDocument,
    MergeDocument,
    PurposeShare,
    RoutineDocument,
)
from keet.errors import UsageError, one_line
from keet.evidence import Sentence
from keet.profile import Absent, Launch, Location, Profile
from keet.profile.launch import file_name
from keet.profile.run_link import iterate_launches

_T = TypeVar("_T")


class LineWait(InstructionWait):
    producers: Sequence[int] = live()
    """Positions in the code."""


class InstructionFacts(LineInstruction):
    waits: Sequence[LineWait]
    """Most samples first. Samples of issuing warps are left out, but `samples` has them."""
    position: int = live()


class LineAccess(AccessDocument):
    access: Access = live()


class LineLoop(LoopDocument):
    """Around the instructions of the line, with the line of the loop's first instruction."""

    chains: LoopChains | None = live()
    """`None` for a loop that ran once per entry."""


class LineFacts(LineDocument):
    instructions: Sequence[InstructionFacts]
    accesses: Sequence[LineAccess]
    loops: Sequence[LineLoop]
    offset: Callable[[int], str] = live()
    """The offset of an address from the start of its function."""


def line_facts(launch: Launch, code: MachineCode, line: Location) -> LineFacts:
    return CodeByLine(launch, code).facts(line)


def with_line(hotspots: HotspotsLaunch, line: Location) -> HotspotsLaunch:
    if not isinstance(hotspots, Examined) or hotspots.code is None:
        return hotspots
    return replace(hotspots, line=line_facts(hotspots.launch, hotspots.code, line))


def samples_at(spots: Hotspots | Absent) -> int:
    """Of all rows: those of one line."""
    return 0 if isinstance(spots, Absent) else sum(spot.samples or 0 for spot in spots.rows)


class CodeByLine:
    """The code of one launch, indexed by source line: a listing asks for hundreds of lines."""

    def __init__(self, launch: Launch, code: MachineCode) -> None:
        self.code = code
        self.offset = offset_in_function(launch)
        self.positions: dict[Location | None, list[int]] = {}
        """By the line at which the report counts them, in the order of the code.

        Samples need no execution: a warp that has ended is sampled at the instruction behind EXIT.
        """
        for position, count in enumerate(code.program.counts):
            if count or position in self._waits:
                self.positions.setdefault(self._counted_at(position), []).append(position)

    def _counted_at(self, position: int) -> Location | None:
        return self.code.locations.get(self.code.program.code[position].address)

    def address(self, position: int) -> int:
        return self.code.program.code[position].address

    def facts(self, line: Location) -> LineFacts:
        positions = self.positions.get(line, [])
        calls, callers = self._routines.get(line, ([], []))
        words = FormWords(self.code, self.offset)
        counts = self.code.program.counts
        return LineFacts(
            offset=self.offset,
            file=line.file,
            line=line.line,
            executed=sum(counts[position] for position in positions),
            executed_share=self.code.share(positions),
            purposes=self._purposes(positions),
            instructions=[self.instruction(position) for position in positions],
            waited_for_by=self._awaited.get(line, []),
            accesses=[
                self._access(access, words)
                for access in _at(positions, self._accesses, self.code.accesses)
            ],
            merges=[
                MergeDocument(
                    addresses=[*map(self.address, merge.positions)],
                    width=merge.width,
                    merged_width=merge.merged_width,
                    is_aligned=merge.is_aligned,
                )
                for merge in _at(positions, self._merges, self.code.merges)
            ],
            atomics=[
                AtomicDocument(
                    address=self.address(atomic.position),
                    memory=atomic.memory,
                    spread=atomic.spread,
                    addresses_at_most=atomic.addresses_at_most,
                    has_result=atomic.has_result,
                )
                for atomic in _at(positions, self._atomics, self.code.atomics)
            ],
            loops=self._loops(positions),
            invariants=list(self._invariants(positions)),
            calls=calls,
            callers=callers,
        )

    def instruction(self, position: int) -> InstructionFacts:
        states, instruction = stalls(), self.code.program.code[position]
        waits = self._waits.get(position, [])
        return InstructionFacts(
            position=position,
            address=instruction.address,
            offset=self.offset(instruction.address),
            sass=instruction.text,
            purpose=self.code.purposes[position].value,
            executed=self.code.program.counts[position],
            samples=sum(wait.samples for wait in waits),
            waits=[
                self._wait(wait)
                for wait in waits
                if wait.reason in states and states[wait.reason].counts_as_stall
            ],
        )

    def _wait(self, wait: Wait) -> LineWait:
        producer = wait.producers[0] if wait.producers else None
        return LineWait(
            reason=wait.reason,
            samples=wait.samples,
            producer=None if producer is None else self.code.location(producer),
            link=wait.link,
            producer_address=None if producer is None else self.address(producer),
            producers=wait.producers,
        )

    def _access(self, access: Access, words: FormWords) -> LineAccess:
        distinct = access.distinct_bytes
        return LineAccess(
            access=access,
            address=self.address(access.position),
            kind=access.kind,
            pointer=self.code.pointer_name(access.pointer),
            form=words.text(access.offset),
            width=access.width,
            lane_stride=known_stride(access),
            requested_bytes=access.requested_bytes,
            distinct_bytes_at_most=distinct,
            basis=None if distinct is None else access.basis,
            depends_on_data=access.is_gather,
        )

    def _purposes(self, positions: Iterable[int]) -> list[PurposeShare]:
        counted: Counter[Purpose] = Counter()
        for position in positions:
            if count := self.code.program.counts[position]:
                counted[self.code.purposes[position]] += count
        return shares(counted)

    @cached_property
    def _waits(self) -> Mapping[int, list[Wait]]:
        by_position: dict[int, list[Wait]] = {}
        for wait in self.code.waits:
            by_position.setdefault(wait.position, []).append(wait)
        return by_position

    @cached_property
    def _accesses(self) -> Numbers:
        return _numbers([(access.position,) for access in self.code.accesses])

    @cached_property
    def _merges(self) -> Numbers:
        return _numbers([merge.positions for merge in self.code.merges])

    @cached_property
    def _atomics(self) -> Numbers:
        return _numbers([(atomic.position,) for atomic in self.code.atomics])

    @cached_property
    def _invariant_at(self) -> Numbers:
        return _numbers([invariant.positions for invariant in self.code.invariants])

    @cached_property
    def _chains(self) -> Mapping[int, LoopChains]:
        return {chains.loop: chains for chains in self.code.chains}

    @cached_property
    def _awaited(self) -> Mapping[Location | None, list[AwaitedDocument]]:
        states, code = stalls(), self.code
        sums: dict[Location | None, Counter[tuple[Location | None, str]]] = {}
        for wait in code.waits:
            if not wait.producers or not states[wait.reason].counts_as_stall:
                continue
            waiting, producer = self._counted_at(wait.position), code.location(wait.producers[0])
            if waiting != producer:
                sums.setdefault(producer, Counter())[waiting, wait.reason] += wait.samples
        return {
            line: [
                AwaitedDocument(**_placed(where), reason=reason, samples=count)
                for (where, reason), count in counts.most_common()
            ]
            for line, counts in sums.items()
        }

    @cached_property
    def _routines(self) -> Mapping[Location | None, _Routines]:
        """By line: the routines that it calls, and the lines that call its routines."""
        moved: dict[tuple[Location | None, Location | None], list[int]] = {}
        for line, positions in self.positions.items():
            for position in positions:
                caller = self.code.location(position)
                if caller != line:
                    moved.setdefault((line, caller), []).append(position)
        routines: dict[Location | None, _Routines] = {}
        for (line, caller), positions in moved.items():
            if not any(self.code.program.code[position].opcode == "RET" for position in positions):
                continue  # a call that never returns is a jump: compilers end kernels with it
            routines.setdefault(caller, ([], []))[0].append(self._routine(line, positions))
            routines.setdefault(line, ([], []))[1].append(self._routine(caller, positions))
        return routines

    def _routine(self, line: Location | None, positions: Sequence[int]) -> RoutineDocument:
        """`line`: the other one, where the instructions are counted, or which calls them."""
        waits = [wait for position in positions for wait in self._waits.get(position, ())]
        return RoutineDocument(
            **_placed(line),
            instructions=len(positions),
            executed=sum(self.code.program.counts[position] for position in positions),
            samples=sum(wait.samples for wait in waits),
        )

    def _loops(self, positions: Iterable[int]) -> list[LineLoop]:
        """Outermost first."""
        flow = self.code.program.flow
        blocks = {flow.block_of[position] for position in positions}
        around = {loop.index: loop for block in blocks for loop in flow.loops_around(block)}
        return [self.loop(x) for x in sorted(around.values(), key=lambda x: (x.depth, x.index))]

    def loop(self, loop: Loop) -> LineLoop:
        start = self.code.program.flow.blocks[loop.header].start
        chains = self._chains.get(loop.index)
        recurrence = chains.recurrence if chains else None
        return LineLoop(
            chains=chains,
            name=f"loop{loop.index}",
            address=self.address(start),
            **_placed(self._counted_at(start)),
            trips=loop.trips,
            depth=loop.depth,
            instructions=chains.instructions if chains else None,
            share=chains.share if chains else None,
            loads=chains.loads if chains else None,
            load_depth=chains.load_depth if chains else None,
            independent_loads=chains.independent_loads if chains else None,
            recurrence=[*map(self.address, recurrence.positions)] if recurrence else None,
            recurrence_loads=recurrence.loads if recurrence else None,
        )

    def _invariants(self, positions: Sequence[int]) -> Iterator[InvariantDocument]:
        """Restricted to the instructions of the line; so are the shares."""
        inside = set(positions)
        for invariant in _at(positions, self._invariant_at, self.code.invariants):
            part = [position for position in invariant.positions if position in inside]
            trips = self.code.program.flow.loops[invariant.loop].trips
            if trips:
                yield InvariantDocument(
                    loop=f"loop{invariant.loop}",
                    addresses=[*map(self.address, part)],
                    share=self.code.share(part) * (1 - 1 / trips),
                    loads=sum(position in self._accesses for position in part),
                )


_Routines = tuple[list[RoutineDocument], list[RoutineDocument]]


def _placed(line: Location | None) -> dict[str, Any]:
    return {"file": line.file if line else None, "line": line.line if line else None}


Numbers = Mapping[int, list[int]]
"""Indices of the list items that concern an instruction, by the position of the instruction."""


def _numbers(positions: Iterable[Iterable[int]]) -> Numbers:
    """`positions`: for each list item, the instructions that it concerns."""
    by_position: dict[int, list[int]] = {}
    for number, item in enumerate(positions):
        for position in item:
            by_position.setdefault(position, []).append(number)
    return by_position


def _at(positions: Iterable[int], numbers: Numbers, items: Sequence[_T]) -> list[_T]:
    """The items that concern the given instructions, in the order of the list."""
    wanted = {number for position in positions for number in numbers.get(position, ())}
    return [items[number] for number in sorted(wanted)]


_LANE_DEPENDENT = frozenset(("data", "path", "unknown"))
"""Dependences that may differ between the lanes of a warp in a way that the form does not show."""


def known_stride(access: Access) -> int | None:
    """Bytes between the accesses of neighbouring threads; `None` if not known."""
    if access.shape is None or access.offset.depends & _LANE_DEPENDENT:
        return None
    return lane_stride(access.offset)


# --- which line is meant

_MOST_SUGGESTED = 4
"""Number of lines or files that an error message suggests."""


class NoSuchLine(UsageError):
    """`--line` matches no line, or several."""

    def __init__(self, wanted: tuple[str, int], problem: str, *, is_empty: bool) -> None:
        self.place = f"{one_line(wanted[0])}:{wanted[1]}"
        self.problem = problem
        self.is_empty = is_empty
        """The file has code, but not at this line."""
        super().__init__(f"--line {self.place}: {problem}")


def place_of(launches: Iterable[Launch], wanted: tuple[str, int]) -> tuple[Location, list[Launch]]:
    """Raises `NoSuchLine` if the line has no code in any of the launches, or is not one line."""
    name, number = wanted
    lines = {launch: set(launch.locations.values()) for launch in launches}
    every = set().union(*lines.values())
    in_file = {location for location in every if file_matches(location.file, name)}
    matching = {location for location in in_file if location.line == number}
    if len(matching) == 1:
        (place,) = matching
        return place, [launch for launch, locations in lines.items() if place in locations]
    problem = _problem(every, in_file, matching, number)
    raise NoSuchLine(wanted, problem, is_empty=bool(in_file) and not matching)


def file_matches(path: str, name: str) -> bool:
    plain, wanted = path.replace("\\", "/"), name.replace("\\", "/")
    return plain == wanted or plain.endswith(f"/{wanted.lstrip('/')}")


def _problem(
    every: set[Location], in_file: set[Location], matching: set[Location], number: int
) -> str:
    if not every:
        return "the code has no source lines; build with nvcc -lineinfo and profile again"
    if matching:
        paths = ", ".join(sorted(location.file for location in matching)[:_MOST_SUGGESTED])
        return f"several files have this name; give more of the path: {one_line(paths)}"
    if not in_file:
        names = sorted({file_name(location.file) for location in every})
        files = with_more(", ".join(names[:_MOST_SUGGESTED]), len(names) - _MOST_SUGGESTED)
        return Sentence("no code comes from this file; files with code: {files}", files=files)
    by_distance = sorted(in_file, key=lambda place: (abs(place.line - number), place.line))
    nearest = sorted(by_distance[:_MOST_SUGGESTED], key=lambda place: place.line)
    lines = ", ".join(map(line_text, nearest))
    return f"no instruction comes from this line; the nearest with code: {lines}"


FETCHED_AT_ONCE = 200
"""Launches whose machine code is fetched before the first is printed; the code of the others is
fetched when it is first needed."""


def ranked_launches(
    profile: Profile,
    launches: Sequence[Launch],
    by: Grouping | None,
    place: Location | None,
    *,
    has_sass: bool,
) -> Iterator[tuple[Launch, Hotspots | Absent]]:
    """`place`: only the rows of this line."""
    if has_sass:
        profile.prefetch_code(filter(_has_counts, launches[:FETCHED_AT_ONCE]))
    for launch in iterate_launches(launches, "looking for hotspots"):
        spots = find_hotspots(launch, by)
        yield launch, spots if place is None else rows_at(spots, place)


def examined_launches(
    ranked: Iterable[tuple[Launch, Hotspots | Absent]],
    top: int | None,
    place: Location | None,
    *,
    has_sass: bool,
) -> Iterator[HotspotsLaunch]:
    """With source text and machine code for the first `top` rows, and with all about the line
    `place`. The analysis of a launch is dropped after it is used."""
    for launch, spots in ranked:
        rows = examined(launch, spots, has_sass=has_sass, which=slice(top))
        if place is not None:
            rows = with_line(rows, place)
        yield rows


def _has_counts(launch: Launch) -> bool:
    """Whether there may be values per instruction; without them no SASS text is needed."""
    return any(launch.find(metric) is not None for metric in ("inst_executed", "samples_total"))
