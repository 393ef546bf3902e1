"""How many bytes each launch moves, to compare launches with each other: round trips through
memory, and times that can't be compared because the clocks differ.

In a round trip, one kernel writes data, and a later kernel reads it back. A report has no pointers,
only how many bytes each launch writes and reads. Two equal amounts are a hint and no proof. The
texts say so.

ncu locks the SM clock to its base value, but not every GPU allows that, and it does not lock DRAM's
clock. A launch that another program interrupts shows lower clocks, too: its duration counts the
interruption, and its cycles do not.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from keet.analysis.candidate import MEMORY_WAITS, kept_waits
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import (
    FEW_BYTES,
    LONGEST_START_NS,
    MAJORITY,
    NOTABLE_PART,
    SAME_BYTES,
    SEVERAL,
    SIMILAR,
    Parameter,
)
from keet.analysis.time_model import BLOCK_STARTS, SHARPNESS, Effect, TimeModel
from keet.profile import Launch

_STORE_CODE = 4
"""Code of a store in `memory_access_type`. 2 is a load."""
VERSION_WORDS = Parameter(0.6, "share of common words in names of two versions", "judgement")
EQUAL_WORK = Parameter(
    0.02, "relative difference of counts of equal work: they are of different passes", "judgement"
)
_OPERATIONS = ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma")
_FINAL_NUMBER = re.compile(r"(?<=[a-z])\d{1,2}$")
"""The number at the end of a word at the end of a name."""
_NUMBERED_STEPS = ("kernel", "step", "stage", "phase", "pass", "part", "layer", "conv", "level")
"""Words that people number where they mean steps of one computation, not versions."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def written_and_read(launch: Launch) -> tuple[float | None, float | None]:
    """Bytes that the launch's stores send to L2, and bytes that its loads get from L2.

    From DRAM's counters if L2's were not collected; None if neither were.
    """
    written = (("l2_l1_write_sectors", SECTOR), ("l1_write_bytes", 1), ("dram_bytes_written", 1))
    read = (("l2_l1_read_sectors", SECTOR), ("l1_read_bytes", 1), ("dram_bytes_read", 1))
    return _number(launch, *written), _number(launch, *read)


def _number(launch: Launch, *sources: tuple[str, int]) -> float | None:
    """The first of the metrics that was collected, times its size."""
    for metric_id, size in sources:
        metric = launch.get(metric_id)
        if metric is not None:
            return float(metric.value) * size
    return None


def stored_bytes(launch: Launch) -> float | None:
    """Bytes that the stores would send to L2 if they were coalesced; None: not collected.

    Stores of partial sectors reach L2 several times for the same sector, so this is nearer to the
    amount of data than what `written_and_read` counts.
    """
    kinds = launch.instances("memory_access_type")
    metric = launch.find("src_l2_sectors_global_ideal")
    sectors = launch.instances(metric.name) if metric else None
    if kinds is None or sectors is None or kinds.ids is None or sectors.ids is None:
        return None
    kind_of = dict(kinds.measured())
    stored = [float(n) for address, n in sectors.measured() if kind_of.get(address) == _STORE_CODE]
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
    def model(self) -> TimeModel | None:
        """None: DRAM was not measured."""
        model = TimeModel(LaunchView(self.launch))
        return model if "DRAM" in model.loads else None


