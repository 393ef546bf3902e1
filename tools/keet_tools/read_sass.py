"""The tool `read_sass`: machine code with the cost, purpose and waits of each instruction."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING

from keet.catalog import stalls
from keet.profile import Absent
from keet.units import Quantity
from keet_tools.answer_text import AnswerText, one_page, place_name, quote
from keet_tools.code_places import Code
from keet_tools.tool_input import Abstention, Answer, ToolInput

if TYPE_CHECKING:
    from keet.analysis.sass import MachineCode

_SIZE = 12
_BEFORE = 5
_LEAST = 0.001
_TEXT = 56
_COLUMNS = "address, share of samples, main stall > what it waits for, instruction, purpose, line"


def read_sass(
    tool_input: ToolInput, at: str = "", launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """SASS, hottest first, of all or a line (`file.cu:31`); in order from an address (`0x0130`)."""
    if not tool_input.show_source:
        raise Abstention("machine code is not shown in this session")
    each = tool_input.launch(launch, report)
    code = Code(each)
    sass = code.sass()
    shown, more = one_page(_chosen(code, sass, at), page, _SIZE)
    found = tool_input.machine_code(each)
    writer = _Rows(code, sass, None if isinstance(found, Absent) else found)
    rows = [writer.row(address) for address in shown]
    order = "In the order of the code" if code.address(at) is not None else _hottest(code)
    return writer.say.answer(f"{order}; {_COLUMNS}:", *rows, more)


def _hottest(code: Code) -> str:
    if not code.table.total:
        return "In the order of the code, none sampled or counted"
    return f"Most {'samples' if code.table.samples else 'executions'} first"


def _chosen(code: Code, sass: Mapping[int, str], at: str) -> list[int]:
    every = sorted(sass)
    address = code.address(at)
    if address is None:
        own = code.addresses_at(code.location(at)) if at.strip() else every
        weight = code.table.weight
        return sorted((pc for pc in own if pc in sass), key=lambda pc: (-weight.get(pc, 0), pc))
    if not every or not every[0] <= address <= every[-1]:
        last = code.offset(every[-1]) if every else "none"
        raise Abstention(f"no instruction is at {quote(at, 24)}; the last is at {last}")
    return every[max(0, bisect_left(every, address) - _BEFORE) :]


class _Rows:
    """Instructions as lines of text."""

    def __init__(self, code: Code, sass: Mapping[int, str], machine: MachineCode | None) -> None:
        self.say = AnswerText()
        self._code, self._sass = code, sass
        self._machine = machine
        """None if the code can't be analysed; then neither purpose nor producer is shown."""

    def row(self, address: int) -> str:
        location = self._code.launch.locations.get(address)
        where = self._code.where(location) if location else None
        line = f" {place_name(where)}" if where else ""
        text = quote(self._sass[address], _TEXT)
        cost = self._cost(address, where)
        return f"{self._code.offset(address)}{cost} {text}{self._purpose(address)}{line}"

    def _purpose(self, address: int) -> str:
        if self._machine is None:
            return ""
        return f" {self._machine.purposes[self._machine.program.positions[address]]}"

    def _cost(self, address: int, where: str | None) -> str:
        code = self._code
        weight, total = code.table.weight.get(address, 0), code.table.total
        if not total or weight < _LEAST * total:
            return ""
        of = "samples" if code.table.samples else "executed"
        name = f"{of}_share {code.offset(address)}"
        label = "share of samples" if of == "samples" else "share of executed instructions"
        share = code.ledger.derived(name, Quantity(100 * weight / total, "%"), label, line=where)
        return f" {self.say(share)}{self._stall(address)}"

    def _stall(self, address: int) -> str:
        known = stalls()
        columns = self._code.table.stall_samples.items()
        by_reason = {reason: column.get(address, 0) for reason, column in columns}
        real = {r: n for r, n in by_reason.items() if n and known[r].counts_as_stall}
        if not real:
            return ""
        reason = max(real, key=lambda r: real[r])
        return f" {known[reason].label}{self._producer(address, reason)}"

    def _producer(self, address: int, reason: str) -> str:
        """` > 0x0120`: the instruction that is waited for."""
        if self._machine is None:
            return ""
        program = self._machine.program
        position = program.positions[address]
        for wait in self._machine.waits:
            if wait.position == position and wait.reason == reason and wait.producers:
                return f" > {self._code.offset(program.code[wait.producers[0]].address)}"
        return ""
