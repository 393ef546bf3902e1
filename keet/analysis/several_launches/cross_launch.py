"""Findings about several launches together: round trips through memory, repeated passes, sweeps.

A report has no pointers, so equal amounts of bytes are only a suspicion that the data is the same.
Each text says so, and what would be saved if it is true.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from keet.analysis.ledger import Ledger
from keet.analysis.parameters import (
    MAJORITY,
    NOTABLE_PART,
    SAME_BYTES,
    SAVED_PART,
    SEVERAL,
    SHORT_KERNEL_NS,
    Parameter,
)
from keet.analysis.several_launches.traffic import (
    Fused,
    Link,
    RoundTrip,
    Traffic,
    are_alternatives,
    are_variants,
    different_clocks,
    find_links,
    repeated_kernels,
    round_trips,
    saved_us,
    with_number,
)
from keet.documents.explain import CrossLaunchDocument, Kind
from keet.evidence import Confidence, Evidence, Sentence
from keet.formatting import listed
from keet.profile import Launch, Workload
from keet.profile.run_link import by_kernel_and_shape, iterate_launches, median

SAVED_ACROSS = Parameter(0.02, "least saving across launches, of their time", "judgement")
TINY_COUNT = Parameter(8, "number of launches from which tiny ones matter", "judgement")
PASS_BYTES = Parameter(16e6, "bytes per launch from which a repeated pass is reported", "judgement")
SWEEP_RANGE = Parameter(4.0, "threads of the largest launch over the smallest one's", "judgement")
_MOST_NAMED_LAUNCHES = 4
"""Launches that a text names."""


def find_cross_launch(
    launches: Sequence[Launch], ledger: Ledger
) -> tuple[CrossLaunchDocument, ...]:
    """Different clocks, which all times depend on; then sorted by the time that would be saved;
    sweeps save nothing and come last."""
    kernels = [launch for launch in launches if launch.workload is Workload.KERNEL]
    # Reads the duration and GPU of every launch while it is decoded: all views need both, and a
    # launch keeps them when it is released.
    traffic = [
        Traffic(launch)
        for launch in iterate_launches(launches, "reading launches")
        if launch.device and launch.rank_time and launch.workload is Workload.KERNEL
    ]
    total_us = sum(launch.us for launch in traffic)
    if len(traffic) < 2 or not total_us:
        return ()
    writer = _Writer(ledger, total_us)
    links = find_links(traffic)
    trips = [trip for trip in round_trips(links) if writer.is_worth(trip.saved_us, *_moved(trip))]
    shown_links = [link for trip in trips for link in trip.links]
    shown_links += [link for link in links if not link.is_shared]
    linked = {(link.writer.launch.id, link.reader.launch.id) for link in shown_links}
    documents = [
        *(writer.chain(trip) if trip.chain else writer.pair(trip) for trip in trips),
        *_repeated(traffic, writer),
        *_same_input(traffic, writer, linked),
        *_tiny(traffic, writer),
    ]
    documents.sort(key=lambda document: -(document.us_saved or 0.0))
    times_us = {launch.launch.id: launch.us for launch in traffic}
    timed = (replace(x, total_us=sum(times_us[id_] for id_ in x.launches)) for x in documents)
    return (*_clocks(traffic, writer), *timed, *_sweeps(kernels, writer))


def _moved(trip: RoundTrip) -> tuple[float, Launch]:
    """Bytes, and the launch that reads them."""
    return trip.links[0].written, trip.links[0].reader.launch


def shared_traffic(documents: Sequence[CrossLaunchDocument]) -> dict[int, CrossLaunchDocument]:
    """Per launch: data that it and others move one after the other, of which most would be saved.

    Repeated passes are left out here: how many equal launches a report has depends on its capture.
    """
    by_launch: dict[int, CrossLaunchDocument] = {}
    for document in documents:
        is_shared = document.kind in ("hand_over", "same_input")
        if is_shared and 0 < (document.us_saved or 0) < document.total_us:
            for launch in document.launches:
                by_launch.setdefault(launch, document)
    return by_launch


class _Writer:
    """Texts with their evidence."""

    def __init__(self, ledger: Ledger, total_us: float) -> None:
        self.amount = ledger.numbers("across_")
        self.total_us = total_us

    def is_worth(self, saved_us: float | None, moved: float, launch: Launch) -> bool:
        least = SAVED_PART if _cached(moved, launch) else SAVED_ACROSS
        return saved_us is None or saved_us >= least * self.total_us

    def saved(self, name: str, us: float | None, *sources: Evidence) -> Evidence | None:
        label = "time that would be saved"
        return None if us is None else self.amount(f"{name}_saved", us, label, "us", *sources)

    def pair(self, trip: RoundTrip) -> CrossLaunchDocument:
        first, others = trip.links[0], trip.links[1:]
        sender, receiver = first.writer.launch, first.reader.launch
        name = f"{sender.id}_{receiver.id}"
        written = self.amount(f"{name}_written", first.written, f"written by #{sender.id}", "byte")
        read = self.amount(f"{name}_read", first.read, f"read by #{receiver.id}", "byte")
        saved = self.saved(name, trip.saved_us, written, read)
        one_of = self._one_of(name, first)
        text = Sentence(
            "{likely} round trip through memory: {one} writes {written}, and then {other} reads "
            "{read}{relation}{one_of}. If that is the same data, fusing them {saves}{cached}.",
            likely="Likely" if first.is_plain else "Possible",
            one=with_number(sender),
            written=written,
            other=with_number(receiver),
            read=read,
            relation=_relation(first),
            one_of=one_of,
            saves=_saves(saved, others),
            cached=_cached(first.written, receiver),
        )
        launches = _ids(end for link in trip.links for end in (link.writer, link.reader))
        cited = (written, read, *one_of.evidence.values())
        finding = _finding("hand_over", text, launches, cited, _confidence(first), saved)
        return replace(finding, writers=_ids(link.writer for link in trip.links))

    def _one_of(self, name: str, link: Link) -> Sentence:
        """That other kernels read as much, too, so that any of them may read what was written."""
        if not link.others:
            return Sentence()
        count = self.amount(f"{name}_readers", 1 + len(link.others), "kernels that read as much")
        return Sentence(
            ", one of {count:count} kernels that read as much (also {others})",
            count=count,
            others=_names(link.others),
        )

    def chain(self, trip: RoundTrip) -> CrossLaunchDocument:
        first = trip.chain[0]
        name = f"{first.launch.id}_chain"
        moved = self.amount(f"{name}_bytes", trip.links[0].written, "moved by each", "byte")
        count = self.amount(f"{name}_count", len(trip.chain), "launches in a row")
        saved = self.saved(name, trip.saved_us, moved)
        cached = _cached(trip.links[0].written, first.launch)
        is_plain = all(link.same_input for link in trip.links)
        how = "each read and write {moved}" if is_plain else "move the same amount, {moved}"
        text = Sentence(
            "Possible round trips through memory: {count} launches in a row ({names}) {how}. If "
            "they are steps of one computation, each reads what the previous one {what}, and "
            "fusing them {saves}{cached}. If they are versions of one kernel, ignore "
            "this.",
            count=count,
            names=_names(trip.chain),
            how=Sentence(how, moved=moved),
            what="wrote" if is_plain else "wrote or read",
            saves=_saves(saved, ()),
            cached=cached,
        )
        finding = _finding("hand_over", text, _ids(trip.chain), (count, moved), "low", saved)
        kernels = {traffic.launch.name.full for traffic in trip.chain}
        return replace(finding, hand_overs=len(kernels) - 1)


def _finding(  # noqa: PLR0913, PLR0917 - what a finding is made of
    kind: Kind,
    text: Sentence,
    launches: tuple[int, ...],
    cited: Sequence[Evidence],
    confidence: Confidence,
    saved: Evidence | None = None,
) -> CrossLaunchDocument:
    return CrossLaunchDocument(
        kind=kind,
        confidence=confidence,
        text=text,
        launches=launches,
        us_saved=float(saved.value) if saved else None,
        evidence=(*cited, saved) if saved else tuple(cited),
    )


def _relation(link: Link) -> str:
    if link.inputs == 2:
        return " (twice as much: perhaps this and another input)"
    if link.same_input:
        return ", and both read and write as much, as versions of one kernel would"
    return ""


def _saves(saved: Evidence | None, others: Sequence[Link]) -> Sentence:
    pairs = [f"#{link.writer.launch.id} and #{link.reader.launch.id}" for link in others]
    again = f" (also {listed(pairs, _MOST_NAMED_LAUNCHES)})" if pairs else ""
    if saved is None:
        return Sentence("saves writing it and reading it back{again}", again=again)
    text = "saves up to {saved:base} of writing it, reading it back and starting again{again}"
    return Sentence(text, saved=saved, again=again)


def _cached(moved: float, launch: Launch) -> str:
    """ncu empties the caches before each launch unless told otherwise."""
    size = launch.get("device_l2_size")
    if size is None or moved >= size.value:
        return ""
    return (
        "; the data fits into L2, so without ncu, which flushes caches, the saving may be smaller"
    )


def _confidence(link: Link) -> Confidence:
    fits_into_l2 = _cached(link.written, link.reader.launch)
    return "medium" if link.is_plain and not fits_into_l2 else "low"


def _names(launches: Sequence[Traffic]) -> str:
    named = [f"#{traffic.launch.id} {traffic.launch.kernel}" for traffic in launches]
    return listed(named, _MOST_NAMED_LAUNCHES)


def _ids(launches: Iterator[Traffic] | Sequence[Traffic]) -> tuple[int, ...]:
    return tuple(sorted({traffic.launch.id for traffic in launches}))


# --- the same bytes again and again


def _repeated(launches: Sequence[Traffic], writer: _Writer) -> Iterator[CrossLaunchDocument]:
    """The same kernel, several times, each time moving the same bytes through DRAM."""
    by_id = {traffic.launch.id: traffic for traffic in launches}
    groups = by_kernel_and_shape([traffic.launch for traffic in launches])
    group_of = {launch.id: number for number, group in enumerate(groups) for launch in group}
    of_kernel: dict[str, list[int]] = defaultdict(list)
    """The groups of a kernel's launches, in their order."""
    for launch in by_id.values():
        of_kernel[launch.launch.name.full].append(group_of[launch.launch.id])
    # Where the kernel runs with another shape between each two of them, a chain of sizes starts
    # again, such as that of a reduction: these are repetitions, not passes.
    in_a_row = {one for order in of_kernel.values() for one, then in pairwise(order) if one == then}
    for number in sorted(in_a_row):
        own = groups[number]
        others = (groups[n] for n in {*of_kernel[own[0].name.full]} if n != number)
        shapes = [by_id[other[0].id] for other in others if len(other) == len(own)]
        passes = [by_id[launch.id] for launch in own]
        if not _are_timed(passes, shapes):
            yield from _passes(passes, writer)


