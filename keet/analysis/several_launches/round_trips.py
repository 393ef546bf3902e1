"""Round trips through memory: one kernel writes data, and a later kernel reads it back.

A report has no pointers, only how many bytes each launch writes and reads. Two equal amounts are a
hint and no proof. The texts say so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.analysis.limits import FEW_BYTES, NOTABLE_PART, SAME_BYTES, SEVERAL
from keet.analysis.parameters import Parameter
from keet.analysis.several_launches.traffic import Benchmark, Traffic, are_twins, are_variants

READERS_AFTER = Parameter(3, "launches after the writing one that may read its output", "judgement")
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

    @property
    def saved_us(self) -> float | None:
        """Time of the stores and the loads; None unless both are known."""
        write, read = self.writer.writes_us, self.reader.reads_us
        return None if write is None or read is None else write + read / self.inputs


def find_links(launches: Sequence[Traffic]) -> list[Link]:
    """Each launch and the first later one that may read its output."""
    long_us = _READ_BY_INSTRUCTION * sum(each.us for each in launches)
    moving = [each for each in launches if (each.written or 0) + (each.read or 0) >= FEW_BYTES]
    timed = Benchmark(launches)
    found = []
    for at, writer in enumerate(moving):
        later = moving[at + 1 :][: int(READERS_AFTER)]
        link = _first_reader(writer, later, long_us) or _shared_input(writer, later, long_us)
        if link and not timed.has_both(writer, link.reader):
            found.append(link)
    return found


def _first_reader(writer: Traffic, later: Sequence[Traffic], long_us: float) -> Link | None:
    if (writer.written or 0) < FEW_BYTES or _generates(writer):
        return None
    candidates = [(reader, 1) for reader in later] + [(reader, 2) for reader in later[:1]]
    found = (_link(writer, reader, inputs, long_us) for reader, inputs in candidates)
    return next((link for link in found if link), None)


def _shared_input(one: Traffic, later: Sequence[Traffic], long_us: float) -> Link | None:
    """The next launch, if it reads what this one reads (and writes)."""
    if not later or not _may_link(one, later[0]):
        return None
    other = later[0]
    inputs, written = _read(one), _written(one, long_us) or [0.0]
    for mine in inputs:
        if mine < FEW_BYTES:
            continue
        needed = mine + (min(written) if min(written) > NOTABLE_PART * mine else 0.0)
        near = [read for read in _read(other) if _distance(needed, read, 1) <= SAME_BYTES]
        if near and min(written) <= mine * math.exp(-SAME_BYTES):
            read = min(near, key=lambda amount: _distance(needed, amount, 1))
            return Link(one, other, mine, read, 1, same_input=False, is_shared=True)
    return None


GENERATES = Parameter(
    0.005, "bytes read over written of a kernel that generates data; im2col: 0.03", "judgement"
)


def _generates(writer: Traffic) -> bool:
    return writer.read is not None and writer.read <= GENERATES * (writer.written or 0.0)


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
    same = inputs == 1 and _is_same(*inputs_read)
    same = same and _is_same(min(written), min(_written(reader, long_us), default=None))
    return Link(writer, reader, *nearest, inputs, same)


def _may_link(writer: Traffic, reader: Traffic) -> bool:
    one, other = writer.launch, reader.launch
    return one.name.full != other.name.full and one.device == other.device


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


def _is_same(one: float | None, other: float | None) -> bool:
    return bool(one and other) and _distance(one or 1, other or 1, 1) <= SAME_BYTES


class RoundTrip(NamedTuple):
    """The links between one pair of kernels, or along a chain of kernels."""

    links: tuple[Link, ...]
    """Sorted by the time that would be saved."""
    chain: tuple[Traffic, ...] = ()
    """Launches in a row that all pass on the same amount; empty for a single pair."""

    @property
    def saved_us(self) -> float | None:
        known = [link.saved_us for link in self.links if link.saved_us is not None]
        return sum(known) if known else None


def round_trips(links: Sequence[Link]) -> list[RoundTrip]:
    """Links grouped by pair of kernels or by chain, sorted by the time that would be saved."""
    pairs: dict[tuple[str, str], list[Link]] = defaultdict(list)
    chains, single = _chains(links)
    for link in single:
        pairs[link.writer.launch.name.full, link.reader.launch.name.full].append(link)
    found = [RoundTrip(tuple(sorted(links, key=_rank))) for links in pairs.values()]
    found += [RoundTrip(tuple(links), tuple(_members(links))) for links in chains]
    return sorted(found, key=lambda each: -(each.saved_us or 0.0))


def _rank(link: Link) -> float:
    return -(link.saved_us or 0.0)


def _members(links: Sequence[Link]) -> Iterator[Traffic]:
    yield links[0].writer
    yield from (link.reader for link in links)


def _chains(links: Sequence[Link]) -> tuple[list[list[Link]], list[Link]]:
    """Chains of equal amounts, and the other links. A link between versions of one kernel is
    neither, and a chain that contains one is dropped: it compares versions."""
    chains: list[list[Link]] = []
    for link in links:
        last = chains[-1][-1] if chains else None
        if last and last.reader is link.writer and _is_same(last.written, link.written):
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
    return len({each.launch.name.full for each in _members(chain)})


def _of_variants(link: Link) -> bool:
    """By name; or, for two inputs, by their work: a sum that reads another sum and one more array
    is rarer than two versions of it. Two steps with one input, such as the rows and the columns of
    a filter, are often alike."""
    if link.inputs == 2:
        return are_twins(link.writer, link.reader)
    return (link.same_input or link.is_shared) and are_variants(
        link.writer.launch, link.reader.launch
    )
