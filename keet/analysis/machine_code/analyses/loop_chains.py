"""Dependence chains of loops: instructions of an iteration that must run one after the other.

`recurrence` is the longest chain from one iteration to the next: unrolling does not shorten it, and
loads on it are pointer chasing. `load_depth` counts dependent loads within one iteration: a gather
`a[b[i]]` has 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from keet.analysis.machine_code.flow.control_flow import Loop
from keet.analysis.machine_code.flow.program import Kind, SassProgram
from keet.analysis.machine_code.instructions.instruction import Instruction
from keet.analysis.machine_code.instructions.opcodes import (
    BY_PIPE,
    COPIES,
    GLOBAL_LOADS,
    RETURNING_ATOMICS,
    SHARED,
    SHARED_LOADS,
    TEXTURES,
    Role,
    words,
)


@dataclass(frozen=True, slots=True)
class Chain:
    """Positions of the instructions of a chain, first to last, and its minimum latency."""

    positions: tuple[int, ...]
    cycles: int
    loads: int

    @property
    def length(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, slots=True)
class LoopChains:
    loop: int
    trips: float | None
    instructions: int
    """Instructions of one iteration, without inner loops."""
    loads: int
    """Global and local loads of one iteration."""
    share: float
    """Share of the kernel's executed warp instructions, 0 to 1, without inner loops."""
    recurrence: Chain | None
    """`None`: no iteration needs the one before, except for the loop counter."""
    load_depth: int
    """Loads of one iteration that must wait for each other."""
    load_chain: tuple[int, ...]
    """Positions of the loads of the deepest chain within one iteration."""
    is_through_shared: bool = False
    """Whether the loop stores to shared memory and loads from it: an iteration may need what was
    stored in the one before, which `recurrence` does not follow."""
    is_serial: bool = False
    """Whether its iterations can't be given to other threads: each computes with what the one
    before returned, and not only adds to it or compares with it, or threads pass on what they
    computed in shared memory. A loop that loads new data may be split in spite of that, unless what
    it loads from depends on the load before."""
    is_exchange: bool = False
    """Whether threads pass on what they computed: the loop can't be given to other blocks, either.
    """

    @property
    def independent_loads(self) -> float:
        """Loads per iteration that can be in flight at the same time."""
        return self.loads / self.load_depth if self.load_depth else 0.0


CYCLES = {
    Role.FLOAT: 4,
    Role.TENSOR: 33,
    Role.INTEGER: 5,
    Role.PREDICATE: 5,
    Role.CONVERSION: 14,
    Role.MOVE: 4,
    Role.SHUFFLE: 23,
    Role.SPECIAL: 20,
    Role.CONSTANT: 8,
    Role.ATOMIC: 300,
    Role.LOAD: 30,
}
"""Minimum latencies in cycles: order of magnitude, from published microbenchmarks of Volta to
Hopper (arXiv 1804.06826 and 2402.13499). Used to rank chains, never printed as a measurement."""
_BY_OPCODE = {"MUFU": 18, "LDG": 200, "LD": 200, "LDL": 33, "LDS": 29, "ATOMS": 60}
FAR = GLOBAL_LOADS | RETURNING_ATOMICS | TEXTURES | {"LDL", "SULD"}
"""Loads from L1, L2 or DRAM, which `loads` and `load_depth` count."""


def latency(program: SassProgram, position: int) -> int:
    instruction = program.code[position]
    if instruction.opcode in BY_PIPE["FP64"]:
        return 8
    return _BY_OPCODE.get(instruction.opcode) or CYCLES.get(instruction.role, 4)


def loop_chains(program: SassProgram) -> list[LoopChains]:
    """One entry per loop with more than one iteration, by share of executed instructions."""
    heads: dict[int, list[int]] = {}
    for value in program.values.all:
        if value.kind is Kind.JOIN and value.inputs:
            heads.setdefault(value.block, []).append(len(program.code) + value.index)
    chains_of_loops = (
        _chains(program, loop, heads.get(loop.header, []))
        for loop in program.flow.loops
        if loop.trips is None or loop.trips > 1
    )
    return sorted(chains_of_loops, key=lambda chains: (-chains.share, chains.loop))


def _own_positions(program: SassProgram, loop: Loop) -> list[int]:
    loop_of = program.flow.loop_of
    return program.ran_in(e for e in sorted(loop.blocks) if loop_of.get(e) == loop.index)


