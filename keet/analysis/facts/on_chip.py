"""Facts about shared and local memory, registers and atomics: yes/no tests for `remedy_choice`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from keet.analysis.facts.fact import Answer, at_least, fact, more_than
from keet.analysis.facts.inputs import FactInputs
from keet.analysis.facts.shared_rows import Rows, rows_of
from keet.analysis.facts.thresholds import KEPT_BACK, MOST, MOST_REGISTERS
from keet.analysis.memory_work import local_cause

if TYPE_CHECKING:
    from keet.analysis.sass.analyses.atomics import Atomic
    from keet.analysis.sass.flow.program import SassProgram

_IN_SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")
_IN_GLOBAL = ("LDG", "STG", "LD", "ST", "RED", "REDG", "ATOM", "ATOMG")
_COPIES = ("LDGSTS", "UTMALDG", "UBLKCP")
_GLOBAL_ATOMICS = ("RED", "REDG", "ATOM", "ATOMG")


@fact(
    "the kernel uses shared memory",
    negated="the kernel does not use shared memory",
    metrics=("shared_load_inst", "shared_store_inst"),
    opcodes=("LDS", "STS", "LDSM", "STSM", "ATOMS", "LDGSTS", "UTMALDG"),
)
def uses_shared(inputs: FactInputs) -> Answer:
    executed = inputs.count(*_IN_SHARED, *_COPIES)
    if executed is not None:
        return executed > 0
    return more_than(inputs.total("shared_memory_static", "shared_memory_dynamic"), 0)


@fact("data goes from global memory through registers into shared memory", opcodes=("LDG", "STS"))
def stages_through_shared(inputs: FactInputs) -> Answer:
    """Whether most stores to shared memory write values just loaded from global memory."""
    code = inputs.code
    if code is None:
        return None
    program = code.program
    stores = [each for each in program.ran if program.code[each].opcode in ("STS", "STSM")]
    staged = [each for each in stores if _is_staged(program, each)]
    every = sum(map(inputs.executions, stores))
    if not every or sum(map(inputs.executions, staged)) < MOST * every:
        return False
    return [program.code[each].address for each in staged]


def _is_staged(program: SassProgram, position: int) -> bool:
    from keet.analysis.sass.analyses.purpose import address_registers

    spent = address_registers(program.code[position])
    values = [v for name, v in program.values.read[position].items() if name not in spent]
    sources = [program.values.all[value] for value in values]
    return bool(sources) and all(
        each.kind.name == "DEFINITION" and program.code[each.position].opcode in ("LDG", "LD")
        for each in sources
    )


@fact(
    "the kernel copies from global to shared memory asynchronously already",
    opcodes=("LDGSTS", "UTMALDG", "UBLKCP"),
)
def uses_async_copy(inputs: FactInputs) -> Answer:
    return more_than(inputs.count(*_COPIES), 0)


def _rows(inputs: FactInputs, kind: Rows) -> Answer:
    conflicts = inputs.total("bank_conflicts", "bank_conflicts_load", "bank_conflicts_store")
    found = rows_of(inputs)
    if found is None or conflicts is None:
        return None
    if found != kind or not conflicts:
        return False
    column = inputs.view.table.column("src_shared_wavefronts_excess") or {}
    return [max(column, key=lambda address: column[address])] if any(column.values()) else True


@fact("the rows of the shared array are padded already")
def rows_padded(inputs: FactInputs) -> Answer:
    return _rows(inputs, "padded")


@fact(
    "the rows of the shared array are not padded: threads are an even number of words apart",
    metrics=("bank_conflicts", "bank_conflicts_load", "bank_conflicts_store"),
)
def rows_even(inputs: FactInputs) -> Answer:
    return _rows(inputs, "even")


@fact(
    "neighbouring threads access pieces of one row that do not lie side by side",
    metrics=("bank_conflicts", "bank_conflicts_load", "bank_conflicts_store"),
)
def rows_in_pieces(inputs: FactInputs) -> Answer:
    return _rows(inputs, "within")


@fact("the index into shared memory comes from data")
def shared_index_from_data(inputs: FactInputs) -> Answer:
    return _rows(inputs, "data")


@fact("most accesses to shared memory are atomics", opcodes=("ATOMS",))
def shared_atomics(inputs: FactInputs) -> Answer:
    atomics, every = inputs.count("ATOMS"), inputs.count(*_IN_SHARED)
    return None if atomics is None or every is None else atomics > 0 and atomics >= MOST * every


@fact(
    "most memory instructions access shared memory", opcodes=("LDS", "STS", "LDSM", "STSM", "ATOMS")
)
def mostly_shared(inputs: FactInputs) -> Answer:
    shared, every = inputs.count(*_IN_SHARED), inputs.count(*_IN_SHARED, *_IN_GLOBAL, *_COPIES)
    return None if shared is None or every is None else shared > MOST * every


@fact(
    "the compiler spilled registers",
    metrics=("spilling_requests", "local_load_requests", "local_store_requests"),
)
def spills(inputs: FactInputs) -> Answer:
    return local_cause(inputs.view) == "spill"


@fact(
    "local memory is used and no register was spilled",
    metrics=("spilling_requests", "local_load_requests", "local_store_requests"),
)
def local_arrays(inputs: FactInputs) -> Answer:
    return local_cause(inputs.view) == "array"


@fact(
    "a thread has the most registers that the GPU allows",
    negated="a thread could have more registers",
    metrics=("registers_per_thread",),
)
def registers_at_limit(inputs: FactInputs) -> Answer:
    used = inputs.value("registers_per_thread")
    most = inputs.value("device_registers_per_thread") or MOST_REGISTERS
    return at_least(used, most - KEPT_BACK)


@fact(
    "the kernel executes atomics on global memory",
    metrics=("l2_all_atomic_sectors", "l2_all_reduction_sectors"),
    opcodes=("RED", "REDG", "ATOM", "ATOMG"),
)
def atomics_global(inputs: FactInputs) -> Answer:
    executed = inputs.count(*_GLOBAL_ATOMICS)
    if executed is not None:
        return executed > 0
    return more_than(inputs.total("l2_all_atomic_sectors", "l2_all_reduction_sectors"), 0)


@fact(
    "the kernel executes atomics on shared memory",
    negated="the kernel executes no atomics on shared memory",
    opcodes=("ATOMS",),
)
def atomics_shared(inputs: FactInputs) -> Answer:
    executed = inputs.count("ATOMS")
    if executed is not None:
        return executed > 0
    return more_than(inputs.total("shared_atomic_inst"), 0)


@fact(
    "threads contend for words of shared memory",
    metrics=("bank_conflicts_atomic",),
    opcodes=("ATOMS",),
)
def contention_in_shared(inputs: FactInputs) -> Answer:
    """Decided by the candidate that raised the finding; else true if there are no other atomics."""
    if inputs.finding.variant in ("shared", "global"):
        return inputs.finding.variant == "shared"
    shared, everywhere = inputs.count("ATOMS"), inputs.count(*_GLOBAL_ATOMICS)
    return None if shared is None or everywhere is None else shared > 0 and not everywhere


def _mostly(
    inputs: FactInputs, memory: Literal["global", "shared"], spreads: tuple[str, ...]
) -> Answer:
    """Whether most executed atomics on a memory have one of these address forms."""
    code = inputs.code
    if code is None:
        return None
    found: list[Atomic] = [each for each in code.atomics if each.memory == memory]
    fitting = [each for each in found if each.spread in spreads]
    every = sum(inputs.executions(each.position) for each in found)
    if not every or sum(inputs.executions(each.position) for each in fitting) < MOST * every:
        return False
    return [code.program.code[each.position].address for each in fitting]


@fact("all threads update one address, or one per block")
def atomics_one_address(inputs: FactInputs) -> Answer:
    return _mostly(inputs, "global", ("one address", "one address per block"))


@fact("data chooses the addresses of the atomics")
def atomics_by_data(inputs: FactInputs) -> Answer:
    return _mostly(inputs, "global", ("chosen by data",))


@fact(
    "most atomics on global memory add values that were combined in shared memory",
    negated="most atomics on global memory add values that were not combined in shared memory",
    opcodes=("RED", "REDG", "ATOM", "ATOMG"),
)
def adds_block_copies(inputs: FactInputs) -> Answer:
    """Whether most atomics on global memory add values from shared memory or from a shuffle."""
    code = inputs.code
    if code is None:
        return None
    program = code.program
    found = [each.position for each in code.atomics if each.memory == "global"]
    copied = [each for each in found if _adds_combined(program, each)]
    every = sum(map(inputs.executions, found))
    if not every or sum(map(inputs.executions, copied)) < MOST * every:
        return False
    return [program.code[each].address for each in copied]


_COMBINED = ("LDS", "SHFL", "REDUX")
_STEPS = 3
"""Instructions between a combined value and the atomic, such as the last addition."""


def _adds_combined(program: SassProgram, position: int) -> bool:
    from keet.analysis.sass.analyses.purpose import address_registers

    spent = address_registers(program.code[position])
    values = [v for name, v in program.values.read[position].items() if name not in spent]
    for _ in range(_STEPS):
        sources = {each for value in values for each in program.values.definitions(value)}
        if any(program.code[each].opcode in _COMBINED for each in sources):
            return True
        values = [v for each in sources for v in program.values.read[each].values()]
    return False


@fact("the atomics return the old value", opcodes=("ATOM", "ATOMG"))
def atomics_return(inputs: FactInputs) -> Answer:
    waiting, every = inputs.count("ATOM", "ATOMG"), inputs.count(*_GLOBAL_ATOMICS)
    return None if waiting is None or every is None else waiting > 0 and waiting >= MOST * every


@fact("the atomics are compare-and-swap operations", metrics=("global_cas_inst", "l2_cas_sectors"))
def atomics_compare_and_swap(inputs: FactInputs) -> Answer:
    swaps, every = inputs.matching(r"ATOMG?(?:\.\w+)*\.CAS"), inputs.count(*_GLOBAL_ATOMICS)
    if swaps is None or every is None:
        return None
    return swaps > 0 and swaps >= MOST * every
