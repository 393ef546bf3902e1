"""Names of registers, the order of independent instructions and dead code change no result."""

import random
import re
from functools import cache
from typing import NamedTuple

import pytest

from evals.sass.labels import LABELS, rows_of
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.instructions.instruction import Instruction, parse
from keet.analysis.machine_code.instructions.opcodes import Role
from keet.analysis.machine_code.launch_code import MachineCode
from keet.analysis.machine_code.polynomials.polynomial import launch_shape
from tests.rows import each_row

pytestmark = pytest.mark.slow

NAMES = [
    *(
        "Lashi0812__CudaProgramming--profiling__profiles__smemTranspose",
        "thedavidchu__speedy_scan--profile",
    ),
    *("bwd29__self-join-MiSTIC--profile.out", "stencil2d", "histogram"),
]
"""Kept programs of strangers, and kernels with labels."""


class Line(NamedTuple):
    """An instruction with a number that stays its own whatever becomes of its address."""

    number: int
    address: int
    text: str
    executed: int


def read(name: str) -> list[Line]:
    """In the order of their addresses."""
    (path,) = (*LABELS.glob(f"programs/{name}.tsv"), *LABELS.glob(f"purpose/{name}.tsv"))
    rows = [(int(row[0], 16), row[3], row[1]) for row in rows_of(path)]
    lines = [Line(n, at, text, int(x) if x != "-" else 0) for n, (at, text, x) in enumerate(rows)]
    return sorted(lines, key=lambda line: line.address)


@cache
def plain_results(name: str) -> dict[str, object]:
    return results(read(name))


def results(lines: list[Line]) -> dict[str, object]:
    """What the analyses say, by the instructions' own numbers."""
    texts = {line.address: line.text for line in lines}
    executed = {line.address: line.executed for line in lines}
    number = [line.number for line in sorted(lines, key=lambda line: line.address)]
    # Stalls of both scoreboards and of fixed latencies at every third instruction that ran.
    stalled = [line.address for line in lines if line.executed and line.number % 3 == 0]
    stalls = {
        reason: dict.fromkeys(stalled, 1) for reason in ("long_scoreboard", "short_scoreboard")
    }
    threads = {line.address: 32 * line.executed for line in lines}
    code = MachineCode(
        SassProgram.of(texts, executed),
        launch_shape((64, 32, 1), (128, 2, 1), "8.6"),
        threads,
        stalls,
        threads,
        None,
        1_000_000,
        {},
    )
    ran = code.program.ran
    return {
        "purposes": {number[at]: code.purposes[at].value for at in ran},
        "waits": {
            (number[w.position], w.reason): (frozenset(number[p] for p in w.producers), w.link)
            for w in code.waits
        },
        "accesses": {
            number[a.position]: (a.pointer, a.width, a.distinct_bytes, a.basis, a.offset.depends)
            for a in code.accesses
        },
        "reuse": {(r.pointer, r.requested_bytes, r.distinct_bytes_at_most) for r in code.reuse},
        "merges": {frozenset(number[p] for p in m.positions) for m in code.merges},
        "atomics": {(number[a.position], a.spread, a.addresses_at_most) for a in code.atomics},
        "invariants": {frozenset(number[p] for p in i.positions) for i in code.invariants},
        "chains": sorted(
            (c.trips or 0, c.loads, c.load_depth, c.recurrence.cycles if c.recurrence else 0)
            for c in code.chains
        ),
    }


@each_row("name", NAMES)
def test_renaming_registers_and_code_that_never_runs(name: str) -> None:
    """Registers from R4 move by eight, uniform ones by four, predicates turn round. Code is added
    behind the end, and where a branch that is never taken leads."""
    lines, was = read(name), plain_results(name)
    assert results([line._replace(text=_renamed(line.text)) for line in lines]) == was
    start, end = lines[0].address, lines[-1].address + 16
    dead = ["IADD3 R4, R4, 0x1, RZ", "LDG.E R5, [R6.64]", f"@P0 BRA {start:#x}", "EXIT"]
    extra = [Line(10_000 + at, end + 16 * at, text, 0) for at, text in enumerate(dead)]
    assert results([*lines, *extra]) == was


def _renamed(text: str) -> str:
    def register(match) -> str:
        prefix, number = match[1], int(match[2])
        if "P" in prefix:
            return f"{prefix}{(number + 3) % 7}"
        # R1 is the stack pointer; pairs and quads stay aligned.
        return f"{prefix}{number + (8 if prefix == 'R' else 4) * (number >= 4)}"

    return re.sub(r"(?<![\w.])(UR|R|UP|P)(\d+)\b", register, text)


@each_row("name", NAMES)
def test_reordering_independent_instructions(name: str) -> None:
    moved, chance, swaps = read(name), random.Random(1), 0
    targets = {parse(line.address, line.text).target for line in moved}
    for at in range(len(moved) - 1):
        one, other = moved[at], moved[at + 1]
        first, second = parse(0, one.text), parse(0, other.text)
        if other.address in targets or one.executed != other.executed:
            continue
        if _independent(first, second) and chance.random() < 0.5:
            moved[at] = other._replace(address=one.address)
            moved[at + 1] = one._replace(address=other.address)
            swaps += 1
    assert swaps
    assert results(moved) == plain_results(name)


_FIXED = (Role.BRANCH, Role.CONVERGENCE, Role.SYNC, Role.STORE, Role.ATOMIC, Role.COPY, Role.LOAD)


def _independent(first: Instruction, second: Instruction) -> bool:
    """Neither reads or writes what the other writes, and neither has to stay where it is.

    Of two that read the same register, the first is the one that waits for it.
    """
    if first.role in _FIXED or second.role in _FIXED:
        return False
    pair = (first, second)
    reads = [{*each.reads, *([each.guard[0]] if each.guard else [])} for each in pair]
    touched = [names | {*each.writes} for names, each in zip(reads, pair, strict=True)]
    return touched[0].isdisjoint(touched[1])


@each_row("name", NAMES)
def test_results_that_nobody_reads(name: str) -> None:
    """An instruction behind the first one that writes a register of its own."""
    lines = read(name)
    place = next(at for at, line in enumerate(lines) if parse(0, line.text).writes) + 1
    shifted = _shifted(lines, place)
    new = Line(9_998, lines[place].address, "IADD3 R250, R250, 0x1, RZ", lines[place].executed)
    now = results([*shifted, new])
    purposes = now["purposes"]
    assert isinstance(purposes, dict)
    purposes.pop(9_998)
    assert now == plain_results(name)


def _shifted(lines: list[Line], place: int) -> list[Line]:
    """The program with room for one instruction before `place`; branches go where they went."""
    start = lines[0].address
    address = {line.address: start + 16 * (at + (at >= place)) for at, line in enumerate(lines)}

    def target(match) -> str:
        return hex(address.get(int(match[0], 16), int(match[0], 16)))

    found = []
    for line in lines:
        is_branch = parse(line.address, line.text).target is not None
        text = re.sub(r"0x[0-9a-f]+$", target, line.text) if is_branch else line.text
        found.append(line._replace(address=address[line.address], text=text))
    return found
