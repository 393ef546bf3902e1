"""`keet hotspots --format json`, and its `line` object for `--line FILE:LINE`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import JsonLocation, LaunchResult, ReportResult, Skipped
from keet.profile import Location

PurposeName = Literal[
    "value", "memory", "address", "control", "conversion", "move", "sync", "unknown"
]
LinkName = Literal["result", "register reuse", "completion", "itself", "unknown"]


class Placed(Document):
    """About a line of the source, or code without one."""

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


class AwaitedDocument(Placed):
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


class LoopDocument(Placed):
    name: str
    """Name of the loop, as in address forms."""
    address: int
    """Address of its first instruction."""
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


class RoutineDocument(Placed):
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


class StallDocument(Document):
    reason: str
    samples: int


class SpotDocument(Placed):
    source: str | None
    """The text of the line, if the source is available."""
    address: int | None
    """Set if the row is a single instruction."""
    sass: str | None
    instructions: int
    """Number of machine instructions in the row."""
    share: float | None
    """Share of the quantity that rows are ranked by, 0 to 1."""
    samples: int | None
    stalls: tuple[StallDocument, ...]
    """The largest first."""
    executed: int | None
    """Executed warp-level instructions."""
    threads_executed: int | None
    sectors_global: int | None
    """32-byte sectors that would be requested from L2 if nothing hit L1."""
    sectors_global_excess: int | None
    """Sectors beyond those that contiguous addresses would need."""
    sectors_local: int | None
    wavefronts_shared: int | None
    wavefronts_shared_excess: int | None
    """Wavefronts beyond those needed without bank conflicts."""
    purposes: Sequence[PurposeShare]
    """Shares of the row's executed warp instructions; empty without a machine-code analysis."""
    waits: Sequence[WaitDocument]
    """Both ends of the row's waits; empty without a machine-code analysis."""

    @property
    def samples_by_reason(self) -> dict[str, int]:
        """The largest first."""
        return {stall.reason: stall.samples for stall in self.stalls}

    def stall_shares(self) -> dict[str, float]:
        """Shares of the row's own samples."""
        whole = self.samples
        return {s.reason: s.samples / whole for s in self.stalls} if whole else {}


class PointerDocument(Document):
    """The data that is read through one pointer argument."""

    pointer: str
    """Name in the source if known, else for example `param+0x10`. `loaded`: the pointer was loaded
    from memory. `several`: the pointer depends on the path taken."""
    parameter: str | None
    """Offset in the kernel's parameters."""
    requested_bytes: int | None
    """Bytes requested by all threads; null if the threads were not counted."""
    distinct_bytes_at_most: int | None
    """Null if not known."""
    basis: Literal["bound", "estimate"] | None
    """`estimate` if it depends on average trip counts, clamps or choices between paths."""
    times: float | None
    """Minimum number of requested bytes per distinct byte."""
    l1_bytes: int | None
    """Bytes in the 32-byte sectors that its loads requested from L1."""
    l2_bytes: int | None
    """Part of `l1_bytes` that L1 read from L2."""
    l2_basis: Literal["measured", "apportioned"] | None
    """`apportioned`: the launch's bytes from L2, distributed by the sectors per pointer."""
    lines: list[JsonLocation]
    """Source lines of its loads, most bytes first."""
    why_unknown: str | None
    """Why `distinct_bytes_at_most` is null."""


class HotspotsLaunch(LaunchResult):
    by: Literal["line", "instruction"] | None
    ranked_by: Literal["samples", "executed"] | None
    total: int | None
    """The total over the whole launch that the shares are of."""
    sampled_share: float | None = None
    """Share of the launch that the samples cover, if they do not cover all of it."""
    rows_total: int
    """Number of rows without the limit of --top."""
    rows: Sequence[SpotDocument]
    instruction_mix: list[PurposeShare] | None
    """What the launch's executed warp instructions are for; shares add up to 1. Null: see
    `skipped`."""
    reuse: list[PointerDocument] | None
    """One row per pointer that is read, most bytes first. Null: see `skipped`."""
    line: LineDocument | None = None
    """With --line: everything about that line."""
    skipped: Sequence[Skipped]


class HotspotsDocument(ReportResult):
    """`keet hotspots --format json`"""

    launches: list[HotspotsLaunch]
