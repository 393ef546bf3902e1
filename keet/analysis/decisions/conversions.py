"""Conversions between types that keep the XU pipe busy, and which of them are repeated.

A value that many threads read from shared memory, and convert after that, is converted as often as
it is read. Converted before it is stored, once per value would do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.facts.instructions import XU, mostly_conversions
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY
from keet.evidence import Evidence, Sentence
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.sass.flow.program import SassProgram

_CONVERSIONS = tuple(opcode for opcode in XU if opcode != "MUFU")
_UNPACKS = ("PRMT", "SHF", "LOP3", "SGXT", "I2I")
"""What takes a small value out of a word before it is converted."""
_SCALES = ("FMUL", "FADD")
_SEVERAL = 2


class Conversions(NamedTuple):
    names: str
    """Opcodes, the most frequent first."""
    left: float | None = None
    """Share of the XU pipe's work that is left if values of shared memory are converted before they
    are stored; None: they are converted once, or not known."""
    times: Evidence | None = None
    """How often each value is converted."""
    gone: float = 0.0
    """Share of all executed instructions that would go: repeated conversions, and the scaling of
    their results."""

    @property
    def why(self) -> Sentence:
        """Follows how busy the pipe is."""
        text = Sentence("; most of its instructions are conversions ({names})", names=self.names)
        if self.times is None:
            return text
        more = "{text}, and values from shared memory are converted {times:.0f} times each"
        return Sentence(more, text=text, times=self.times)


def conversions(view: LaunchView) -> Conversions | None:
    """None if the XU pipe mostly computes special functions, or conversions that are a part of
    them (powers, sines)."""
    if not mostly_conversions.test(view) or _are_of_functions(view):
        return None
    ran = {name: view.count(name) for name in _CONVERSIONS if view.count(name)}
    named = " and ".join(sorted(ran, key=lambda name: -ran[name])[:_SEVERAL])
    program, executed = view.code.program if view.code else None, view.get("inst_executed")
    times = _reads_per_store(program) if program else 0.0
    if program is None or executed is None or times < _SEVERAL:
        return Conversions(named)
    found = _from_shared(program)
    own, again = sum(program.counts[each] for each in found), 1 - 1 / times
    if not own:
        return Conversions(named)
    scaled = sum(program.counts[each] for each in _scalings(program, found))
    label = "times that a value of shared memory is converted, by loads per store"
    shown = view.ledger.derived("converted_again", Quantity(times, ""), label, executed)
    gone = again * (own + scaled) / sum(program.counts)
    return Conversions(named, 1 - again * own / view.count(*XU), shown, gone)


def _are_of_functions(view: LaunchView) -> bool:
    """Whether most of the XU pipe's instructions belong to functions of floats that the compiler
    expands, which round and convert their arguments."""
    if view.code is None:
        return False
    program = view.code.program
    own = {p for each in view.code.expansions for p in each.positions if each.is_of_floats}
    on_xu = [each for each in program.ran if program.code[each].opcode in XU]
    functions = sum(program.counts[each] for each in on_xu if each in own)
    return functions >= MAJORITY * sum(program.counts[each] for each in on_xu) > 0


def _reads_per_store(program: SassProgram) -> float:
    """Bytes that are loaded from shared memory per byte that is stored there; 0: none are."""
    moved = {"LDS": 0.0, "STS": 0.0}
    for position in program.ran:
        each = program.code[position]
        if each.opcode in moved:
            moved[each.opcode] += program.counts[position] * each.width
    return moved["LDS"] / moved["STS"] if moved["STS"] else 0.0


def _from_shared(program: SassProgram) -> list[int]:
    """Positions of the conversions of values that were loaded from shared memory."""
    return [
        position
        for position in program.ran
        if program.code[position].opcode in _CONVERSIONS and _is_from_shared(program, position)
    ]


def _scalings(program: SassProgram, found: list[int]) -> set[int]:
    """Positions that multiply the result of a conversion by a factor or add an offset."""
    results = {value for each in found for value in program.values.written[each].values()}
    return {
        position
        for position in program.ran
        if program.code[position].opcode in _SCALES
        and not results.isdisjoint(program.values.read[position].values())
    }


def _is_from_shared(program: SassProgram, position: int) -> bool:
    waiting, seen = [position], {position}
    while waiting:
        for value in program.values.read[waiting.pop()].values():
            for source in program.values.definitions(value):
                opcode = program.code[source].opcode
                if opcode == "LDS":
                    return True
                if opcode in _UNPACKS and source not in seen:
                    seen.add(source)
                    waiting.append(source)
    return False
