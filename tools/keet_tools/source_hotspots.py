"""The tool `source_hotspots`: the source lines that take the most time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from keet.analysis.source_lines import Hotspots, Spot, find_hotspots
from keet.catalog import stalls
from keet.profile import Absent
from keet.units import Number, Quantity
from keet_tools.answers import (
    Abstention,
    Answer,
    AnswerText,
    ToolInput,
    one_page,
    place_name,
    quote,
)
from keet_tools.code_places import Code

_SIZE = 7
_CODE = 90
_WAITS = 2
_LEAST_WAIT = 0.05


def source_hotspots(
    tool_input: ToolInput, launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """Hottest source lines (SASS without lines): sample share, stall reasons, wasted traffic."""
    each = tool_input.launch(launch, report)
    found = find_hotspots(each.launch)
    if isinstance(found, Absent):
        raise Abstention(f"{found.reason}; {found.remedy}")
    code = Code(each)
    shown, more = one_page([spot for spot in found.rows if spot.share], page, _SIZE)
    say = AnswerText()
    writer = _Rows(code, say, _sass(tool_input, code, found), tool_input.show_source)
    rows = [writer.row(spot) for spot in shown]
    return say.answer(_heading(code, found, say), _partial(code, found, say), *rows, more)


def _heading(code: Code, found: Hotspots, say: AnswerText) -> str:
    unit = "source line" if found.by == "line" else "instruction"
    if found.ranked_by != "samples":
        return f"Share of executed instructions, none sampled, by {unit}:"
    total = code.ledger.measured("samples_total")
    every = f"samples ({say(total)} in all)" if total else "samples"
    return f"Share of {every} by {unit}; waits are shares of its own samples:"


def _partial(code: Code, found: Hotspots, say: AnswerText) -> str:
    if found.partial is None:
        return ""
    share = Quantity(100 * found.partial.share, "%")
    cover = code.ledger.derived("sampled_part", share, "part of the launch that was sampled")
    return f"Samples cover only the first {say(cover)} of the launch; {quote(found.partial.remedy)}"


def _sass(tool_input: ToolInput, code: Code, found: Hotspots) -> Mapping[int, str]:
    """Instructions in words, where rows are instructions and the text may be had."""
    if found.by == "line" or not tool_input.show_source:
        return {}
    text = code.launch.disassembly
    return {} if isinstance(text, Absent) else text


class _Excess(NamedTuple):
    part: Number | None
    whole: Number | None
    name: str
    what: str
    unit: str


class _Rows:
    """Spots as lines of text."""

    def __init__(
        self,
        code: Code,
        say: AnswerText,
        sass: Mapping[int, str],
        show_source: bool,  # noqa: FBT001
    ) -> None:
        self._code, self._say, self._sass, self._show = code, say, sass, show_source

    def row(self, spot: Spot) -> str:
        place, name, line = self._code.name_of(spot)
        share = self._percent(spot.share or 0.0, self._share_name(name), "share of samples", line)
        facts = [*self._waits(spot, name, line), *self._traffic(spot, name, line)]
        text = f" {quote(text, _CODE)}" if (text := self._text(spot)) else ""
        return f"{place_name(place)} {share}{text}" + (f"; {'; '.join(facts)}" if facts else "")

    def _share_name(self, name: str) -> str:
        return ("samples_share" if self._code.table.samples else "executed_share") + name

    def _percent(self, share: float, metric: str, label: str, line: str | None) -> str:
        quantity = Quantity(100 * share, "%")
        return self._say(self._code.ledger.derived(metric, quantity, label, line=line))

    def _text(self, spot: Spot) -> str:
        if not self._show:
            return ""
        if spot.address is not None:
            return self._sass.get(spot.address, "")
        return self._code.text_of(spot.location).strip() if spot.location else ""

    def _waits(self, spot: Spot, name: str, line: str | None) -> list[str]:
        known = stalls()
        real = [
            (reason, share)
            for reason, share in spot.stall_shares().items()
            if known[reason].counts_as_stall and share >= _LEAST_WAIT
        ]
        stalls_text = [
            f"{known[reason].label} "
            + self._percent(share, f"stall_share_{reason}{name}", known[reason].label, line)
            for reason, share in real[:_WAITS]
        ]
        return [f"waits {', '.join(stalls_text)}"] if stalls_text else []

    def _traffic(self, spot: Spot, name: str, line: str | None) -> list[str]:
        excesses = (
            _Excess(
                spot.sectors_global_excess,
                spot.sectors_global,
                "global",
                "global sectors",
                "sector",
            ),
            _Excess(
                spot.wavefronts_shared_excess,
                spot.wavefronts_shared,
                "shared",
                "shared wavefronts",
                "wavefront",
            ),
        )
        found = [self._excess(excess, name, line) for excess in excesses]
        if spot.sectors_local:
            amount = Quantity(spot.sectors_local, "sector")
            local = self._code.ledger.derived(
                f"local_sectors{name}", amount, "local sectors", line=line
            )
            found.append(f"local memory {self._say(local)}")
        return [text for text in found if text]

    def _excess(self, excess: _Excess, name: str, line: str | None) -> str:
        if not excess.part or not excess.whole:
            return ""
        whole = self._code.ledger.derived(
            f"{excess.name}_{excess.unit}s{name}",
            Quantity(excess.whole, excess.unit),
            excess.what,
            line=line,
        )
        share = self._percent(
            excess.part / excess.whole,
            f"{excess.name}_excess_share{name}",
            f"{excess.what} beyond the ideal",
            line,
        )
        return f"{share} of {self._say(whole)} ({excess.name}) are excess"
