"""The faster kernel in the same report that does the same work.

Work is compared by amounts: operations of one type, or bytes of DRAM where a kernel computes less
than it moves. Equal amounts are a sign of the same work, not a proof, and the text says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product, takewhile
from typing import NamedTuple

from keet.analysis.code_names import with_more
from keet.analysis.ledger import Ledger
from keet.analysis.parameters import FEW_BYTES, SAME_BYTES, SEVERAL, SIMILAR, Parameter
from keet.analysis.roofline.compute import compute_ceilings, loads_constants
from keet.analysis.roofline.launch_roofline import lead_of
from keet.analysis.several_launches.cross_launch import SAVED_ACROSS
from keet.analysis.several_launches.traffic import stored_bytes, written_and_read
from keet.analysis.time_model import WORTH
from keet.evidence import Sentence
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.launch_groups import LaunchGroup
from keet.formatting import shapes_text
from keet.profile import Launch, Workload
from keet.units import Quantity

PER_BYTE = Parameter(
    1.0, "operations per byte of DRAM from which work is compared by operations", "judgement"
)
SAME_OPERATIONS = Parameter(0.02, "logarithm of counts of operations that are equal", "judgement")
FEW_CYCLES = Parameter(
    1000.0, "DRAM cycles below which many transfer code and constants", "judgement"
)
COMMON_NAME = Parameter(
    0.5, "part of the shorter name that names of versions begin with", "judgement"
)
DRAM_BOUND = Parameter(
    50.0, "percent of DRAM's peak from which other work may move as many bytes", "judgement"
)
_NAMED = 3
"""Kernels that a text names."""


class _Work(NamedTuple):
    """What a launch does, and how long it takes."""

    kind: str
    """`FP32 operations`, or `bytes`."""
    amounts: tuple[Quantity, ...]
    """The first is printed; all are compared."""
    ns: float


class _Kernel(NamedTuple):
    group: LaunchGroup
    work: _Work

    @property
    def launch(self) -> Launch:
        return self.group.first.launch

    @property
    def name(self) -> str:
        return f"{self.launch.kernel} (#{self.launch.id})"

    @property
    def shape(self) -> str:
        return f"{shapes_text(self.launch.grid, self.launch.block)} (#{self.launch.id})"

    def is_same_code(self, other: _Kernel) -> bool:
        """Whether these are launches of one kernel with other shapes."""
        one, two = self.launch, other.launch
        registers = (each.number("registers_per_thread") for each in (one, two))
        return (
            one.name.full == two.name.full
            and (one.grid, one.block) != (two.grid, two.block)
            and len(set(registers)) == 1
        )

    def is_version(self, other: _Kernel) -> bool:
        """Where no operations are counted: whether two kernels have the same parameters, names that
        begin alike, and move as much from and to DRAM, which limits neither."""
        one, two = self.launch, other.launch
        if one.name.full == two.name.full:
            return False
        parameters = [each.name.full.partition("(")[2] for each in (one, two)]
        names = [each.kernel.partition("<")[0] for each in (one, two)]
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*names)))
        cycles = [each.number("dram_active_cycles") or 0.0 for each in (one, two)]
        return (
            parameters[0] == parameters[1] != ""
            and alike >= COMMON_NAME * min(map(len, names))
            and min(cycles) >= FEW_CYCLES
            and abs(math.log(cycles[0] / cycles[1])) <= SAME_BYTES
            and all((x.number("dram_throughput_pct") or 100.0) < DRAM_BOUND for x in (one, two))
        )


MOST_COMPARED = 64
"""Kernels, those that take most time: each is compared with each."""


def versions_of_same_work(groups: Sequence[LaunchGroup]) -> list[list[LaunchGroup]]:
    """Three kernels or more that seem to do the same work, the fastest first. Two with equal
    amounts are often two steps of one program, such as the passes of a filter."""
    sets: list[list[_Kernel]] = []
    for kernel in _kernels(groups):
        alike = [own for own in sets if any(_is_alternative(kernel, each) for each in own)]
        joined = [each for own in alike for each in own]
        sets = [*(own for own in sets if own not in alike), [*joined, kernel]]
    return [[each.group for each in own] for own in sets if len(own) >= SEVERAL]


def versions_text(versions: Sequence[LaunchGroup]) -> Sentence:
    launches = [group.first.launch for group in versions]
    names = [f"{launch.kernel} (#{launch.id})" for launch in launches]
    return Sentence(
        "{names} seem to be versions of the same work, the fastest first: a program needs one of "
        "them, so their savings are not added up.",
        names=with_more(", ".join(names[: _NAMED + 1]), len(names) - _NAMED - 1),
    )


def _kernels(groups: Sequence[LaunchGroup]) -> list[_Kernel]:
    """Those whose work is known, the fastest first."""
    known = ((group, _work_of(group.first)) for group in tuple(groups)[:MOST_COMPARED])
    return sorted(
        (_Kernel(group, work) for group, work in known if work), key=lambda each: each.work.ns
    )


def _is_alternative(one: _Kernel, other: _Kernel) -> bool:
    """As many bytes alone do not say so: DRAM moves as many for different work. Launches of one
    kernel with blocks of the same size may be parts of one work."""
    if one.launch.name.full == other.launch.name.full:
        is_other = one.launch.block != other.launch.block
    else:
        is_other = one.work.kind not in _BYTES_OF.values()
    return is_other and _is_same_work(one, other)


def same_work_texts(groups: Sequence[LaunchGroup], book: Ledger) -> Iterator[Sentence]:
    """One sentence for each kernel that does the work of others in less time: of its own launches
    with other shapes first, then of other kernels."""
    total_ns = sum(group.time_ns for group in groups)
    kernels = _kernels(groups)
    told: set[LaunchGroup] = set()
    for same_code, (place, fast) in product((True, False), tuple(enumerate(kernels))):
        slow = [
            kernel
            for kernel in kernels[place + 1 :]
            if kernel.group not in told
            and kernel.is_same_code(fast) is same_code
            and _is_slower(kernel, fast, total_ns)
        ]
        if slow:
            told |= {each.group for each in slow}
            slow.sort(key=lambda each: -each.group.time_ns)
            yield _text(fast, slow, book, same_code=same_code)


def _is_slower(slow: _Kernel, fast: _Kernel, total_ns: float) -> bool:
    """Whether it does the same work, and it matters that it takes longer."""
    one, other = slow.work, fast.work
    factor = one.ns / other.ns * min(1.0, _clocks(slow, fast))
    saved_ns = slow.group.time_ns * (1 - 1 / factor)
    return factor >= WORTH and saved_ns >= SAVED_ACROSS * total_ns and _is_same_work(slow, fast)


def _is_same_work(slow: _Kernel, fast: _Kernel) -> bool:
    """Operations are counted, and those of one algorithm are as many."""
    kind = slow.work.kind
    if kind != fast.work.kind:
        return False
    if kind == _THREADS_ONLY:
        has_other_blocks = slow.launch.block != fast.launch.block
        if not (has_other_blocks if slow.is_same_code(fast) else slow.is_version(fast)):
            return False
    most = SAME_BYTES if kind in _BYTES_OF.values() else SAME_OPERATIONS
    pairs = zip(slow.work.amounts, fast.work.amounts)
    return all(abs(math.log(one.value / other.value)) <= most for one, other in pairs)


def _clocks(slow: _Kernel, fast: _Kernel) -> float:
    """The slower kernel's clock over that of the faster one, which may be faster only because of
    its clock. 1: not known."""
    one, other = (each.launch.number("sm_frequency") for each in (slow, fast))
    return one / other if one and other else 1.0


def _work_of(each: LaunchExplanation) -> _Work | None:
    """None if the report does not count it."""
    launch, view = each.launch, each.view
    seconds = launch.rank_time * 1e-9
    if launch.workload is not Workload.KERNEL or not seconds or each.replay:
        return None
    ceilings, _ = compute_ceilings(view.ledger, view.ceilings)
    lead = lead_of(ceilings, constants=loads_constants(view.ledger, view.ceilings))
    read, written = (launch.number(f"dram_bytes_{way}") for way in ("read", "written"))
    moved = None if read is None or written is None else read + written
    if lead is not None and lead.achieved is not None:
        done = float(lead.achieved.value) * seconds
        if done > PER_BYTE * (moved or 0.0):
            amount = Quantity(done, lead.achieved.unit.removesuffix("/s"))
            return _Work(f"{lead.name} operations", (amount,), launch.rank_time)
    stored = stored_bytes(launch) or written_and_read(launch)[0]
    if not moved:
        threads = launch.number("threads")
        work = _Work(_THREADS_ONLY, (Quantity(threads or 0.0, ""),), launch.rank_time)
        return work if threads else None
    if not read or moved < FEW_BYTES:
        return None
    amounts = tuple(Quantity(amount, "byte") for amount in (moved, read, stored) if amount)
    # Kernels that only add to memory by atomics store nothing: they are like each other.
    return _Work(_BYTES_OF[bool(stored)], amounts, launch.rank_time)


def _text(fast: _Kernel, slow: Sequence[_Kernel], book: Ledger, *, same_code: bool) -> Sentence:
    key = f"same_work_{fast.launch.id}"
    kind, (amount, *_), _ = fast.work
    more = " and others" if len(slow) > _NAMED else ""
    is_bytes = kind in _BYTES_OF.values()
    form = _BYTES if is_bytes else _OPERATIONS
    if kind == _THREADS_ONLY:
        form = _THREADS if same_code else _VERSIONS
    elif same_code:
        form, kind = _SHAPED, "bytes from and to DRAM" if is_bytes else kind
    factors = (_factor(fast, each, key, book, same_code=same_code) for each in slow[:_NAMED])
    return Sentence(
        form,
        name=fast.launch.kernel if form == _SHAPED else fast.name,
        shape=fast.shape,
        does="moves" if is_bytes else "does",
        kind=kind,
        amount=book.derived(f"{key}_amount", amount, kind),
        factors=Sentence(", ").join(factors),
        more=more,
    )


_THREADS_ONLY = "threads"
"""Neither operations nor bytes are counted: launches of one kernel in blocks of other sizes, and
versions of a kernel."""
_BYTES_OF = {True: "bytes", False: "bytes, none of them stored"}
_SHAPED = (
    "{name} {does} as many {kind} ({amount}) with several launch shapes, and is fastest with "
    "{shape}: {factors}{more}. If the results are the same, it shows what the shape gains."
)
_THREADS = (
    "{name} has as many threads ({amount:.0f}) in blocks of another size, and takes less time: "
    "{factors}{more}. If the work is the same, it shows what the size of a block gains."
)
_VERSIONS = (
    "{name} has as many threads ({amount:.0f}) and about as much traffic from and to DRAM, and "
    "takes less time: {factors}{more}. If the results are the same, it shows what is possible."
)
_OPERATIONS = (
    "{name} does as many {kind} ({amount}) in less time: {factors}{more}. If the results are the "
    "same, it shows what is possible."
)
_BYTES = (
    "{name} moves as many bytes from and to DRAM ({amount}) in less time: {factors}{more}. DRAM "
    "allows that rate."
)


def _factor(fast: _Kernel, slow: _Kernel, key: str, book: Ledger, *, same_code: bool) -> Sentence:
    """In cycles where the clocks differ, since another clock is not another code."""
    clocks = _clocks(slow, fast)
    is_other = max(clocks, 1 / clocks) > SIMILAR
    factor = Quantity(slow.work.ns / fast.work.ns * (clocks if is_other else 1.0), "x")
    label = f"{'cycles' if is_other else 'time'} of {slow.name} over that of {fast.name}"
    return Sentence(
        "{times:speedup} faster than {other}{by}",
        times=book.derived(f"{key}_{slow.launch.id}", factor, label),
        other=f"with {slow.shape}" if same_code else slow.name,
        by=" by cycles, since the clocks differ" if is_other else "",
    )
