"""How often each array is read and written: distinct bytes, and bytes at each level.

Distinct bytes come from the addresses of its accesses, see `sass.analyses.footprints`.
What L1 reads from L2, and L2 from DRAM, is counted for the launch as a whole, and is distributed
over its arrays: each distinct byte at least once, the rest by what the arrays request.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.analysis.code_names import line_text
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parameters import Parameter
from keet.documents.amounts import AgainDocument, ArrayDocument, Basis
from keet.evidence import Evidence, Sentence, finite
from keet.profile import Location
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.footprints import Footprint, Repeat
    from keet.analysis.machine_code.analyses.reuse import Access, PointerReuse
    from keet.analysis.machine_code.launch_code import MachineCode

AGAIN = Parameter(
    1.15,
    "reads per byte from which an array is read again; margins of tiles are below",
    "judgement",
)
_ABOUT_ONCE = 1.02
MOST = 0.9
"""Part of the requests from which a level is said to deliver them all."""
_READS = ("load", "copy")
_WRITES = ("store", "atomic")
_LOOSE_BOUND_FACTOR = 4.0
"""A bound that is farther from the least bytes says nothing."""
_CLOSE_BOUNDS_FACTOR = 1.3
"""Least and most bytes of an array that are not farther apart give an estimate."""
_L1 = 1 << 18
"""Bytes of the largest L1."""
SMALL = 1 << 22
"""Bytes below which DRAM's counters say little about single arrays."""
_FEW_BYTES_SHARE = 0.01
_SHARE_OF_ONLY_ARRAY = 0.98
"""An array with this part of the traffic has all of it."""
_SAME_BYTES_ERROR = 0.03
"""Bytes that DRAM read and bytes that addresses touch are the same if they differ by no more: of 87
streaming kernels, 67 were within 2 %. A judgement."""


THREADS_RAN = ("thread_inst_executed_pred_on", "thread_inst_executed")


def threads_ran(view: LaunchView) -> tuple[Evidence, ...]:
    """Threads that executed each instruction: what counts of the machine code are sums of."""
    return tuple(islice(filter(None, map(view.get, THREADS_RAN)), 1))


class ArrayUse(NamedTuple):
    """The accesses of one array."""

    pointer: str
    whole: Footprint
    reads: Footprint | None
    writes: Footprint | None
    distinct: float | None
    basis: Basis | None
    l1_bytes: float | None
    read_l2_bytes: float | None
    written_l2_bytes: float | None
    l2_basis: Literal["measured", "apportioned"] | None

    @property
    def stored(self) -> float | None:
        """Distinct bytes that it writes; None unless they are exact."""
        if self.writes is None:
            return None
        footprint = self.writes
        if not self.has_atomics:  # rows that overlap would be written by several threads: a race
            footprint = footprint._replace(may_overlap=False)
        return footprint.at_most if footprint.is_exact else None

    @property
    def has_atomics(self) -> bool:
        return self.writes is not None and any(e.kind == "atomic" for e in self.writes.accesses)

    @property
    def requested(self) -> float:
        return float(self.whole.requested or 0)

    @property
    def read_bytes(self) -> float:
        return float(self.reads.requested or 0) if self.reads else 0.0


@cached_per_view
def array_uses(view: LaunchView) -> tuple[ArrayUse, ...]:
    """Most requested bytes first."""
    code = view.code
    if code is None or code.threads is None:
        return ()
    prints = code.footprints
    pointers = dict.fromkeys(access.pointer for access in prints.accesses)
    wholes = {pointer: prints.of(pointer, (*_READS, *_WRITES)) for pointer in pointers}
    reads = {pointer: prints.of(pointer, _READS) for pointer in pointers}
    rows = _rows(view, [footprint for footprint in reads.values() if footprint is not None])
    traffic = {row.pointer: row for row in code.reuse}
    uses = [
        _use(code, whole, reads[pointer], traffic.get(pointer), rows)
        for pointer, whole in wholes.items()
        if whole is not None and whole.requested and not _is_part(code, whole)
    ]
    return tuple(sorted(_estimated(view, uses), key=lambda use: -use.requested))


