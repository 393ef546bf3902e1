"""`MachineCode`: all analyses of the machine code of one launch, computed on first use."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakValueDictionary

from keet.analysis.limits import INTEGER_DIVISIONS, POWER
from keet.analysis.machine_code.analyses.address_patterns import Atomic, Merge, atomics, merges
from keet.analysis.machine_code.analyses.blame import Wait, waits
from keet.analysis.machine_code.analyses.conditions import limits
from keet.analysis.machine_code.analyses.data_dependent_loops import (
    RetryLoop,
    SearchLoop,
    retry_loops,
    search_loops,
)
from keet.analysis.machine_code.analyses.distinct_bytes import SECTOR
from keet.analysis.machine_code.analyses.exchange_steps import ExchangeSteps, exchange_steps
from keet.analysis.machine_code.analyses.expansions import (
    Expansion,
    expansions,
    integer_divisions,
)
from keet.analysis.machine_code.analyses.footprints import Footprints
from keet.analysis.machine_code.analyses.lane_groups import lane_groups, same_in_warp
from keet.analysis.machine_code.analyses.loop_chains import LoopChains, loop_chains
from keet.analysis.machine_code.analyses.loop_loads import (
    RepeatedArray,
    RepeatedLoad,
    RepeatedStore,
    never_written,
    repeated_arrays,
    repeated_loads,
    repeated_stores,
)
from keet.analysis.machine_code.analyses.outer_products import OuterProducts, outer_products
from keet.analysis.machine_code.analyses.packed_bytes import PackedBytes, packed_bytes
from keet.analysis.machine_code.analyses.purpose import Purpose, decided_by_data, mix, purposes
from keet.analysis.machine_code.analyses.repeated_work import (
    Invariant,
    Multiples,
    Quotients,
    fast_powers,
    invariants,
    multiples,
    quotients,
)
from keet.analysis.machine_code.analyses.reuse import (
    READS,
    Access,
    PointerReuse,
    accesses,
    compared_parameters,
    reuse_by_pointer,
    with_passes,
    with_traffic,
)
from keet.analysis.machine_code.analyses.serial_loads import SerialLoads, serial_loads
from keet.analysis.machine_code.analyses.wide_integers import wide_integers
from keet.analysis.machine_code.flow.program import MOST_INSTRUCTIONS, SassProgram
from keet.analysis.machine_code.instructions.opcodes import WARP, Role
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.symbols import LaunchShape, launch_shape
from keet.analysis.machine_code.signature import signature
from keet.evidence import Sentence, constant
from keet.profile import Absent, Launch, Location


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

    @cached_property
    def purposes(self) -> list[Purpose]:
        return purposes(self.program)

    @cached_property
    def mix(self) -> list[tuple[Purpose, float]]:
        """Share of executed warp instructions by purpose, largest first."""
        total = sum(self.program.counts) or 1
        return [(purpose, count / total) for purpose, count in mix(self.program, self.purposes)]

    @cached_property
    def integer_divisions(self) -> list[int]:
        """Positions of instructions that run once per integer division or remainder."""
        return integer_divisions(self.program)

    @cached_property
    def fast_powers(self) -> frozenset[int]:
        """Positions of the instructions of `__powf`."""
        return fast_powers(self.program)

    @cached_property
    def quotients(self) -> Quotients:
        """Exact divisions that a product with a reciprocal would replace."""
        return quotients(self.program)

    @cached_property
    def wide_integers(self) -> frozenset[int]:
        """Positions of instructions that 64-bit integers need and 32-bit integers would not."""
        return wide_integers(self.program, self.purposes)

    @cached_property
    def packed_bytes(self) -> PackedBytes:
        """Positions of integer arithmetic on bytes that are taken out of words one by one."""
        return packed_bytes(self.program, self.purposes)

    @cached_property
    def decided_by_data(self) -> frozenset[int]:
        """Positions of the instructions that depend on values that were loaded."""
        return decided_by_data(self.program)

    @cached_property
    def lane_groups(self) -> dict[int, float]:
        """Positions of integer arithmetic that several neighbouring threads do equally, and the
        share of it that goes if one does it."""
        return lane_groups(self.program, self.shape, self.purposes)

    @cached_property
    def exchange_steps(self) -> ExchangeSteps | None:
        """Steps on groups of values in shared memory; None if there are none."""
        return exchange_steps(self.program)

    @cached_property
    def outer_products(self) -> OuterProducts | None:
        """Tiles of matrix products that the arithmetic pipes compute; None if there are none."""
        return outer_products(self.program)

    def share(self, positions: Iterable[int]) -> float:
        """Share of the executed warp instructions, 0 to 1."""
        total = sum(self.program.counts) or 1
        return sum(self.program.counts[position] for position in positions) / total

    @cached_property
    def chains(self) -> list[LoopChains]:
        return loop_chains(self.program)

    @cached_property
    def evaluation(self) -> Evaluation:
        return Evaluation(self.program, self.shape)

    @cached_property
    def accesses(self) -> list[Access]:
        return accesses(self.program, self.evaluation, self.threads, self.pointers)

    @cached_property
    def merges(self) -> list[Merge]:
        return merges(self.program, self.accesses)

    @cached_property
    def atomics(self) -> list[Atomic]:
        return atomics(self.program, self.evaluation)

    @cached_property
    def retry_loops(self) -> list[RetryLoop]:
        return retry_loops(self.program)

    @cached_property
    def search_loops(self) -> list[SearchLoop]:
        """Loops in which nearly all iterations find nothing to do."""
        return search_loops(self.program)

    @cached_property
    def invariants(self) -> list[Invariant]:
        kept = {access.position for access in never_written(self.program, self.accesses)}
        loads = {access.position for access in self.accesses if access.kind in READS}
        return invariants(self.program, loads - kept)

    @cached_property
    def repeated_loads(self) -> list[RepeatedLoad]:
        return repeated_loads(self.program, self.accesses, self.evaluation)

    @cached_property
    def repeated_stores(self) -> list[RepeatedStore]:
        return repeated_stores(self.program, self.accesses, self.evaluation)

    @cached_property
    def unknown_share(self) -> float:
        """Share of executed warp instructions whose effect keet does not know."""
        code = enumerate(self.program.code)
        return self.share(
            position for position, instruction in code if instruction.role is Role.UNKNOWN
        )


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
        positions = {
            position
            for expansion in self.expansions
            if expansion.is_of_floats
            for position in expansion.positions
        }
        positions |= {position for position in self.program.ran if code[position].opcode == "MUFU"}
        positions -= set(self.expanded(*INTEGER_DIVISIONS))
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
        return multiples(self.program, set(self.expanded(*names)), self.expanded(POWER))

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
        every = sum(counts[position] for position in positions)
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
            if (
                len({self.locations[address] for address in addresses if address in self.locations})
                > 1
            ):
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
        vars(code).update(
            {name: vars(earlier)[name] for name in _SHARED_RESULTS & vars(earlier).keys()}
        )
    else:
        _known[key] = code
    return code


_known: WeakValueDictionary[Hashable, MachineCode] = WeakValueDictionary()
"""By the code, its counts and the shape. Launches of a kernel mostly have the same counts, and most
of the analysis follows from them: a further launch takes a third of the time of the first. Nothing
is kept longer than the launch's explanation."""
_SHARED_RESULTS = frozenset(name for name in vars(CountedCode) if not name.startswith("_"))