def _chains(program: SassProgram, loop: Loop, heads: list[int]) -> LoopChains:
    positions = _own_positions(program, loop)
    depth, chain = _load_depth(program, loop)
    recurrence, exchanges = _recurrence(program, loop, heads), _exchanges(program, loop)
    return LoopChains(
        loop.index,
        loop.trips,
        len(positions),
        sum(program.code[position].opcode in FAR for position in positions),
        program.share(positions),
        recurrence,
        depth,
        chain,
        _is_through_shared(program, loop),
        exchanges or (recurrence is not None and _is_serial(program, loop, recurrence)),
        exchanges,
    )


def _ran(program: SassProgram, loop: Loop) -> list[Instruction]:
    """Inner loops included."""
    return [program.code[position] for position in program.ran_in(loop.blocks)]


def _is_through_shared(program: SassProgram, loop: Loop) -> bool:
    opcodes = {instruction.opcode for instruction in _ran(program, loop)}
    return bool(opcodes & SHARED_LOADS) and bool(opcodes & (SHARED - SHARED_LOADS))


_FROM_AFAR = FAR | COPIES


def _exchanges(program: SassProgram, loop: Loop) -> bool:
    """Whether the threads of a block pass on their results in shared memory from one iteration to
    the next, behind a barrier: the loop loads no new data."""
    ran = _ran(program, loop)
    is_new = any(instruction.opcode in _FROM_AFAR for instruction in ran)
    meets = any(instruction.is_barrier for instruction in ran)
    return _is_through_shared(program, loop) and meets and not is_new


_PRODUCTS, _SUMS_OF_PRODUCTS = words("FMUL DMUL HMUL2 MUFU"), words("FFMA DFMA HFMA2")


def _is_serial(program: SassProgram, loop: Loop, recurrence: Chain) -> bool:
    """A sum, a minimum or a search adds to the value before or compares with it, so that parts of
    it can be combined. A state that is multiplied by itself or by a result of it can't."""
    if recurrence.loads:
        return True
    if any(instruction.opcode in FAR for instruction in _ran(program, loop)):
        return False
    chain = [program.code[position] for position in recurrence.positions]
    return any(
        this.opcode in _PRODUCTS
        or (this.opcode in _SUMS_OF_PRODUCTS and _is_multiplied(before, this))
        for before, this in zip([chain[-1], *chain], chain)
    )


def _is_multiplied(before: Instruction, this: Instruction) -> bool:
    """Whether a fused multiply-add multiplies what the instruction before it returned."""
    factors = {operand.name for operand in this.sources[:2] if operand.is_register}
    return not factors.isdisjoint(before.writes)


class _Graph:
    """The dependences within one loop.

    A node is an instruction (its position) or a join or merge (`len(code)` plus the value's
    number). So an instruction that writes a hundred registers is one node.
    """

    def __init__(self, program: SassProgram, loop: Loop) -> None:
        self.program = program
        self.loop = loop
        self.base = len(program.code)
        self.known: dict[int, list[int]] = {}

    def node(self, value: int) -> int:
        definition = self.program.values.all[value]
        return definition.position if definition.kind is Kind.DEFINITION else self.base + value

    def is_inside(self, node: int) -> bool:
        if node < self.base:
            return self.program.flow.block_of[node] in self.loop.blocks
        return self.program.values.all[node - self.base].block in self.loop.blocks

    def is_head(self, node: int) -> bool:
        """Whether a node passes a value from one iteration to the next."""
        if node < self.base:
            return False
        value = self.program.values.all[node - self.base]
        return value.kind is Kind.JOIN and value.block == self.loop.header

    def inputs(self, node: int) -> list[int]:
        """Nodes inside the loop that a node needs."""
        if node not in self.known:
            values, is_value = self.program.values, node >= self.base
            read = values.all[node - self.base].inputs if is_value else values.read[node].values()
            nodes = dict.fromkeys(map(self.node, read))
            self.known[node] = [needed for needed in nodes if self.is_inside(needed)]
        return self.known[node]


Best = tuple[int, int, int]
"""Cycles, loads, and the previous node (-1: the start)."""