def _is_part(code: MachineCode, whole: Footprint) -> bool:
    """Whether other loads of its source lines go through a pointer that keet does not follow: they
    may be copies of its loads, so that the array has more of them."""
    if whole.pointer in UNFOLLOWED_POINTERS:
        return False

    def keys(accesses: Iterable[Access]) -> set[tuple[Location | None, int, str]]:
        return {(code.location(access.position), access.width, access.kind) for access in accesses}

    every = (access for access in code.accesses if access.threads)
    lost = keys(access for access in every if access.pointer in UNFOLLOWED_POINTERS)
    return any(line for line, _, _ in lost & keys(whole.accesses))


UNFOLLOWED_POINTERS = ("loaded", "several")
"""Pointers that keet does not follow: see `Access`."""


def _estimated(view: LaunchView, uses: Sequence[ArrayUse]) -> Iterator[ArrayUse]:
    """With estimates where there is no bound: an array has at most the bytes that DRAM read and
    other arrays do not have."""
    dram = view.value("dram_bytes_read") or 0.0
    least = {use.pointer: use.reads.at_least for use in uses if use.reads is not None}
    for use in uses:
        reads = least.get(use.pointer, 0.0)
        most = dram - sum(least.values()) + reads
        is_close = SMALL <= reads <= most <= _CLOSE_BOUNDS_FACTOR * reads
        if use.distinct is None and use.writes is None and is_close:
            yield use._replace(distinct=reads, basis="estimate")
        elif use.distinct is None and use.whole.in_rows:
            yield use._replace(distinct=use.whole.in_rows, basis="estimate")
        else:
            yield use


class _Rows(NamedTuple):
    """What DRAM tells about rows at an unknown distance."""

    are_apart: bool | None = None
    """Whether DRAM read as many bytes as the loads touch if no two rows overlap. If they do, it
    reads less: False. None: not known."""
    is_proof: bool = False
    """Whether what DRAM read fits into L2. If not, it may have read rows that overlap twice."""


def _rows(view: LaunchView, reads: Sequence[Footprint]) -> _Rows:
    dram, l2 = view.value("dram_bytes_read"), view.value("device_l2_size")
    least = sum(footprint.at_least for footprint in reads)
    if not dram or least < SMALL:
        return _Rows()
    if dram < (1 - _SAME_BYTES_ERROR) * least:
        return _Rows(are_apart=False)
    most = [footprint.at_most for footprint in reads]
    is_known = None not in most and all(footprint.is_sure for footprint in reads)
    if not is_known or abs(dram / sum(size or 0.0 for size in most) - 1) > _SAME_BYTES_ERROR:
        return _Rows()
    return _Rows(are_apart=True, is_proof=l2 is not None and dram <= l2)


def _use(
    code: MachineCode,
    whole: Footprint,
    reads: Footprint | None,
    traffic: PointerReuse | None,
    rows: _Rows,
) -> ArrayUse:
    writes = code.footprints.of(whole.pointer, _WRITES)
    is_store = reads is None and all(access.kind == "store" for access in whole.accesses)
    # Rows that overlap would be written by several threads: a race.
    are_apart = rows.are_apart and rows.is_proof  # else DRAM may have read overlaps twice
    footprint = whole._replace(may_overlap=False) if are_apart or is_store else whole
    if rows.are_apart is False and whole.has_rows and not is_store:
        footprint = whole._replace(may_overlap=True)
    distinct, basis = _distinct(footprint)
    is_read = traffic is not None and traffic.l2_bytes is not None
    if traffic is not None and traffic.l2_basis == "apportioned" and (distinct or _L1) < _L1:
        is_read = False  # it stays in L1 or it does not: requests do not tell
    written = _sector_bytes(code, writes.accesses) if writes else None
    l2_basis: Literal["measured", "apportioned"] | None = "measured" if written else None
    if reads is not None:
        l2_basis = traffic.l2_basis if traffic is not None else None
    return ArrayUse(
        whole.pointer,
        whole,
        reads,
        writes,
        distinct,
        basis,
        _sector_bytes(code, whole.accesses),
        float(traffic.l2_bytes or 0) if traffic is not None and is_read else None,
        written,
        l2_basis,
    )