class Fused(NamedTuple):
    """A launch as a part of one that does the work of several."""

    launch: Traffic
    reads: float
    """Share of what it reads, 0 to 1, that goes, because another part has it in registers or shared
    memory."""
    writes: float
    """Share of what it writes that goes."""

    def effect(self, model: TimeModel) -> Effect:
        """Loads that go take their waiting with them; other loads wait in a shorter queue. All
        other instructions stay. Dirty lines that are still in L2 when the launch ends are written
        to DRAM later, and cost this launch no DRAM time."""
        traffic, units = self.launch, dict[str, float]()
        for unit, read, written in (
            ("DRAM", traffic.dram_read, traffic.dram_written),
            ("L2", traffic.read, traffic.written),
        ):
            if every := (read or 0.0) + (written or 0.0):
                gone = self.reads * (read or 0.0) + self.writes * (written or 0.0)
                units[unit] = 1 - gone / every
        relieved = (model.loads.get(unit, 0.0) * (1 - left) for unit, left in units.items())
        queue = max(relieved, default=0.0)
        return Effect(units, kept_waits(model, MEMORY_WAITS, self.reads + (1 - self.reads) * queue))


def saved_us(parts: Sequence[Fused]) -> float | None:
    """Time that one launch saves that does the work of these; None if DRAM's traffic was not
    collected. It starts once, with the blocks of one part, and a unit works for one part while
    another one waits."""
    loads: dict[str, float] = defaultdict(float)
    exposed = start = 0.0
    for part in parts:
        traffic, model = part.launch, part.launch.model
        if model is None or traffic.dram_read is None or traffic.dram_written is None:
            return None
        effect, active = part.effect(model), traffic.us * (1 - model.fixed)
        for unit, load in model.loads_after(effect).items():
            taken = active * load
            loads[unit] = max(loads[unit], taken) if unit == BLOCK_STARTS else loads[unit] + taken
        exposed += active * model.exposed_after(effect)
        start = max(start, traffic.us * model.fixed)
    busiest = max(loads.values(), default=0.0)
    fused = start + math.pow(busiest**SHARPNESS + exposed**SHARPNESS, 1 / SHARPNESS)
    return max(0.0, sum(part.launch.us for part in parts) - fused)


def with_number(launch: Launch) -> str:
    return f"{launch.kernel} (#{launch.id})"


def repeated_kernels(launches: Sequence[Traffic]) -> set[str]:
    """Names of kernels that run several times in a row, as in a program that times several
    versions. Steps of one computation take turns."""
    names = [traffic.launch.name.full for traffic in launches]
    return {name for name, following in pairwise(names) if name == following}


def _are_twins(first: Traffic, second: Traffic) -> bool:
    """Whether two kernels read and write the same amounts and execute as many operations of each
    type: two versions of one computation, or two steps that are alike."""
    amounts = (first.dram_read, second.dram_read), (first.written, second.written)
    return _agree(first, second, EQUAL_WORK, *amounts)


def _agree(
    first: Traffic, second: Traffic, within: float, *amounts: tuple[float | None, float | None]
) -> bool:
    """Whether these amounts, and the operations of each type, are about equal."""
    pairs = [(a or 0.0, b or 0.0) for a, b in (*amounts, *zip(first.operations, second.operations))]
    counted = len(first.operations) == len(second.operations) and any(first.operations)
    return counted and all(abs(a - b) <= within * max(a, b) for a, b in pairs)


def are_alternatives(first: Traffic, second: Traffic) -> bool:
    """Whether two kernels read and write about the same amounts and execute about as many
    operations of each type: two ways to compute one result. Looser than `_are_twins`: partial
    results, which differ between two ways, are small beside what both read."""
    partial = EQUAL_WORK * max(first.dram_read or 0.0, second.dram_read or 0.0)
    written = abs((first.written or 0.0) - (second.written or 0.0)) <= partial
    return written and _agree(first, second, SAME_BYTES, (first.dram_read, second.dram_read))


def are_variants(first: Launch, second: Launch) -> bool:
    """Whether two kernels are probably two versions of one kernel, by their names.

    Names that differ in numbers only are parts of one function: compilers of OpenACC and Julia
    number them. People number versions, without an underscore: `reduce0`, `reduce1`.
    """
    plain = [_FINAL_NUMBER.sub("", launch.name.function) for launch in (first, second)]
    if plain[0] == plain[1] and first.name.function != second.name.function:
        return not plain[0].lower().endswith(_NUMBERED_STEPS)
    words, others = _words(first), _words(second)
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
    words = frozenset(word.lower() for word in _WORDS.findall(launch.name.function))
    return words - _VERSIONS or words


