"""Facts about accesses to global memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from keet.analysis.advice.fact_inputs import GLOBAL, LOAD, STORE, Known
from keet.analysis.advice.fact_tests import Answer, fact, more_than
from keet.analysis.advice.thresholds import (
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


@fact
def loads_global(known: Known) -> Answer:
    copied = known.count("LDG", "LD", "LDGSTS", "UTMALDG", "UBLKCP")
    if copied is not None:
        return copied > 0
    return more_than(known.total("global_load_requests", "global_load_sectors"), 0)


@fact
def moves_data(known: Known) -> Answer:
    moved = known.count("LDG", "STG", "LD", "ST", "LDS", "STS", "LDL", "STL", "LDGSTS", "LDSM")
    if moved is not None:
        return moved > 0
    return more_than(known.total("global_load_requests", "global_store_requests"), 0)


@fact
def stores_only(known: Known) -> Answer:
    stored, loaded = known.value("global_store_sectors"), known.value("global_load_sectors")
    if stored is None or loaded is None or known.count("LDGSTS", "UTMALDG", "UBLKCP"):
        return None
    return stored > 0 and loaded <= NEXT_TO_NOTHING * stored


def _worst_access(known: Known) -> Access | None:
    """The global load or store that wastes most sectors, by the machine code."""
    column = known.view.table.column("src_l2_sectors_global_excess")
    if known.code is None or not column:
        return None
    code = known.code.program.code
    found = [each for each in known.code.accesses if each.kind in ("load", "store", "copy")]
    worst = max(found, key=lambda each: column.get(code[each.position].address, 0), default=None)
    wasted = worst is not None and column.get(code[worst.position].address, 0) > 0
    return worst if wasted else None


def _at(known: Known, accesses: Iterable[Access]) -> Sequence[int]:
    assert known.code is not None
    return [known.code.program.code[each.position].address for each in accesses]


@fact
def gathers(known: Known) -> Answer:
    """By the machine code of the worst access; without it, by `a[b[i]]` in the source."""
    worst = _worst_access(known)
    if worst is not None:
        return _at(known, [worst]) if worst.is_gather else False
    places = known.finding.places
    found = known.view.accesses("uncoalesced_global", places)
    return is_gather(found) if found else None


@fact
def strided_records(known: Known) -> Answer:
    worst = _worst_access(known)
    if worst is None:
        return None
    from keet.analysis.sass.analyses.widths import lane_stride

    stride = lane_stride(worst.form)
    if stride is None:
        return False
    return _at(known, [worst]) if worst.width < abs(stride) <= LARGEST_RECORD else False


def _excess_part(known: Known, operation: int) -> float | None:
    found = [each for each in known.memory if each.memory & GLOBAL]
    addresses = [each.address for each in found if each.operation & operation]
    return known.part("src_l2_sectors_global_excess", addresses) if found else None


@fact
def excess_in_stores(known: Known) -> Answer:
    return more_than(_excess_part(known, STORE), MOST)


@fact
def excess_in_loads(known: Known) -> Answer:
    return more_than(_excess_part(known, LOAD), MOST)


@fact
def sends_to_l2(known: Known) -> Answer:
    """A load sends one request and gets a sector or more back; a store sends its sectors."""
    back = known.ratio(known.value("l2_output_pct"), known.value("l2_input_pct"))
    return None if back is None else back < MOST


def _of_main_width(known: Known) -> Sequence[int]:
    found = [each for each in known.accesses_of(GLOBAL) if each.width == known.main_width]
    return [each.address for each in found]


@fact
def accesses_narrow(known: Known) -> Answer:
    if known.main_width is None:
        return None
    return _of_main_width(known) if known.main_width < WIDEST else False


@fact
def accesses_tiny(known: Known) -> Answer:
    if known.main_width is None:
        return None
    return _of_main_width(known) if known.main_width <= TINY else False


@fact
def accesses_wide(known: Known) -> Answer:
    if known.main_width is None:
        return None
    return _of_main_width(known) if known.main_width >= WIDEST else False


@fact
def consecutive_accesses(known: Known) -> Answer:
    """Accesses that one wide access could replace make a notable part of all."""
    code = known.code
    if code is None or not code.accesses:
        return None
    found = [p for merge in code.merges if merge.is_aligned is not False for p in merge.positions]
    every = sum(known.executions(each.position) for each in code.accesses)
    is_notable = sum(map(known.executions, found)) >= MOST * every > 0
    return [code.program.code[position].address for position in found] if is_notable else False


@fact
def rereads_from_dram(known: Known) -> Answer:
    if any(piece.metric == "dram_reads_per_byte" for piece in known.finding.evidence):
        return True
    found = known.view.streaming
    return None if found is None or found.verdict == "unknown" else found.verdict == "several"


@fact
def reads_once_from_dram(known: Known) -> Answer:
    found = known.view.streaming
    return None if found is None or found.verdict == "unknown" else found.verdict == "once"


@fact
def handed_over(known: Known) -> Answer:
    """Said by whoever raised the finding: one launch does not show it."""
    return known.finding.variant == "hand_over"


@fact
def repeated_launches(known: Known) -> Answer:
    """The same."""
    return known.finding.variant == "same_input"


@fact
def passes_in_kernel(known: Known) -> Answer:
    """The same: the finding comes from the address forms of the loads."""
    return known.finding.variant == "passes"


@fact
def rereads_from_l2(known: Known) -> Answer:
    delivered, read = known.value("l2_l1_read_sectors"), known.value("dram_bytes_read")
    times = known.ratio(_SECTOR * delivered if delivered is not None else None, read)
    return None if times is None else times >= READ_AGAIN


_SECTOR = 32.0
"""Bytes."""


@fact
def reloads_from_l1(known: Known) -> Answer:
    hit = known.value("global_load_sectors_hit")
    missed = known.value("global_load_sectors_missed")
    if hit is None or missed is None:
        return None
    return hit > 0 and hit >= MOST * (hit + missed)


def _with_few_addresses(known: Known, accesses: Sequence[Access]) -> Answer:
    """Accesses to few addresses ask for more sectors than an average slice of L2 serves."""
    code, usual = known.code, known.value("l2_slice_sectors_avg")
    if code is None or code.sectors is None or usual is None:
        return None
    few = [
        each
        for each in accesses
        if each.distinct_bytes is not None and each.distinct_bytes <= FEW_BYTES
    ]
    asked = sum(code.sectors.get(address, 0) for address in _at(known, few))
    return _at(known, few) if asked > usual else False


@fact
def few_address_loads(known: Known) -> Answer:
    """Loads that go past L1: volatile and atomic ones. L1 serves the others."""
    code = known.code
    if code is None:
        return None
    loads = [each for each in code.accesses if each.kind == "load"]
    strong = [each for each in loads if code.program.code[each.position].has("STRONG")]
    return _with_few_addresses(known, strong)


@fact
def few_address_stores(known: Known) -> Answer:
    code = known.code
    if code is None:
        return None
    return _with_few_addresses(known, [each for each in code.accesses if each.kind == "store"])


@fact
def reads_host(known: Known) -> Answer:
    read = known.value("l2_sysmem_read_misses")
    if read is not None:
        return read > 0
    every, written = known.value("l2_sysmem_misses"), known.value("l2_sysmem_write_misses")
    return None if every is None or written is None else every > written


@fact
def writes_host(known: Known) -> Answer:
    return more_than(known.total("l2_sysmem_write_sectors", "l2_sysmem_write_misses"), 0)


@fact
def reads_peer(known: Known) -> Answer:
    peer, host = known.value("l2_peer_misses"), known.value("l2_sysmem_misses")
    return None if peer is None else peer > (host or 0)


@fact
def replays(known: Known) -> Answer:
    data, requests = known.value("l1_data_wavefronts_pct"), known.value("l1_lsu_requests_pct")
    return more_than(known.ratio(data, requests), REPLAYS)
