"""Names of source lines, functions and instructions of a launch, for tools that show code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from keet.analysis.sass.lines import positions_of
from keet.analysis.source_lines import InstructionTable, Spot
from keet.errors import one_line
from keet.evidence import Evidence
from keet.explanation.explanation_types import LaunchExplanation
from keet.profile import Absent, Location
from keet.safe_text import bounded_lines
from keet.units import Quantity
from keet_tools.answers import Abstention, ToolInput, place_name, quote

_SEPARATORS = re.compile(r"[\\/]+")
_ADDRESS = re.compile(r"(?:fn(?P<function>\d+)\+)?(?P<offset>0x[0-9a-fA-F]+)")
NO_LINES = (
    "no line information; build with `nvcc -lineinfo` and profile again with "
    "`--section SourceCounters --import-source yes`"
)


class Code:
    """The code of one launch, as tools name its parts."""

    def __init__(self, each: LaunchExplanation) -> None:
        self.launch = each.launch
        self.ledger = each.view.ledger
        self.table = InstructionTable(each.launch)

    # --- files and lines

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Short names of the files: what of a path tells it from the others."""
        lines = (location.file for location in self.launch.locations.values())
        return _short_names({*lines, *self.launch.source_files})

    def where(self, location: Location) -> str:
        return f"{self.names[location.file]}:{location.line}"

    def text_of(self, location: Location) -> str:
        """The source line, where its text is at hand."""
        lines = self.lines_of(location.file)
        return lines[location.line - 1] if 1 <= location.line <= len(lines) else ""

    def lines_of(self, file: str) -> Sequence[str]:
        return self._texts.get(file, ())

    @cached_property
    def _texts(self) -> Mapping[str, Sequence[str]]:
        files = self.launch.source_files.items()
        return {path: bounded_lines(text) for path, text in files if text}

    @cached_property
    def weights(self) -> Mapping[Location, int]:
        """Samples (or executions) by line."""
        found: dict[Location, int] = {}
        for address, weight in self.table.weight.items():
            location = self.launch.locations.get(address)
            if location is not None:
                found[location] = found.get(location, 0) + weight
        return found

    def main_file(self) -> str:
        """The file that costs the most; the first one where nothing was sampled."""
        costs: dict[str, int] = {}
        for location, weight in self.weights.items():
            costs[location.file] = costs.get(location.file, 0) + weight
        known = [file for file in self.names if self.lines_of(file)] or list(self.names)
        if not (costs or known):
            raise Abstention(NO_LINES)
        return max(costs, key=lambda file: costs[file]) if costs else known[0]

    def file(self, name: str) -> str:
        """The path that a model means: a short name, a path, or the end of one."""
        if not name:
            return self.main_file()
        ending = "/" + "/".join(_parts(name))
        paths = {path: "/" + "/".join(_parts(path)) for path in self.names}
        found = [path for path in paths if path == name or self.names[path] == name]
        found = found or [path for path, whole in paths.items() if whole.endswith(ending)]
        if len(found) != 1:
            known = ", ".join(f"`{short}`" for short in list(self.names.values())[:12])
            wrong = "no file" if not found else "more than one file"
            raise Abstention(f"{wrong} of that name; the files are {known or 'not known'}")
        return found[0]

    def location(self, at: str) -> Location:
        """`file.cu:31`, or `31` of the file that costs the most."""
        name, colon, line = at.strip().rpartition(":")
        if not line.strip().isdecimal():
            raise Abstention("name a line as `file.cu:31`")
        return Location(self.file(name if colon else ""), int(line))

    def addresses_at(self, location: Location) -> list[int]:
        found = [pc for pc, where in self.launch.locations.items() if where == location]
        if not found:
            raise Abstention(self._no_code(location))
        return sorted(found)

    def _no_code(self, location: Location) -> str:
        if not self.launch.locations:
            return NO_LINES
        lines = sorted({w.line for w in self.launch.locations.values() if w.file == location.file})
        near = sorted(lines, key=lambda line: abs(line - location.line))[:5]
        has = ", ".join(f"`{line}`" for line in sorted(near)) or "none"
        return (
            f"no instruction belongs to `{self.where(location)}`; near it, these lines have: {has}"
        )

    # --- instructions

    @cached_property
    def _starts(self) -> Sequence[int]:
        return self.launch.function_starts or self.table.addresses[:1] or [0]

    def offset(self, address: int) -> str:
        """`0x0130` from the function's start, as in cuobjdump; `fn1+0x0130` beyond the first."""
        number = max((i for i, pc in enumerate(self._starts) if pc <= address), default=0)
        prefix = f"fn{number}+" if number else ""
        return f"{prefix}{address - self._starts[number]:#06x}"

    def address(self, at: str) -> int | None:
        """Of an offset, or an address of the report itself."""
        match = _ADDRESS.fullmatch(at.strip())
        if match is None:
            return None
        function, value = int(match["function"] or 0), int(match["offset"], 16)
        if function >= len(self._starts):
            raise Abstention(f"there is no function `fn{function}` in this launch")
        return value if value >= self._starts[0] else self._starts[function] + value

    def sass(self) -> Mapping[int, str]:
        found = self.launch.disassembly
        if isinstance(found, Absent):
            raise Abstention(f"no SASS: {one_line(found.reason)}; {one_line(found.remedy)}")
        return found

    # --- costs

    def share(self, members: Iterable[int], name: str, line: str | None) -> Evidence | None:
        """Share of the samples that some instructions have."""
        weight, total = self.table.weight, self.table.total
        if not total:
            return None
        amount = sum(weight.get(address, 0) for address in members)
        of = "samples" if self.table.samples else "executed"
        label = f"share of {'samples' if of == 'samples' else 'executed instructions'}"
        share = Quantity(100 * amount / total, "%")
        return self.ledger.derived(f"{of}_share{name}", share, label, line=line)

    def name_of(self, spot: Spot) -> tuple[str, str, str | None]:
        """How to call a spot, what tells its evidence apart, and the line that it belongs to."""
        line = self.where(spot.location) if spot.location else None
        if spot.address is None:
            return line or "no line", "" if line else " (no line)", line
        offset = self.offset(spot.address)
        return f"{offset} {line}" if line else offset, f" {offset}", line


