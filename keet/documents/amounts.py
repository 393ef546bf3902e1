"""How much work a launch does and how much of it is needed: `keet amounts --format json`, and
`amounts` of each launch in `keet explain --format json`."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import LEFT_OUT, Document
from keet.documents.shared_types import (
    DeviceDocument,
    Dimensions,
    EvidenceId,
    FigureDocument,
    JsonLocation,
    JsonNumber,
    JsonSentence,
    LaunchResult,
    ReportResult,
    Skipped,
)

Basis = Literal["exact", "bound", "estimate"]
"""`exact`: by the addresses and counts alone. `bound`: at most this. `estimate`: from averages."""


class AmountText(Document):
    """A row of amounts: its numbers as fields, and in words."""

    text: JsonSentence
    evidence: tuple[EvidenceId, ...]
    """Ids of the numbers in `text`, and of those that they were computed from."""


class ItemDocument(AmountText):
    """What amounts are counted per."""

    name: str
    """For example `element of out`, `thread`, or the name that the user gave."""
    count: float
    basis: Literal["stores", "loads", "threads", "user"]
    """`stores`: distinct elements that the launch stores, by the addresses of its stores; where it
    stores none, those that it updates by atomics. `loads`: those that it reads, where several
    blocks or threads combine their work in each result."""


class PerItemDocument(AmountText):
    id: str
    """`instructions`, `instructions.address` and other purposes, `loads`, `stores`, `fp32`, `fp64`,
    `fp16`, `special`, `divisions`, `atomics`, `l1_bytes`, `l2_bytes`, `dram_bytes` and others."""
    label: str
    value: float
    """Per item. Instructions are those of threads: a warp instruction with all lanes on counts
    32."""
    unit: str
    """The first entry of `evidence` is this number."""


class AgainDocument(Document):
    """What reads the same bytes of an array again."""

    by: Literal["loop", "blocks", "threads", "passes", "instructions"]
    """`loop`: an address does not depend on a loop. `blocks`, `threads`: it does not depend on an
    index of the grid or of the block. `passes`: several loops. `instructions`: several instructions
    of one pass."""
    name: str
    """For example `the loop at slow.cu:12`, `blockIdx.z`."""
    times: float | None
    """How often each byte is read because of it; null if not known."""


class ArrayDocument(AmountText):
    """The data behind one kernel parameter or base pointer."""

    name: str
    """Name in the source if known, else for example `param+0x10`."""
    parameter: str | None
    access: Literal["read", "written", "updated"]
    """`updated`: both, or by atomics."""
    distinct_bytes: float | None
    """Bytes of it that the launch touches; null if not known: see `why_unknown`."""
    basis: Basis | None
    requested_bytes: float | None
    """Bytes that all threads load and store."""
    l1_bytes: float | None
    """Bytes of the sectors that its accesses request from L1."""
    l2_bytes: float | None
    """Bytes that come from or go to L2."""
    dram_bytes: float | None
    traffic_basis: Literal["measured", "apportioned"] | None
    """`apportioned`: the launch's bytes, distributed over the arrays."""
    times: float | None
    """Requested bytes per distinct byte."""
    times_from_l2: float | None
    times_from_dram: float | None
    again: tuple[AgainDocument, ...]
    """The largest first."""
    lines: tuple[JsonLocation, ...]
    """Source lines of its accesses, most bytes first."""
    one_address_atomics: float | None
    """Atomics of all threads on one address, which depends neither on the thread nor on the block;
    that with most of them. Null if there are none."""
    why_unknown: str | None


class RoundTripDocument(Document):
    """Loads that are on their way together, and why they were not issued with those before."""

    file: str | None
    line: int | None
    """Of the first load."""
    loads: int
    """Load instructions."""
    after_file: str | None
    after_line: int | None
    """What stands before it: the store, the branch, the load whose result it needs."""
    reason: (
        Literal[
            "store", "branch", "volatile", "atomic", "barrier", "registers", "address", "unknown"
        ]
        | None
    )
    """Why it is not issued earlier; null for the first. `store`: a store before it may write what
    it reads. `address`: it needs what a load before returned. `registers`: all registers are in
    use."""
    is_avoidable: bool
    """Whether the loads could be issued earlier. Those that need what they return move along."""
    samples_pct: float | None
    """Per cent of the launch's samples that wait for the loads."""