READERS_AFTER = Parameter(3, "launches after the writing one that may read its output", "judgement")
_MOST_LATER_LAUNCHES = 50
"""Launches after the writing one in which others that read as much are looked for."""
_READ_BY_INSTRUCTION = 0.005
"""Share of the time of all launches. In longer launches the stores are read per instruction, which
takes a millisecond per launch."""


class Link(NamedTuple):
    """A launch that reads as many bytes as an earlier one writes, or as it reads."""

    writer: Traffic
    reader: Traffic
    written: float
    """Bytes that both move: as the stores of `writer` count them, or what it reads if
    `is_shared`."""
    read: float
    """Bytes, at the level (L2 or DRAM) where they are nearest to `written`."""
    inputs: int
    """1: the amount is all that `reader` reads; 2: `reader` reads twice as much, so it may have two
    inputs."""
    same_input: bool
    """Both launches read and write the same amount, so they may instead share their input."""
    is_shared: bool = False
    """`reader` reads as much as `writer` reads, and also what that writes, if it is not little: the
    maximum and then the exponentials of one array. Only a part of a chain: alone, it says less
    than `same_input` of `find_cross_launch`."""
    others: tuple[Traffic, ...] = ()
    """The first launches of other kernels that read as much before `writer` runs again: any of
    them may be the one that reads its output."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing else explains the equal amounts."""
        return self.inputs == 1 and not self.same_input and not self.others

    @property
    def saved_us(self) -> float | None:
        """Time that fusing both saves; None: not known."""
        return saved_us([Fused(self.writer, 0.0, 1.0), Fused(self.reader, 1 / self.inputs, 0.0)])


def find_links(launches: Sequence[Traffic]) -> list[Link]:
    """Each launch and the first later one that may read its output."""
    long_us = _READ_BY_INSTRUCTION * sum(traffic.us for traffic in launches)
    moving = [one for one in launches if (one.written or 0) + (one.read or 0) >= FEW_BYTES]
    timed = repeated_kernels(launches)
    links = []
    for at, writer in enumerate(moving):
        later = moving[at + 1 : at + 1 + _MOST_LATER_LAUNCHES]
        link = _first_reader(writer, later, long_us) or _shared_input(writer, later, long_us)
        if link and not {writer.launch.name.full, link.reader.launch.name.full} <= timed:
            links.append(link)
    return links


def _first_reader(writer: Traffic, later: Sequence[Traffic], long_us: float) -> Link | None:
    written = writer.written or 0.0
    generates = writer.read is not None and writer.read <= GENERATES * written
    if written < FEW_BYTES or generates:
        return None
    near = later[: int(READERS_AFTER)]
    candidates = [(reader, 1) for reader in near] + [(reader, 2) for reader in near[:1]]
    for reader, inputs in candidates:
        if link := _link(writer, reader, inputs, long_us):
            return link._replace(others=tuple(_other_readers(link, later, long_us)))
    return None


def _other_readers(link: Link, later: Sequence[Traffic], long_us: float) -> Iterator[Traffic]:
    writer = link.writer
    seen = {writer.launch.name.full, link.reader.launch.name.full}
    for reader in later:
        name = reader.launch.name.full
        if name == writer.launch.name.full:
            return
        if name not in seen and _link(writer, reader, 1, long_us):
            seen.add(name)
            yield reader


