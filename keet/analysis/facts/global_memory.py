"""Facts about accesses to global memory: yes/no tests (`@fact`) that `remedy_choice` asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from keet.analysis.facts.fact import Answer, fact, more_than
from keet.analysis.facts.inputs import GLOBAL, LOAD, STORE, FactInputs
from keet.analysis.facts.thresholds import (
    FEW_BYTES,
    LARGEST_RECORD,
    MOST,
    NEXT_TO_NOTHING,
    READ_AGAIN,
    REPLAYS,
    TINY,
    WIDEST,
)
from keet.analysis.source_lines.array_accesses import is_gather

if TYPE_CHECKING:
    from keet.analysis.sass.analyses.reuse import Access


@fact(
    "the kernel loads from global memory",
    metrics=("global_load_requests",),
    opcodes=("LDG", "LD", "LDGSTS", "UTMALDG", "UBLKCP"),
)
def loads_global(inputs: FactInputs) -> Answer:
    copied = inputs.count("LDG", "LD", "LDGSTS", "UTMALDG", "UBLKCP")
    if copied is not None:
        return copied > 0
    return more_than(inputs.total("global_load_requests", "global_load_sectors"), 0)


@fact(
    "the kernel loads or stores",
    metrics=("global_load_requests", "global_store_requests"),
    opcodes=("LDG", "STG", "LD", "ST", "LDS", "STS", "LDL", "STL"),
)
def moves_data(inputs: FactInputs) -> Answer:
    moved = inputs.count("LDG", "STG", "LD", "ST", "LDS", "STS", "LDL", "STL", "LDGSTS", "LDSM")
    if moved is not None:
        return moved > 0
    return more_than(inputs.total("global_load_requests", "global_store_requests"), 0)


@fact(
    "the kernel stores to global memory and loads next to nothing",
    metrics=("global_store_sectors", "global_load_sectors"),
    opcodes=("STG", "ST"),
)
def stores_only(inputs: FactInputs) -> Answer:
    stored, loaded = inputs.value("global_store_sectors"), inputs.value("global_load_sectors")
    if stored is None or loaded is None or inputs.count("LDGSTS", "UTMALDG", "UBLKCP"):
        return None
    return stored > 0 and loaded <= NEXT_TO_NOTHING * stored


def _worst_access(inputs: FactInputs) -> Access | None:
    """The global load or store that wastes most sectors, from the machine code."""
    column = inputs.view.table.column("src_l2_sectors_global_excess")
    if inputs.code is None or not column:
        return None
    code = inputs.code.program.code
    found = [each for each in inputs.code.accesses if each.kind in ("load", "store", "copy")]
    worst = max(found, key=lambda each: column.get(code[each.position].address, 0), default=None)
    wasted = worst is not None and column.get(code[worst.position].address, 0) > 0
    return worst if wasted else None


def _at(inputs: FactInputs, accesses: Iterable[Access]) -> Sequence[int]:
    assert inputs.code is not None
    return [inputs.code.program.code[each.position].address for each in accesses]


@fact("the addresses come from data in memory")
def gathers(inputs: FactInputs) -> Answer:
    """From the machine code of the worst access; without it, from `a[b[i]]` in the source."""
    worst = _worst_access(inputs)
    if worst is not None:
        return _at(inputs, [worst]) if worst.is_gather else False
    places = inputs.finding.places
    found = inputs.view.accesses("scattered global", places)
    return is_gather(found) if found else None


@fact(
    "neighbouring threads access addresses a fixed number of bytes apart, as in an array of records"
)
def strided_records(inputs: FactInputs) -> Answer:
    worst = _worst_access(inputs)
    if worst is None:
        return None
    from keet.analysis.sass.analyses.widths import lane_stride

    stride = lane_stride(worst.offset)
    if stride is None:
        return False
    return _at(inputs, [worst]) if worst.width < abs(stride) <= LARGEST_RECORD else False


def _excess_part(inputs: FactInputs, operation: int) -> float | None:
    found = [each for each in inputs.memory if each.memory & GLOBAL]
    addresses = [each.address for each in found if each.operation & operation]
    return inputs.part("src_l2_sectors_global_excess", addresses) if found else None


@fact(
    "most of the sectors beyond the ideal belong to stores",
    metrics=("src_l2_sectors_global_excess",),
)
def excess_in_stores(inputs: FactInputs) -> Answer:
    return more_than(_excess_part(inputs, STORE), MOST)


@fact(
    "most of the sectors beyond the ideal belong to loads",
    negated="most of the sectors beyond the ideal do not belong to loads",
    metrics=("src_l2_sectors_global_excess",),
)
def excess_in_loads(inputs: FactInputs) -> Answer:
    return more_than(_excess_part(inputs, LOAD), MOST)


@fact("far more is sent to L2 than comes back", metrics=("l2_input_pct", "l2_output_pct"))
def sends_to_l2(inputs: FactInputs) -> Answer:
    """A load sends one request and gets one or more sectors back; a store sends its sectors."""
    back = inputs.ratio(inputs.value("l2_output_pct"), inputs.value("l2_input_pct"))
    return None if back is None else back < MOST


def _of_main_width(inputs: FactInputs) -> Sequence[int]:
    found = [each for each in inputs.accesses_of(GLOBAL) if each.width == inputs.main_width]
    return [each.address for each in found]


@fact("most global data is moved with accesses narrower than sixteen bytes per thread")
def accesses_narrow(inputs: FactInputs) -> Answer:
    if inputs.main_width is None:
        return None
    return _of_main_width(inputs) if inputs.main_width < WIDEST else False


@fact("most global data is moved with accesses of one or two bytes per thread")
def accesses_tiny(inputs: FactInputs) -> Answer:
    if inputs.main_width is None:
        return None
    return _of_main_width(inputs) if inputs.main_width <= TINY else False


@fact(
    "most global data is moved with accesses of sixteen bytes per thread",
    negated="most global data is moved with accesses of fewer than sixteen bytes per thread",
)
def accesses_wide(inputs: FactInputs) -> Answer:
    if inputs.main_width is None:
        return None
    return _of_main_width(inputs) if inputs.main_width >= WIDEST else False


@fact("a thread accesses consecutive elements with separate instructions")
def consecutive_accesses(inputs: FactInputs) -> Answer:
    """Whether a notable part of the accesses could be merged into wider ones."""
    code = inputs.code
    if code is None or not code.accesses:
        return None
    found = [p for merge in code.merges if merge.is_aligned is not False for p in merge.positions]
    every = sum(inputs.executions(each.position) for each in code.accesses)
    is_notable = sum(map(inputs.executions, found)) >= MOST * every > 0
    return [code.program.code[position].address for position in found] if is_notable else False


@fact("more bytes are read from DRAM than the loads can touch", metrics=("dram_bytes_read",))
def rereads_from_dram(inputs: FactInputs) -> Answer:
    if any(piece.metric == "dram_reads_per_byte" for piece in inputs.finding.evidence):
        return True
    found = inputs.view.streaming
    return None if found is None or found.verdict == "unknown" else found.verdict == "several"


@fact("about as many bytes are read from DRAM as the loads can touch", metrics=("dram_bytes_read",))
def reads_once_from_dram(inputs: FactInputs) -> Answer:
    found = inputs.view.streaming
    return None if found is None or found.verdict == "unknown" else found.verdict == "once"


@fact("another launch of the report writes or reads the same amount of data right before or after")
def handed_over(inputs: FactInputs) -> Answer:
    """Decided by the candidate that raised the finding: one launch does not show it."""
    return inputs.finding.variant == "hand_over"


@fact("other launches of the report move the same amount of data")
def repeated_launches(inputs: FactInputs) -> Answer:
    """Decided by the candidate that raised the finding."""
    return inputs.finding.variant == "same_input"


@fact("several loops of the kernel load from the same addresses")
def passes_in_kernel(inputs: FactInputs) -> Answer:
    """Decided by the candidate that raised the finding, from the addresses of the loads."""
    return inputs.finding.variant == "passes"


@fact(
    "L2 delivers more bytes than come from DRAM", metrics=("l2_l1_read_sectors", "dram_bytes_read")
)
def rereads_from_l2(inputs: FactInputs) -> Answer:
    delivered, read = inputs.value("l2_l1_read_sectors"), inputs.value("dram_bytes_read")
    times = inputs.ratio(_SECTOR * delivered if delivered is not None else None, read)
    return None if times is None else times >= READ_AGAIN


_SECTOR = 32.0
"""Bytes."""


@fact("most global loads hit L1", metrics=("global_load_sectors_hit", "global_load_sectors_missed"))
def reloads_from_l1(inputs: FactInputs) -> Answer:
    hit = inputs.value("global_load_sectors_hit")
    missed = inputs.value("global_load_sectors_missed")
    if hit is None or missed is None:
        return None
    return hit > 0 and hit >= MOST * (hit + missed)


def _with_few_addresses(inputs: FactInputs, accesses: Sequence[Access]) -> Answer:
    """Whether accesses to few addresses request more sectors than an average L2 slice serves."""
    code, usual = inputs.code, inputs.value("l2_slice_sectors_avg")
    if code is None or code.sectors is None or usual is None:
        return None
    few = [
        each
        for each in accesses
        if each.distinct_bytes is not None and each.distinct_bytes <= FEW_BYTES
    ]
    asked = sum(code.sectors.get(address, 0) for address in _at(inputs, few))
    return _at(inputs, few) if asked > usual else False


@fact(
    "many threads load the same few addresses with volatile or atomic loads, which bypass L1",
    metrics=("l2_slice_sectors_max", "l2_slice_sectors_avg"),
)
def few_address_loads(inputs: FactInputs) -> Answer:
    """Loads that bypass L1: volatile and atomic ones."""
    code = inputs.code
    if code is None:
        return None
    loads = [each for each in code.accesses if each.kind == "load"]
    strong = [each for each in loads if code.program.code[each.position].has("STRONG")]
    return _with_few_addresses(inputs, strong)


@fact(
    "many threads store to the same few addresses",
    metrics=("l2_slice_sectors_max", "l2_slice_sectors_avg"),
)
def few_address_stores(inputs: FactInputs) -> Answer:
    code = inputs.code
    if code is None:
        return None
    return _with_few_addresses(inputs, [each for each in code.accesses if each.kind == "store"])


@fact(
    "loads miss L2 and go to the host's memory",
    negated="no loads go to the host's memory",
    metrics=("l2_sysmem_read_misses", "l2_sysmem_misses"),
)
def reads_host(inputs: FactInputs) -> Answer:
    read = inputs.value("l2_sysmem_read_misses")
    if read is not None:
        return read > 0
    every, written = inputs.value("l2_sysmem_misses"), inputs.value("l2_sysmem_write_misses")
    return None if every is None or written is None else every > written


@fact("stores go to the host's memory", metrics=("l2_sysmem_write_sectors",))
def writes_host(inputs: FactInputs) -> Answer:
    return more_than(inputs.total("l2_sysmem_write_sectors", "l2_sysmem_write_misses"), 0)


@fact("accesses go to the memory of another GPU", metrics=("l2_peer_misses",))
def reads_peer(inputs: FactInputs) -> Answer:
    peer, host = inputs.value("l2_peer_misses"), inputs.value("l2_sysmem_misses")
    return None if peer is None else peer > (host or 0)


@fact(
    "one memory instruction takes many wavefronts in L1",
    metrics=("l1_data_wavefronts_pct", "l1_lsu_requests_pct"),
)
def replays(inputs: FactInputs) -> Answer:
    data, requests = inputs.value("l1_data_wavefronts_pct"), inputs.value("l1_lsu_requests_pct")
    return more_than(inputs.ratio(data, requests), REPLAYS)