class SerialLoadsDocument(AmountText):
    """Loads of a thread that are issued one after the other although they could be issued
    together."""

    round_trips: float
    """Of a thread, one after the other, in the code outside of loops; with `loop`, in one
    iteration."""
    needed: float
    """Round trips that would remain: those that need each other, and those that are kept apart by a
    barrier or for a reason that is not known."""
    loads: float
    """Load instructions of these round trips."""
    loop: JsonLocation | None
    """Null: outside of loops, or the line is not known; then `iterations` is null only outside of
    loops."""
    iterations: float | None
    """Of the loop, per warp that enters it."""
    waits_pct: float
    """Per cent of the launch's samples that wait for these loads."""
    avoidable_pct: float
    """The part of `waits_pct` that would not remain with `needed` round trips."""
    pointers: tuple[str, ...]
    """Names of the pointers that are loaded through after a store, and of those stored through."""
    trips: tuple[RoundTripDocument, ...]
    """In the order of the code."""
    summary: JsonSentence
    """How many and why, without the remedy."""
    remedy: str


class PhaseDocument(Document):
    """A part of a block's life."""

    phase: Literal["load", "compute", "store"]
    first_line: int | None
    last_line: int | None
    file: str | None
    samples_pct: float
    """Per cent of the launch's samples."""


class PhasesDocument(AmountText):
    """How the time of a block splits into loading, computing and storing."""

    phases: tuple[PhaseDocument, ...]
    blocks_per_sm: float | None
    """Blocks that can overlap their phases on an SM."""


class InvariantDocument(Document):
    """Work in a loop that does not depend on the loop."""

    kind: Literal["load", "compute", "barrier"]
    name: str
    """The array, or what is computed."""
    lines: tuple[JsonLocation, ...]
    times: float | None
    """How often it is done; once would be enough."""
    bytes_per_block: float | None
    """Size of what is loaded, for one block; the average if blocks differ."""
    basis: Basis | None
    """Of `bytes_per_block`."""
    fits: tuple[Literal["registers", "shared memory"], ...]
    share_pct: float | None
    """Per cent of the launch's instructions (`compute`), or of its requested bytes (`load`)."""


class LoopAmounts(AmountText):
    file: str | None
    line: int | None
    depth: int
    copies: int | None
    """Iterations of the source per trip of the machine's loop: more than 1 if the compiler unrolled
    it. Null: not known; then all numbers are those of trips."""
    iterations: float
    """Per entry, averaged over warps."""
    iterations_least: float | None
    """Null where the report does not tell; the same as `iterations` if all warps do as many."""
    iterations_most: float | None
    entries: float
    """How often warps enter the loop."""
    instructions: float
    """Of a warp per iteration, inner loops included."""
    loads: float
    """From global and local memory, of a warp per iteration."""
    barriers: float
    share_pct: float
    """Per cent of the executed instructions."""
    chain_cycles: float | None
    """Least cycles of the chain that one iteration needs from the one before."""
    invariant: tuple[InvariantDocument, ...]


class ConditionDocument(AmountText):
    """Code that only part of the threads reach: those that meet a condition of the source."""

    file: str
    line: int
    """Of the condition. Its copies in the machine code are added up."""
    to_line: int
    """A line of the guarded code, the first one after the condition; `line` if all of it stands
    there."""
    threads: float
    """How often threads get to the condition."""
    threads_entering: float
    share_pct: float
    """`threads_entering` per cent of `threads`."""
    warps: float
    """The same for warps."""
    warps_entering: float | None
    """Null if not known: warps run an instruction under a predicate with all threads off, too."""
    is_repeated: bool
    """Whether a thread may get there several times: in a loop, or in copies of the code."""
    is_by_index: bool
    """Whether indices of the block and the thread alone decide; else data may."""
    stores: tuple[str, ...]
    """Arrays that the guarded code stores to; `shared memory` is one of them."""
    atomics: tuple[str, ...]
    """Arrays that it updates by atomics."""
    is_all_stores: bool
    """Whether the launch has no stores and atomics to global memory elsewhere, so that a thread
    that does not enter changes nothing there."""
    instructions_pct: float
    """Per cent of the launch's executed instructions that are guarded."""
    samples_pct: float | None