def _are_timed(passes: Sequence[Traffic], shapes: Sequence[Traffic]) -> bool:
    """Whether the kernel reads the same bytes as often with another launch shape, which a program
    does that compares shapes; or whether NVTX ranges number the launches. `shapes`: one launch of
    each other shape that runs as often."""
    first = passes[0]
    names = [traffic.launch.nvtx[-1].name for traffic in passes if traffic.launch.nvtx]
    plain = {re.sub(r"\d+\s*$", "", name) for name in names}
    numbered = len(set(names)) == len(passes) and len(plain) == 1
    reads = ([first.dram_read or 0.0, shape.dram_read or 0.0] for shape in shapes)
    return numbered or any(_spread(pair) <= SAME_BYTES for pair in reads)


def _passes(passes: Sequence[Traffic], writer: _Writer) -> Iterator[CrossLaunchDocument]:
    """A question without a saving: repetitions for timing look the same in a report."""
    reads = [traffic.dram_read for traffic in passes]
    collected = [amount for amount in reads if amount]
    name, total = f"{passes[0].launch.id}_passes", sum(traffic.us for traffic in passes)
    are_large = len(collected) == len(passes) and min(collected) >= PASS_BYTES
    if are_large and _spread(collected) <= SAME_BYTES:
        first, *others = passes
        worth = saved_us([Fused(first, 0.0, 0.0), *(Fused(other, 1.0, 1.0) for other in others)])
        usual, label = median(collected), "read from DRAM by each launch"
        read = writer.amount(f"{name}_read", usual, label, "byte")
        moves = Sentence("reads {read} from DRAM", read=read)
    elif not collected and len(passes) >= SEVERAL and _spread(_usual(passes)) <= SAME_BYTES:
        worth, reached = total, median(traffic.dram_pct or 0.0 for traffic in passes)
        if reached < 100 * MAJORITY:
            return
        peak = writer.amount(f"{name}_dram", reached, "DRAM bandwidth of each launch", "%")
        moves = Sentence("runs DRAM at {peak:.0f} of its peak", peak=peak)
    else:
        return
    launch = passes[0].launch
    if not writer.is_worth(worth, median(collected) if collected else math.inf, launch):
        return
    count = writer.amount(f"{name}_count", len(passes), "equal launches")
    took = writer.amount(f"{name}_time", total, "time of these launches", "us")
    text = Sentence(
        "Equal launches: {count} launches of {kernel} take {took:base}, and each {moves}. Are they "
        "passes over the same data, not repetitions for timing? Then an algorithm with fewer "
        "passes, or several steps per pass, helps.",
        count=count,
        kernel=launch.kernel,
        took=took,
        moves=moves,
    )
    cited = (count, took, *moves.evidence.values())
    yield _finding("repeated_passes", text, _ids(passes), cited, "low")


