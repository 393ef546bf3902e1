"""The view of `keet hotspots --line FILE:LINE` for a terminal: all facts about one source line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keet.analysis.sass import MachineCode
from keet.analysis.sass.analyses.blame import Wait
from keet.analysis.source_lines.hotspots import Hotspots
from keet.catalog import stalls
from keet.formatting import share_cell
from keet.profile import Absent, Launch, Location
from keet.render.common.hotspot_rows import Examined, examined
from keet.render.common.hotspots import waiting_for
from keet.render.common.line_facts import InstructionFacts, LineFacts, line_facts
from keet.render.common.line_sentences import (
    Item,
    access_items,
    atomic_item,
    drain_items,
    invariant_item,
    loop_item,
    merge_item,
    routine_items,
)
from keet.render.common.machine_code import (
    FormWords,
    Offset,
    line_text,
    noun,
    offset_in_function,
    purposes_text,
    sass_text,
)
from keet.render.common.source_text import source_line, source_lines
from keet.render.terminal.hotspots import opaque_notes
from keet.render.terminal.layout import Group, Renderable, Table, Text

_AWAITED = 5
"""Number of waiting lines that are listed."""


def line_view(
    found: Iterable[tuple[Launch, Hotspots | Absent]],
    place: Location,
    *,
    is_chosen: bool,
    has_sass: bool,
    instructions: slice = slice(None),
) -> Renderable:
    """In full for the selected launches, else for the launch with most samples on the line.

    `instructions`: maximum number of listed instructions.
    """
    every = [Examined(launch, spots) for launch, spots in found]
    ranked = every if is_chosen else sorted(every, key=_rank)
    shown = ranked if is_chosen else ranked[:1]
    parts: list[Renderable] = []
    opaque: dict[Absent, list[Launch]] = {}
    for plain in shown:
        each = examined(plain.launch, plain.spots, has_sass=has_sass)
        if parts:
            parts.append("")
        parts += _launch_view(each, place, instructions)
        if isinstance(each.code, Absent) and each.code != each.spots:
            opaque.setdefault(each.code, []).append(each.launch)
    parts += _others(ranked[len(shown) :])
    parts += opaque_notes(opaque)
    return Group(*parts)


def _rank(each: Examined) -> float:
    return -_samples(each)


def _samples(each: Examined) -> int:
    if isinstance(each.spots, Absent):
        return 0
    return sum(spot.samples or 0 for spot in each.spots.spots)


def _others(rest: Sequence[Examined]) -> list[Renderable]:
    if not rest:
        return []
    names = ", ".join(f"#{e.launch.id} {e.launch.kernel} ({_samples(e):,})" for e in rest[:6])
    more = f" and {len(rest) - 6} more" if len(rest) > 6 else ""
    text = f"Also in other launches (samples on the line): {names}{more}; show one with --launch N"
    return ["", Text(text, style="dim")]


def _launch_view(each: Examined, place: Location, instructions: slice) -> list[Renderable]:
    launch, spots, code = each
    parts: list[Renderable] = [
        Text.assemble(
            (f"#{launch.id} ", "dim"), (launch.kernel, "bold"), (f" {line_text(place)}", "cyan")
        )
    ]
    if isinstance(spots, Absent):
        return [*parts, Text(f"{spots.reason}; {spots.remedy}", style="yellow")]
    text = source_line(spots.spots[0], source_lines(launch)) if spots.spots else None
    if text:
        parts.append(Text(f"  {' '.join(text.split())}", style="bold"))
    facts = line_facts(code, place) if isinstance(code, MachineCode) else None
    parts += _summary(spots, facts)
    if facts is None or not isinstance(code, MachineCode):
        return parts
    offsets = offset_in_function(launch, code)
    parts += _awaited(facts, spots)
    listed = facts.instructions[instructions]
    parts += ["", *_instructions(code, facts.line, listed, offsets, launch.function_starts)]
    parts += _sentences(code, facts, offsets)
    return parts


def _summary(found: Hotspots, facts: LineFacts | None) -> list[Renderable]:
    if not found.spots:
        return [Text("No warp executed this line.")]
    samples = sum(spot.samples or 0 for spot in found.spots)
    executed = sum(spot.executed or 0 for spot in found.spots)
    share = share_cell(samples / found.total) if found.ranked_by == "samples" else "-"
    parts = [Text(f"{samples:,} of {found.total:,} samples ({share})")]
    if found.ranked_by != "samples":
        parts = [Text("The report has no warp samples.")]
    waiting = waiting_for(found.spots[0]) if len(found.spots) == 1 else ""
    if waiting:
        parts[0].append(f"; waiting: {waiting}")
    if facts is None:
        return [*parts, Text(f"{executed:,} executed warp instructions")]
    mix = purposes_text(facts.purposes, 4)
    counted = f"{executed:,} executed warp instructions ({share_cell(facts.executed_share)} of all)"
    parts.append(Text(f"{counted}: {mix}" if mix else counted))
    return list(parts)


def _awaited(facts: LineFacts, found: Hotspots) -> list[Renderable]:
    if not facts.awaited:
        return []
    known = stalls()
    total = sum(each.samples for each in facts.awaited)
    listed = ", ".join(
        f"{line_text(each.line)} {each.samples:,} ({known[each.reason].label})"
        for each in facts.awaited[:_AWAITED]
    )
    more = ", …" if len(facts.awaited) > _AWAITED else ""
    share = f" ({share_cell(total / found.total)})" if found.ranked_by == "samples" else ""
    noun, verb = ("sample", "waits") if total == 1 else ("samples", "wait")
    text = f"{total:,} {noun}{share} at other lines {verb} for this line: {listed}{more}"
    return [Text(text)]


def _instructions(
    code: MachineCode,
    line: Location,
    listed: Sequence[InstructionFacts],
    offsets: Offset,
    starts: Sequence[int],
) -> list[Renderable]:
    table = Table(padding=(0, 2), heading_style="dim")
    table.add_column("offset", style="cyan", no_wrap=True)
    table.add_column("purpose", no_wrap=True)
    table.add_column("executed", justify="right", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("instruction, and what its samples wait for", overflow="fold")
    for each in listed:
        table.add_row(
            offsets(each.position),
            each.purpose.value,
            f"{each.executed:,}",
            f"{each.samples:,}" if each.samples else "",
            _instruction_text(code, line, each, offsets, starts),
        )
    return [table]


def _instruction_text(
    code: MachineCode,
    line: Location,
    each: InstructionFacts,
    offsets: Offset,
    starts: Sequence[int],
) -> Text:
    text = Text(sass_text(code.program.code[each.position], starts), style="bold")
    if each.waits:
        waiting = _wait_text(code, line, each.waits[0], offsets)
        text.append(f"\n{waiting}", style="not bold")
    return text


def _wait_text(code: MachineCode, line: Location, wait: Wait, offsets: Offset) -> str:
    """For example `Long Scoreboard 92 for the load at 0x0ab0 (slow.cu:19)`."""
    text = f"{stalls()[wait.reason].label} {wait.samples:,}"
    if not wait.producers:
        return text
    first = wait.producers[0]
    held = "registers of " if wait.link == "register reuse" else ""
    where = code.location(first)
    named = f" ({line_text(where)})" if where not in (None, line) else ""
    more = f" and {len(wait.producers) - 1} more" if len(wait.producers) > 1 else ""
    return f"{text} for {held}the {noun(code.program.code[first])} at {offsets(first)}{named}{more}"


def _sentences(code: MachineCode, facts: LineFacts, offset: Offset) -> list[Renderable]:
    words = FormWords(code, offset)
    sections: dict[str, list[Item]] = {
        "Memory accesses": access_items(code, facts, words, offset),
        "Accesses that could be wider": [merge_item(m, code, offset) for m in facts.merges],
        "Atomics": [atomic_item(each, offset) for each in facts.atomics],
        "Drain": drain_items(code, facts, offset),
        "Routines": routine_items(facts),
        "Loops around the line": [loop_item(each, offset, code) for each in facts.loops],
        "The same in every iteration": [invariant_item(each, offset) for each in facts.invariants],
        "Words in addresses (bytes)": words.legend,
    }
    parts: list[Renderable] = []
    for heading, items in sections.items():
        if not items:
            continue
        table = Table.grid(padding=(0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for label, text in items:
            table.add_row(f"  {label}", text)
        parts += ["", Text(heading, style="bold"), table]
    return parts
