"""The control-flow graph of a kernel: basic blocks, calls, loops and how often each ran.

If execution counts are known, blocks that never ran are left out: they are unroll remainders and
error paths, and would make the results about the executed code less precise.

Dominators are found in nearly linear time for every graph: Lengauer and Tarjan, "A fast algorithm
for finding dominators in a flowgraph" (1979), with path compression. Simpler algorithms are
quadratic for hostile code.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
)
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from keet.analysis.machine_code.instructions.instruction import Instruction
from keet.analysis.machine_code.instructions.opcodes import Role, words

Node = TypeVar("Node", bound=Hashable)


def reached(
    starts: Iterable[Node], following: Callable[[Node], Iterable[Node]], most: float = math.inf
) -> dict[Node, None]:
    """The starts and all that follows from them, in the order in which it is seen. If that is more
    than `most`, the rest is left out: a bound on the time for hostile code."""
    seen = dict.fromkeys(starts)
    waiting = list(seen)
    while waiting:
        for node in following(waiting.pop()):
            if node not in seen and len(seen) <= most:
                seen[node] = None
                waiting.append(node)
    return seen


def root_of(above: MutableSequence[int], node: int) -> int:
    """Where the links of a union-find lead from a node: to one that links to itself."""
    while above[node] != node:
        above[node] = above[above[node]]
        node = above[node]
    return node


@dataclass(slots=True)
class BasicBlock:
    """Consecutive instructions without a branch; `start` and `end` are positions in the code."""

    index: int
    start: int
    end: int
    successors: list[int] = field(default_factory=list)
    predecessors: list[int] = field(default_factory=list)
    calls: int | None = None
    """Entry block of the routine that the last instruction calls."""
    returns: bool = False


@dataclass(slots=True)
class Loop:
    """A natural loop."""

    index: int
    header: int
    """Block where every iteration begins."""
    blocks: frozenset[int]
    latches: tuple[int, ...]
    parent: int | None = None
    """The loop around this one."""
    depth: int = 1
    trips: float | None = None
    """Iterations per entry, as an average over all warps. `None` without execution counts."""
    entries: int | None = None
    """How often warps entered the loop."""
    is_counted: bool = True
    """Whether `entries` is exact; else it is an upper bound."""


@dataclass(slots=True)
class Flow:
    blocks: list[BasicBlock]
    block_of: list[int]
    """By position in the code; -1 for code that never ran."""
    order: list[int]
    """Blocks in reverse postorder from the entries."""
    entries: tuple[int, ...]
    """The start of the kernel, and blocks that are reached in ways that the text does not show."""
    routines: Mapping[int, tuple[int, ...]]
    """Blocks by the entry block of the routine (called code) that they belong to."""
    callers: Mapping[int, tuple[int, ...]]
    """Calling blocks by the routine's entry block."""
    dominators: Mapping[int, int]
    """Immediate dominators of the blocks; -1 if there is none."""
    loops: list[Loop]
    loop_of: Mapping[int, int]
    """The innermost loop of a block."""

    def positions(self, blocks: Iterable[int]) -> list[int]:
        """Of the instructions of some blocks, block by block."""
        spans = (self.blocks[block] for block in blocks)
        return [position for span in spans for position in range(span.start, span.end)]

    def leaving(self, loop: Loop) -> list[int]:
        """Positions of the branches by which control may leave a loop."""
        ends = (self.blocks[block] for block in sorted(loop.blocks))
        return [block.end - 1 for block in ends if not loop.blocks.issuperset(block.successors)]

    def above(self, block: int) -> Iterator[int]:
        """A block and those that dominate it, the nearest first."""
        while block >= 0:
            yield block
            block = self.dominators.get(block, -1)

    def loops_around(self, block: int) -> list[Loop]:
        """From the innermost outwards."""
        around: list[Loop] = []
        current = self.loop_of.get(block)
        while current is not None:
            around.append(self.loops[current])
            current = self.loops[current].parent
        return around


