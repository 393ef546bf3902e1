"""`MachineCode`: all analyses of the machine code of one launch, computed on first use.

Also the kernel's parameters by offset, with types from the demangled name and names from the
source (members of structs that are passed by value are found there, see `keet.source_code`), and
instructions by source line. Of accesses that were inlined from a header of the CUDA toolkit, the
line table has the header's line, which the user can't change. The address that is passed to such a
function is computed at the line of the call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from typing import NamedTuple, TypeVar
from weakref import WeakValueDictionary

from keet.analysis.library import is_of_toolkit
from keet.analysis.machine_code.analyses.address_patterns import atomics, merges
from keet.analysis.machine_code.analyses.blame import Wait, waits
from keet.analysis.machine_code.analyses.conditions import limits
from keet.analysis.machine_code.analyses.expansions import (
    Expansion,
    expansions,
    integer_divisions,
)
from keet.analysis.machine_code.analyses.footprints import Footprints
from keet.analysis.machine_code.analyses.integer_arithmetic import (
    packed_bytes,
    wide_integers,
)
from keet.analysis.machine_code.analyses.lane_groups import (
    exchange_steps,
    lane_groups,
    outer_products,
    same_in_warp,
)
from keet.analysis.machine_code.analyses.loop_chains import loop_chains
from keet.analysis.machine_code.analyses.loop_loads import (
    RepeatedArray,
    RepeatedLoad,
    RepeatedStore,
    never_written,
    repeated_arrays,
    repeated_loads,
    repeated_stores,
)
from keet.analysis.machine_code.analyses.purpose import (
    Purpose,
    address_registers,
    decided_by_data,
    mix,
    purposes,
)
from keet.analysis.machine_code.analyses.repeated_work import (
    Multiples,
    fast_powers,
    invariants,
    multiples,
    quotients,
)
from keet.analysis.machine_code.analyses.reuse import (
    READS,
    SECTOR,
    Access,
    PointerReuse,
    accesses,
    compared_parameters,
    reuse_by_pointer,
    with_passes,
    with_traffic,
)
from keet.analysis.machine_code.analyses.serial_loads import SerialLoads, serial_loads
from keet.analysis.machine_code.analyses.source_loops import (
    retry_loops,
    search_loops,
)
from keet.analysis.machine_code.flow.control_flow import Loop
from keet.analysis.machine_code.flow.program import MOST_INSTRUCTIONS, SassProgram
from keet.analysis.machine_code.instructions.instruction import span
from keet.analysis.machine_code.instructions.opcodes import WARP, Role
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.polynomial import LaunchShape, launch_shape
from keet.analysis.parameters import INTEGER_DIVISIONS, POWER
from keet.evidence import Sentence, constant
from keet.profile import Absent, Launch, Location
from keet.source_code.scanner import blanked
from keet.source_code.syntax import closing_bracket, split_commas
from keet.source_code.type_layouts import TYPE_WORDS, Layout, SourceTypes, builtin, pointer


class KernelParameter(NamedTuple):
    """A parameter, or a member of one that is a struct."""

    offset: int
    is_pointer: bool
    element: int
    """Bytes of an element behind a pointer; 0 if its type does not show them."""
    argument: int
    """The number of the parameter."""
    path: str
    """`.x` of a member, else empty."""


class Signature(NamedTuple):
    """The parameters of a kernel."""

    parameters: tuple[KernelParameter, ...]
    """Up to the first whose size is not known: after it, offsets are unknown."""
    is_whole: bool
    """Whether these are all."""

    @property
    def pointers(self) -> frozenset[str]:
        """Pointers, by `param+0x10`. Empty unless all parameters are known."""
        pointers = (each for each in self.parameters if self.is_whole and each.is_pointer)
        return frozenset(f"param+{pointer.offset:#x}" for pointer in pointers)

    @property
    def element_sizes(self) -> Mapping[str, int]:
        """Bytes of an element behind each pointer, by `param+0x10`, where its type shows them."""
        typed = (parameter for parameter in self.parameters if parameter.element)
        return {f"param+{parameter.offset:#x}": parameter.element for parameter in typed}

    def names(self, function: str, sources: Iterable[str | None]) -> Mapping[str, str]:
        """The name of each parameter in the source, by `param+0x10`: `in`, `nodes.x`. Empty if
        names are missing."""
        argument_names = names(function, sources) if self.parameters else []
        if not argument_names or len(argument_names) <= self.parameters[-1].argument:
            return {}
        return {
            f"param+{parameter.offset:#x}": f"{argument_names[parameter.argument]}{parameter.path}"
            for parameter in self.parameters
            if argument_names[parameter.argument]
        }


def signature(demangled: str, sources: Iterable[str | None] = ()) -> Signature:
    """`sources`: texts that may define structs. They are only read if some are passed by value."""
    parameters: list[KernelParameter] = []
    offset = 0
    types = cache(lambda: SourceTypes(sources))
    for argument, text in enumerate(_arguments(demangled)):
        layout = _layout(text) or types().layout(text)
        if layout is None:
            return Signature(tuple(parameters), is_whole=False)
        offset = -(-offset // layout.alignment) * layout.alignment
        parameters += (
            KernelParameter(offset + at, is_pointer, element, argument, path)
            for at, path, is_pointer, element in layout.members
        )
        if not layout.is_whole:
            return Signature(tuple(parameters), is_whole=False)
        offset += layout.size
    return Signature(tuple(parameters), is_whole=True)


def _arguments(demangled: str) -> list[str]:
    """The outermost parameter list, split at its commas. `T2` of a template is its argument."""
    before, inside = _last(demangled, "()")
    types = _split(_last(before, "<>")[1]) if before.endswith(">") else []

    def argument(match: re.Match[str]) -> str:
        number = int(match[1])
        return types[number - 1] if 0 < number <= len(types) else match[0]

    return [
        part if "..." in part else re.sub(r"(?<![\w:])T(\d{1,3})\b", argument, part)
        for part in _split(inside)
    ]


def _last(text: str, brackets: str) -> tuple[str, str]:
    """What is before the last pair of brackets, and what is in it."""
    end, depth = text.rfind(brackets[1]), 0
    for start in range(end, -1, -1):
        depth += (text[start] == brackets[1]) - (text[start] == brackets[0])
        if depth == 0:
            return text[:start], text[start + 1 : end]
    return "", ""


def _split(text: str) -> list[str]:
    return [part for part in split_commas(text, angles=True) if part != "void"]


def _layout(text: str) -> Layout | None:
    """None for a type that the compiler does not know by itself."""
    outside, depth = "", 0  # of template arguments: `std::array<char *, 2>` is no pointer
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        outside += letter if depth == 0 else ""
    if "*" in outside or "&" in outside:
        to, _, more = text.partition("*")
        is_one = "*" not in more and "(" not in text and "&" not in text
        return pointer(builtin(re.findall(r"\w+", to)) if is_one else None)
    return builtin(re.findall(r"\w+|::", text))


def names(function: str, sources: Iterable[str | None]) -> list[str]:
    """Parameter names of a function's definition in the source; empty if it is not found."""
    if not function:
        return []
    for text in sources:
        if function not in (text or ""):
            continue
        code = blanked("", text or "")
        calls = re.finditer(rf"\b{re.escape(function)}\s*(?=\()", code)
        for call in islice(calls, _MOST_CALLS):
            rest = code[call.end() : call.end() + _LONGEST_PARAMETERS]
            end = closing_bracket(rest, 0)
            if rest[end + 1 :].lstrip()[:1] == "{":
                return [_name_of(part) for part in _split(rest[1:end])]
    return []