def _sector_bytes(code: MachineCode, accesses: Sequence[Access]) -> float | None:
    """Sectors that accesses request from L1, in bytes."""
    if code.sectors is None:
        return None
    addresses = code.addresses(access.position for access in accesses)
    return float(SECTOR * sum(code.sectors.get(address, 0) for address in addresses))


def _distinct(footprint: Footprint) -> tuple[float | None, Basis | None]:
    if footprint.at_most is None:
        return None, None
    if footprint.is_exact:
        return footprint.at_most, "exact"
    is_near = footprint.at_most <= _LOOSE_BOUND_FACTOR * footprint.at_least
    is_again = AGAIN * footprint.at_most < (footprint.requested or math.inf)
    if footprint.is_sure and is_near and is_again:
        return footprint.at_most, "bound"
    return None, None


# --- documents


@cached_per_view
def arrays(view: LaunchView) -> tuple[ArrayDocument, ...]:
    uses = array_uses(view)
    dram = _dram_bytes(view, uses)
    return tuple(_document(view, use, dram.get(use.pointer)) for use in uses)


def _dram_bytes(
    view: LaunchView, uses: Sequence[ArrayUse]
) -> Mapping[str, tuple[float, Literal["measured", "apportioned"]]]:
    """Bytes that DRAM reads for each array, as far as they can be attributed."""
    measured = view.value("dram_bytes_read")
    readers = {use.pointer: use for use in uses if use.reads is not None}
    asked = {pointer: use.read_l2_bytes or 0.0 for pointer, use in readers.items()}
    is_local = view.code is None or any((view.code.local_sectors or {}).values())
    if not measured or is_local or not sum(asked.values()):
        return {}
    largest = max(asked, key=lambda pointer: asked[pointer])
    written = sum(use.written_l2_bytes or 0.0 for use in uses)
    others = written
    for pointer, use in readers.items():
        if pointer != largest:  # few of L2's bytes may be most of DRAM's; what is small stays in L2
            is_small = use.basis == "exact" and (use.distinct or SMALL) < SMALL
            bytes_asked = asked[pointer]
            others += min(bytes_asked, 2 * (use.distinct or 0.0)) if is_small else bytes_asked
    is_most = asked[largest] >= _SHARE_OF_ONLY_ARRAY * (sum(asked.values()) + written)
    if is_most and others <= (1 - _SHARE_OF_ONLY_ARRAY) * measured:
        return {largest: (measured, "measured")}
    once = {p: size for p, use in readers.items() if (size := _sectors(use, measured)) is not None}
    attributed = sum(once.values())
    is_too_much = attributed > (1 + _SAME_BYTES_ERROR) * measured
    if len(once) < len(readers) or is_too_much or measured < SMALL:
        return {}
    more = {pointer: max(0.0, asked[pointer] - size) for pointer, size in once.items()}
    left = max(0.0, measured - attributed)
    is_little = left <= _SAME_BYTES_ERROR * measured
    part = left / sum(more.values()) if sum(more.values()) else 0.0
    if not is_little and not 0 < part <= 1 + _SAME_BYTES_ERROR:
        return {}
    # What is left may be all of one array: no array that is small beside it gets a part.
    large = {pointer for pointer, size in once.items() if size >= 0.1 * attributed}
    return {
        pointer: (size + (part * more[pointer] if pointer in large else 0.0), "apportioned")
        for pointer, size in once.items()
        if is_little or pointer in large
    }