class AnalysedCode(Code):
    """The same with the analysis of the machine code, whose instructions have positions."""

    def __init__(self, tool_input: ToolInput, each: LaunchExplanation) -> None:
        super().__init__(each)
        found = tool_input.machine_code(each)
        if isinstance(found, Absent):
            reason, remedy = one_line(found.reason), one_line(found.remedy)
            raise Abstention(f"the machine code can't be analysed: {reason}; {remedy}")
        self.machine = found
        self.shows_text = tool_input.show_source
        """Whether instructions, addresses and names of the source may be shown."""

    def positions(self, at: str) -> tuple[str, list[int]]:
        """A line (`file.cu:31`) or an address by its name, and the instructions that ran for it."""
        address = self.address(at)
        if address is not None:
            position = self.machine.program.positions.get(address)
            if position is None:
                raise Abstention(f"no instruction is at {quote(at, 24)}")
            return self.offset(address), [position]
        location = self.location(at)
        found = positions_of(self.machine, location)
        if not found:
            self.addresses_at(location)
            raise Abstention(f"the instructions of `{self.where(location)}` did not run")
        return self.where(location), found

    def offset_at(self, position: int) -> str:
        return self.offset(self.machine.program.code[position].address)

    def line_at(self, position: int) -> str | None:
        """For code of a called routine, the line that calls it."""
        location = self.machine.location(position)
        return self.where(location) if location else None

    def place_at(self, position: int) -> str:
        line = self.line_at(position)
        return (
            f"{self.offset_at(position)} {place_name(line)}" if line else self.offset_at(position)
        )

    def opcode_at(self, position: int) -> str:
        """`LDG.E`, or what the instruction is for where machine code is not shown."""
        if not self.shows_text:
            return f"{self.machine.purposes[position]} instruction"
        each = self.machine.program.code[position]
        return quote(".".join((each.opcode, *each.modifiers)), 32)

    def pointer(self, pointer: str) -> str:
        """The source's name of a pointer, or `param+0x10` where that is not known or not shown."""
        return quote(self.machine.pointer_name(pointer) if self.shows_text else pointer, 40)

    def counted(
        self, name: str, amount: Quantity, label: str, position: int | None = None
    ) -> Evidence:
        """A number of the launch, or of one instruction."""
        if position is None:
            return self.ledger.derived(name, amount, label)
        line = self.line_at(position)
        return self.ledger.derived(f"{name} {self.offset_at(position)}", amount, label, line=line)


def _parts(path: str) -> list[str]:
    return [part for part in _SEPARATORS.split(one_line(path)) if part]


def _short_names(paths: Iterable[str]) -> Mapping[str, str]:
    """As much of the end of each path as tells it from the others."""
    known = sorted(paths)
    names: dict[str, str] = {}
    for path in known:
        parts = _parts(path) or ["unnamed"]
        others = [_parts(other) for other in known if other != path]
        length = next(
            (n for n in range(1, len(parts)) if all(o[-n:] != parts[-n:] for o in others)),
            len(parts),
        )
        names[path] = "/".join(parts[-length:]).replace("`", "'")
    return names
