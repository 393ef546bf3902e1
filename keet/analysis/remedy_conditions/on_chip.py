"""Facts about shared and local memory, registers and atomics.

Threads that access one column of a row-major array in shared memory use different banks only if the
row's length in words of four bytes is odd.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import (
    COPIES,
    GLOBAL,
    GLOBAL_ATOMICS,
    GLOBAL_LOADS,
    RETURNING_ATOMICS,
    SHARED,
    SHARED_STORES,
)
from keet.analysis.memory_work import local_cause
from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parameters import MAJORITY, Parameter
from keet.analysis.remedy_conditions.fact import Answer, Fact, fact, if_most_run, total
from keet.analysis.remedy_conditions.global_memory import WIDEST_ACCESS
from keet.safe_text import code_lines

if TYPE_CHECKING:
    from keet.analysis.machine_code.flow.program import SassProgram
    from keet.analysis.machine_code.launch_code import MachineCode
    from keet.analysis.machine_code.polynomials.polynomial import Polynomial
    from keet.source_code.constants import Number

Rows = Literal["padded", "even", "within", "data"]
"""`even`: threads are an even number of words apart. `within`: they are so close that they must be
in one row, which padding does not change. `data`: the index comes from memory."""

BANKS, WORD = 32, 4
"""Banks of shared memory, and bytes of a bank's word."""
_EXCESS = "src_shared_wavefronts_excess"


@cached_per_view
def shared_rows(view: LaunchView) -> Rows | None:
    """Those of the array with most bank conflicts; `None` if neither code nor source shows it."""
    conflicted = _conflicted(view)
    if conflicted:
        rows = _by_form(*conflicted[0]) or ("within" if _takes_pieces(conflicted) else None)
        if rows:
            return rows
    places = view.column_places("excess wavefronts", _EXCESS)
    if not places:
        return None
    accesses = view.accesses("shared", places)
    if any(re.search(r"\bpad\w*\s*\(", access) for access in accesses):
        return "padded"
    from keet.source_code.constants import source_constants

    names = {re.split(r"\W", access)[0] for access in accesses}
    source = view.launch.source_text(places[0].file) or ""
    # Also those that a build may set: how rows are written shows whether they are padded.
    constants = {name: constant.value for name, constant in source_constants(view.launch).items()}
    return declared_rows(source, places[0].line, names, constants)


# --- from the addresses


class _Conflicted(NamedTuple):
    """One access with bank conflicts."""

    form: Polynomial
    width: int
    """Bytes per thread."""


_MOST_ACCESSES = 16
"""Accesses with conflicts."""


def _conflicted(view: LaunchView) -> list[_Conflicted]:
    """The accesses that lose most wavefronts to conflicts, with the opcode of the first."""
    code, column = view.code, view.table.column(_EXCESS)
    if code is None or not column:
        return []
    from keet.analysis.machine_code.analyses.reuse import address_polynomial

    program = code.program
    worst = sorted((a for a in column if column[a] > 0), key=lambda address: -column[address])
    positions = [program.positions[a] for a in worst[:_MOST_ACCESSES] if a in program.positions]
    ran = [position for position in positions if program.counts[position]]
    opcode = program.code[ran[0]].opcode if ran else ""
    if opcode not in SHARED or opcode in ("LDSM", "STSM"):
        return []  # these use one address per row, not per thread
    alike = [position for position in ran if program.code[position].opcode == opcode]
    forms = (address_polynomial(program, code.evaluation, position) for position in alike)
    return [_Conflicted(form, program.code[at].width) for at, form in zip(alike, forms)]


_CLUSTER_BASE = "SR_CgaCtaId"
"""Base of a block's shared memory within its cluster: equal for all threads."""


def _by_form(form: Polynomial, width: int) -> Rows | None:
    from keet.analysis.machine_code.analyses.address_patterns import lane_stride
    from keet.analysis.machine_code.polynomials.polynomial import Polynomial as Sum

    terms = {p: c for p, c in form.terms.items() if all(s.name != _CLUSTER_BASE for s in p)}
    form = Sum(terms)
    if "data" in form.depends:
        return "data"
    stride = lane_stride(form)
    if stride is None or stride % WORD:
        return None
    # A wide access is served in groups of threads, so its own width causes no conflict.
    steps = abs(stride) // max(width, WORD)
    if steps % 2:
        return "padded" if steps > 1 else None
    # Another even number may be several padded rows: eight rows of seventeen words.
    if not steps or steps & (steps - 1):
        return None
    return "within" if abs(stride) < BANKS * WORD else "even"


def _takes_pieces(conflicted: Sequence[_Conflicted]) -> bool:
    """Whether a thread accesses two adjacent pieces of the widest size, so that threads are at
    least two pieces apart."""

    def varying(form: Polynomial) -> tuple[object, ...]:
        return tuple(item for item in form.key if item[0])

    form, width = conflicted[0]
    others = {other.constant for other, _ in conflicted if varying(other) == varying(form)}
    adjacent = {form.constant + width, form.constant - width}
    return width == WIDEST_ACCESS and not others.isdisjoint(adjacent)


