"""Pairs kernels of both sides that do the same work.

Names are compared first, because edits mostly keep them: the full name, the function, similar
names. The remaining kernels are paired by their position between paired kernels; several at the
position of one were fused into it. Position alone is not enough: something else must suggest the
pair, and nothing may speak against it, such as sources that have nothing in common.

Every similarity measure is symmetric, so that swapped sides give the same pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from keet.comparison.same_kernel import (
    KernelGroup,
    alike_arguments,
    alike_sources,
    function_of,
    may_be_parts,
    may_be_same,
    resemblance,
    same_code,
    threads_of,
)
from keet.documents.diff import How
from keet.profile import Launch

_ALIKE = 0.6
"""Of two names: `sum_blocks` and `block_sums` have 0.6."""


_MANY = 40_000
"""Pairs of names that are compared at one position, or for one function. With more, comparing all
of them would take too long."""


class Pairing(NamedTuple):
    """Kernels that do the same work; a side is empty if it has no such kernel."""

    before: tuple[KernelGroup, ...]
    after: tuple[KernelGroup, ...]
    how: How

    @property
    def sides(self) -> tuple[tuple[KernelGroup, ...], tuple[KernelGroup, ...]]:
        return self.before, self.after

    @property
    def has_parts(self) -> bool:
        """Whether one side's kernels do the work of the other together, so that their times add up.
        Other kernels of one side are repetitions or shapes of one."""
        return self.how in ("fused", "split")

    def launches(self, which: int) -> list[Launch]:
        """Of one side, kernel by kernel. `which`: 0 before, 1 after."""
        return [launch for group in self.sides[which] for launch in group.launches]

    @property
    def counts(self) -> tuple[int, int]:
        """Launches of both sides."""
        return len(self.launches(0)), len(self.launches(1))

    @property
    def kernel(self) -> str:
        """The common name, or `before → after`."""
        one, other = (" + ".join(dict.fromkeys(g.kernel for g in side)) for side in self.sides)
        if one == other or not one or not other:
            return one or other
        return f"{one} → {other}"

    @property
    def typical(self) -> tuple[tuple[Launch, ...], tuple[Launch, ...]]:
        """The launch that represents each group. If both sides have equally many launches, the same
        index is taken on both: launch 5 of a search must not be compared with launch 9."""
        if len(self.before) == len(self.after) == 1:
            one, other = self.before[0].launches, self.after[0].launches
            if len(one) == len(other):
                times = [a.rank_time + b.rank_time for a, b in zip(one, other, strict=True)]
                ranked = sorted(range(len(times)), key=lambda at: (times[at], at))
                middle = ranked[(len(ranked) - 1) // 2]
                return (one[middle],), (other[middle],)
        before, after = (tuple(g.typical for g in side) for side in (self.before, self.after))
        return before, after


def pair_groups(
    before: Sequence[KernelGroup], after: Sequence[KernelGroup], *, guess: bool = False
) -> tuple[Pairing, ...]:
    """Every group is in exactly one pairing. `guess`: also pair groups by position alone."""
    matcher = _Matcher(before, after, guess=guess)
    matcher.by_key()
    matcher.by_name()
    matcher.by_function()
    matcher.by_place()
    return tuple(matcher.result())


class _Gap(NamedTuple):
    """Unpaired groups at one position, on both sides."""

    before: list[KernelGroup]
    after: list[KernelGroup]
    neighbours: list[int]
    """Indices of the adjacent pairs."""


class _Matcher:
    """Pairs groups of both sides, using the most reliable criterion first."""

    def __init__(
        self, before: Sequence[KernelGroup], after: Sequence[KernelGroup], *, guess: bool
    ) -> None:
        self._sides = (tuple(before), tuple(after))
        self._guess = guess
        self._pairs: list[Pairing] = []
        self._paired: set[int] = set()

    def _pair(self, before: Iterable[KernelGroup], after: Iterable[KernelGroup], how: How) -> None:
        pairing = Pairing(tuple(before), tuple(after), how)
        self._pairs.append(pairing)
        self._paired |= {id(group) for group in (*pairing.before, *pairing.after)}

    def _open(
        self, key: Callable[[KernelGroup], Hashable]
    ) -> Iterator[tuple[list[KernelGroup], list[KernelGroup]]]:
        """Unpaired groups that have the same key on both sides."""
        one, other = (
            _by(key, (group for group in side if id(group) not in self._paired))
            for side in self._sides
        )
        return ((one[each], other[each]) for each in one if each in other)

    def by_key(self) -> None:
        for before, after in self._open(lambda group: group.key):
            self._pair(before, after, "same")

    def by_name(self) -> None:
        """One kernel with several shapes: paired by size if both sides have equally many, else all
        together, because it is not known which shape became which."""
        for before, after in self._open(lambda group: group.key.name):
            if len(before) != len(after):
                self._pair(before, after, "reshaped")
                continue
            sides = [sorted(side, key=threads_of) for side in (before, after)]
            for one, other in zip(*sides, strict=True):
                self._pair([one], [other], "reshaped")

    def by_function(self) -> None:
        """Same function, other template arguments or parameters: the most similar first."""
        for before, after in self._open(function_of):
            if len(before) * len(after) <= _MANY:
                for one, other in _likeliest(before, after, _common_arguments):
                    self._pair([one], [other], "template")

    # --- positions

    def by_place(self) -> None:
        gaps = self._gaps()
        for gap in gaps:
            self._settle(list(gap.before), list(gap.after))
        for gap in gaps:
            if not gap.before or not gap.after:
                self._attach(gap)

    def _gaps(self) -> list[_Gap]:
        """Gaps by the pair that precedes them, in an order that does not depend on the side."""
        number_of = {
            id(group): number
            for number, pair in enumerate(self._pairs)
            for group in (*pair.before, *pair.after)
        }
        gaps: dict[int, _Gap] = {}
        for here, side in enumerate(self._sides):
            for group, around in _neighbours(side, number_of):
                gap = gaps.setdefault(around[0], _Gap([], [], []))
                (gap.after if here else gap.before).append(group)
                gap.neighbours.extend(each for each in around if each >= 0)
        return [gaps[number] for number in sorted(gaps, key=self._position)]

    def _position(self, number: int) -> int:
        """Sort key of a pair: its first launches on both sides."""
        if number < 0:
            return -1
        pair = self._pairs[number]
        return sum(min(g.launches[0].id for g in side) for side in (pair.before, pair.after))

    def _settle(self, before: list[KernelGroup], after: list[KernelGroup]) -> None:
        """Groups at the same position: renamed one by one, else fused or split."""
        if 1 not in (len(before), len(after)) and len(before) * len(after) <= _MANY:
            for one, other in _likeliest(before, after, _alike):
                self._pair([one], [other], "renamed")
            before = [group for group in before if id(group) not in self._paired]
            after = [group for group in after if id(group) not in self._paired]
        if before and after and 1 in (len(before), len(after)):
            how: How = "fused" if len(after) < len(before) else "split"
            self._add(before, after, "renamed" if len(before) == len(after) else how)

    def _add(self, before: list[KernelGroup], after: list[KernelGroup], how: How) -> None:
        """Pairs one group with all groups of the other side if each of them is related to it."""
        several, single = (before, after[0]) if len(after) == 1 else (after, before[0])
        related = (
            may_be_same(several[0], single) if how == "renamed" else may_be_parts(several, single)
        )
        if related or (self._guess and how == "renamed"):
            self._pair(before, after, how)

    def _attach(self, gap: _Gap) -> None:
        """Kernels without a counterpart next to a rewritten kernel: it took over their work."""
        loose = gap.before or gap.after
        for number in dict.fromkeys(gap.neighbours):
            pair = self._pairs[number]
            if _took_over(pair, loose):
                self._pairs[number] = Pairing(
                    _in_order((*pair.before, *gap.before)),
                    _in_order((*pair.after, *gap.after)),
                    "fused" if gap.before else "split",
                )
                self._paired |= {id(group) for group in loose}
                return

    def result(self) -> list[Pairing]:
        before, after = (
            [group for group in side if id(group) not in self._paired] for side in self._sides
        )
        pairs = [
            *self._pairs,
            *(Pairing((group,), (), "removed") for group in before),
            *(Pairing((), (group,), "added") for group in after),
        ]
        return sorted(pairs, key=_first)


def _by(
    key: Callable[[KernelGroup], Hashable], groups: Iterable[KernelGroup]
) -> Mapping[Hashable, list[KernelGroup]]:
    by_key: dict[Hashable, list[KernelGroup]] = defaultdict(list)
    for group in groups:
        by_key[key(group)].append(group)
    return by_key


def _neighbours(
    side: Sequence[KernelGroup], number_of: Mapping[int, int]
) -> Iterator[tuple[KernelGroup, tuple[int, int]]]:
    """Each unpaired group with the indices of the pairs before and after it; -1 at the ends."""
    following, last = [-1] * len(side), -1
    for at in reversed(range(len(side))):
        following[at] = last
        last = number_of.get(id(side[at]), last)
    last = -1
    for group, after in zip(side, following, strict=True):
        if id(group) not in number_of:
            yield group, (last, after)
        last = number_of.get(id(group), last)


def _likeliest(
    before: Sequence[KernelGroup],
    after: Sequence[KernelGroup],
    likeness: Callable[[KernelGroup, KernelGroup], float],
) -> Iterator[tuple[KernelGroup, KernelGroup]]:
    """Pairs, the most similar first; of equally similar ones, those in the same order."""
    ranked = sorted(
        (-likeness(one, other), abs(b - a), b + a, b, a)
        for (b, one), (a, other) in product(enumerate(before), enumerate(after))
    )
    ones, others = set(range(len(before))), set(range(len(after)))
    for unlikeness, *_, b, a in ranked:
        if unlikeness < 0 and b in ones and a in others:
            ones.remove(b)
            others.remove(a)
            yield before[b], after[a]


def _common_arguments(one: KernelGroup, other: KernelGroup) -> float:
    """Similarity of two instantiations of a function; ties are decided by equal shapes."""
    alike = alike_arguments(one, other)
    same_shape = one.key[1:] == other.key[1:]
    return alike + (0.01 if same_shape else 0.0) if alike else 0.0


def _alike(one: KernelGroup, other: KernelGroup) -> float:
    """Of several kernels at one position, the names must be similar."""
    alike = resemblance(one, other)
    return alike if alike >= _ALIKE and may_be_same(one, other) else 0.0


def _in_order(groups: Iterable[KernelGroup]) -> tuple[KernelGroup, ...]:
    return tuple(sorted(groups, key=lambda group: group.launches[0].id))


def _first(pair: Pairing) -> tuple[int, int]:
    """Sort key: in launch order of the side before, then new kernels."""
    side = pair.before or pair.after
    return (0 if pair.before else 1, side[0].launches[0].id)


def _took_over(pair: Pairing, loose: Sequence[KernelGroup]) -> bool:
    """The pair's kernel was rewritten, and shares a source file with the unpaired ones."""
    if len(pair.before) != 1 or len(pair.after) != 1:
        return False
    one, other = pair.before[0], pair.after[0]
    if same_code(one.typical, other.typical) is not False:
        return False
    if any(group.key.name in (one.key.name, other.key.name) for group in loose):
        return False  # just another launch of the same kernel
    return any(all(alike_sources(g.typical, each.typical) for g in loose) for each in (one, other))