class UnitUseDocument(AmountText):
    """How busy a pipe or unit is."""

    unit: str
    average_pct: float
    """Per cent of the peak of all SMs over the launch."""
    active_pct: float | None
    """Per cent of the peak of the SMs while they are active."""


class LineAccessDocument(AmountText):
    """What the loads, stores or atomics of one kind at one source line cost."""

    file: str | None
    line: int | None
    offset: int
    """Of the first instruction, in its function: bytes, as the disassembly prints them."""
    instructions: int
    memory: Literal["global", "local", "shared"]
    operation: str
    """`load`, `store`, `atomic` or `copy`."""
    width: int | None
    """Bytes per thread."""
    is_uniform: bool | None
    """Whether all threads of a warp access the same address; null if not known."""
    executed: float
    """Warp instructions."""
    sectors: float | None
    """Of 32 bytes, per warp instruction; null for shared memory."""
    sectors_needed: float | None
    wavefronts: float | None
    """Passes through L1, per warp instruction; null if not known. A load from global memory takes
    one per 128 bytes that the threads of a warp get, also if all of them get the same ones."""
    wavefronts_needed: float | None
    """Null for global and local memory."""


class UnitPartDocument(AmountText):
    """A part of the work of L1 or L2."""

    unit: Literal["L1", "L2"]
    part: Literal[
        "loads",
        "gathers",
        "uniform loads",
        "stores",
        "atomics",
        "local memory",
        "shared memory",
        "textures",
        "other",
    ]
    """`gathers`: loads whose address depends on loaded data. `uniform loads`: all threads of a warp
    load from one address. Both are in `loads` without the machine code, and where their part is not
    known; so is `local memory`, which is then in `stores` too."""
    amount: float
    """Of the unit's work, in `of`."""
    basis: Literal["exact", "estimate"]
    of: str
    """`wavefronts` (passes through L1) or `sectors` (32 bytes; those of L1 without shared
    memory)."""
    share_pct: float
    """The shares of a unit in one measure add up to 100."""


class ResourcesDocument(AmountText):
    """What a block takes, and how many fit."""

    registers_per_thread: float | None
    local_bytes_per_thread: float | None
    """Stack of the kernel: arrays and spilled registers; null without machine code."""
    spilled_bytes_per_thread: float | None
    """Local memory that the compiler uses for registers; null if not known."""
    spills_per_thread: float | None
    """Loads and stores of spilled registers that a thread executes, averaged over all warps."""
    shared_bytes_per_block: float | None
    """Static and dynamic, without what the driver adds."""
    blocks_per_sm: float | None
    """That an SM holds at a time: those that fit, or fewer if the grid has no more."""
    blocks_that_fit: float | None
    warps_per_sm: float | None
    """Warps of these blocks."""
    achieved_warps_per_sm: float | None
    """While an SM is active, on average."""
    limited_by: tuple[str, ...]
    """`registers`, `shared memory`, `block size`, `blocks` or `grid`; empty if an SM holds as many
    warps as it can, or if it is not known."""
    waves: float | None
    barriers_per_block: float | None
    """Executed by a block, averaged over all blocks; null without machine code."""


class BoundDocument(AmountText):
    """A time that the launch can't fall below while an assumption holds."""

    id: str
    """`same_bytes`, `bytes_once`, `arithmetic`, `state_on_chip` and others."""
    assumption: str
    us: float


class ExcessDocument(AmountText):
    """Work beyond what is needed."""

    id: str
    """`array.NAME`, `loop.LINE`, `access.FILE:LINE`, `local_memory`, `serial_loads`, `per_item`."""
    label: str
    """What the row of the short list begins with."""
    us: float | None
    """Time that it costs: what the finding about it would save, shared between excesses of the
    same kind; null if the launch's duration is not known. The list is sorted by it."""
    places: tuple[JsonLocation, ...]