def _sectors(use: ArrayUse, measured: float) -> float | None:
    """Bytes of the distinct sectors that an array's loads touch; None unless they are known, or
    few beside what DRAM reads."""
    assert use.reads is not None
    most = min(use.reads.at_most or math.inf, use.read_bytes, use.l1_bytes or math.inf)
    if most <= _FEW_BYTES_SHARE * measured:
        return most
    if use.basis != "exact" or use.distinct is None or use.l1_bytes is None:
        return None
    read, _ = _distinct(use.reads._replace(may_overlap=False))
    return None if read is None else min(use.l1_bytes, SECTOR * math.ceil(read / SECTOR))


def _document(view: LaunchView, use: ArrayUse, dram: tuple[float, str] | None) -> ArrayDocument:
    code = view.code
    assert code is not None
    unnamed = {"loaded": "pointers that are loaded", "several": "one of several pointers"}
    name = unnamed.get(use.pointer) or code.pointer_name(use.pointer)
    numbers = _Numbers(view, use, name, dram[0] if dram else None)
    again = tuple(_again(code, use))
    text = _text(numbers, use, again)
    l2 = [size for size in (use.read_l2_bytes, use.written_l2_bytes) if size is not None]
    is_known = len(l2) == bool(use.reads) + bool(use.writes)
    basis = "apportioned" if dram and dram[1] == "apportioned" else use.l2_basis
    return ArrayDocument(
        name=name,
        parameter=use.pointer if use.pointer.startswith("param") else None,
        access=_access(use),
        distinct_bytes=use.distinct,
        basis=use.basis,
        requested_bytes=use.requested,
        l1_bytes=use.l1_bytes,
        l2_bytes=sum(l2) if l2 and is_known else None,
        dram_bytes=dram[0] if dram else None,
        traffic_basis=basis,
        times=finite(numbers.times),
        times_from_l2=finite(numbers.from_l2),
        times_from_dram=finite(numbers.from_dram),
        again=again,
        lines=tuple(_lines(code, use.whole.accesses)),
        one_address_atomics=finite(numbers.one_address),
        why_unknown=_why_unknown(use),
        text=text,
        evidence=numbers.every(),
    )


def _access(use: ArrayUse) -> Literal["read", "written", "updated"]:
    if use.writes is None:
        return "read"
    is_plain = use.reads is None and all(access.kind == "store" for access in use.writes.accesses)
    return "written" if is_plain else "updated"


def _lines(code: MachineCode, accesses: Sequence[Access]) -> Iterator[Location]:
    from keet.analysis.machine_code.launch_code import calling_line

    sizes: Counter[Location] = Counter()
    for access in accesses:
        if (line := calling_line(code, access.position)) is not None:
            sizes[line] += access.requested_bytes or 0
    yield from (line for line, _ in sizes.most_common())


def _why_unknown(use: ArrayUse) -> str | None:
    if use.distinct is not None:
        return None
    accesses = use.whole.accesses
    if use.pointer == "loaded":
        return "the pointer itself is loaded from memory"
    if use.pointer == "several":
        return "which pointer it is depends on the path"
    if any(access.is_gather for access in accesses):
        return "its indices depend on data in memory"
    if any(access.is_ragged for access in accesses):
        return "loops over it differ in length"
    by_path = any("path" in access.offset.depends for access in accesses)
    path = "its addresses depend on the path that a thread takes"
    return path if by_path else "its addresses are not followed"