def _usual(passes: Sequence[Traffic]) -> list[float]:
    """What each moves through DRAM (time at its bandwidth), without the extremes of many: ncu
    measures both in passes of its own."""
    ordered = sorted(traffic.us * (traffic.dram_pct or 0.0) for traffic in passes)
    cut = int(NOTABLE_PART * len(ordered))
    return ordered[cut : len(ordered) - cut]


def _spread(values: Sequence[float]) -> float:
    return math.log(max(values) / min(values)) if min(values) > 0 else math.inf


def _same_input(
    launches: Sequence[Traffic], writer: _Writer, linked: set[tuple[int, int]]
) -> Iterator[CrossLaunchDocument]:
    """Different kernels in a row that read the same amount from DRAM."""
    big = [traffic for traffic in launches if (traffic.dram_read or 0) >= PASS_BYTES]
    timed = repeated_kernels(launches)
    seen: set[tuple[str, str]] = set()
    for first, second in pairwise(big):
        pair = (first.launch.name.full, second.launch.name.full)
        if pair in seen or pair[0] == pair[1] or (first.launch.id, second.launch.id) in linked:
            continue
        moved = second.dram_read or 0.0
        alike = _spread([first.dram_read or 0, moved]) <= SAME_BYTES
        versions = are_variants(first.launch, second.launch) or {*pair} <= timed
        if not alike or versions or are_alternatives(first, second):
            continue
        seen.add(pair)
        us = saved_us([Fused(first, 0.0, 0.0), Fused(second, 1.0, 0.0)])
        if not writer.is_worth(us, moved, second.launch):
            continue
        name = f"{first.launch.id}_{second.launch.id}_input"
        read = writer.amount(f"{name}_read", moved, "read from DRAM by both", "byte")
        saved = writer.saved(name, us, read)
        text = Sentence(
            "Same input: {one} and {other} both read {read} from DRAM. If that is the same data, "
            "doing both in one kernel saves {gain}{cached}.",
            one=with_number(first.launch),
            other=with_number(second.launch),
            read=read,
            gain=Sentence("up to {saved:base}", saved=saved) if saved else "one of the reads",
            cached=_cached(moved, second.launch),
        )
        yield _finding("same_input", text, _ids([first, second]), (read,), "low", saved)