# --- from the source

_PARSED_LENGTH = 400
"""Characters of a line that are parsed."""


def declared_rows(
    source: str, line: int, names: Collection[str], constants: Mapping[str, Number]
) -> Rows | None:
    """From the nearest declaration above a line of a shared array with one of these names:
    `__shared__ float tile[32][33];`."""
    for text in reversed(code_lines(source)[:line]):
        _, is_shared, declared = text[:_PARSED_LENGTH].partition("__shared__")
        for name, sizes in re.findall(r"(\w+)\s*((?:\[[^\]]*\])+)", declared) if is_shared else ():
            lengths = re.findall(r"\[([^\]]*)\]", sizes)
            if name in names and len(lengths) > 1:
                element = declared.partition(name)[0].split()[-1:]
                row = lengths[-1].strip()
                is_sum = "+" in (_definition(source, row) or row)
                return _row("".join(element), row, constants, is_sum=is_sum)
    return None


def _definition(source: str, name: str) -> str | None:
    """What a macro or a constant is written as."""
    if not name.isidentifier():
        return None
    match = re.search(rf"#\s*define\s+{name}\s([^\n]*)|\b{name}\s*=([^;\n]*)", source)
    return match and (match[1] or match[2])


def _row(element: str, row: str, constants: Mapping[str, Number], *, is_sum: bool) -> Rows | None:
    from keet.source_code.constants import evaluate
    from keet.source_code.syntax import type_size

    length = evaluate(row, constants, {})
    if not isinstance(length, int):
        return "padded" if is_sum else None
    words = length * max(1, (type_size(element, {"long": 8}) or WORD) // WORD)
    # Rows that are read four words at a time are padded by four words.
    is_padded = bool(words % 2) or is_sum or (words > BANKS and 0 < words % BANKS <= 4)
    return "padded" if is_padded else "even"


# --- shared memory

uses_shared = Fact.executes(
    "the kernel uses shared memory",
    *SHARED | COPIES,
    negated="the kernel does not use shared memory",
    metrics=("shared_load_inst", "shared_store_inst"),
    or_metrics=("shared_memory_static", "shared_memory_dynamic"),
)
uses_async_copy = Fact.executes(
    "the kernel copies from global to shared memory asynchronously already", *COPIES
)
shared_atomics = Fact.mostly_executes(
    "most accesses to shared memory are atomics", ("ATOMS",), SHARED, half=True
)


@fact(
    "most memory instructions access shared memory",
    metrics=("shared_load_inst", "shared_store_inst"),
    opcodes=SHARED,
)
def mostly_shared(view: LaunchView) -> Answer:
    if view.opcodes:
        return view.count(*SHARED) > MAJORITY * view.count(*SHARED | GLOBAL | COPIES)
    shared = total(view, *mostly_shared.metrics)
    other = total(view, "global_load_requests", "global_store_requests")
    return shared > MAJORITY * (shared + other)


def _stored_values(program: SassProgram, position: int) -> list[int]:
    """The values that a store or an atomic writes."""
    from keet.analysis.machine_code.analyses.purpose import address_registers

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
            and program.code[source.position].opcode in GLOBAL_LOADS
            for source in sources
        )

    stores = code.with_opcodes(SHARED_STORES)
    return if_most_run(code, list(filter(is_staged, stores)), stores)


_CONFLICT_METRICS = ("bank_conflicts", "bank_conflicts_load", "bank_conflicts_store", _EXCESS)


def _rows(words: str, form: Rows, metrics: tuple[str, ...] = ()) -> Fact:
    """That there are conflicts, and the array with most of them has rows of this form."""

    def test(view: LaunchView) -> Answer:
        conflicts, rows = total(view, *_CONFLICT_METRICS), shared_rows(view)
        if rows != form or not conflicts:
            return False
        column = view.table.column(_EXCESS) or {}
        return [max(column, key=lambda address: column[address])] if any(column.values()) else True

    return Fact(words, test, metrics=metrics)