_MOST_CALLS = 500
_LONGEST_PARAMETERS = 4000
"""Characters of a definition's parameters."""


def _name_of(declaration: str) -> str:
    """Empty for a parameter without a name."""
    text = declaration.partition("=")[0]
    inner = re.search(r"\(\s*[*&]\s*(\w+)", text)  # void (*f)(int), float (&tile)[4]
    if inner:
        return inner[1]
    words = re.findall(r"[A-Za-z_]\w*", text.partition("[")[0])
    return words[-1] if words and words[-1] not in TYPE_WORDS else ""


Result = TypeVar("Result")


def _once(analysis: Callable[[CountedCode], Result]) -> cached_property[Result]:
    """A result that is computed on first use and kept."""
    return cached_property(analysis)


@dataclass(frozen=True)
class CountedCode:
    """What follows from the code and from how often each instruction ran. Launches of the same
    code with the same counts share it. A position is the index of an instruction by address."""

    program: SassProgram
    shape: LaunchShape
    threads: Mapping[int, int] | None
    """Threads that executed each address with its predicate on; `None` without the counter."""
    pointers: frozenset[str] = field(default=frozenset(), kw_only=True)
    """Parameters that are pointers; empty if the signature does not show them."""

    purposes = _once(lambda code: purposes(code.program))

    @cached_property
    def mix(self) -> list[tuple[Purpose, float]]:
        """Share of executed warp instructions by purpose, largest first."""
        executed = mix(self.program, self.purposes)
        return [(purpose, count / self.program.executions) for purpose, count in executed]

    integer_divisions = _once(lambda code: integer_divisions(code.program))
    """Positions of instructions that run once per integer division or remainder."""

    fast_powers = _once(lambda code: fast_powers(code.program))
    """Positions of the instructions of `__powf`."""

    quotients = _once(lambda code: quotients(code.program))
    """Exact divisions that a product with a reciprocal would replace."""

    wide_integers = _once(lambda code: wide_integers(code.program, code.purposes))
    """Positions of instructions that 64-bit integers need and 32-bit integers would not."""

    packed_bytes = _once(lambda code: packed_bytes(code.program, code.purposes))
    """Positions of integer arithmetic on bytes that are taken out of words one by one."""

    decided_by_data = _once(lambda code: decided_by_data(code.program))
    """Positions of the instructions that depend on values that were loaded."""

    lane_groups = _once(lambda code: lane_groups(code.program, code.shape, code.purposes))
    """Positions of integer arithmetic that several neighbouring threads do equally, and the
    share of it that goes if one does it."""

    exchange_steps = _once(lambda code: exchange_steps(code.program))
    """Steps on groups of values in shared memory; None if there are none."""

    outer_products = _once(lambda code: outer_products(code.program))
    """Tiles of matrix products that the arithmetic pipes compute; None if there are none."""

    def share(self, positions: Iterable[int]) -> float:
        """Share of the executed warp instructions, 0 to 1."""
        return self.program.share(positions)

    chains = _once(lambda code: loop_chains(code.program))

    evaluation = _once(lambda code: Evaluation(code.program, code.shape))

    @cached_property
    def accesses(self) -> list[Access]:
        return accesses(self.program, self.evaluation, self.threads, self.pointers)

    merges = _once(lambda code: merges(code.program, code.accesses))

    atomics = _once(lambda code: atomics(code.program, code.evaluation))

    retry_loops = _once(lambda code: retry_loops(code.program))

    search_loops = _once(lambda code: search_loops(code.program))
    """Loops in which nearly all iterations find nothing to do."""

    @cached_property
    def _rewritten(self) -> set[int]:
        """Positions of the loads from arrays that the launch writes."""
        kept = {access.position for access in never_written(self.program, self.accesses)}
        return {access.position for access in self.accesses if access.kind in READS} - kept

    invariants = _once(lambda code: invariants(code.program, code._rewritten))

    @cached_property
    def repeated_loads(self) -> list[RepeatedLoad]:
        return repeated_loads(self.program, self.accesses, self.evaluation)

    @cached_property
    def repeated_stores(self) -> list[RepeatedStore]:
        return repeated_stores(self.program, self.accesses, self.evaluation)

    @cached_property
    def unknown_share(self) -> float:
        """Share of executed warp instructions whose effect keet does not know."""
        code = self.program.code
        return self.share(at for at in self.program.ran if code[at].role is Role.UNKNOWN)