def _longest(
    graph: _Graph,
    ends: Iterable[int],
    starts: Collection[int] | None,
    within: Collection[int] | None = None,
) -> dict[int, Best | None]:
    """The longest path to each end within one iteration, from `starts` or from anywhere.

    `within`: the nodes that a path may visit.
    """
    best: dict[int, Best | None] = {}
    active: set[int] = set()
    stack = [(end, False) for end in ends]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            active.discard(node)
            best[node] = _extended(graph, node, best, starts)
        elif node in best or node in active:
            continue
        elif graph.is_head(node):
            best[node] = (0, 0, -1) if starts is None or node in starts else None
        else:
            active.add(node)
            stack.append((node, True))
            inputs = graph.inputs(node)
            stack += [(source, False) for source in inputs if within is None or source in within]
    return best


def _extended(
    graph: _Graph,
    node: int,
    best: Mapping[int, Best | None],
    starts: Collection[int] | None,
) -> Best | None:
    cycles = loads = 0
    if node < graph.base:
        cycles = latency(graph.program, node)
        loads = int(graph.program.code[node].opcode in FAR)
    longest: Best | None = (cycles, loads, -1) if starts is None else None
    for source in graph.inputs(node):
        before = best.get(source)
        if before is not None:
            candidate = (before[0] + cycles, before[1] + loads, source)
            if longest is None or candidate[:2] > longest[:2]:
                longest = candidate
    return longest


def _path(graph: _Graph, node: int, best: Mapping[int, Best | None]) -> list[int]:
    positions: list[int] = []
    current = node
    while current != -1 and (step := best.get(current)):
        if current < graph.base:
            positions.append(current)
        current = step[2]
    return positions[::-1]


def _recurrence(program: SassProgram, loop: Loop, joins: list[int]) -> Chain | None:
    """The slowest chain from the values at a loop's head to the same values one iteration later.
    `joins` are the nodes of these values.

    Short chains of integer additions are ignored: they are loop counters or running addresses.
    """
    graph = _Graph(program, loop)
    best: Chain | None = None
    for cycle in _cycles(graph, joins):
        heads = [node for node in cycle if graph.is_head(node)]
        ends = [end for head in heads for end in graph.inputs(head) if end in cycle]
        longest = _longest(graph, ends, set(heads), cycle)
        for end in ends:
            reached = longest.get(end)
            if reached is None or not reached[0]:
                continue
            chain = Chain(tuple(_path(graph, end, longest)), reached[0], reached[1])
            if _matters(program, chain) and (best is None or chain.cycles > best.cycles):
                best = chain
    return best


def _cycles(graph: _Graph, joins: list[int]) -> list[set[int]]:
    """Strongly connected components (Tarjan): each has a value that iterations pass on."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    components: list[set[int]] = []
    for root in joins:
        if root in number:
            continue
        work = [(root, iter(graph.inputs(root)))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, inputs = work[-1]
            following = next((source for source in inputs if source not in number), None)
            if following is not None:
                number[following] = low[following] = len(number)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(graph.inputs(following))))
                continue
            work.pop()
            reached = [number[source] for source in graph.inputs(node) if source in on_stack]
            below = [low[source] for source in graph.inputs(node) if source in on_stack]
            low[node] = min([low[node], *reached, *below])
            if low[node] == number[node]:
                part: set[int] = set()
                while not part or node not in part:
                    last = stack.pop()
                    on_stack.discard(last)
                    part.add(last)
                if len(part) > 1:
                    components.append(part)
    return components


_COUNTING_STEPS = 3


def _matters(program: SassProgram, chain: Chain) -> bool:
    roles = {program.code[position].role for position in chain.positions}
    may_count = roles <= {Role.INTEGER, Role.MOVE, Role.PREDICATE}
    return not may_count or chain.length > _COUNTING_STEPS


def _load_depth(program: SassProgram, loop: Loop) -> tuple[int, tuple[int, ...]]:
    graph, code = _Graph(program, loop), program.code
    loads = [at for at in _own_positions(program, loop) if code[at].opcode in FAR]
    best = _longest(graph, loads, None)
    depths = {load: longest[1] if (longest := best.get(load)) else 0 for load in loads}
    deepest = max(loads, key=lambda load: (depths[load], -load), default=None)
    if deepest is None:
        return 0, ()
    path = (at for at in _path(graph, deepest, best) if code[at].opcode in FAR)
    return depths[deepest], tuple(path)
