"""Numbers and conditions that depend on the indices of threads and blocks, as tables of values.

A number is a sum of tables, each over a group of indices: `64 ctaid.x + tid.x` has two small tables
and needs no large one. Only what is not a sum (a comparison, a minimum) needs the table of all its
indices. A condition is an "and" of tables, or the opposite of one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from itertools import compress, pairwise, product
from typing import NamedTuple, TypeVar

Group = tuple[str, ...]
"""Names of indices, in the order of `Tables.extents`. Tables are in row-major order."""
Part = Mapping[Group, list[int]]
"""A sum of tables. Groups that have an index in common are one table unless that would be too
large; `()` is a constant."""
Factor = tuple[str, ...]
"""Names of parameters whose values are not known, multiplied."""
Number = Mapping[Factor, Part]
Rows = tuple[int, ...]
Spans = list[tuple[int, int]]
_LARGEST_TABLE = 1 << 15
"""Entries of one table."""
_CALL_COST = 2
"""A call of a function costs as much as so many entries."""
_VALUE_COST = 200
"""And rows for one value of some indices, as so many."""
_Entry = TypeVar("_Entry", int, bool)


class TooMuchError(Exception):
    """There were too many tables."""


class TooLargeError(TooMuchError):
    """A table would be too large."""


class Condition(NamedTuple):
    """Whether all of the tables hold; if `is_opposite`, whether not all of them do."""

    tables: Mapping[Group, list[bool]]
    is_opposite: bool = False


ALWAYS = Condition({})
NEVER = Condition({}, is_opposite=True)


def constant(value: int) -> Number:
    return {(): {(): [value]}} if value else {}


class Tables:
    """Arithmetic with such numbers, for one launch."""

    def __init__(self, extents: Mapping[str, int], budget: int) -> None:
        self.extents = extents
        self.order = {name: place for place, name in enumerate(extents)}
        self.left = budget
        self._maps: dict[tuple[Group, Group], list[int]] = {}
        self._joined: dict[tuple[int, int], tuple[Condition, Condition, Condition]] = {}
        self._rows: dict[object, tuple[Condition, dict[Rows, Spans]]] = {}

    def spend(self, entries: int) -> None:
        if entries > _LARGEST_TABLE:
            raise TooLargeError
        self.left -= entries
        if self.left < 0:
            raise TooMuchError

    def size(self, names: Iterable[str]) -> int:
        return math.prod(self.extents[name] for name in names)

    def union(self, groups: Iterable[Group]) -> Group:
        names = {name for group in groups for name in group}
        group = tuple(sorted(names, key=self.order.__getitem__))
        self.spend(self.size(group))
        return group

    def spread(self, table: list[_Entry], group: Group, over: Group) -> list[_Entry]:
        """The table of a group, over a larger group."""
        if group == over:
            return table
        if not group:
            return table * self.size(over)
        if (group, over) not in self._maps:
            steps, step = {}, 1
            for name in reversed(group):
                steps[name] = step
                step *= self.extents[name]
            sides = [[at * steps.get(n, 0) for at in range(self.extents[n])] for n in over]
            self._maps[group, over] = [sum(offsets) for offsets in product(*sides)]
        return [table[at] for at in self._maps[group, over]]

    def table(self, part: Part, over: Group) -> list[int]:
        """All tables of a sum as one."""
        tables = [self.spread(table, group, over) for group, table in part.items()]
        if len(tables) == 1:
            return tables[0]
        if not tables:
            return [0] * self.size(over)
        self.spend(len(tables[0]))
        return _merged(operator.add, tables)

    # --- numbers

    def _added(self, first: Part, second: Part) -> Part:
        if not first or not second:
            return first or second
        total = dict(first)
        for group, table in second.items():
            met = [present for present in total if present == group or {*present} & {*group}]
            if self.size({*group}.union(*met)) > _LARGEST_TABLE:
                met = [group] if group in total else []
            if not met:
                total[group] = table
                continue
            whole = self.union([group, *met])
            parts = [*((present, total.pop(present)) for present in met), (group, table)]
            tables = [self.spread(table, group, whole) for group, table in parts]
            total[whole] = _merged(operator.add, tables)
        return {group: table for group, table in total.items() if any(table)}

    def add(self, first: Number | None, second: Number | None) -> Number | None:
        """None if one of them is not known."""
        return None if first is None or second is None else self.sum(first, second)

    def sum(self, first: Number, second: Number) -> Number:
        total = dict(first)
        for factor, part in second.items():
            total[factor] = self._added(total.get(factor, {}), part)
        return {factor: part for factor, part in total.items() if part}

    def scale(self, number: Number | None, by: int) -> Number | None:
        return None if number is None else self.scaled(number, by)

    def scaled(self, number: Number, by: int) -> Number:
        if by in (0, 1):
            return number if by else {}
        for part in number.values():
            self.spend(sum(map(len, part.values())))
        return {
            factor: {group: [by * entry for entry in table] for group, table in part.items()}
            for factor, part in number.items()
        }

    def multiply(self, first: Number, other: Number) -> Number:
        result: Number = {}
        for factor, part in first.items():
            for further, second in other.items():
                joined = tuple(sorted((*factor, *further)))
                for group, table in part.items():
                    for more, values in second.items():
                        whole = self.union((group, more))
                        sides = self.spread(table, group, whole), self.spread(values, more, whole)
                        products = {whole: list(map(operator.mul, *sides))}
                        result = self.sum(result, {joined: products})
        return result

    def apply(self, function: Callable[..., int], *numbers: Number | None) -> Number | None:
        """A function of numbers; None if one of them is not known."""
        if any(number is None or set(number) - {()} for number in numbers):
            return None
        parts = [number.get((), {}) for number in numbers if number is not None]
        whole = self.union(group for part in parts for group in part)
        results = list(map(function, *(self.table(part, whole) for part in parts)))
        self.left -= _CALL_COST * len(results)
        return {(): {whole: results}} if any(results) else {}

    # --- conditions

    def compare(self, holds: Callable[[int], bool], number: Number | None) -> Condition | None:
        if number is None or set(number) - {()}:
            return None
        part = number.get((), {})
        whole = self.union(part)
        table = list(map(holds, self.table(part, whole)))
        return _simple({whole: table})

    def both(self, first: Condition | None, second: Condition | None) -> Condition | None:
        if NEVER in (first, second):
            return NEVER
        if first is None or second is None:
            return None
        if not first.tables or not second.tables:
            return first if first.tables else second
        key = (id(first), id(second))
        if key not in self._joined:  # together with them: no other object gets their addresses
            self._joined[key] = (first, second, self._both(self._whole(first), self._whole(second)))
        return self._joined[key][2]

    def _both(self, first: Condition, second: Condition) -> Condition:
        tables = dict(first.tables)
        for group, table in second.tables.items():
            met = [present for present in tables if {*present} & {*group}]
            whole = self.union([group, *met])
            parts = [*((present, tables.pop(present)) for present in met), (group, table)]
            flags = [self.spread(table, group, whole) for group, table in parts]
            tables[whole] = _merged(operator.and_, flags)
        return _simple(tables)

    def _whole(self, condition: Condition) -> Condition:
        """A condition as one table."""
        if not condition.is_opposite:
            return condition
        whole = self.union(condition.tables)
        tables = [self.spread(table, group, whole) for group, table in condition.tables.items()]
        return Condition({whole: [not flag for flag in _merged(operator.and_, tables)]})

    def opposite(self, condition: Condition | None) -> Condition | None:
        if condition is None:
            return None
        tables, is_opposite = condition
        if len(tables) == 1 and not is_opposite:
            return _simple({group: [not flag for flag in tables[group]] for group in tables})
        return Condition(tables, not is_opposite)

    def either(self, first: Condition | None, second: Condition | None) -> Condition | None:
        return self.opposite(self.both(self.opposite(first), self.opposite(second)))

    def all_of(self, conditions: Iterable[Condition | None]) -> Condition | None:
        start: Condition | None = ALWAYS
        return reduce(self.both, conditions, start)

    def any_of(self, conditions: Iterable[Condition | None]) -> Condition | None:
        start: Condition | None = NEVER
        return reduce(self.either, conditions, start)

    def choose(
        self, condition: Condition | None, yes: Number | None, no: Number | None
    ) -> Number | None:
        """`condition ? yes : no`, as `no + condition * (yes - no)`."""
        if condition == ALWAYS:
            return yes
        if condition == NEVER:
            return no
        if condition is None or yes is None or no is None:
            return yes if yes == no else None
        difference = self.sum(yes, self.scaled(no, -1))
        chosen = no
        for factor, part in difference.items():
            whole = self.union([*condition.tables, *part])
            flags = [self.spread(table, group, whole) for group, table in condition.tables.items()]
            values = self.table(part, whole)
            which = _merged(operator.and_, flags)
            gated = [
                v if flag != condition.is_opposite else 0
                for v, flag in zip(values, which, strict=True)
            ]
            chosen = self.sum(chosen, {factor: {whole: gated}})
        return chosen

    def count(self, condition: Condition) -> int:
        """Threads that meet a condition."""
        names = {name for group in condition.tables for name in group}
        whole = math.prod(self.extents.values())
        inside = math.prod(sum(table) for table in condition.tables.values()) * math.prod(
            size for name, size in self.extents.items() if name not in names
        )
        return whole - inside if condition.is_opposite else inside

    # --- bytes

    def rows(self, number: Part, where: Condition, width: int) -> dict[Rows, Spans]:
        """The bytes that accesses of a width at these addresses touch: where rows begin, and the
        runs of bytes in each row."""
        start = number.get((), [0])[0]
        varying = {group: table for group, table in number.items() if group}
        tables = tuple((group, tuple(table)) for group, table in varying.items())
        key = (tables, id(where), width)
        if key not in self._rows:
            self._rows[key] = (where, self._rows_from_0(varying, self._whole(where), width))
        return {
            rows: [(low + start, high + start) for low, high in spans]
            for rows, spans in self._rows[key][1].items()
        }

    def _rows_from_0(self, number: Part, where: Condition, width: int) -> dict[Rows, Spans]:
        waiting, steps = [{*group} for group in (*number, *where.tables)], [[0]]
        while waiting:  # sets of indices that do not depend on each other
            names = waiting.pop()
            met = [other for other in waiting if other & names]
            if met:
                waiting = [names.union(*met), *(other for other in waiting if not other & names)]
            elif self.size(names) > _LARGEST_TABLE:
                return self._rows_of_each(names, number, where, width)
            elif names:
                steps.append(sorted(self._values(names, number, where)))
        steps = [values for values in steps if values != [0]] or [[0]]
        *inner, outer = sorted(steps, key=lambda values: values[-1] - values[0])
        spans = [(0, width)]
        for values in inner:
            self.spend(len(values) * len(spans))
            spans = joined((low + at, high + at) for at in values for low, high in spans)
        self.spend(len(outer))
        if len(spans) == 1:  # perhaps there are no gaps between rows
            whole = joined((spans[0][0] + at, spans[0][1] + at) for at in outer)
            if len(whole) == 1:
                return {(0,): whole}
        return {tuple(outer): spans}

    def _values(self, names: Collection[str], number: Part, where: Condition) -> set[int]:
        """The values of a part of a sum that does not depend on the others."""
        whole = self.union([tuple(names)])
        holds = where.tables
        flags = [self.spread(holds[group], group, whole) for group in holds if {*group} <= {*names}]
        values = self.table(
            {group: number[group] for group in number if {*group} & {*names}}, whole
        )
        return {*compress(values, _merged(operator.and_, flags))} if flags else {*values}

    def _rows_of_each(
        self, names: Collection[str], number: Part, where: Condition, width: int
    ) -> dict[Rows, Spans]:
        """The same for each value of the indices that several tables depend on, one by one."""
        groups = [group for group in (*number, *where.tables) if {*group} <= {*names}]
        shared = [name for name in names if sum(name in group for group in groups) > 1]
        count = self.size(shared)
        if not shared or count == self.size(names):
            raise TooLargeError

        def cut(group: Group, table: list[_Entry]) -> tuple[Group, list[list[_Entry]]]:
            rest: Group = tuple(name for name in group if name not in shared)
            size = self.size(rest)
            self.spend(count * size)
            whole = self.spread(table, group, (*shared, *rest))
            return rest, [whole[at * size : (at + 1) * size] for at in range(count)]

        numbers = [cut(*item) for item in number.items()]
        conditions = [cut(*item) for item in where.tables.items()]
        result: dict[Rows, Spans] = {}
        for at in range(count):
            flags: Condition | None = ALWAYS
            for group, holds in conditions:
                flags = self.both(flags, _simple({group: holds[at]}))
            if flags is None or flags == NEVER:
                continue
            total: Part = {}
            for group, values in numbers:
                total = self._added(total, {group: values[at]})
            self.left -= _VALUE_COST
            for rows, spans in self.rows(total, flags, width).items():
                result.setdefault(rows, []).extend(spans)
        return result


def _merged(
    function: Callable[[_Entry, _Entry], _Entry], tables: list[list[_Entry]]
) -> list[_Entry]:
    return reduce(lambda first, second: list(map(function, first, second)), tables)


def _simple(tables: Mapping[Group, list[bool]]) -> Condition:
    """Without tables that always hold."""
    if not all(any(table) for table in tables.values()):
        return NEVER
    return Condition({group: table for group, table in tables.items() if not all(table)})


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs in order, without overlaps."""
    runs: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        else:
            runs.append((start, end))
    return runs


def bytes_of(by_rows: Mapping[Rows, Spans]) -> int:
    """Bytes of rows, each counted once."""
    every: Spans = []
    for rows, spans in by_rows.items():
        row = joined(spans)
        size = row[-1][1] - row[0][0]
        if len(by_rows) == 1 and all(b - a >= size for a, b in pairwise(rows)):
            return len(rows) * sum(b - a for a, b in row)
        if len(rows) * len(row) > 4 * _LARGEST_TABLE:
            raise TooLargeError
        every += [(low + at, high + at) for at in rows for low, high in row]
    return sum(b - a for a, b in joined(every))