# --- many launches


def _tiny(launches: Sequence[Traffic], writer: _Writer) -> Iterator[CrossLaunchDocument]:
    """Launches that last about as long as an empty kernel."""
    tiny = [traffic for traffic in launches if traffic.us < SHORT_KERNEL_NS / 1e3]
    together_us = sum(traffic.us for traffic in tiny)
    if len(tiny) < TINY_COUNT or together_us < NOTABLE_PART * writer.total_us:
        return
    count = writer.amount("tiny_count", len(tiny), "short launches")
    typical = writer.amount("tiny_median", median(e.us for e in tiny), "median duration", "us")
    took = writer.amount("tiny_time", together_us, "their time together", "us")
    whole = writer.amount("total_time", writer.total_us, "time of all launches", "us")
    part = 100 * together_us / writer.total_us
    share = writer.amount("tiny_share", part, "share of all launches' time", "%", took, whole)
    # The shortest of them is the most that an empty launch can take on this GPU.
    shortest = writer.amount("tiny_shortest", min(e.us for e in tiny), "the shortest of them", "us")
    saved = writer.saved("tiny", (len(tiny) - 1) * float(shortest.value), count, shortest)
    text = Sentence(
        "Many short launches: {count} launches take {typical:base} in the median, {took:base} "
        "together ({share:.0f} of the time of all launches). Starting and ending a kernel takes up "
        "to {shortest:base} of each; the gaps between launches are not in the report. Fuse the "
        "kernels, or launch them as a CUDA graph.",
        count=count,
        typical=typical,
        took=took,
        share=share,
        shortest=shortest,
    )
    pieces = (count, typical, took, whole, share, shortest)
    yield _finding("tiny_launches", text, _ids(tiny), pieces, "medium", saved)


