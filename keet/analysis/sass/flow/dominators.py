"""Dominators of a control-flow graph, in nearly linear time for every graph.

Lengauer and Tarjan, "A fast algorithm for finding dominators in a flowgraph" (1979), with path
compression. Simpler algorithms are quadratic for hostile code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

Graph = Sequence[Sequence[int]]


def dominators(successors: Graph, predecessors: Graph, roots: Collection[int]) -> dict[int, int]:
    """Immediate dominators of the nodes that `roots` reach; -1 is the dominator of the roots."""
    return _Search(successors, predecessors, roots).found()


class _Search:
    """Nodes are numbered in depth-first order; 0 is a virtual node above all roots."""

    def __init__(self, successors: Graph, predecessors: Graph, roots: Collection[int]) -> None:
        self.node = [-1]
        self.number: dict[int, int] = {}
        self.parent = [0]
        for root in sorted(roots):
            self._visit(root, successors)
        self.before = [[0] if node in roots else [] for node in self.node]
        for number, node in enumerate(self.node[1:], start=1):
            self.before[number] += [
                self.number[each] for each in predecessors[node] if each in self.number
            ]
        self.semi = list(range(len(self.node)))
        self.best = list(range(len(self.node)))
        self.ancestor = [-1] * len(self.node)

    def _visit(self, root: int, successors: Graph) -> None:
        stack = [(root, 0)]
        while stack:
            node, parent = stack.pop()
            if node in self.number:
                continue
            number = self.number[node] = len(self.node)
            self.node.append(node)
            self.parent.append(parent)
            stack += [(each, number) for each in reversed(successors[node])]

    def found(self) -> dict[int, int]:
        above = [0] * len(self.node)
        bucket: list[list[int]] = [[] for _ in self.node]
        for each in range(len(self.node) - 1, 0, -1):
            parent = self.parent[each]
            known = [self.semi[self._lowest(before)] for before in self.before[each]]
            self.semi[each] = min([self.semi[each], *known])
            bucket[self.semi[each]].append(each)
            self.ancestor[each] = parent
            for below in bucket[parent]:
                lowest = self._lowest(below)
                above[below] = lowest if self.semi[lowest] < self.semi[below] else parent
            bucket[parent] = []
        for each in range(1, len(self.node)):
            if above[each] != self.semi[each]:
                above[each] = above[above[each]]
        return {self.node[each]: self.node[above[each]] for each in range(1, len(self.node))}

    def _lowest(self, each: int) -> int:
        """The node with the lowest semidominator between a node and the root of its tree."""
        path = []
        current = each
        while self.ancestor[current] >= 0 and self.ancestor[self.ancestor[current]] >= 0:
            path.append(current)
            current = self.ancestor[current]
        for node in reversed(path):
            over = self.ancestor[node]
            if self.semi[self.best[over]] < self.semi[self.best[node]]:
                self.best[node] = self.best[over]
            self.ancestor[node] = self.ancestor[over]
        return self.best[each]


def intervals(above: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """By node: first and last place in a walk of the dominator tree.

    One node dominates another if its interval holds the other's.
    """
    below: dict[int, list[int]] = {}
    for node, dominator in above.items():
        below.setdefault(dominator, []).append(node)
    first: dict[int, int] = {}
    found: dict[int, tuple[int, int]] = {}
    stack = [(each, False) for each in below.get(-1, ())]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            found[node] = (first[node], len(first) - 1)
            continue
        first[node] = len(first)
        stack.append((node, True))
        stack += [(each, False) for each in below.get(node, ())]
    return found
