"""What a row of a source listing shows when it is opened: costs, findings, waits, machine code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.code_names import line_text
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.hotspots.examined import first_wait
from keet.analysis.hotspots.source_lines import InstructionTable, Spot
from keet.catalog import stalls
from keet.evidence import Evidence, Sentence, constant, counted
from keet.formats.html.markup import Content, Html, element, heat_class, joined, scrolling
from keet.formats.html.source_rows import (
    FEW_IN_ROW,
    Mention,
    SourceData,
    group_of,
    reason_text,
    swatch,
)
from keet.formatting import share_text
from keet.pages.hotspots import mix_text, producer_text, size_text
from keet.profile import Absent
from keet.safe_text import one_line

if TYPE_CHECKING:
    from keet.analysis.hotspots.line_facts import InstructionFacts, LineFacts, LineLoop
    from keet.pages.hotspots_line import Item


# --- machine code


_WIDEST = 52
"""Characters of an instruction before its wait; longer ones move it to the right."""


class SassRow(NamedTuple):
    offset: str
    executed: int | None
    samples: int | None
    text: str
    wait: Content


def analysed_rows(data: SourceData, facts: Iterable[InstructionFacts]) -> list[SassRow]:
    """With what each instruction waits for."""
    assert data.code is not None
    return [
        SassRow(
            fact.offset,
            fact.executed,
            fact.samples if data.table.samples else None,
            data.sass_line(data.code.program.code[fact.position]),
            _wait(data, fact) if fact.waits else "",
        )
        for fact in facts
    ]


def plain_rows(data: SourceData, addresses: Iterable[int]) -> list[SassRow]:
    """Without the analysis: the largest stall reason alone."""
    from keet.analysis.machine_code.instructions.instruction import parse

    texts = {} if isinstance(data.sass, Absent) else data.sass
    table = data.table
    samples, executed = table.samples, table.executed
    return [
        SassRow(
            data.offset(address),
            executed.get(address, 0) if executed is not None else None,
            samples.get(address, 0) if samples is not None else None,
            data.sass_line(parse(address, texts.get(address, ""))),
            _largest_reason(table, address),
        )
        for address in addresses
    ]


def _wait(data: SourceData, each: InstructionFacts) -> Content:
    """`Long Scoreboard for the load at 0x0ab0 (slow.cu:19)`, with a link to another line."""
    code, wait = data.code, each.waits[0]
    label = stalls()[wait.reason].label
    if wait.producer_address is None or code is None:
        return label
    is_other = wait.producer not in (None, code.location(each.position))
    text = f"{label} for {producer_text(code, wait, data.offset(wait.producer_address))}"
    return [text, " (", data.line_link(wait.producer), ")"] if is_other else text


def _largest_reason(table: InstructionTable, address: int) -> str:
    known = stalls()
    counts = {
        reason: column.get(address, 0)
        for reason, column in table.stall_samples.items()
        if known[reason].counts_as_stall
    }
    largest = max(counts, key=lambda reason: counts[reason], default="")
    return known[largest].label if largest and counts[largest] else ""


def sass_block(rows: Sequence[SassRow], samples: int, label: str) -> Html:
    """One element of text: a table would take four times the bytes.

    `samples`: of the whole launch, so that heat means the same as that of lines.
    """
    most = max((row.samples or 0 for row in rows), default=0)
    columns = _columns(rows)
    lines: list[Content] = [element("b", _line("", columns, 0).rstrip()), "\n"]
    for number, row in enumerate(rows, 1):
        text = _line(">" if most and row.samples == most else "", columns, number)
        whole = [text, row.wait] if row.wait else text.rstrip()
        heat = heat_class(row.samples / samples) if row.samples and samples else None
        lines += [element("mark", whole, class_=heat) if heat else whole, "\n"]
    return scrolling(label, lines, tag="pre", kind="sass scroll")


def _columns(rows: Sequence[SassRow]) -> list[list[str]]:
    """Heads and cells, all of a column as wide. Columns that were not collected are left out; a
    count that all rows have stands in the head."""
    executed = ["" if row.executed is None else f"{row.executed:,}" for row in rows]
    samples = [f"{row.samples:,}" if row.samples else "" for row in rows]
    numbers, head = {"executed": executed, "samples": samples}, "instruction"
    if len(rows) > 1 and executed[0] and len({*executed}) == 1:
        del numbers["executed"]
        head += f" (each executed {executed[0]} {'time' if executed[0] == '1' else 'times'})"
    known = [[name, *cells] for name, cells in numbers.items() if any(cells)]
    widths = [max(map(len, cells)) for cells in known]
    aligned = [[cell.rjust(width) for cell in cells] for cells, width in zip(known, widths)]
    widest = min(_WIDEST, max((len(row.text) for row in rows), default=0))
    texts = [cell.ljust(widest) for cell in (head, *(row.text for row in rows))]
    offset = max(map(len, ("offset", *(row.offset for row in rows))))
    offsets = [cell.ljust(offset) for cell in ("offset", *(row.offset for row in rows))]
    return [offsets, *aligned, texts]


def _line(mark: str, columns: Sequence[Sequence[str]], number: int) -> str:
    return "  ".join(
        [f"{mark:1} {columns[0][number]}", *(column[number] for column in columns[1:]), ""]
    )


# --- a line


_AWAITED = 5
"""Waiting lines that are listed."""
_REASONS = 6
"""Stall reasons that are listed; the rest is added up."""
_IN_WORDS = 2
"""Stall reasons that are put into words."""
_WARP = 32

Fact = tuple[str, Content]


def line_panel(data: SourceData, spot: Spot, mentions: Sequence[Mention]) -> tuple[Html, Html]:
    """What is known about a source line, and its machine code."""
    line = spot.location
    facts = data.by_line.facts(line) if data.by_line and line else None
    told = [
        *_findings(data, mentions),
        *cost_facts(data, spot),
        *_awaited(data, facts),
        *_executions(spot, facts),
        *traffic_facts(spot),
        *_sentences(data, facts),
    ]
    return facts_list(told), _sass(data, spot, facts)


def facts_list(told: Iterable[Fact]) -> Html:
    pairs = [(element("dt", label), element("dd", content)) for label, content in told]
    return element("dl", pairs, class_="facts")


def _percent(share: float) -> Evidence:
    """A share from 0 to 1."""
    return constant(100 * share, "%", "share of the launch")


def cost_facts(data: SourceData, spot: Spot) -> Iterator[Fact]:
    """Samples, and what their warps wait for."""
    hotspots = data.found
    if spot.samples is not None and hotspots.ranked_by == "samples":
        share = _percent(spot.samples / hotspots.total) if hotspots.total else None
        text = Sentence(
            "{samples:,d} of the {total:,d} samples of this launch{share}",
            samples=constant(spot.samples, "", "samples of the row"),
            total=hotspots.number("all samples", hotspots.total),
            share=Sentence(" ({share:cell})", share=share) if share else "",
        )
        yield "Samples", text
    else:
        yield "Samples", "The report has no warp samples."
    if spot.stalls:
        yield "Warps here", element("ul", list(_reasons(data, spot)), class_="plain")


def _reasons(data: SourceData, spot: Spot) -> Iterator[Html]:
    """Each with its share and what it waits for; the largest ones also in words."""
    known, waits = stalls(), data.row(spot).waits
    counts = spot.samples_by_reason
    is_shared = (spot.samples or 0) >= FEW_IN_ROW
    for rank, reason in enumerate([*counts][:_REASONS]):
        stall = known[reason]
        words = f"wait for {stall.waits_for}" if stall.counts_as_stall else stall.waits_for
        name = element("b", reason_text(spot, reason))
        samples = Sentence(" ({samples})", samples=counted(counts[reason], "sample"))
        awaited = data.linked_awaits(first_wait(waits, reason), spot)
        said = element("span", f": {words}", class_="muted") if rank < _IN_WORDS else None
        few = None if is_shared else samples
        yield element("li", swatch(group_of(reason)), " ", name, few, awaited, said)
    rest = [*counts.values()][_REASONS:]
    if rest and spot.samples:
        count = sum(rest)
        share = Sentence("{share}", share=share_text(count / spot.samples))
        text = Sentence(
            "{share} for {reasons}",
            share=share if is_shared else counted(count, "sample"),
            reasons=counted(len(rest), "other reason"),
        )
        yield element("li", text)


def _findings(data: SourceData, mentions: Sequence[Mention]) -> Iterator[Fact]:
    links = [
        [
            data.finding_link(mention, f"{mention.number}. {one_line(mention.finding.title)}"),
            f" ({mention.share})" if mention.share else None,
        ]
        for mention in mentions
    ]
    if links:
        yield "Finding" if len(links) == 1 else "Findings", joined(links, element("br"))


def _awaited(data: SourceData, facts: LineFacts | None) -> Iterator[Fact]:
    """The other end: lines whose warps wait for what this line started."""
    if facts is None or not facts.waited_for_by:
        return
    waits = facts.waited_for_by
    listed = [(data.line_link(wait.location), wait.reason, wait.samples) for wait in waits]
    yield awaited_fact(data, listed, "lines")


def awaited_fact(data: SourceData, listed: Sequence[tuple[Content, str, int]], rows: str) -> Fact:
    hotspots, total = data.found, sum(samples for _, _, samples in listed)
    named = []
    for link, reason, samples in listed[:_AWAITED]:
        count, label = constant(samples, "", "samples"), stalls()[reason].label
        text = Sentence(" {samples:,d} ({reason})", samples=count, reason=label)
        named.append([link, text])
    share = _percent(total / hotspots.total)
    head = Sentence(
        "{samples}{share} at other {rows} {wait} for this one: ",
        samples=counted(total, "sample"),
        share=Sentence(" ({share:cell})", share=share) if hotspots.ranked_by == "samples" else "",
        rows=rows,
        wait="waits" if total == 1 else "wait",
    )
    more = ", …" if len(listed) > _AWAITED else ""
    return "Waited for by", [head, joined(named, ", "), more]


def _executions(spot: Spot, facts: LineFacts | None) -> Iterator[Fact]:
    if spot.executed is None:
        return
    executed = Sentence(
        "{executed:,d} warp instructions",
        executed=constant(spot.executed, "", "executed warp instructions"),
    )
    if facts:
        share = _percent(facts.executed_share)
        executed = Sentence("{executed} ({share:cell} of all)", executed=executed, share=share)
    yield "Executed", [executed, threads_text(spot)]
    if facts and facts.purposes:
        yield "Instruction mix", mix_text(facts.purposes)


def threads_text(spot: Spot) -> str:
    if not spot.executed or spot.threads_executed is None:
        return ""
    threads = spot.threads_executed / spot.executed
    return Sentence(
        "; {threads:.1f} of {warp:d} threads active on average",
        threads=constant(threads, "", "active threads"),
        warp=constant(_WARP, "", "threads of a warp"),
    )


def traffic_facts(spot: Spot) -> Iterator[Fact]:
    """Per kind of memory: what the accesses touch, and what ideal accesses would need."""
    if spot.sectors_global:
        yield "Global memory", _ideal(spot.sectors_global, spot.sectors_global_excess, _TOUCHED)
    if spot.sectors_local:
        yield "Local memory", _amount(spot.sectors_local, _TOUCHED)
    if spot.wavefronts_shared:
        actual, excess = spot.wavefronts_shared, spot.wavefronts_shared_excess
        yield "Shared memory", _ideal(actual, excess, "wavefronts")


def _amount(count: int, noun: str) -> Sentence:
    amount = constant(count, "", noun)
    told = Sentence("{amount:,d} {noun}", amount=amount, noun=noun)
    if not noun.startswith("sectors"):
        return told
    return Sentence("{told} ({size})", told=told, size=size_text(count * SECTOR))


_TOUCHED = "sectors touched, before hits in L1"
"""ncu counts them by the addresses: hits in a cache are included."""


def _ideal(actual: int, excess: int | None, noun: str) -> Content:
    told = _amount(actual, noun)
    if excess is None:
        return told
    if not excess:
        return Sentence("{told}, none in excess", told=told)
    needed = _amount(actual - excess, noun.partition(" ")[0])
    share = constant(100 * (excess / actual), "%", f"{noun} in excess")
    marked = element("b", Sentence("{share:.0f} in excess", share=share), class_="warn")
    ideal = Sentence(": ideal accesses would take {needed}", needed=needed)
    return [Sentence("{told}, ", told=told), marked, ideal]


def _sentences(data: SourceData, facts: LineFacts | None) -> Iterator[Fact]:
    """Addresses, reuse, loops: in the words of `keet hotspots --line`. A loop that begins at
    another line is described there."""
    if facts is None or data.code is None:
        return
    from keet.pages.hotspots_line import line_items

    here = (facts.file, facts.line)
    places = [(loop, (loop.file, loop.line)) for loop in facts.loops]
    elsewhere = [loop for loop, place in places if place != here and place in data.anchored]
    if elsewhere:
        facts = replace(facts, loops=[loop for loop in facts.loops if loop not in elsewhere])
        yield "Within", joined([_loop(data, loop) for loop in elsewhere], element("br"))
    for _, heading, items in line_items(data.code, facts):
        yield heading, element("ul", [_item(each) for each in items], class_="plain")


def _loop(data: SourceData, loop: LineLoop) -> Content:
    trips = "unknown" if loop.trips is None else constant(round(loop.trips, 2), "", "iterations")
    text = Sentence(": {trips} iterations per entry on average", trips=trips)
    return [element("code", loop.name), " from ", data.line_link(loop.location), text]


def _item(item: Item) -> Html:
    label, text = item
    lines = [one_line(line) for line in text.split("\n")]
    return element(
        "li", element("code", label) if label else None, " ", joined(lines, element("br"))
    )


def _sass(data: SourceData, spot: Spot, facts: LineFacts | None) -> Html:
    where = one_line(line_text(spot.location))
    label = f"SASS of {where}"
    samples = data.found.total if data.found.ranked_by == "samples" else 0
    addresses = data.addresses.get(spot.location, ())
    if facts is None and (isinstance(data.sass, Absent) or not addresses):
        why = "the report has no text for these instructions."
        if isinstance(data.sass, Absent):
            why = "; ".join(filter(None, (data.sass.reason, data.sass.remedy)))
        return element("p", f"No SASS: {why}", class_="muted")
    if facts is not None:
        return sass_block(analysed_rows(data, facts.instructions), samples, label)
    return sass_block(plain_rows(data, addresses), samples, label)