def _sweeps(launches: Sequence[Launch], writer: _Writer) -> Iterator[CrossLaunchDocument]:
    """One kernel at several sizes."""
    kernels: dict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        if launch.grid and launch.block and launch.rank_time:
            kernels[launch.name.full].append(launch)
    for group in kernels.values():
        shapes = {(launch.grid, launch.block) for launch in group}
        smallest, largest = min(group, key=_threads), max(group, key=_threads)
        if len(shapes) < SEVERAL or _threads(largest) < SWEEP_RANGE * _threads(smallest):
            continue
        name = f"{group[0].id}_sweep"
        count = writer.amount(f"{name}_shapes", len(shapes), "launch shapes")
        ends = []
        for end, launch in (("smallest", smallest), ("largest", largest)):
            key, label, us = f"{name}_{end}", f"#{launch.id}", launch.rank_time / 1000
            threads = writer.amount(key, _threads(launch), f"threads of {label}")
            took = writer.amount(f"{key}_time", us, f"duration of {label}", "us")
            words = "{threads} threads in {took:base} ({label})"
            ends.append(Sentence(words, threads=threads, took=took, label=label))
        text = Sentence(
            "{kernel} runs with {count} launch shapes, from {first} to {last}. What limits it may "
            "differ with the size.",
            kernel=group[0].kernel,
            count=count,
            first=ends[0],
            last=ends[1],
        )
        ids = tuple(launch.id for launch in group)
        yield _finding("sweep", text, ids, tuple(text.evidence.values()), "high")


def _clocks(launches: Sequence[Traffic], writer: _Writer) -> Iterator[CrossLaunchDocument]:
    """Launches whose times can't be compared, because a clock differs."""
    differences = different_clocks(launches)
    if not differences:
        return
    clauses = []
    for difference in differences:
        ends = []
        for end, launch, hertz in (
            ("lowest", difference.slow.launch, difference.lowest),
            ("highest", difference.fast.launch, difference.highest),
        ):
            name = f"{difference.label.lower()}_clock_{end}"
            clock = writer.amount(name, hertz, f"{difference.label} clock of #{launch.id}", "hz")
            ends.append(Sentence("{clock} (#{id})", clock=clock, id=str(launch.id)))
        words = "the {unit} clock is {low} to {high}"
        clauses.append(Sentence(words, unit=difference.label, low=ends[0], high=ends[1]))
    text = Sentence(
        "Launches were measured at different clocks: {clocks}. Their times, shares of the time and "
        "ratios can't be compared directly. Lock the clocks (nvidia-smi --lock-gpu-clocks), let no "
        "other program use the GPU, and profile again.",
        clocks=Sentence(", and ").join(clauses),
    )
    ids = _ids([differences[0].slow, differences[0].fast])
    yield _finding("clocks", text, ids, tuple(text.evidence.values()), "high")


def _threads(launch: Launch) -> int:
    return math.prod((*(launch.grid or ()), *(launch.block or ())))