def _shared_input(first: Traffic, later: Sequence[Traffic], long_us: float) -> Link | None:
    """The next launch, if it reads what this one reads (and writes)."""
    if not later or not _may_link(first, later[0]):
        return None
    second = later[0]
    inputs, written = _read(first), _written(first, long_us) or [0.0]
    for mine in inputs:
        if mine < FEW_BYTES:
            continue
        needed = mine + (min(written) if min(written) > NOTABLE_PART * mine else 0.0)
        near = [read for read in _read(second) if _distance(needed, read, 1) <= SAME_BYTES]
        if near and min(written) <= mine * math.exp(-SAME_BYTES):
            read = min(near, key=lambda amount: _distance(needed, amount, 1))
            return Link(first, second, mine, read, 1, same_input=False, is_shared=True)
    return None


GENERATES = Parameter(
    0.005, "bytes read over written of a kernel that generates data; im2col: 0.03", "judgement"
)


def _link(writer: Traffic, reader: Traffic, inputs: int, long_us: float) -> Link | None:
    if not _may_link(writer, reader):
        return None
    written, read = _written(writer, long_us), _read(reader)
    pairs = [(w, r) for w in written for r in read if _distance(w, r, inputs) <= SAME_BYTES]
    if not pairs:
        return None
    nearest = min(pairs, key=lambda pair: _distance(pair[0], pair[1], inputs))
    # The reader's own output tells steps that keep the size from a reduction or an expansion.
    # Both by the amount of data: L2 may deliver the same number of bytes by chance.
    inputs_read = min(_read(writer), default=None), min(read, default=None)
    same = inputs == 1 and is_same_size(*inputs_read)
    same = same and is_same_size(min(written), min(_written(reader, long_us), default=None))
    return Link(writer, reader, *nearest, inputs, same)


def _may_link(writer: Traffic, reader: Traffic) -> bool:
    first, second = writer.launch, reader.launch
    return first.name.full != second.name.full and first.device == second.device


def _written(writer: Traffic, long_us: float) -> list[float]:
    """The amount of data: stores of partial sectors send more to L2 than they hold."""
    stored = writer.stored if writer.us >= long_us else None
    return _smaller(writer.written, stored)


def _read(reader: Traffic) -> list[float]:
    """The amount of data: L2 delivers bytes again that several threads load."""
    return _smaller(reader.read, reader.dram_read)


def _smaller(moved: float | None, data: float | None) -> list[float]:
    """Both amounts if they are about equal. Much more traffic than data is no amount of data."""
    if moved and data and data >= FEW_BYTES and moved > data * math.exp(SAME_BYTES):
        return [data]
    return [amount for amount in (moved, data) if amount]


def _distance(written: float, read: float, inputs: int) -> float:
    return abs(math.log(read / (inputs * written)))


def is_same_size(first: float | None, second: float | None) -> bool:
    """False if one is not known."""
    return bool(first and second) and _distance(first or 1, second or 1, 1) <= SAME_BYTES


class RoundTrip(NamedTuple):
    """The links between one pair of kernels, or along a chain of kernels."""

    links: tuple[Link, ...]
    """Sorted by the time that would be saved."""
    chain: tuple[Traffic, ...] = ()
    """Launches in a row that all pass on the same amount; empty for a single pair."""

    @property
    def saved_us(self) -> float | None:
        if self.chain:
            first, *inner, last = self.chain
            between = (Fused(traffic, 1.0, 1.0) for traffic in inner)
            return saved_us([Fused(first, 0.0, 1.0), *between, Fused(last, 1.0, 0.0)])
        savings = [link.saved_us for link in self.links if link.saved_us is not None]
        return sum(savings) if savings else None


def round_trips(links: Sequence[Link]) -> list[RoundTrip]:
    """Links grouped by pair of kernels or by chain, sorted by the time that would be saved."""
    pairs: dict[tuple[str, str], list[Link]] = defaultdict(list)
    chains, single = _chains(links)
    for link in single:
        pairs[link.writer.launch.name.full, link.reader.launch.name.full].append(link)

    def by_saving(trip: Link | RoundTrip) -> float:
        return -(trip.saved_us or 0.0)

    trips = [RoundTrip(tuple(sorted(links, key=by_saving))) for links in pairs.values()]
    trips += [RoundTrip(tuple(links), _members(links)) for links in chains]
    return sorted(trips, key=by_saving)


