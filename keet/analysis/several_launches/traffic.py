"""How many bytes each launch moves, to compare launches with each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from keet.analysis.hardware.ceilings import NEAR_PEAK
from keet.analysis.limits import NOTABLE_PART, SAME_BYTES
from keet.analysis.parameters import Parameter
from keet.profile import Launch

SECTOR = 32
"""Bytes."""
_STORE = 4
"""Code of a store in `memory_access_type`. 2 is a load."""
VERSION_WORDS = Parameter(0.6, "share of common words in names of two versions", "judgement")
EQUAL_WORK = Parameter(
    0.02, "relative difference of counts of equal work: they are of different passes", "judgement"
)
_OPERATIONS = ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma")
_NUMBER = re.compile(r"(?<=[a-z])\d{1,2}$")
"""The number at the end of a word at the end of a name."""
_NUMBERED_STEPS = ("kernel", "step", "stage", "phase", "pass", "part", "layer", "conv", "level")
"""Words that people number where they mean steps of one computation, not versions."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def written_and_read(launch: Launch) -> tuple[float | None, float | None]:
    """Bytes that the launch's stores send to L2, and bytes that its loads get from L2.

    From DRAM's counters if L2's were not collected; None if neither were.
    """
    written = _number(launch, ("l2_l1_write_sectors", SECTOR), ("l1_write_bytes", 1))
    read = _number(launch, ("l2_l1_read_sectors", SECTOR), ("l1_read_bytes", 1))
    return (
        _number(launch, ("dram_bytes_written", 1)) if written is None else written,
        _number(launch, ("dram_bytes_read", 1)) if read is None else read,
    )


def _number(launch: Launch, *sources: tuple[str, int]) -> float | None:
    """The first of the metrics that was collected, times its size."""
    for metric_id, size in sources:
        found = launch.get(metric_id)
        if found is not None:
            return float(found.value) * size
    return None


def stored_bytes(launch: Launch) -> float | None:
    """Bytes that the stores would send to L2 if they were coalesced; None: not collected.

    Stores of partial sectors reach L2 several times for the same sector, so this is nearer to the
    amount of data than what `written_and_read` counts.
    """
    kinds = launch.instances("memory_access_type")
    found = launch.find("src_l2_sectors_global_ideal")
    sectors = launch.instances(found.name) if found else None
    if kinds is None or sectors is None or kinds.ids is None or sectors.ids is None:
        return None
    kind_of = dict(kinds.measured())
    stored = [float(n) for address, n in sectors.measured() if kind_of.get(address) == _STORE]
    return SECTOR * sum(stored)


class Traffic:
    """The traffic of one launch. It is read at once, because the launch may be released
    afterwards."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.us = launch.rank_time / 1000
        self.written, self.read = written_and_read(launch)
        self.dram_read = _number(launch, ("dram_bytes_read", 1))
        self.dram_written = _number(launch, ("dram_bytes_written", 1))
        self.dram_pct = _number(launch, ("dram_throughput_pct", 1))
        """Percent of DRAM's peak bandwidth."""
        self.sm_clock = _number(launch, ("sm_frequency", 1))
        """Hertz."""
        self.dram_clock = _number(launch, ("dram_frequency", 1))
        """Hertz."""

    @cached_property
    def stored(self) -> float | None:
        """Read on demand, only for long launches."""
        return stored_bytes(self.launch)

    @cached_property
    def operations(self) -> tuple[float, ...]:
        """Executed additions, multiplications and multiply-adds by type; empty: not collected. Read
        on demand, only for launches with equal amounts of bytes."""
        cycles = self.launch.number("elapsed_cycles")
        rates = [self.launch.number(f"inst_{kind}_per_cycle") for kind in _OPERATIONS]
        if cycles is None:
            return ()
        return tuple(cycles * rate for rate in rates if rate is not None)

    @cached_property
    def dram_us(self) -> float | None:
        """The part of the launch's time that its DRAM traffic explains."""
        if self.dram_pct is None:
            return None
        return self.us * min(
            1.0, max(0.0, (self.dram_pct - 100 * NOTABLE_PART) / (NEAR_PEAK - 100 * NOTABLE_PART))
        )

    @property
    def writes_us(self) -> float | None:
        """Time that would be saved without the stores. Dirty lines that are still in L2 when the
        launch ends are written to DRAM later, and cost this launch no DRAM time."""
        read, written = self.dram_read, self.dram_written
        if self.dram_us is None or read is None or written is None or not read + written:
            return None
        return self.dram_us * written / (read + written)

    @property
    def reads_us(self) -> float | None:
        """Time that would be saved without the loads."""
        read, written = self.dram_read, self.dram_written or 0.0
        if self.dram_us is None or not read:
            return None
        return self.dram_us * read / (read + written)