@dataclass(frozen=True)
class MachineCode(CountedCode):
    """The analyses of one launch's code."""

    stalls: Mapping[str, Mapping[int, int]]
    sectors: Mapping[int, int] | None
    """Sectors of 32 bytes that the global accesses at each address requested from L1."""
    local_sectors: Mapping[int, int] | None
    """The same for accesses to local memory."""
    l2_read_bytes: int | None
    """Bytes that L1 read from L2 in the whole launch."""
    locations: Mapping[int, Location]
    names: Mapping[str, str] = field(default_factory=dict)
    """The name of each pointer argument in the source, by `param+0x10`."""
    element_sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of an element behind a pointer, where its type is known."""

    @cached_property
    def expansions(self) -> list[Expansion]:
        """Functions that the compiler expanded, by executed instructions, the most first."""
        return expansions(self.program, self.location)

    def expanded(self, *names: str) -> list[int]:
        """Positions of the instructions of these expanded functions, in order."""
        return sorted(
            position
            for expansion in self.expansions
            if expansion.name in names
            for position in expansion.positions
        )

    @cached_property
    def shared_functions(self) -> dict[int, float]:
        """Positions of special functions, with all of their instructions, that every thread of a
        warp computes equally, and the share that goes if one thread computes them for all. Where
        one thread does already, that is nothing."""
        code = self.program.code
        of_floats = (each.positions for each in self.expansions if each.is_of_floats)
        positions = {*self.with_opcodes(("MUFU",))}.union(*of_floats)
        positions -= {*self.expanded(*INTEGER_DIVISIONS)}
        shares: dict[int, float] = {}
        for position in same_in_warp(self.program, self.shape, positions):
            runs, lanes = self.program.counts[position], float(WARP)
            if self.threads is not None and runs:
                lanes = self.threads.get(code[position].address, 0) / runs
            if lanes > 1:
                shares[position] = 1 - 1 / lanes
        return shares

    @cached_property
    def multiples(self) -> Multiples:
        """Special functions that follow from another call by products."""
        names = {expansion.name for expansion in self.expansions}
        other, powers = set(self.expanded(*names)), self.expanded(POWER)
        return multiples(self.program, other, powers, self._rewritten)

    @cached_property
    def waits(self) -> list[Wait]:
        return waits(self.program, self.stalls)

    @cached_property
    def serial_loads(self) -> list[SerialLoads]:
        """Round trips to memory, of the loops and the code outside of loops that wait for them."""
        return serial_loads(self.program, self.waits, lambda: self.accesses)

    @cached_property
    def reuse(self) -> list[PointerReuse]:
        rows = reuse_by_pointer(self.accesses, compared_parameters(self.evaluation))
        has_local = any((self.local_sectors or {}).values())
        l2_read_bytes = None if has_local else self.l2_read_bytes
        return with_traffic(rows, self.program, self.sectors, l2_read_bytes)

    @cached_property
    def reuse_by_passes(self) -> list[PointerReuse]:
        """The same, with what several loops load from the same addresses."""
        return with_passes(self.reuse, self.accesses, self.program)

    @cached_property
    def footprints(self) -> Footprints:
        """The bytes that the accesses of each array touch."""
        rows = limits(self.evaluation)
        return Footprints(self.accesses, self.evaluation, self.threads, rows, self.location)

    @cached_property
    def repeated_arrays(self) -> list[RepeatedArray]:
        """What loops load again in every iteration although it stays the same."""
        return repeated_arrays(self.program, self.repeated_loads, self.shape, self.sectors)

    def with_opcodes(self, opcodes: Collection[str]) -> list[int]:
        """Positions of the executed instructions with these opcodes."""
        code = self.program.code
        return [position for position in self.program.ran if code[position].opcode in opcodes]

    def for_purposes(self, *purposes: str) -> list[int]:
        """Positions of the executed instructions for these purposes."""
        purpose_of = self.purposes
        return [position for position in self.program.ran if purpose_of[position].value in purposes]

    def executions(self, positions: Iterable[int]) -> dict[int, int]:
        """By address, as `places_by` takes them."""
        code, counts = self.program.code, self.program.counts
        return {code[position].address: counts[position] for position in positions}

    def part_gone(self, positions: Sequence[int], gone: Mapping[int, float]) -> float:
        """Share of the executions of these instructions that goes, 0 to 1. `gone`: of each, by
        position."""
        counts = self.program.counts
        every = self.program.spent(positions)
        less = sum(counts[position] * gone.get(position, 0.0) for position in positions)
        return less / every if every else 0.0

    def addresses(self, positions: Iterable[int]) -> list[int]:
        return [self.program.code[position].address for position in positions]

    def location(self, position: int) -> Location | None:
        """The source line; in a routine that the compiler added, the line of its only caller."""
        line = self.locations.get(self.program.code[position].address)
        calls = self.program.call_sites.get(position, ())
        if len(calls) == 1 and self.program.flow.block_of[position] not in self._written:
            return self.locations.get(self.program.code[calls[0]].address, line)
        return line

    @cached_property
    def _written(self) -> frozenset[int]:
        """Blocks of called functions that are in the source: they have several lines.

        A routine that the compiler adds, such as a division, has one line at most.
        """
        flow, written = self.program.flow, set[int]()
        for blocks in {id(blocks): blocks for blocks in flow.routines.values()}.values():
            addresses = self.addresses(flow.positions(blocks))
            if len({self.locations.get(address) for address in addresses} - {None}) > 1:
                written.update(blocks)
        return frozenset(written)

    def pointer_name(self, pointer: str) -> str:
        return self.names.get(pointer, pointer)


def machine_code(launch: Launch) -> MachineCode | Absent:
    """The launch's code for analysis, or why there is none."""
    from keet.analysis.hotspots.source_lines import InstructionTable

    texts = launch.disassembly
    if isinstance(texts, Absent):
        return texts
    if len(texts) > MOST_INSTRUCTIONS:
        return Absent(
            Sentence(
                "the kernel has {count} instructions, and keet analyses up to {most}",
                count=constant(len(texts), "", "instructions of the kernel's code"),
                most=constant(MOST_INSTRUCTIONS, "", "instructions that keet analyses"),
            ),
            "look at single lines with: keet hotspots REPORT --by instruction",
        )
    table = InstructionTable(launch)
    sources = launch.source_files.values()
    parameters = signature(launch.name.demangled or "", sources)
    shape = launch_shape(launch.grid, launch.block, launch.device.compute_capability)
    counts = table.executed or {}, table.threads or {}
    key = (
        *(tuple(by_address.items()) for by_address in (texts, *counts)),
        *(launch.grid, launch.block, launch.device.compute_capability),
        *(parameters.pointers, table.threads is None),
    )
    l2_sectors = launch.get("l2_l1_read_sectors")
    earlier = _known.get(key)
    code = MachineCode(
        earlier.program if earlier else SassProgram.of(texts, counts[0]),
        shape,
        table.threads,
        table.stall_samples,
        table.costs["sectors_global"],
        table.costs["sectors_local"],
        int(l2_sectors.value) * SECTOR if l2_sectors else None,
        launch.locations,
        parameters.names(launch.name.function or "", sources),
        parameters.element_sizes,
        pointers=parameters.pointers,
    )
    if earlier:
        shared = _SHARED_RESULTS & vars(earlier).keys()
        vars(code).update({name: vars(earlier)[name] for name in shared})
    else:
        _known[key] = code
    return code


