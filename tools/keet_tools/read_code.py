"""The tools `read_source` and `read_sass`: source lines and instructions, each with its cost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING

from keet.catalog import stalls
from keet.profile import Absent, Location
from keet.units import Quantity
from keet_tools.answers import (
    Abstention,
    Answer,
    AnswerText,
    ToolInput,
    one_page,
    packed_page,
    place_name,
    quote,
)
from keet_tools.code_places import Code

if TYPE_CHECKING:
    from keet.analysis.sass import MachineCode


_LONGEST_LINE = 160
_MARK = 18
"""Characters that a line's number and share take."""
_LEAST_SHARE = 0.001


def read_source(  # noqa: PLR0913, PLR0917 - the arguments of a question
    tool_input: ToolInput,
    file: str = "",
    line: int = 1,
    launch: int | None = None,
    report: int = 0,
    page: int = 1,
) -> Answer:
    """Source text from a line on, with each line's share of samples."""
    if not tool_input.show_source:
        raise Abstention("source text is not shown in this session")
    code = Code(tool_input.launch(launch, report))
    path = code.file(file)
    text = code.lines_of(path)
    name = code.names[path]
    if not text:
        raise Abstention(f"the text of `{name}` is not in the report; give it with `--source DIR`")
    if not 1 <= line <= len(text):
        raise Abstention(f"`{name}` has no such line; its last is `{len(text)}`")
    numbers = range(line, len(text) + 1)
    costs = [min(_LONGEST_LINE, len(text[number - 1].expandtabs(4))) + _MARK for number in numbers]
    shown, more = packed_page(numbers, costs, page)
    say = AnswerText()
    rows = [_line_row(code, Location(path, number), say) for number in shown]
    return say.answer(f"{quote(name)}, L is the line's number:", *rows, more)


def _line_row(code: Code, location: Location, say: AnswerText) -> str:
    text = code.text_of(location)
    shown = f" {quote(text, _LONGEST_LINE)}" if text.strip() else ""
    return f"L{location.line}{_line_share(code, location, say)}{shown}"


def _line_share(code: Code, location: Location, say: AnswerText) -> str:
    weight, total = code.weights.get(location, 0), code.table.total
    if not total or weight < _LEAST_SHARE * total:
        return ""
    of = "samples" if code.table.samples else "executed"
    share = Quantity(100 * weight / total, "%")
    label = "share of samples" if of == "samples" else "share of executed instructions"
    where = code.where(location)
    return f" {say(code.ledger.derived(f'{of}_share', share, label, line=where))}"


_SIZE = 12
_BEFORE = 5
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
        if not total or weight < _LEAST_SHARE * total:
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
