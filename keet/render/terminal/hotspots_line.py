"""The view of `keet hotspots --line FILE:LINE` for a terminal: all facts about one source line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keet.analysis.code_names import line_text, noun, sass_text, with_more
from keet.analysis.examined import Examined, examined
from keet.analysis.line_facts import InstructionFacts, LineFacts, LineWait, with_line
from keet.analysis.sass import MachineCode
from keet.analysis.source_lines import Hotspots
from keet.catalog import stalls
from keet.documents.hotspots import HotspotsLaunch
from keet.documents.shared_types import Skipped
from keet.evidence import Sentence, constant, counted
from keet.pages.hotspots import purposes_text, waiting_for
from keet.pages.hotspots_line import line_items
from keet.profile import Absent, Launch, Location
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
    every = list(found)
    ranked = every if is_chosen else sorted(every, key=lambda each: -samples_at(each[1]))
    shown = ranked if is_chosen else ranked[:1]
    parts: list[Renderable] = []
    opaque: dict[Skipped, list[Launch]] = {}
    for launch, spots in shown:
        each = with_line(examined(launch, spots, has_sass=has_sass), place)
        if parts:
            parts.append("")
        parts += _launch_view(each, place, instructions)
        if isinstance(each, Examined) and (missing := each.opaque):
            opaque.setdefault(missing, []).append(launch)
    if others := other_launches(ranked[len(shown) :], "show one with --launch N"):
        parts += ["", Text(others, style="dim")]
    parts += opaque_notes(opaque)
    return Group(*parts)


def samples_at(spots: Hotspots | Absent) -> int:
    return 0 if isinstance(spots, Absent) else sum(spot.samples or 0 for spot in spots.rows)


_OTHERS = 6


def other_launches(rest: Sequence[tuple[Launch, Hotspots | Absent]], how: str) -> Sentence:
    """Launches that have the same line, and how to see them; empty without one."""
    if not rest:
        return Sentence()
    names = [
        Sentence(
            "{launch} ({samples:,d})",
            launch=f"#{launch.id} {launch.kernel}",
            samples=constant(samples_at(spots), "", "samples on the line"),
        )
        for launch, spots in rest[:_OTHERS]
    ]
    return Sentence(
        "Also in other launches (samples on the line): {names}; {how}",
        names=with_more(Sentence(", ").join(names), len(rest) - _OTHERS),
        how=how,
    )


def _launch_view(found: HotspotsLaunch, place: Location, listed: slice) -> list[Renderable]:
    where = (f" {line_text(place)}", "cyan")
    parts: list[Renderable] = [
        Text.assemble((f"#{found.id} ", "dim"), (found.kernel, "bold"), where)
    ]
    if not isinstance(found, Examined):
        why = found.skipped[0]
        return [*parts, Text(f"{why.reason}; {why.remedy}", style="yellow")]
    if found.rows and (text := found.rows[0].source):
        parts.append(Text(f"  {' '.join(text.split())}", style="bold"))
    facts, code = found.line, found.code
    if not isinstance(facts, LineFacts) or code is None:
        return [*parts, *_summary(found, None)]
    parts += [*_summary(found, facts), *_awaited(facts, found), ""]
    starts = found.launch.function_starts
    parts.append(_instructions(code, facts, facts.instructions[listed], starts))
    for heading, _, items in line_items(code, facts):
        table = Table.grid(padding=(0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for label, text in items:
            table.add_row(f"  {label}", text)
        parts += ["", Text(heading, style="bold"), table]
    return parts


def _summary(found: Hotspots, facts: LineFacts | None) -> list[Renderable]:
    if not found.rows:
        return [Text("No warp executed this line.")]
    samples = sum(spot.samples or 0 for spot in found.rows)
    executed = sum(spot.executed or 0 for spot in found.rows)
    first = Sentence("The report has no warp samples.")
    if found.ranked_by == "samples":
        share = found.number("share of the line", 100 * (samples / found.total), "%")
        first = Sentence(
            "{samples:,d} of {total:,d} samples ({share:cell})",
            samples=found.number("samples of the line", samples),
            total=found.number("all samples", found.total),
            share=share,
        )
    if len(found.rows) == 1 and (waiting := waiting_for(found.rows[0])):
        first = Sentence("{first}; waiting: {waiting}", first=first, waiting=waiting)
    second = Sentence(
        "{executed:,d} executed warp instructions",
        executed=found.number("executed warp instructions of the line", executed),
    )
    if facts is not None:
        second = Sentence(
            "{executed} ({share:cell} of all)",
            executed=second,
            share=constant(100 * facts.executed_share, "%", "share of the instructions"),
        )
        if mix := purposes_text(facts.purposes, 4):
            second = Sentence("{executed}: {mix}", executed=second, mix=mix)
    return [Text(first), Text(second)]


def _awaited(facts: LineFacts, found: Hotspots) -> list[Renderable]:
    if not facts.waited_for_by:
        return []
    listed = [
        Sentence(
            "{line} {samples:,d} ({reason})",
            line=line_text(each.location),
            samples=constant(each.samples, "", "samples"),
            reason=stalls()[each.reason].label,
        )
        for each in facts.waited_for_by[:_AWAITED]
    ]
    total = sum(each.samples for each in facts.waited_for_by)
    share = constant(100 * (total / found.total), "%", "share of the samples")
    text = Sentence(
        "{samples}{share} at other lines {wait} for this line: {listed}{more}",
        samples=counted(found.number("samples that wait for the line", total), "sample"),
        share=Sentence(" ({share:cell})", share=share) if found.ranked_by == "samples" else "",
        wait="waits" if total == 1 else "wait",
        listed=Sentence(", ").join(listed),
        more=", …" if len(facts.waited_for_by) > _AWAITED else "",
    )
    return [Text(text)]


def _instructions(
    code: MachineCode, facts: LineFacts, listed: Sequence[InstructionFacts], starts: Sequence[int]
) -> Table:
    table = Table(padding=(0, 2), heading_style="dim")
    table.add_column("offset", style="cyan", no_wrap=True)
    table.add_column("purpose", no_wrap=True)
    table.add_column("executed", justify="right", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("instruction, and what its samples wait for", overflow="fold")
    for each in listed:
        text = Text(sass_text(code.program.code[each.position], starts), style="bold")
        if each.waits:
            waiting = _wait_text(code, facts, each.waits[0])
            text.append(f"\n{waiting}", style="not bold")
        samples = f"{each.samples:,}" if each.samples else ""
        table.add_row(each.offset, each.purpose, f"{each.executed:,}", samples, text)
    return table


def _wait_text(code: MachineCode, facts: LineFacts, wait: LineWait) -> Sentence:
    """For example `Long Scoreboard 92 for the load at 0x0ab0 (slow.cu:19)`."""
    text = Sentence(
        "{label} {samples:,d}",
        label=stalls()[wait.reason].label,
        samples=constant(wait.samples, "", "samples"),
    )
    if wait.producer_address is None:
        return text
    held = "registers of " if wait.link == "register reuse" else ""
    is_other = wait.producer not in (None, (facts.file, facts.line))
    named = f" ({line_text(wait.producer)})" if is_other else ""
    what = noun(code.program.code[wait.producers[0]])
    producer = f"{held}the {what} at {facts.offset(wait.producer_address)}{named}"
    awaited = with_more(producer, len(wait.producers) - 1)
    return Sentence("{text} for {awaited}", text=text, awaited=awaited)