class Benchmark:
    """Kernels that run several times in a row, as in a program that times several versions. Steps
    of one computation take turns."""

    def __init__(self, launches: Sequence[Traffic]) -> None:
        names = [each.launch.name.full for each in launches]
        self._repeated = {one for one, other in pairwise(names) if one == other}

    def has_both(self, one: Traffic, other: Traffic) -> bool:
        return {each.launch.name.full for each in (one, other)} <= self._repeated


def are_twins(one: Traffic, other: Traffic) -> bool:
    """Whether two kernels read and write the same amounts and execute as many operations of each
    type: two versions of one computation, or two steps that are alike."""
    amounts = [(one.dram_read, other.dram_read), (one.written, other.written)]
    pairs = [*amounts, *zip(one.operations, other.operations)]
    counted = len(one.operations) == len(other.operations) and any(one.operations)
    return counted and all(_are_equal(mine or 0.0, theirs or 0.0) for mine, theirs in pairs)


def are_alternatives(one: Traffic, other: Traffic) -> bool:
    """Whether two kernels read and write about the same amounts and execute about as many
    operations of each type: two ways to compute one result. Looser than `are_twins`: partial
    results, which differ between two ways, are small beside what both read."""
    read, others = one.dram_read or 0.0, other.dram_read or 0.0
    partial = EQUAL_WORK * max(read, others)
    written = abs((one.written or 0.0) - (other.written or 0.0)) <= partial
    counted = len(one.operations) == len(other.operations) and any(one.operations)
    pairs = [(read, others), *zip(one.operations, other.operations)]
    return counted and written and all(abs(a - b) <= SAME_BYTES * max(a, b) for a, b in pairs)


def _are_equal(one: float, other: float) -> bool:
    return abs(one - other) <= EQUAL_WORK * max(one, other)


def are_variants(one: Launch, other: Launch) -> bool:
    """Whether two kernels are probably two versions of one kernel, by their names.

    Names that differ in numbers only are parts of one function: compilers of OpenACC and Julia
    number them. People number versions, without an underscore: `reduce0`, `reduce1`.
    """
    plain = [_NUMBER.sub("", launch.name.function) for launch in (one, other)]
    if plain[0] == plain[1] and one.name.function != other.name.function:
        return not plain[0].lower().endswith(_NUMBERED_STEPS)
    words, others = _words(one), _words(other)
    if words == others or not words or not others:
        return words == others
    if all(word.isdigit() for word in words ^ others):
        return False
    added = words <= others or others <= words  # `gemm` and `gemm_tiled`
    return added or len(words & others) >= VERSION_WORDS * len(words | others)


_VERSIONS = frozenset(
    (
        *("naive", "simple", "basic", "baseline", "reference", "ref", "old", "new", "slow", "fast"),
        *("optimized", "optimised", "opt", "better", "improved", "tiled", "version"),
    )
)
"""Words that distinguish versions of one kernel."""


def _words(launch: Launch) -> frozenset[str]:
    found = frozenset(word.lower() for word in _WORDS.findall(launch.name.function))
    return found - _VERSIONS or found
