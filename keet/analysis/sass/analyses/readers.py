"""Who reads a result: directly, after predicated writes, and where paths join."""

from __future__ import annotations

from collections import defaultdict

from keet.analysis.sass.flow.program import SassProgram
from keet.analysis.sass.flow.values import Kind


class Readers:
    """The uses of values, through predicated writes and joins."""

    def __init__(self, program: SassProgram) -> None:
        self.program = program
        self.values = program.values
        self.users = program.values.users()
        self.merged: dict[int, list[int]] = defaultdict(list)
        """By value: the values that may be equal to it, depending on a predicate or the path."""
        for value in program.values.all:
            if value.kind is not Kind.DEFINITION:
                for one in value.inputs:
                    self.merged[one].append(value.index)

    def same(self, *values: int, joins: bool = True) -> set[int]:
        """The values, and all that may be equal to them. `joins`: also where paths join."""
        found, waiting = set(values), list(values)
        while waiting:
            for each in self.merged[waiting.pop()]:
                if each not in found and (joins or self.values.all[each].kind is Kind.GUARDED):
                    found.add(each)
                    waiting.append(each)
        return found

    def of(self, value: int) -> set[int]:
        """Positions that may read the value and ran."""
        counts = self.program.counts
        return {user for each in self.same(value) for user in self.users[each] if counts[user]}
