"""Instructions by source line. For accesses that were inlined from a header of the CUDA toolkit,
the calling line. For loops, the line of their condition.

The line table has the header's line, which the user can't change. The address that is passed to
such a function is computed at the line of the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from keet.analysis.kernel_kind.library import is_of_toolkit
from keet.analysis.machine_code.analyses.purpose import address_registers
from keet.analysis.machine_code.flow.control_flow import Loop
from keet.analysis.machine_code.instructions.opcodes import Role
from keet.analysis.machine_code.instructions.operands import span
from keet.analysis.machine_code.launch_code import MachineCode
from keet.profile import Location


def positions_of(code: MachineCode, line: Location) -> list[int]:
    """Positions of the instructions that ran for a line, in the order of the code."""
    return [position for position in code.program.ran if code.location(position) == line]


def loop_line(code: MachineCode, loop: Loop) -> Location | None:
    """The line of a loop's backward branch: its condition, in the head of a `for` or `while`."""
    flow = code.program.flow
    branches = [flow.blocks[latch].end - 1 for latch in loop.latches]
    lines = (code.location(branch) for branch in sorted(branches, reverse=True))
    return next((line for line in lines if line and not is_of_toolkit(line.file)), None)


_ACCESSES = (Role.LOAD, Role.STORE, Role.ATOMIC, Role.COPY)
_MOST_INSTRUCTIONS = 64
"""Most instructions that are followed back from an address."""


def calling_line(code: MachineCode, position: int) -> Location | None:
    """The line of the instruction; for an access within the toolkit, the line of the call."""
    line = code.location(position)
    instruction = code.program.code[position]
    if line is None or not is_of_toolkit(line.file) or instruction.role not in _ACCESSES:
        return line
    # A memory descriptor is loaded at the kernel's start: it does not show the call.
    descriptors = {name for operand in instruction.operands for name in span(operand.descriptor, 2)}
    spent = set(address_registers(instruction)) - descriptors
    read = code.program.values.read[position]
    call = _outside(code, [value for name, value in read.items() if name in spent])
    if call is None and instruction.role is Role.ATOMIC:  # the address is an argument of the kernel
        call = _before(code, position)
    return line if call is None else call


def calls_of(code: MachineCode, line: Location) -> list[Location]:
    """The lines that call a line of the toolkit, by its accesses, the most executed first."""
    if not is_of_toolkit(line.file):
        return []
    calls: Counter[Location] = Counter()
    for position in positions_of(code, line):
        call = calling_line(code, position)
        if call is not None and call != line:
            calls[call] += code.program.counts[position]
    return [call for call, _ in calls.most_common()]


def _before(code: MachineCode, position: int) -> Location | None:
    """The line of the nearest instruction before that is outside of the toolkit: the compiler moves
    little across an atomic."""
    for at in range(position - 1, max(-1, position - 1 - _MOST_INSTRUCTIONS), -1):
        line = code.location(at)
        if line is not None and not is_of_toolkit(line.file):
            return line
    return None


def _outside(code: MachineCode, values: Iterable[int]) -> Location | None:
    """The line of the nearest instructions outside of the toolkit that computed these values."""
    seen: set[int] = set()
    level = list(values)
    while level and len(seen) < _MOST_INSTRUCTIONS:
        behind = {
            position for value in level for position in code.program.values.definitions(value)
        } - seen
        seen |= behind
        lines = {position: code.location(position) for position in sorted(behind)}
        outside = [
            line for line in lines.values() if line is not None and not is_of_toolkit(line.file)
        ]
        if outside:
            return outside[-1]
        level = [
            value for position in behind for value in code.program.values.read[position].values()
        ]
    return None