rows_padded = _rows("the rows of the shared array are padded already", "padded")
rows_even = _rows(
    "the rows of the shared array are not padded: threads are an even number of words apart",
    "even",
    _CONFLICT_METRICS,
)
rows_in_pieces = _rows(
    "neighbouring threads access pieces of one row that do not lie side by side",
    "within",
    _CONFLICT_METRICS,
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

_ATOMIC_SECTORS = ("l2_all_atomic_sectors", "l2_all_reduction_sectors")

atomics_global = Fact.executes(
    "the kernel executes atomics on global memory",
    *GLOBAL_ATOMICS,
    metrics=_ATOMIC_SECTORS,
    or_metrics=_ATOMIC_SECTORS,
)
atomics_shared = Fact.executes(
    "the kernel executes atomics on shared memory",
    "ATOMS",
    negated="the kernel executes no atomics on shared memory",
    or_metrics=("shared_atomic_inst",),
)


@fact("the atomics return the old value", opcodes=RETURNING_ATOMICS)
def atomics_return(view: LaunchView) -> Answer:
    """The machine code tells results that are dropped; without it, the opcode decides."""
    most = MAJORITY * view.count(*GLOBAL_ATOMICS)
    if view.code is None:
        return view.count(*RETURNING_ATOMICS) >= most > 0
    used = [atomic.position for atomic in view.atomics("global") if atomic.has_result]
    return sum(view.code.executions(used).values()) >= most > 0


_ATOMIC_RUNS = ("global_reduction_inst", "global_atomic_inst")


@fact("no address has more updates than there are blocks", metrics=("grid_size", *_ATOMIC_RUNS))
def one_atomic_per_block(view: LaunchView) -> Answer:
    """Atomics of different lines are taken to update different addresses: each line counts for
    itself, with the copies that an unrolled loop makes of it. Without the machine code, all count
    together."""
    blocks = total(view, "grid_size")
    if view.code is None or not view.launch.locations:
        return 0 < total(view, *_ATOMIC_RUNS) <= blocks
    program, runs = view.code.program, Counter[object]()
    for atomic in view.atomics("global"):
        line = view.launch.locations.get(program.code[atomic.position].address)
        runs[line] += program.counts[atomic.position]
    return 0 < max(runs.values(), default=0) <= blocks


@fact("the atomics are compare-and-swap operations", metrics=("global_cas_inst", "l2_cas_sectors"))
def atomics_compare_and_swap(view: LaunchView) -> Answer:
    swaps, every = view.matching(r"ATOMG?(?:\.\w+)*\.CAS"), view.count(*GLOBAL_ATOMICS)
    return swaps >= MAJORITY * every > 0


contention_in_shared = Fact(
    "threads contend for words of shared memory",
    metrics=("bank_conflicts_atomic",),
    opcodes=("ATOMS",),
    # The candidate that raised the finding decides it; else it is so if there are no other atomics.
    of_finding=lambda view, finding: (
        finding.variant in ("shared", "retries")
        if finding.variant
        else view.count("ATOMS") > 0 and not view.count(*GLOBAL_ATOMICS)
    ),
)

retries_in_shared = Fact.of_variant(
    "threads retry compare-and-swap loops on words of shared memory", "retries", opcodes=("ATOMS",)
)
updates_host_memory = Fact.of_variant("the atomics update memory of the host", "in_host")
lanes_on_one_address = Fact.of_variant("all threads of a warp update one address", "lanes")
adds_scattered = Fact.of_variant(
    "a list of indices chooses the addresses of floating-point atomics", "scattered"
)


def _atomic_addresses(words: str, *spreads: str) -> Fact:
    """That most executed atomics on global memory have one of these address forms."""

    @Fact.of_code(words)
    def mostly(code: MachineCode) -> Answer:
        atomics = [atomic for atomic in code.atomics if atomic.memory == "global"]
        fitting = [atomic.position for atomic in atomics if atomic.spread in spreads]
        return if_most_run(code, fitting, (atomic.position for atomic in atomics))

    return mostly


atomics_one_address = _atomic_addresses(
    "all threads update one address, or one per block", *("one address", "one address per block")
)
atomics_by_data = _atomic_addresses("data chooses the addresses of the atomics", "chosen by data")


@fact("a thread makes one update", metrics=("grid_size", "block_size"), opcodes=GLOBAL_ATOMICS)
def one_update_per_thread(view: LaunchView) -> Answer:
    """By warps: no more executions than the grid has warps."""
    blocks, threads = view.launch.number("grid_size"), view.launch.number("block_size")
    executed = view.count(*GLOBAL_ATOMICS)
    return 0 < executed <= (blocks or 0) * math.ceil((threads or 0) / WARP)


_COMBINING_OPCODES = ("LDS", "SHFL", "REDUX")
_STEPS_TO_ATOMIC = 3
"""Instructions between a combined value and the atomic, such as the last addition."""


@Fact.of_code(
    "most atomics on global memory add values that were combined in shared memory",
    "most atomics on global memory add values that were not combined in shared memory",
    opcodes=GLOBAL_ATOMICS,
)
def adds_block_copies(code: MachineCode) -> Answer:
    """Whether most atomics on global memory add values from shared memory or from a shuffle."""
    program = code.program

    def is_combined(position: int) -> bool:
        values = _stored_values(program, position)
        for _ in range(_STEPS_TO_ATOMIC):
            sources = {source for value in values for source in program.values.definitions(value)}
            if any(program.code[source].opcode in _COMBINING_OPCODES for source in sources):
                return True
            values = [v for source in sources for v in program.values.read[source].values()]
        return False

    atomics = [atomic.position for atomic in code.atomics if atomic.memory == "global"]
    return if_most_run(code, list(filter(is_combined, atomics)), atomics)