_known: WeakValueDictionary[Hashable, MachineCode] = WeakValueDictionary()
"""By the code, its counts and the shape. Launches of a kernel mostly have the same counts, and most
of the analysis follows from them: a further launch takes a third of the time of the first. Nothing
is kept longer than the launch's explanation."""
_SHARED_RESULTS = frozenset(name for name in vars(CountedCode) if not name.startswith("_"))


def positions_of(code: MachineCode, line: Location) -> list[int]:
    """Positions of the instructions that ran for a line, in the order of the code."""
    return [position for position in code.program.ran if code.location(position) == line]


def loop_line(code: MachineCode, loop: Loop) -> Location | None:
    """The line of a loop's backward branch: its condition, in the head of a `for` or `while`."""
    blocks = code.program.flow.blocks
    branches = sorted((blocks[latch].end - 1 for latch in loop.latches), reverse=True)
    return _first_outside(code, branches)


def _first_outside(code: MachineCode, positions: Iterable[int]) -> Location | None:
    """The first of their lines that is not of the toolkit."""
    lines = map(code.location, positions)
    return next((line for line in lines if line and not is_of_toolkit(line.file)), None)


_ACCESSES = (Role.LOAD, Role.STORE, Role.ATOMIC, Role.COPY)
_MOST_INSTRUCTIONS = 64
"""Most instructions that are followed back from an address."""