def _members(links: Sequence[Link]) -> tuple[Traffic, ...]:
    return (links[0].writer, *(link.reader for link in links))


def _chains(links: Sequence[Link]) -> tuple[list[list[Link]], list[Link]]:
    """Chains of equal amounts, and the other links. A link between versions of one kernel is
    neither, and a chain that contains one is dropped: it compares versions."""
    chains: list[list[Link]] = []
    for link in links:
        last = chains[-1][-1] if chains else None
        if last and last.reader is link.writer and is_same_size(last.written, link.written):
            chains[-1].append(link)
        else:
            chains.append([link])
    # Launches that only share their input may as well be versions: nothing is handed over.
    handing = [chain for chain in chains if not all(link.is_shared for link in chain)]
    real = [chain for chain in handing if not any(map(_of_variants, chain))]
    long = [chain for chain in real if _kernels(chain) >= SEVERAL]
    short = [link for chain in real if _kernels(chain) < SEVERAL for link in chain]
    return long, [link for link in short if not link.is_shared]


def _kernels(chain: Sequence[Link]) -> int:
    return len({traffic.launch.name.full for traffic in _members(chain)})


def _of_variants(link: Link) -> bool:
    """By name; or, for two inputs, by their work: a sum that reads another sum and one more array
    is rarer than two versions of it. Two steps with one input, such as the rows and the columns of
    a filter, are often alike."""
    if link.inputs == 2:
        return _are_twins(link.writer, link.reader)
    shares_input = link.same_input or link.is_shared
    return shares_input and are_variants(link.writer.launch, link.reader.launch)


class ClockRange(NamedTuple):
    """The slowest and the fastest launch by one clock."""

    label: str
    """`SM` or `DRAM`."""
    slow: Traffic
    fast: Traffic
    lowest: float
    """Hertz."""
    highest: float
    """Hertz."""

    @property
    def ratio(self) -> float:
        return self.highest / self.lowest


def different_clocks(launches: Sequence[Traffic]) -> list[ClockRange]:
    """One range per clock that differs notably between launches whose time depends on it and that
    take a notable part of the time; the largest difference first. Without short launches, whose
    clock (cycles over duration) is not exact. The DRAM clock matters only where DRAM decides the
    time."""
    clocks: tuple[tuple[str, Callable[[Traffic], float], float], ...] = (
        ("SM", lambda traffic: traffic.sm_clock or 0.0, 0.0),
        ("DRAM", lambda traffic: traffic.dram_clock or 0.0, 100 * MAJORITY),
    )
    ranges = []
    for label, clock, least_dram in clocks:
        long = [
            traffic
            for traffic in launches
            if traffic.us * 1e3 >= LONGEST_START_NS and clock(traffic) > 0
        ]
        deciding = [traffic for traffic in long if (traffic.dram_pct or 0.0) >= least_dram]
        if not deciding or len({traffic.launch.device for traffic in long}) != 1:
            continue
        deciding.sort(key=clock)
        ends = _after_the_first(deciding), _after_the_first(deciding[::-1])
        if clock(ends[1]) > SIMILAR * clock(ends[0]):
            slow, fast = min(long, key=clock), max(long, key=clock)
            ranges.append(ClockRange(label, slow, fast, clock(slow), clock(fast)))
    return sorted(ranges, key=lambda clock_range: -clock_range.ratio)


def _after_the_first(ordered: Sequence[Traffic]) -> Traffic:
    """The launch at which the launches so far take a notable part of the time."""
    taken = [*accumulate(traffic.us for traffic in ordered)]
    reached = (traffic for traffic, us in zip(ordered, taken) if us >= NOTABLE_PART * taken[-1])
    return next(reached, ordered[-1])
