"""The tool `instruction_mix`: what the executed instructions are for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keet.analysis.sass.analyses.purpose import Purpose
from keet.analysis.sass.lines import Line, line_mix
from keet.evidence import Evidence
from keet.units import Quantity
from keet_tools.answers import (
    Abstention,
    Answer,
    AnswerText,
    ToolInput,
    one_page,
    place_name,
    quote,
)
from keet_tools.code_places import NO_LINES, AnalysedCode

_SIZE = 7
_CODE = 60
_OPCODES = 6
_OPCODE = re.compile(r"[A-Z][A-Z0-9_]{0,15}")
"""Opcodes become names of evidence; what a report has in their place may be any text."""
_PURPOSES = 4
_LEAST = 0.01
_NOT_COUNTED = (
    "how often each instruction ran was not collected; profile again with "
    "`--section SourceCounters`"
)
_MEANING = {
    Purpose.VALUE: "arithmetic on data",
    Purpose.MEMORY: "loads, stores, atomics",
    Purpose.ADDRESS: "index and address arithmetic",
    Purpose.CONTROL: "branches, predicates, loop counters",
    Purpose.CONVERSION: "conversions between types",
    Purpose.MOVE: "copies between registers, shuffles, spills",
    Purpose.SYNC: "barriers and waits for copies",
    Purpose.UNKNOWN: "opcodes that keet does not know: could be any of these",
}

Mix = Sequence[tuple[Purpose, int]]


class _Part(NamedTuple):
    """What the mix is about: a line, or the launch if both fields are empty."""

    line: str | None = None
    suffix: str = ""
    """Of the names of its evidence."""


_LAUNCH = _Part()
_NO_LINE = _Part(None, " (no line)")


def instruction_mix(
    tool_input: ToolInput, line: str = "", launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """What executed instructions are for (value, address, memory, control, ...), by line."""
    code = AnalysedCode(tool_input, tool_input.launch(launch, report))
    if not code.machine.program.executed:
        raise Abstention(_NOT_COUNTED)
    say = AnswerText()
    return _of_line(code, line, say) if line.strip() else _of_launch(code, page, say)


def _of_launch(code: AnalysedCode, page: int, say: AnswerText) -> Answer:
    lines = line_mix(code.machine)
    ranked = sorted(lines.items(), key=lambda item: -_total(item[1]))
    rows = [item for item in ranked if item[0] is not None or len(ranked) > 1]
    shown, more = one_page(rows, page, _SIZE) if rows or page > 1 else ([], "")
    every = _sum(lines.values())
    return say.answer(
        _heading(code, every, say),
        _meaning(every) if page == 1 else "",
        "By source line, share of all executed instructions: its own mix" if shown else NO_LINES,
        *(_row(code, found, mix, say) for found, mix in shown),
        more,
    )


def _of_line(code: AnalysedCode, line: str, say: AnswerText) -> Answer:
    where, positions = code.positions(line)
    program, purposes = code.machine.program, code.machine.purposes
    counted: Counter[Purpose] = Counter()
    opcodes: Counter[str] = Counter()
    for position in positions:
        counted[purposes[position]] += program.counts[position]
        opcode = program.code[position].opcode
        opcodes[opcode if _OPCODE.fullmatch(opcode) else "other"] += program.counts[position]
    mix = counted.most_common()
    if not _total(mix):
        raise Abstention(f"`{where}` did not run")
    part = _Part(where)
    share = _share_of_launch(code, mix, part)
    return say.answer(
        f"{place_name(where)} has {say(share)} of all executed instructions; its own are for: "
        f"{_purposes_text(code, mix, part, say)}",
        _meaning(mix),
        _opcodes(code, opcodes, where, say),
    )


def _heading(code: AnalysedCode, mix: Mix, say: AnswerText) -> str:
    total = code.ledger.derived(
        "warp_instructions", Quantity(_total(mix), "inst"), "executed warp instructions"
    )
    shares = _purposes_text(code, mix, _LAUNCH, say)
    return f"What the executed warp instructions ({say(total)}) are for: {shares}"


def _meaning(mix: Mix) -> str:
    return "; ".join(f"{purpose}: {_MEANING[purpose]}" for purpose, _ in mix)


def _row(code: AnalysedCode, line: Line, mix: Mix, say: AnswerText) -> str:
    part = _Part(code.where(line)) if line else _NO_LINE
    share = _share_of_launch(code, mix, part)
    text = code.text_of(line).strip() if line and code.shows_text else ""
    shown = f" {quote(text, _CODE)}" if text else ""
    purposes = _purposes_text(code, mix, part, say)
    return f"{place_name(part.line or 'no line')} {say(share)}{shown}: {purposes}"


def _share_of_launch(code: AnalysedCode, mix: Mix, part: _Part) -> Evidence:
    total = sum(code.machine.program.counts) or 1
    share = Quantity(100 * _total(mix) / total, "%")
    name = f"instructions_share{part.suffix}"
    return code.ledger.derived(name, share, "share of executed instructions", line=part.line)


def _purposes_text(code: AnalysedCode, mix: Mix, part: _Part, say: AnswerText) -> str:
    """The largest purposes; of the launch all of them, and unknown ones always."""
    total = _total(mix) or 1
    most = None if part is _LAUNCH else _PURPOSES
    large = [each for each in mix if part is _LAUNCH or each[1] >= _LEAST * total][:most]
    unknown = [each for each in mix if each[0] is Purpose.UNKNOWN and each not in large]
    return ", ".join(
        f"{purpose} {say(_purpose_share(code, purpose, count / total, part))}"
        for purpose, count in [*large, *unknown]
    )


def _purpose_share(code: AnalysedCode, purpose: Purpose, share: float, part: _Part) -> Evidence:
    name = f"purpose_share_{purpose}{part.suffix}"
    label = f"share of executed instructions that are for {purpose}"
    return code.ledger.derived(name, Quantity(100 * share, "%"), label, line=part.line)


def _opcodes(code: AnalysedCode, counted: Counter[str], where: str, say: AnswerText) -> str:
    if not code.shows_text:
        return ""
    total = counted.total() or 1
    shares = [
        f"{quote(opcode, 16)} "
        + say(
            code.ledger.derived(
                f"opcode_share_{opcode}",
                Quantity(100 * count / total, "%"),
                f"share of the line's executed instructions that are {opcode}",
                line=where,
            )
        )
        for opcode, count in counted.most_common(_OPCODES)
    ]
    return f"Opcodes: {', '.join(shares)}"


def _total(mix: Mix) -> int:
    return sum(count for _, count in mix)


def _sum(mixes: Iterable[Mix]) -> Mix:
    counted: Counter[Purpose] = Counter()
    for mix in mixes:
        for purpose, count in mix:
            counted[purpose] += count
    return counted.most_common()