class _Numbers:
    """The evidence of one array."""

    def __init__(self, view: LaunchView, use: ArrayUse, name: str, dram: float | None) -> None:
        self.view = view
        self.name = name
        self.is_apportioned = use.l2_basis == "apportioned"
        sources = threads_ran(view)
        self.requested = self._bytes("requested", use.requested, "requested by threads", *sources)
        self.distinct = self.times = self.from_l2 = self.from_dram = None
        self.l2 = self.dram = self.one_address = None
        if (count := _one_address_atomics(view, use)) is not None:
            label = f"atomics on one address of {name}"
            entry = f"array_one_address.{name}"
            self.one_address = view.ledger.derived(entry, count, label, *sources)
        if use.read_l2_bytes is not None:
            l2 = view.get("l2_l1_read_sectors")
            self.l2 = self._bytes("l2", use.read_l2_bytes, "read from L2", *filter(None, (l2,)))
        if dram is not None:
            read = view.get("dram_bytes_read")
            self.dram = self._bytes("dram", dram, "read from DRAM", *filter(None, (read,)))
        if use.distinct:
            self.distinct = self._bytes("distinct", use.distinct, "distinct", *sources)
            self.times = self._times("times", "requests per byte", self.requested)
            self.from_l2 = self._times("l2_times", "reads per byte from L2", self.l2)
            self.from_dram = self._times("dram_times", "reads per byte from DRAM", self.dram)

    def _bytes(self, what: str, size: float, label: str, *sources: Evidence) -> Evidence:
        quantity = Quantity(size, "byte")
        label = f"bytes of {self.name}, {label}"
        return self.view.ledger.derived(f"array_{what}.{self.name}", quantity, label, *sources)

    def _times(self, what: str, label: str, over: Evidence | None) -> Evidence | None:
        if over is None or self.distinct is None:
            return None
        name, label = f"array_{what}.{self.name}", f"{label} of {self.name}"
        return self.view.ledger.ratio(name, label, over, self.distinct)

    def every(self) -> tuple[Evidence, ...]:
        """Those that are known."""
        read = (self.distinct, self.requested, self.times, self.l2, self.from_l2)
        return tuple(filter(None, (*read, self.dram, self.from_dram, self.one_address)))


def _one_address_atomics(view: LaunchView, use: ArrayUse) -> float | None:
    """Atomics of all threads on the address that has most of them, if it depends neither on the
    thread nor on the block."""
    if not use.has_atomics or view.code is None or use.pointer in UNFOLLOWED_POINTERS:
        return None
    fixed = {atomic.position for atomic in view.code.atomics if atomic.spread == "one address"}
    sums: Counter[object] = Counter()
    for access in use.whole.accesses:
        if access.position in fixed:
            sums[access.offset.key] += access.threads or 0
    return float(max(sums.values())) if sums else None


# --- what accesses it again


def _again(code: MachineCode, use: ArrayUse) -> Iterator[AgainDocument]:
    """What accesses the same bytes again, the largest first."""
    if not use.distinct or use.requested / use.distinct < AGAIN:
        return
    left = use.requested / use.distinct
    documents: list[AgainDocument] = []
    for repeat in use.whole.repeats:
        if AGAIN <= repeat.times <= _ABOUT_ONCE * left:  # else few bytes are accessed so often
            documents.append(_repeated(code, repeat))
            left /= repeat.times
    if left >= AGAIN:
        documents.append(_several(code, use, left))
    yield from sorted(documents, key=lambda document: -(document.times or 0.0))


def _repeated(code: MachineCode, repeat: Repeat) -> AgainDocument:
    if repeat.kind != "loop":
        return AgainDocument(by=repeat.kind, name=repeat.name, times=repeat.times)
    from keet.analysis.machine_code.launch_code import loop_line

    line = loop_line(code, code.program.flow.loops[int(repeat.name)])
    name = f"the loop at {line_text(line)}" if line else "a loop"
    return AgainDocument(by="loop", name=name, times=repeat.times)


def _several(code: MachineCode, use: ArrayUse, times: float) -> AgainDocument:
    flow = code.program.flow
    reads = [access for access in use.whole.accesses if access.kind in _READS]
    loops = {flow.loop_of.get(flow.block_of[access.position]) for access in reads}
    if len(use.whole.accesses) == 1:
        return AgainDocument(by="threads", name="neighbouring threads", times=times)
    if len(loops - {None}) > 1:
        return AgainDocument(by="passes", name="several loops", times=times)
    return AgainDocument(by="instructions", name="several instructions", times=times)


# --- in words


def _text(numbers: _Numbers, use: ArrayUse, again: Sequence[AgainDocument]) -> Sentence:
    text, count = _use_text(numbers, use, again), numbers.one_address
    if count is None:
        return text
    return Sentence("{text}; {count:count} atomics go to one address", text=text, count=count)