def flow_of(code: Sequence[Instruction], executed: Mapping[int, int]) -> Flow:
    position = {instruction.address: index for index, instruction in enumerate(code)}
    blocks, block_of = _blocks(code, executed, position)
    _connect(code, blocks, block_of, position)
    callers: dict[int, list[int]] = {}
    for block in blocks:
        if block.calls is not None:
            callers.setdefault(block.calls, []).append(block.index)
    entries = [
        block.index
        for block in blocks
        if block.index == 0 or (not block.predecessors and block.index not in callers)
    ]
    order, roots = _reverse_postorder(blocks, (*entries, *sorted(callers)))
    entries += sorted(set(roots) - set(entries) - set(callers))
    above = dominators(
        [block.successors for block in blocks],
        [block.predecessors for block in blocks],
        {*entries, *callers},
    )
    calling = {entry: tuple(blocks_that_call) for entry, blocks_that_call in callers.items()}
    routines, loops = _routines(blocks, callers), _loops(blocks, order, above)
    flow = Flow(blocks, block_of, order, tuple(entries), routines, calling, above, *loops)
    if executed:
        _count_trips(flow, code, executed)
    return flow


_ENDS = words("EXIT RET BRX BRXU JMX JMXU KILL RTT BPT")


def _blocks(
    code: Sequence[Instruction], executed: Mapping[int, int], position: Mapping[int, int]
) -> tuple[list[BasicBlock], list[int]]:
    """`position`: by address."""
    starts = {0}
    for index, instruction in enumerate(code):
        if instruction.target is not None and instruction.target in position:
            starts.add(position[instruction.target])
        if instruction.role is Role.BRANCH:
            starts.add(index + 1)
        elif index and instruction.address - code[index - 1].address > 16:
            starts.add(index)
    bounds = [*sorted(start for start in starts if start < len(code)), len(code)]
    blocks: list[BasicBlock] = []
    block_of = [-1] * len(code)
    for start, end in pairwise(bounds):
        if executed and not executed.get(code[start].address):
            continue
        block_of[start:end] = [len(blocks)] * (end - start)
        blocks.append(BasicBlock(len(blocks), start, end))
    return blocks, block_of


def _connect(
    code: Sequence[Instruction],
    blocks: list[BasicBlock],
    block_of: list[int],
    position: Mapping[int, int],
) -> None:
    block_at: dict[int | None, int] = {
        address: block_of[at] for address, at in position.items() if block_of[at] >= 0
    }

    for block in blocks:
        last = code[block.end - 1]
        targets: list[int | None] = [last.address + 16]
        is_conditional = last.guard is not None or bool(last.reads and last.opcode == "BRA")
        if last.opcode in ("BRA", "JMP", "UBRA"):
            targets = [*(targets if is_conditional else ()), last.target]
        elif last.opcode in ("CALL", "UCALL"):
            block.calls = block_at.get(last.target)
        elif last.opcode in _ENDS:
            block.returns = last.opcode == "RET"
            targets = targets if last.guard else []
        block.successors = list(dict.fromkeys(block_at[at] for at in targets if at in block_at))
    for block in blocks:
        for successor in block.successors:
            blocks[successor].predecessors.append(block.index)


