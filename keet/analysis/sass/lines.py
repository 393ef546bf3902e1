"""Results by source line: purposes of its instructions, its waits, and waits that it causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from keet.analysis.sass.analyses.blame import Link, Wait
from keet.analysis.sass.analyses.purpose import Purpose
from keet.analysis.sass.machine_code import MachineCode
from keet.catalog import stalls
from keet.profile import Location

Line = Location | None
"""`None` for instructions without a source line."""


class LineWait(NamedTuple):
    """Samples of warps that wait at one line, for one reason, for a result of one other line."""

    line: Line
    reason: str
    samples: int
    producer: Line
    """Line of the instruction that is waited for; the same line if a unit is busy."""
    producer_position: int | None
    """The instruction with most of the samples; `None` if the wait is for the line's own unit, or
    if the producer is not known."""
    link: Link


def line_mix(code: MachineCode) -> dict[Line, list[tuple[Purpose, int]]]:
    """Executed warp instructions by purpose, per line; called routines count for their caller."""
    sums: dict[Line, Counter[Purpose]] = {}
    for position in code.program.ran:
        counted = sums.setdefault(code.location(position), Counter())
        counted[code.purposes[position]] += code.program.counts[position]
    return {line: counted.most_common() for line, counted in sums.items()}


def line_waits(code: MachineCode) -> dict[Line, list[LineWait]]:
    """Waits by waiting line, most samples first. Samples of issuing warps are left out."""
    known = stalls()
    groups: dict[tuple[Line, str, Line, Link], Counter[int]] = {}
    for wait in code.waits:
        if wait.reason not in known or not known[wait.reason].counts_as_stall:
            continue
        line = code.location(wait.position)
        producer, position = _producer(code, wait)
        key = (line, wait.reason, producer, wait.link)
        groups.setdefault(key, Counter())[-1 if position is None else position] += wait.samples
    found: dict[Line, list[LineWait]] = {}
    for (line, reason, producer, link), counted in groups.items():
        leading = counted.most_common(1)[0][0]
        found.setdefault(line, []).append(
            LineWait(
                line, reason, counted.total(), producer, None if leading < 0 else leading, link
            )
        )
    for waits in found.values():
        waits.sort(key=lambda each: -each.samples)
    return found


def _producer(code: MachineCode, wait: Wait) -> tuple[Line, int | None]:
    if not wait.producers:
        return code.location(wait.position), None
    return code.location(wait.producers[0]), wait.producers[0]


def caused_samples(waits: Mapping[Line, Iterable[LineWait]]) -> Counter[Line]:
    """Samples by the line that is waited for."""
    sums: Counter[Line] = Counter()
    for found in waits.values():
        for wait in found:
            sums[wait.producer] += wait.samples
    return sums


def positions_of(code: MachineCode, line: Location) -> list[int]:
    """Positions of the instructions that ran for a line, in the order of the code."""
    return [each for each in code.program.ran if code.location(each) == line]
