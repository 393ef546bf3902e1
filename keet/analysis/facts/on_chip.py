"""Facts about shared and local memory, registers and atomics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keet.analysis.facts.fact import Answer, Fact, RaisedFinding, fact, if_most_run, total
from keet.analysis.facts.global_memory import COPIES
from keet.analysis.kernel.shared_rows import Rows, shared_rows
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY
from keet.analysis.memory_work import local_cause
from keet.analysis.parameters import Parameter

if TYPE_CHECKING:
    from keet.analysis.sass.flow.program import SassProgram
    from keet.analysis.sass.machine_code import MachineCode

# --- shared memory

_IN_SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")
_IN_GLOBAL = ("LDG", "STG", "LD", "ST", "RED", "REDG", "ATOM", "ATOMG")

uses_shared = Fact.executes(
    "the kernel uses shared memory",
    *_IN_SHARED,
    *COPIES,
    negated="the kernel does not use shared memory",
    metrics=("shared_load_inst", "shared_store_inst"),
    or_metrics=("shared_memory_static", "shared_memory_dynamic"),
)
uses_async_copy = Fact.executes(
    "the kernel copies from global to shared memory asynchronously already", *COPIES
)
shared_atomics = Fact.mostly_executes(
    "most accesses to shared memory are atomics", ("ATOMS",), _IN_SHARED, half=True
)


@fact(
    "most memory instructions access shared memory",
    metrics=("shared_load_inst", "shared_store_inst"),
    opcodes=_IN_SHARED,
)
def mostly_shared(view: LaunchView) -> Answer:
    if view.opcodes:
        every = view.count(*_IN_SHARED, *_IN_GLOBAL, *COPIES)
        return view.count(*_IN_SHARED) > MAJORITY * every
    shared = total(view, *mostly_shared.metrics)
    other = total(view, "global_load_requests", "global_store_requests")
    return shared > MAJORITY * (shared + other)


def _stored_values(program: SassProgram, position: int) -> list[int]:
    """The values that a store or an atomic writes."""
    from keet.analysis.sass.analyses.purpose import address_registers

    spent = address_registers(program.code[position])
    return [value for name, value in program.values.read[position].items() if name not in spent]


@Fact.of_code(
    "data goes from global memory through registers into shared memory", opcodes=("LDG", "STS")
)
def stages_through_shared(code: MachineCode) -> Answer:
    """Whether most stores to shared memory write values just loaded from global memory."""
    program = code.program

    def is_staged(position: int) -> bool:
        sources = [program.values.all[value] for value in _stored_values(program, position)]
        return bool(sources) and all(
            source.kind.name == "DEFINITION"
            and program.code[source.position].opcode in ("LDG", "LD")
            for source in sources
        )

    stores = [each for each in program.ran if program.code[each].opcode in ("STS", "STSM")]
    return if_most_run(code, list(filter(is_staged, stores)), stores)


_CONFLICTS = (
    "bank_conflicts",
    "bank_conflicts_load",
    "bank_conflicts_store",
    "src_shared_wavefronts_excess",
)


def _rows(words: str, form: Rows, metrics: tuple[str, ...] = ()) -> Fact:
    """That there are conflicts, and the array with most of them has rows of this form."""

    def test(view: LaunchView) -> Answer:
        conflicts, rows = total(view, *_CONFLICTS), shared_rows(view)
        if rows != form or not conflicts:
            return False
        column = view.table.column("src_shared_wavefronts_excess") or {}
        return [max(column, key=lambda address: column[address])] if any(column.values()) else True

    return Fact(words, test, metrics=metrics)


rows_padded = _rows("the rows of the shared array are padded already", "padded")
rows_even = _rows(
    "the rows of the shared array are not padded: threads are an even number of words apart",
    "even",
    _CONFLICTS,
)
rows_in_pieces = _rows(
    "neighbouring threads access pieces of one row that do not lie side by side",
    "within",
    _CONFLICTS,
)
shared_index_from_data = _rows("the index into shared memory comes from data", "data")

# --- local memory and registers

_LOCAL_REQUESTS = ("spilling_requests", "local_load_requests", "local_store_requests")
spills = Fact(
    "the compiler spilled registers",
    lambda view: local_cause(view) == "spill",
    metrics=_LOCAL_REQUESTS,
)
local_arrays = Fact(
    "local memory is used and no register was spilled",
    lambda view: local_cause(view) == "array",
    metrics=_LOCAL_REQUESTS,
)

MOST_REGISTERS_PER_THREAD = 255
"""On every GPU since Kepler (CUDA C++ Programming Guide)."""
UNUSED_REGISTERS = Parameter(2, "registers left unused at the limit per thread", "judgement")


@fact(
    "a thread has the most registers that the GPU allows",
    "a thread could have more registers",
    metrics=("registers_per_thread",),
)
def registers_at_limit(view: LaunchView) -> Answer:
    used = view.launch.number("registers_per_thread")
    allowed = view.launch.number("device_registers_per_thread") or MOST_REGISTERS_PER_THREAD
    return used is not None and used >= allowed - UNUSED_REGISTERS


# --- atomics

_RETURNING = ("ATOM", "ATOMG")
_GLOBAL_ATOMICS = ("RED", "REDG", *_RETURNING)
_ATOMIC_SECTORS = ("l2_all_atomic_sectors", "l2_all_reduction_sectors")

atomics_global = Fact.executes(
    "the kernel executes atomics on global memory",
    *_GLOBAL_ATOMICS,
    metrics=_ATOMIC_SECTORS,
    or_metrics=_ATOMIC_SECTORS,
)
atomics_shared = Fact.executes(
    "the kernel executes atomics on shared memory",
    "ATOMS",
    negated="the kernel executes no atomics on shared memory",
    or_metrics=("shared_atomic_inst",),
)


@fact("the atomics return the old value", opcodes=_RETURNING)
def atomics_return(view: LaunchView) -> Answer:
    """The machine code tells results that are dropped; without it, the opcode decides."""
    most = MAJORITY * view.count(*_GLOBAL_ATOMICS)
    if view.code is None:
        return view.count(*_RETURNING) >= most > 0
    used = [each for each in view.code.atomics if each.memory == "global" and each.has_result]
    return sum(view.code.program.counts[each.position] for each in used) >= most > 0


_ATOMIC_RUNS = ("global_reduction_inst", "global_atomic_inst")
one_atomic_per_block = Fact(
    "there are no more updates than blocks",
    lambda view: 0 < total(view, *_ATOMIC_RUNS) <= total(view, "grid_size"),
    metrics=("grid_size", *_ATOMIC_RUNS),
)


@fact("the atomics are compare-and-swap operations", metrics=("global_cas_inst", "l2_cas_sectors"))
def atomics_compare_and_swap(view: LaunchView) -> Answer:
    swaps, every = view.matching(r"ATOMG?(?:\.\w+)*\.CAS"), view.count(*_GLOBAL_ATOMICS)
    return swaps >= MAJORITY * every > 0


def _contends_in_shared(view: LaunchView, finding: RaisedFinding) -> Answer:
    """Decided by the candidate that raised the finding; else true if there are no other atomics."""
    if finding.variant:
        return finding.variant in ("shared", "retries")
    return view.count("ATOMS") > 0 and not view.count(*_GLOBAL_ATOMICS)


contention_in_shared = Fact(
    "threads contend for words of shared memory",
    metrics=("bank_conflicts_atomic",),
    opcodes=("ATOMS",),
    of_finding=_contends_in_shared,
)

retries_in_shared = Fact(
    "threads retry compare-and-swap loops on words of shared memory",
    opcodes=("ATOMS",),
    of_finding=lambda _, finding: finding.variant == "retries",
)
lanes_on_one_address = Fact(
    "all threads of a warp update one address",
    of_finding=lambda _, finding: finding.variant == "lanes",
)
adds_scattered = Fact(
    "a list of indices chooses the addresses of floating-point atomics",
    of_finding=lambda _, finding: finding.variant == "scattered",
)


def _atomic_addresses(words: str, *spreads: str) -> Fact:
    """That most executed atomics on global memory have one of these address forms."""

    @Fact.of_code(words)
    def mostly(code: MachineCode) -> Answer:
        atomics = [each for each in code.atomics if each.memory == "global"]
        fitting = [each.position for each in atomics if each.spread in spreads]
        return if_most_run(code, fitting, (each.position for each in atomics))

    return mostly


atomics_one_address = _atomic_addresses(
    "all threads update one address, or one per block", *("one address", "one address per block")
)
atomics_by_data = _atomic_addresses("data chooses the addresses of the atomics", "chosen by data")

_COMBINED = ("LDS", "SHFL", "REDUX")
_STEPS = 3
"""Instructions between a combined value and the atomic, such as the last addition."""


@Fact.of_code(
    "most atomics on global memory add values that were combined in shared memory",
    "most atomics on global memory add values that were not combined in shared memory",
    opcodes=_GLOBAL_ATOMICS,
)
def adds_block_copies(code: MachineCode) -> Answer:
    """Whether most atomics on global memory add values from shared memory or from a shuffle."""
    program = code.program

    def is_combined(position: int) -> bool:
        values = _stored_values(program, position)
        for _ in range(_STEPS):
            sources = {each for value in values for each in program.values.definitions(value)}
            if any(program.code[each].opcode in _COMBINED for each in sources):
                return True
            values = [v for each in sources for v in program.values.read[each].values()]
        return False

    atomics = [each.position for each in code.atomics if each.memory == "global"]
    return if_most_run(code, list(filter(is_combined, atomics)), atomics)