class LaunchAmounts(Document):
    """The amounts of one launch. What is not known is null or left out of a list, with its reason
    in `unknown`."""

    item: ItemDocument | None
    per_item: tuple[PerItemDocument, ...]
    arrays: tuple[ArrayDocument, ...]
    """Most bytes first."""
    serial_loads: SerialLoadsDocument | None
    phases: PhasesDocument | None
    loops: tuple[LoopAmounts, ...]
    """Most instructions first."""
    conditions: tuple[ConditionDocument, ...]
    """Most guarded work first."""
    units: tuple[UnitUseDocument, ...]
    accesses: tuple[LineAccessDocument, ...]
    """Most sectors or wavefronts first."""
    parts: tuple[UnitPartDocument, ...]
    resources: ResourcesDocument | None
    bounds: tuple[BoundDocument, ...]
    excesses: tuple[ExcessDocument, ...]
    """The largest first."""
    unknown: tuple[Skipped, ...]


class AmountsLaunch(LaunchResult):
    grid: Dimensions | None
    block: Dimensions | None
    duration_us: float | None
    figures: tuple[FigureDocument, ...]
    """Rates, bytes of the memory levels and hit rates."""
    amounts: LaunchAmounts
    evidence: dict[str, JsonNumber]
    """Numbers by id."""


class LaunchGroupDocument(AmountText):
    """Launches of one kernel with one shape and about one duration."""

    kernel: str
    grid: Dimensions | None
    block: Dimensions | None
    launches: int
    profiled: tuple[int, ...]
    """Ids of the launches of the report that belong to it; empty: not profiled."""
    us_total: float
    us_median: float | None
    share_pct: float
    """Of the time of all launches."""
    fixed_us: float | None
    """Start and end of a launch that do no work, per launch."""


class StateDocument(AmountText):
    """Data that many launches move again."""

    kernels: tuple[str, ...]
    """Several: kernels that take turns."""
    launches: int
    """Of several kernels: how many turns they take."""
    bytes_per_launch: float
    """Read and written by each launch, or in each turn."""
    distinct_bytes: float | None
    """Null if only a bound is known."""
    fits: tuple[Literal["L2", "shared memory", "registers"], ...]
    share_pct: float | None
    """Per cent of the launches' time that moving the data takes at DRAM's peak rate."""
    steps: int
    """Steps or turns per launch for which `us` was computed."""
    us: float | None
    """Time to move the data if so many steps are done per launch."""
    detail: JsonSentence
    """What the text leaves out: the size of the data, and what the chip holds."""


class HandOverDocument(AmountText):
    """One kernel may read what another writes: a candidate, by amount and array."""

    writer: str
    reader: str
    writer_array: str | None
    """Names, joined by commas."""
    reader_array: str | None
    """The same names, or those of arrays of the same size, any of which may be meant."""
    bytes: float | None
    us: float | None
    """Of writing and reading it once, at DRAM's rate."""


class RereadDocument(AmountText):
    """An array of unknown size that a kernel reads, by the size that another one writes: a
    candidate, by the array's name."""

    writer: str
    reader: str
    array: str
    bytes: float
    """Written."""
    dram_bytes: float
    """From DRAM, in one launch of the reader."""
    l2_bytes: float | None
    times_from_dram: float
    times_from_l2: float | None


class ProgramAmounts(Document):
    groups: tuple[LaunchGroupDocument, ...]
    """The largest share first."""
    states: tuple[StateDocument, ...]
    hand_overs: tuple[HandOverDocument, ...]
    """All candidates, the largest first."""
    rereads: tuple[RereadDocument, ...]
    """The most often read one first."""
    bounds: tuple[BoundDocument, ...]
    texts: tuple[JsonSentence, ...]
    """About the launches together: kernels that were not profiled, the fixed cost of short
    launches."""
    evidence: dict[str, JsonNumber]


class AmountsDocument(ReportResult):
    """`keet amounts --format json`"""

    device: DeviceDocument
    """The GPU of the first launch in this document."""
    program: ProgramAmounts | None = LEFT_OUT
    """Left out if there is one launch and no run."""
    launches: list[AmountsLaunch]
