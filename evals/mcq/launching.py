"""Questions about numbers of a launch: blocks that fit, waves, bytes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from evals.mcq.drafts import (
    OPTIONS,
    Around,
    Choice,
    Draft,
    Fact,
    Item,
    Number,
    balanced,
    off_by_a_little,
    ranked,
    ranks,
)
from evals.mcq.facts import LIMITS, SMS, Facts
from evals.mcq.reading import MOST, launch_of, name_of, some

_COUNTS = (1, 2, 3, 4, 6, 7, 8, 10, 12, 16, 18, 20, 24, 32)
_SAME = 4
"""Reports with the same count and limit that are asked about."""


# --- blocks of an SM


def occupancy_drafts(reports: Sequence[Facts]) -> list[Draft]:
    """Two limits times two counts; each limit is as often right as wrong, and so is each count."""
    items = [Item(name_of(f), (f,), _holders(f)) for f in _varied(reports)]
    held = balanced(items, 1, "limit", 2 * MOST)
    limits = {choice.item.name: choice for choice in held}
    counted = balanced([_counts(choice) for choice in held], 1, "count", MOST)
    return [_occupancy_draft(limits[choice.item.name], choice) for choice in counted]


def _varied(reports: Sequence[Facts]) -> Iterator[Facts]:
    """Most blocks are of 256 threads, and eight of them fill an SM: not the most questions."""
    seen: Counter[tuple[str, ...]] = Counter()
    for facts in random.Random("limit").sample(reports, len(reports)):
        answer = (*_holders(facts), str(min(facts.limits.values())))
        seen[answer] += 1
        if seen[answer] <= _SAME:
            yield facts


def _holders(facts: Facts) -> dict[str, dict[str, str]]:
    """The resource with the lowest limit, where no other has the same, and those above it."""
    limits = facts.limits
    lowest = min(limits.values())
    holders = [name for name, limit in limits.items() if limit == lowest]
    return {
        name: {
            other: f"{other} would allow {limits[other]} blocks, {name} only {lowest}"
            for other in limits
            if limits[other] > lowest
        }
        for name in (holders if len(holders) == 1 else _told_apart(facts, holders))
    }


def _told_apart(facts: Facts, holders: Sequence[str]) -> list[str]:
    """A block of one warp meets the limit of 32 blocks; the memory that the driver takes of each
    block has the same limit, and no block asked for it."""
    asked = facts.need("launch__shared_mem_per_block_static") + facts.need(
        "launch__shared_mem_per_block_dynamic"
    )
    return ["block slots"] if set(holders) == {"block slots", "shared memory"} and not asked else []


def _counts(held: Choice) -> Item:
    (facts,) = held.item.facts
    count = facts.limits[held.answer]
    wrong = {str(n): f"{count} blocks fit, not {n}" for n in _COUNTS if n != count}
    return Item(held.item.name, held.item.facts, {str(count): wrong})


def _occupancy_draft(held: Choice, counted: Choice) -> Draft:
    (facts,) = held.item.facts
    (wrong,), (other,) = held.wrong, counted.wrong
    option = "{} at a time, held down by {}".format
    (reason,), (miscounted,) = held.reasons, counted.reasons
    return Draft(
        "occupancy",
        held.item.name,
        (facts,),
        f"{launch_of(facts)} How many of its blocks fit on one SM, and which limit comes first?",
        (
            option(counted.answer, held.answer),
            option(counted.answer, wrong),
            option(other, held.answer),
            option(other, wrong),
        ),
        "blocks allowed: "
        + "; ".join(f"{name} {facts.limits[name]} ({LIMITS[name]})" for name in LIMITS),
        (reason, miscounted, f"{miscounted}; {reason}"),
        tuple(Fact(facts.limits[name], _LIMIT_WORDS[name]) for name in (held.answer, wrong)),
    )


_LIMIT_WORDS = {
    "registers": "Block Limit Registers|registers",
    "shared memory": "Block Limit Shared|shared memory",
    "warp slots": "Block Limit Warps|warps",
    "block slots": "Block Limit SM|block slots",
}


# --- waves


class Asked(NamedTuple):
    """One number of a report."""

    question: str
    shown: Callable[[float], str]
    why: str
    fact: Fact
    mistakes: Sequence[Number]
    """What wrong ways to it give."""


def wave_drafts(reports: Sequence[Facts]) -> list[Draft]:
    """A number that two reports have is asked for once."""
    values = {facts: facts.need("launch__waves_per_multiprocessor") for facts in reports}
    usable = {round(value, 2): facts for facts, value in values.items() if 0.2 <= value <= 100}
    return list(_read("waves", {facts: values[facts] for facts in usable.values()}, _waves))


def _waves(facts: Facts) -> Asked:
    grid, fit = facts.need("launch__grid_size"), min(facts.limits.values())
    value = facts.need("launch__waves_per_multiprocessor")
    return Asked(
        "How many waves of blocks is its grid: blocks of the grid over blocks that all SMs can "
        "hold at a time?",
        lambda waves: f"{waves:.2f} waves",
        f"{grid:.0f} blocks over {SMS} SMs times {fit} blocks that fit: {value:.2f} "
        "(launch__waves_per_multiprocessor)",
        Fact(value, "[Ww]aves"),
        [
            Number(grid / (limit * SMS), f"takes the limit of {name}, {limit}, for the least")
            for name, limit in facts.limits.items()
            if limit != fit
        ],
    )


# --- bytes


def traffic_drafts(reports: Sequence[Facts]) -> list[Draft]:
    return list(
        _read("traffic", {f: f.dram_bytes for f in reports if f.dram_bytes > 5e6}, _traffic)
    )


def _traffic(facts: Facts) -> Asked:
    read, written = facts.need("dram__bytes_read.sum"), facts.need("dram__bytes_write.sum")
    sectors = facts.need("lts__t_sectors.sum")
    mistakes = (
        Number(read, "what was written is left out"),
        Number(written, "what was read is left out"),
        Number(32 * sectors, f"that is what L2 looked up: {sectors:.0f} sectors of 32 bytes"),
    )
    return Asked(
        "How many bytes did DRAM move during the launch, read and written together?",
        lambda count: f"{count / 1e6:.3g} MB" if count < 999e6 else f"{count / 1e6:.0f} MB",
        f"{read / 1e6:.1f} MB read (dram__bytes_read.sum) and {written / 1e6:.1f} MB written "
        "(dram__bytes_write.sum)",
        Fact(read / 1e6 if read < 1e9 else read / 1e9, "dram__bytes_read|DRAM"),
        [mistake for mistake in mistakes if mistake.value > 0],
    )


def _read(
    kind: str, values: Mapping[Facts, float], asked: Callable[[Facts], Asked]
) -> Iterator[Draft]:
    """A number, among those of mistakes and such as other reports have."""
    draws = random.Random(kind)
    kept = some(list(values), kind)
    for facts, rank in zip(kept, ranks(len(kept), kind)):
        said = asked(facts)
        pool = [*said.mistakes, *_others(facts, values, draws)]
        wrong = ranked(values[facts], pool, Around(rank), draws)
        options = tuple(said.shown(n) for n in (values[facts], *(one.value for one in wrong)))
        if len(set(options)) == OPTIONS:
            yield Draft(
                kind,
                name_of(facts),
                (facts,),
                f"{launch_of(facts)} {said.question}",
                options,
                said.why,
                tuple(number.why for number in wrong),
                (said.fact,),
            )


def _others(facts: Facts, values: Mapping[Facts, float], draws: random.Random) -> Iterator[Number]:
    for report, value in values.items():
        if report.sample.name != facts.sample.name:
            yield Number(off_by_a_little(value, draws), "the report does not say so")