def _use_text(numbers: _Numbers, use: ArrayUse, again: Sequence[AgainDocument]) -> Sentence:
    if numbers.distinct is None or numbers.times is None:
        return Sentence(
            "{requested} requested; how many of them are different is not known: {why}",
            requested=numbers.requested,
            why=_why_unknown(use) or "",
        )
    size = _size(numbers, use)
    verb = {"read": "read", "written": "written", "updated": "read or written"}[_access(use)]
    if numbers.times.value < AGAIN:
        is_all = numbers.times.value <= _ABOUT_ONCE and use.basis == "exact"
        what = "every byte is" if is_all else "most bytes are"
        once = Sentence("{size}, {what} {verb} once", size=size, what=what, verb=verb)
        return Sentence(", ").join((once, *_from_levels(numbers, math.inf)))
    distinct = numbers.distinct.value
    parts = (use.read_bytes, use.requested - use.read_bytes)
    are_once = all(distinct / _ABOUT_ONCE <= part <= distinct * _ABOUT_ONCE for part in parts)
    if use.basis == "exact" and not use.has_atomics and are_once:
        return Sentence("{size}, every byte is read once and written once", size=size)
    how = _how_often(numbers, verb, is_bound=use.basis == "bound")
    text = Sentence("{size}, {how}", size=size, how=how)
    reasons = [*_reasons(numbers, again)]
    return Sentence(": ").join((text, Sentence(", ").join(reasons))) if reasons else text


def _size(numbers: _Numbers, use: ArrayUse) -> Sentence:
    assert numbers.distinct is not None
    if use.basis == "estimate" and use.whole.in_rows is not None:
        return Sentence("about {distinct} if no two rows overlap", distinct=numbers.distinct)
    about = {"exact": "", "bound": "at most ", "estimate": "about "}[use.basis or "estimate"]
    return Sentence("{about}{distinct}", about=about, distinct=numbers.distinct)


def _how_often(numbers: _Numbers, verb: str, *, is_bound: bool) -> Sentence:
    """In all, and from the levels that are farther from the SM and still read again."""
    assert numbers.times is not None
    hedge = "about " if numbers.is_apportioned else ""
    least = "at least " if is_bound else ""
    from_dram = numbers.from_dram
    if from_dram is not None and from_dram.value >= max(AGAIN, MOST * numbers.times.value):
        words = "{verb} {hedge}{times:.1f} times from DRAM"
        return Sentence(words, verb=verb, hedge=least or hedge, times=from_dram)
    said = Sentence("{verb} {least}{times:.1f} times", verb=verb, least=least, times=numbers.times)
    levels = _from_levels(numbers, MOST * numbers.times.value, least)
    return Sentence(", ").join((said, *levels))


def _from_levels(numbers: _Numbers, below: float, least: str = "") -> Iterator[Sentence]:
    """The levels that deliver bytes again, but less often than `below`."""
    hedge = least or ("about " if numbers.is_apportioned else "")
    for level, times in (("L2", numbers.from_l2), ("DRAM", numbers.from_dram)):
        if times is not None and AGAIN <= times.value < below:
            form = "{hedge}{times:.1f} times from {level}"
            yield Sentence(form, hedge=hedge, times=times, level=level)


def _reasons(numbers: _Numbers, again: Sequence[AgainDocument]) -> Iterator[Sentence]:
    for document in again:
        if document.times is None:
            continue
        label = f"times that {numbers.name} is accessed, for {document.name}"
        name, amount = f"array_again.{numbers.name}.{document.name}", document.times
        times = numbers.view.ledger.derived(name, amount, label, numbers.requested)
        words = "{times:.1f} times by {name}"
        if document.by == "loop" and document.times == round(document.times):
            words = "in each of the {times:,.0f} iterations of {name}"
        elif document.by == "loop":
            words = "in each of the {times:.1f} iterations of {name}"
        elif document.name.startswith(("blockIdx", "threadIdx")):
            words = "{times:,.0f} times along {name}"
        yield Sentence(words, times=times, name=document.name)
