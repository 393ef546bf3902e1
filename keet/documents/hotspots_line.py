"""The `line` object of `keet hotspots --line FILE:LINE --format json`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import JsonLocation
from keet.profile import Location

PurposeName = Literal[
    "value", "memory", "address", "control", "conversion", "move", "sync", "unknown"
]
LinkName = Literal["result", "register reuse", "completion", "itself", "unknown"]


class Placed:
    """A document about a line of the source, or about code without one."""

    file: str | None
    line: int | None

    @property
    def location(self) -> Location | None:
        return None if self.file is None or self.line is None else Location(self.file, self.line)


class PurposeShare(Document):
    purpose: PurposeName
    share: float
    """Share of the executed warp instructions, 0 to 1."""


class WaitDocument(Document):
    """Samples with the same stall reason that wait for instructions of the same line."""

    reason: str
    samples: int
    producer: JsonLocation | None
    """Line of the instruction that is waited for. Null if the instruction waits for its own unit,
    or if the producer is not known or has no line."""
    link: LinkName
    """`result`: the producer computes an operand. `register reuse`: the producer still uses a
    register that will be overwritten. `completion`: the producer must have completed. `itself`: the
    instruction's own queue, pipe or fetch is busy."""


class InstructionWait(WaitDocument):
    producer_address: int | None


class LineInstruction(Document):
    address: int
    offset: str
    sass: str
    purpose: PurposeName
    executed: int
    samples: int
    waits: Sequence[InstructionWait]


class AwaitedDocument(Placed, Document):
    file: str | None
    line: int | None
    reason: str
    samples: int


class AccessDocument(Document):
    address: int
    kind: Literal["load", "store", "atomic", "copy"]
    pointer: str
    form: str
    """Offset from the pointer in bytes, as a sum of products."""
    width: int
    """Bytes per thread."""
    lane_stride: int | None
    """Bytes between neighbouring threads; null if not known."""
    requested_bytes: int | None
    distinct_bytes_at_most: int | None
    """Null if not known."""
    basis: Literal["bound", "estimate"] | None
    depends_on_data: bool
    """True for a gather: the address depends on loaded data."""


class MergeDocument(Document):
    addresses: list[int]
    """Addresses of a thread's accesses to consecutive bytes."""
    width: int
    """Bytes per access."""
    merged_width: int
    """Bytes of each access that could replace them."""
    is_aligned: bool | None
    """True if the merged access is aligned, provided that the pointer is; null if not known."""


class AtomicDocument(Document):
    address: int
    memory: Literal["global", "shared"]
    spread: str
    addresses_at_most: int | None
    has_result: bool


class LoopDocument(Placed, Document):
    name: str
    """Name of the loop, as in address forms."""
    address: int
    """Address of its first instruction."""
    file: str | None
    line: int | None
    trips: float | None
    """Iterations per entry, averaged over all warps."""
    depth: int
    instructions: int | None
    """Instructions of one iteration; null if the loop ran once per entry."""
    share: float | None
    """Share of the launch's executed warp instructions."""
    loads: int | None
    """Global and local loads of one iteration."""
    load_depth: int | None
    """Length of the longest chain of dependent loads in one iteration."""
    independent_loads: float | None
    """Loads that can be in flight at the same time."""
    recurrence: list[int] | None
    """Addresses of the longest dependency chain from one iteration to the next; null if there is
    none."""
    recurrence_loads: int | None


class InvariantDocument(Document):
    loop: str
    addresses: list[int]
    """Addresses of instructions with the same result in every iteration."""
    share: float
    """Share of the executed warp instructions that would be saved."""
    loads: int


class RoutineDocument(Placed, Document):
    file: str | None
    line: int | None
    instructions: int
    executed: int
    samples: int


class LineDocument(Document):
    file: str
    line: int
    executed: int
    executed_share: float
    purposes: Sequence[PurposeShare]
    instructions: Sequence[LineInstruction]
    """Instructions that were executed or sampled, in the order of the code. Samples of warps that
    have ended (`drain`) are counted at the instruction after EXIT."""
    waited_for_by: Sequence[AwaitedDocument]
    """Samples at other lines that wait for this line."""
    accesses: Sequence[AccessDocument]
    merges: Sequence[MergeDocument]
    atomics: Sequence[AtomicDocument]
    loops: Sequence[LoopDocument]
    """Loops around the line, outermost first."""
    invariants: Sequence[InvariantDocument]
    calls: Sequence[RoutineDocument]
    """Routines that only this line calls. Their instructions are not listed above; they are counted
    at the line given here."""
    callers: Sequence[RoutineDocument]
    """Lines that are the only callers of routines whose instructions are listed above."""
