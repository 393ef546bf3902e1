"""Machine code as text in columns: offset, executions, samples, instruction, what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.code_names import line_text, noun
from keet.analysis.source_lines import InstructionTable
from keet.catalog import stalls
from keet.formats.html.heat import heat_class
from keet.formats.html.markup import Content, Html, element
from keet.formats.html.source.data import SourceData
from keet.profile import Absent
from keet.safe_text import one_line

if TYPE_CHECKING:
    from keet.analysis.line_facts import InstructionFacts

_WIDEST = 52
"""Characters of an instruction before its wait; longer ones move it to the right."""


class SassRow(NamedTuple):
    offset: str
    executed: int | None
    samples: int | None
    text: str
    wait: str


def analysed_rows(data: SourceData, facts: Iterable[InstructionFacts]) -> list[SassRow]:
    """With what each instruction waits for."""
    assert data.code is not None
    return [
        SassRow(
            each.offset,
            each.executed,
            each.samples if data.table.samples else None,
            data.sass_line(data.code.program.code[each.position]),
            _wait(data, each) if each.waits else "",
        )
        for each in facts
    ]


def plain_rows(data: SourceData, addresses: Iterable[int]) -> list[SassRow]:
    """Without the analysis: the largest stall reason alone."""
    from keet.analysis.sass.instructions.instruction import parse

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


def _wait(data: SourceData, each: InstructionFacts) -> str:
    """`Long Scoreboard for the load at 0x0ab0 (slow.cu:19)`"""
    code, wait = data.code, each.waits[0]
    label = stalls()[wait.reason].label
    if wait.producer_address is None or code is None:
        return label
    held = "registers of " if wait.link == "register reuse" else ""
    is_other = wait.producer not in (None, code.location(each.position))
    named = f" ({line_text(wait.producer)})" if is_other else ""
    what = noun(code.program.code[wait.producers[0]])
    return one_line(f"{label} for {held}the {what} at {data.offset(wait.producer_address)}{named}")


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
    written = [_fields(row) for row in rows]
    heads = ("", "offset", "executed", "samples", "instruction", "waits for")
    widths = [max(len(each[n]) for each in [heads, *written]) for n in range(len(heads))]
    widths[4] = min(widths[4], _WIDEST)
    lines: list[Content] = [element("b", _line(heads, widths)), "\n"]
    for row, fields in zip(rows, written, strict=True):
        is_hottest = bool(most) and row.samples == most
        text = _line((">" if is_hottest else "", *fields[1:]), widths)
        heat = heat_class(row.samples / samples) if row.samples and samples else None
        lines += [element("mark", text, class_=heat) if heat else text, "\n"]
    return element(
        "pre", lines, class_="sass scroll", tabindex="0", role="region", aria_label=label
    )


def _fields(row: SassRow) -> tuple[str, ...]:
    executed = "" if row.executed is None else f"{row.executed:,}"
    return ("", row.offset, executed, f"{row.samples:,}" if row.samples else "", row.text, row.wait)


def _line(fields: Sequence[str], widths: Sequence[int]) -> str:
    mark, offset, executed, samples, text, wait = fields
    return (
        f"{mark:1} {offset:{widths[1]}}  {executed:>{widths[2]}}  {samples:>{widths[3]}}  "
        f"{text:{widths[4]}}  {wait}"
    ).rstrip()