def _routines(blocks: list[BasicBlock], entries: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """The blocks that each entry reaches. For hostile code with too many large routines, all."""
    routines: dict[int, tuple[int, ...]] = {}
    everything = tuple(range(len(blocks)))
    budget = _ROUTINES_PER_BLOCK * len(blocks)
    for entry in entries:
        routines[entry] = everything
        if budget > 0:
            of_entry = reached([entry], lambda block: blocks[block].successors)
            routines[entry] = tuple(sorted(of_entry))
        budget -= len(routines[entry])
    return routines


_ROUTINES_PER_BLOCK = 16
"""Average number of routines per block; beyond it, routines are assumed to have all blocks."""


def _reverse_postorder(
    blocks: list[BasicBlock], roots: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The order, and the blocks where the search began: `roots`, and loops reached only by BRX."""
    done: list[int] = []
    seen: set[int] = set()
    begun: list[int] = []
    for root in (*roots, *range(len(blocks))):
        if root in seen:
            continue
        seen.add(root)
        begun.append(root)
        stack = [(root, iter(blocks[root].successors))]
        while stack:
            current, successors = stack[-1]
            following = next((successor for successor in successors if successor not in seen), None)
            if following is None:
                done.append(current)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(blocks[following].successors)))
    return done[::-1], begun


def _loops(
    blocks: list[BasicBlock], order: list[int], above: Mapping[int, int]
) -> tuple[list[Loop], dict[int, int]]:
    number = {block: place for place, block in enumerate(order)}
    span = intervals(above)
    latches: dict[int, list[int]] = {}
    for block in order:
        for successor in blocks[block].successors:
            if span[successor][0] <= span[block][0] <= span[successor][1]:
                latches.setdefault(successor, []).append(block)
    bodies = {
        header: _body(blocks, header, latches[header])
        for header in _not_too_deep(blocks, latches, number)
    }
    ranked = sorted(bodies, key=lambda header: (-len(bodies[header]), number[header]))
    loops: list[Loop] = []
    loop_of: dict[int, int] = {}
    for index, header in enumerate(ranked):  # outer loops first, so inner ones overwrite
        parent = loop_of.get(header)
        depth = loops[parent].depth + 1 if parent is not None else 1
        loops.append(Loop(index, header, bodies[header], tuple(latches[header]), parent, depth))
        loop_of.update(dict.fromkeys(bodies[header], index))
    return loops, loop_of


_DEEPEST_NESTING = 12
"""Deepest nesting of loops. No real kernel has more; it bounds the time for hostile code."""


def _not_too_deep(
    blocks: list[BasicBlock], latches: Mapping[int, Sequence[int]], number: Mapping[int, int]
) -> list[int]:
    """Headers of loops that are nested in at most `_DEEPEST_NESTING` - 1 others.

    From the innermost loop outwards, each loop is collapsed into one node (Tarjan's test of
    reducibility). This takes nearly linear time, while all loop bodies together may have n * n
    blocks.
    """
    inside = list(range(len(blocks)))
    """Leads from a block to the outermost loop found so far around it."""
    parent: dict[int, int] = {}
    headers = sorted(latches, key=lambda header: -number[header])
    for header in headers:
        waiting = list(latches[header])
        while waiting:
            current = root_of(inside, waiting.pop())
            if current != header:
                inside[current] = parent[current] = header
                waiting += blocks[current].predecessors
    depth: dict[int, int] = {}
    for header in reversed(headers):
        depth[header] = depth.get(parent.get(header, -1), 0) + 1
    return [header for header in headers if depth[header] <= _DEEPEST_NESTING]


def _body(blocks: list[BasicBlock], header: int, latches: Sequence[int]) -> frozenset[int]:
    inside = reached(latches, lambda block: blocks[block].predecessors if block != header else ())
    return frozenset({header, *inside})


def _count_trips(flow: Flow, code: Sequence[Instruction], executed: Mapping[int, int]) -> None:
    def count(block: int) -> int:
        return executed.get(code[flow.blocks[block].start].address, 0)

    entered = Counter[int | None]()
    for instruction in code:
        if instruction.opcode == "BSSY":
            entered[instruction.target] += executed.get(instruction.address, 0)

    def left(block: int) -> int:
        """How often warps left it. Each part of a divergent warp executes the BSYNC where the parts
        meet, and then they go on as one warp, like the one that executed BSSY. Its target is the
        BSYNC or the instruction after it."""
        end = flow.blocks[block].end
        runs = executed.get(code[end - 1].address, 0)
        if code[end - 1].opcode != "BSYNC":
            return runs
        meets = max(entered[instruction.address] for instruction in code[end - 1 : end + 1])
        return min(runs, meets) if meets else runs

    starts = {*flow.entries, *flow.callers}
    for loop in flow.loops:
        outside = set(flow.blocks[loop.header].predecessors) - loop.blocks
        entries = sum(
            _edge_count(flow, left(before), before, loop.header, count) for before in outside
        )
        if loop.header in starts:
            again = sum(
                _edge_count(flow, count(latch), latch, loop.header, count) for latch in loop.latches
            )
            entries += max(0, count(loop.header) - entries - again)
        loop.entries = max(entries, 1)
        loop.is_counted = all(
            _is_edge_count_exact(flow, code, before, loop.header) for before in outside
        )
        loop.trips = max(1.0, count(loop.header) / loop.entries)


def _is_edge_count_exact(flow: Flow, code: Sequence[Instruction], before: int, header: int) -> bool:
    """Whether the counts show exactly how often control went from a block to the header."""
    if code[flow.blocks[before].end - 1].opcode in ("EXIT", "RET", "KILL"):
        return False  # some warps ended there
    others = [successor for successor in flow.blocks[before].successors if successor != header]
    return all(flow.blocks[other].predecessors == [before] for other in others)


def _edge_count(
    flow: Flow, runs: int, before: int, header: int, count: Callable[[int], int]
) -> int:
    """How often control went from `before` to the header.

    For a block with two successors, the count of the other successor is subtracted, if no other
    block leads there. Otherwise the result is an upper bound.
    """
    other = next(
        (successor for successor in flow.blocks[before].successors if successor != header), None
    )
    if other is not None and flow.blocks[other].predecessors == [before]:
        return max(0, runs - count(other))
    return runs


# --- dominators

_Graph = Sequence[Sequence[int]]


def dominators(successors: _Graph, predecessors: _Graph, roots: Collection[int]) -> dict[int, int]:
    """Immediate dominators of the nodes that `roots` reach; -1 is the dominator of the roots."""
    return _Search(successors, predecessors, roots).result()


class _Search:
    """Nodes are numbered in depth-first order; 0 is a virtual node above all roots."""

    def __init__(self, successors: _Graph, predecessors: _Graph, roots: Collection[int]) -> None:
        self.node = [-1]
        self.number: dict[int, int] = {}
        self.parent = [0]
        for root in sorted(roots):
            self._visit(root, successors)
        self.before = [[0] if node in roots else [] for node in self.node]
        for number, node in enumerate(self.node[1:], start=1):
            before = (self.number.get(predecessor, -1) for predecessor in predecessors[node])
            self.before[number] += [predecessor for predecessor in before if predecessor >= 0]
        self.semi = list(range(len(self.node)))
        self.best = list(range(len(self.node)))
        self.ancestor = [-1] * len(self.node)

    def _visit(self, root: int, successors: _Graph) -> None:
        stack = [(root, 0)]
        while stack:
            node, parent = stack.pop()
            if node in self.number:
                continue
            number = self.number[node] = len(self.node)
            self.node.append(node)
            self.parent.append(parent)
            stack += [(successor, number) for successor in reversed(successors[node])]

    def result(self) -> dict[int, int]:
        above = [0] * len(self.node)
        bucket: list[list[int]] = [[] for _ in self.node]
        for number in range(len(self.node) - 1, 0, -1):
            parent = self.parent[number]
            lowest_before = [self.semi[self._lowest(before)] for before in self.before[number]]
            self.semi[number] = min([self.semi[number], *lowest_before])
            bucket[self.semi[number]].append(number)
            self.ancestor[number] = parent
            for below in bucket[parent]:
                lowest = self._lowest(below)
                above[below] = lowest if self.semi[lowest] < self.semi[below] else parent
            bucket[parent] = []
        for number in range(1, len(self.node)):
            if above[number] != self.semi[number]:
                above[number] = above[above[number]]
        return {self.node[number]: self.node[above[number]] for number in range(1, len(self.node))}

    def _lowest(self, number: int) -> int:
        """The node with the lowest semidominator between a node and the root of its tree."""
        path = []
        current = number
        while self.ancestor[current] >= 0 and self.ancestor[self.ancestor[current]] >= 0:
            path.append(current)
            current = self.ancestor[current]
        for node in reversed(path):
            over = self.ancestor[node]
            if self.semi[self.best[over]] < self.semi[self.best[node]]:
                self.best[node] = self.best[over]
            self.ancestor[node] = self.ancestor[over]
        return self.best[number]


def intervals(above: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """By node: first and last place in a walk of the dominator tree.

    One node dominates another if its interval holds the other's.
    """
    below: dict[int, list[int]] = {}
    for node, dominator in above.items():
        below.setdefault(dominator, []).append(node)
    first: dict[int, int] = {}
    spans: dict[int, tuple[int, int]] = {}
    stack = [(child, False) for child in below.get(-1, ())]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            spans[node] = (first[node], len(first) - 1)
            continue
        first[node] = len(first)
        stack.append((node, True))
        stack += [(child, False) for child in below.get(node, ())]
    return spans
