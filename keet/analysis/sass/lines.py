"""Results by source line: its instructions, and their purposes."""

from __future__ import annotations

from collections import Counter

from keet.analysis.sass.analyses.purpose import Purpose
from keet.analysis.sass.machine_code import MachineCode
from keet.profile import Location

Line = Location | None
"""`None` for instructions without a source line."""


def line_mix(code: MachineCode) -> dict[Line, list[tuple[Purpose, int]]]:
    """Executed warp instructions by purpose, per line; called routines count for their caller."""
    sums: dict[Line, Counter[Purpose]] = {}
    for position in code.program.ran:
        counted = sums.setdefault(code.location(position), Counter())
        counted[code.purposes[position]] += code.program.counts[position]
    return {line: counted.most_common() for line, counted in sums.items()}


def positions_of(code: MachineCode, line: Location) -> list[int]:
    """Positions of the instructions that ran for a line, in the order of the code."""
    return [each for each in code.program.ran if code.location(each) == line]
