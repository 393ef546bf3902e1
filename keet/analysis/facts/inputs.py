"""The inputs of facts: counters, opcodes, machine code and source text of one launch.

Everything is `None` where the report does not say. Nothing is entered into the ledger here: it gets
only the evidence of the advice that is given.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from keet.analysis.kernel.archetype import Archetype, archetype_of
from keet.analysis.kernel.library import library_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.place import Place
from keet.analysis.source_lines.array_accesses import ACCESS_BYTES
from keet.evidence import Evidence
from keet.records import NamedTuple

if TYPE_CHECKING:
    from keet.analysis.sass.machine_code import MachineCode

GLOBAL, LOCAL, SHARED = 4, 8, 16
"""ncu's codes in `memory_type`, a bit field: an asynchronous copy has two bits."""
LOAD, STORE = 2, 4
"""ncu's codes in `memory_access_type`."""
IDLE = ("selected", "not_selected")
"""Warp states in which a warp is not stalled."""


class MemoryInstruction(NamedTuple):
    """One instruction that accesses memory, from the report's columns."""

    address: int
    memory: int
    operation: int
    """0 if it is neither a load nor a store."""
    width: int
    """Bytes per thread; 0 if not known."""
    threads: float


class RaisedFinding(Protocol):
    """What facts may ask of the finding that the remedy is for."""

    @property
    def variant(self) -> str: ...
    @property
    def places(self) -> tuple[Place, ...]: ...
    @property
    def evidence(self) -> tuple[Evidence, ...]: ...


class FactInputs:
    """A finding and its launch, for the functions that decide facts."""

    def __init__(self, finding: RaisedFinding, view: LaunchView) -> None:
        self.finding = finding
        self.view = view
        self.launch = view.launch
        self.capability = view.capability

    # --- counters

    def value(self, metric_id: str) -> float | None:
        found = self.launch.number(metric_id)
        return None if found is None else float(found)

    def total(self, *metric_ids: str) -> float | None:
        """The sum of the known ones; `None` if none is known."""
        known = [value for value in map(self.value, metric_ids) if value is not None]
        return sum(known) if known else None

    def ratio(self, over: float | None, under: float | None) -> float | None:
        return over / under if over is not None and under else None

    # --- warp states

    @cached_property
    def waits(self) -> Mapping[str, float]:
        """Shares of the cycles in which warps wait, by reason; they sum to 1."""
        states = {r: s for r, s in self.view.stalls.items() if r not in IDLE}
        total = sum(states.values())
        return {reason: share / total for reason, share in states.items()} if total else {}

    @cached_property
    def main_wait(self) -> str | None:
        return max(self.waits, key=lambda reason: self.waits[reason], default=None)

    # --- opcodes

    def count(self, *opcodes: str) -> float | None:
        """Executed warp instructions with exactly these opcodes; `None` without the counter."""
        executed = self.view.opcodes
        return sum(executed.get(opcode, 0.0) for opcode in opcodes) if executed else None

    @cached_property
    def executed(self) -> float:
        return self.view.all_executed

    @cached_property
    def modified(self) -> Mapping[str, float]:
        """Executed warp instructions by opcode with its modifiers: `MUFU.EX2`."""
        found = self.launch.find("inst_by_opcode_all_modifiers")
        parts = self.launch.instances(found.name) if found else None
        return {opcode: float(n) for opcode, n in parts.by_name().items()} if parts else {}

    def matching(self, pattern: str) -> float | None:
        """Executed warp instructions whose opcode with modifiers matches at its start."""
        if not self.modified:
            return None
        form = re.compile(pattern)
        return sum(count for opcode, count in self.modified.items() if form.match(opcode))

    # --- accesses to memory

    @cached_property
    def memory(self) -> tuple[MemoryInstruction, ...]:
        """Empty if the report has no columns per instruction."""
        names = (
            "memory_type",
            "memory_access_type",
            "memory_access_size_type",
            "thread_inst_executed_true",
        )
        kinds, operations, sizes, threads = (self.view.by_address(name) for name in names)
        return tuple(
            MemoryInstruction(
                address,
                int(kind),
                int(operations.get(address, 0)),
                ACCESS_BYTES.get(sizes.get(address, 0.0), 0),
                float(threads.get(address, 0.0)),
            )
            for address, kind in kinds.items()
            if kind
        )

    def accesses_of(self, memory: int) -> list[MemoryInstruction]:
        return [each for each in self.memory if each.memory & memory and each.threads]

    @cached_property
    def main_width(self) -> int | None:
        """The access width (bytes per thread) that moves most of the global bytes."""
        moved: Counter[int] = Counter()
        for each in self.accesses_of(GLOBAL):
            moved[each.width] += int(each.threads * each.width)
        return moved.most_common(1)[0][0] if moved and any(moved.values()) else None

    def part(self, metric_id: str, addresses: Collection[int]) -> float | None:
        """Share of a column's sum at these instructions."""
        column = self.view.table.column(metric_id)
        total = sum(column.values()) if column else 0
        if not column or not total:
            return None
        return sum(column.get(address, 0) for address in addresses) / total

    # --- machine code

    @property
    def code(self) -> MachineCode | None:
        return self.view.code

    def executions(self, position: int) -> int:
        return self.code.program.counts[position] if self.code else 0

    # --- names

    @cached_property
    def library(self) -> str | None:
        return library_of(self.launch.name.full)

    @cached_property
    def archetype(self) -> Archetype | None:
        return archetype_of(self.launch, self.view.opcodes)

    # --- source text

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Source files of the kernel's code, those of the finding first."""
        own = [place.file for place in self.finding.places]
        return tuple(dict.fromkeys([*own, *self.launch.source_files]))

    def text(self, file: str) -> str:
        return self.launch.source_text(file) or ""

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return tuple(text for file in self.files if (text := self.text(file)))