def calling_line(code: MachineCode, position: int) -> Location | None:
    """The line of the instruction; for an access within the toolkit, the line of the call."""
    line = code.location(position)
    instruction = code.program.code[position]
    if line is None or not is_of_toolkit(line.file) or instruction.role not in _ACCESSES:
        return line
    # A memory descriptor is loaded at the kernel's start: it does not show the call.
    descriptors = {name for operand in instruction.operands for name in span(operand.descriptor, 2)}
    spent = set(address_registers(instruction)) - descriptors
    read = code.program.values.read[position]
    call = _outside(code, [value for name, value in read.items() if name in spent])
    if call is None and instruction.role is Role.ATOMIC:  # the address is an argument of the kernel
        # The compiler moves little across an atomic.
        before = range(position - 1, max(-1, position - 1 - _MOST_INSTRUCTIONS), -1)
        call = _first_outside(code, before)
    return call or line


def calls_of(code: MachineCode, line: Location) -> list[Location]:
    """The lines that call a line of the toolkit, by its accesses, the most executed first."""
    if not is_of_toolkit(line.file):
        return []
    calls: Counter[Location] = Counter()
    for position in positions_of(code, line):
        call = calling_line(code, position)
        if call is not None and call != line:
            calls[call] += code.program.counts[position]
    return [call for call, _ in calls.most_common()]


def _outside(code: MachineCode, values: Iterable[int]) -> Location | None:
    """The line of the nearest instructions outside of the toolkit that computed these values."""
    known = code.program.values
    seen: set[int] = set()
    level = list(values)
    while level and len(seen) < _MOST_INSTRUCTIONS:
        behind = {at for value in level for at in known.definitions(value)} - seen
        seen |= behind
        if line := _first_outside(code, sorted(behind, reverse=True)):
            return line
        level = [value for at in behind for value in known.read[at].values()]
    return None
