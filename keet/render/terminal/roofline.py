"""The view of `keet roofline` for a terminal: a bar per ceiling, the intensity and a reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keet.analysis.hardware.ceilings import TIE
from keet.analysis.roofline.launch_roofline import SHOWN_WORK, LaunchRoofline
from keet.documents.roofline import CeilingDocument, RooflineLaunch
from keet.evidence import Sentence, constant, of_quantity
from keet.pages.device import describe_device
from keet.pages.roofline import absences
from keet.render.terminal.layout import Group, Renderable, Table, Text
from keet.units import Quantity, format_number

_EIGHTHS = " ▏▎▍▌▋▊▉"
_MAX_BAR = 40
_SMALL = 0.05
"""Rates below it, in the unit of the peak, are printed in their own unit."""


def roofline_view(rooflines: Sequence[LaunchRoofline], width: int) -> Group:
    parts: list[Renderable] = []
    for roofline in rooflines:
        if parts:
            parts.append("")
        parts += _launch_view(roofline, width)
    parts += ["", *(Text(line, style="dim") for line in absences(rooflines))]
    parts.append(Text(_legend(rooflines), style="dim"))
    return Group(*parts)


def _legend(rooflines: Iterable[RooflineLaunch]) -> Sentence:
    words = Sentence(
        "● nearest ceiling, and those within {tie:.0f} points of it that reach at least half its "
        "share",
        tie=constant(TIE, "", "percentage points of a tie"),
    )
    if any(_from_catalog(ceiling) for r in rooflines for ceiling in _shown(r)):
        words = Sentence("{words}; * peak by keet's catalog, not the report", words=words)
    if any(ceiling.id == "l1" and ceiling.achieved for r in rooflines for ceiling in _shown(r)):
        more = "; L1 here: bytes that loads return (keet show prints how busy L1 is)"
        words = Sentence("{words}{more}", words=words, more=more)
    return words


def _launch_view(roofline: LaunchRoofline, width: int) -> list[Renderable]:
    heading = Text.assemble((f"#{roofline.id} {roofline.kernel}", "bold"))
    facts = [describe_device(roofline.launch.device)]
    if roofline.duration:
        facts.append(Sentence("{took}", took=of_quantity(roofline.duration, "duration")))
    if clock := roofline.sm_clock:
        facts.append(Sentence("SM clock {clock}", clock=of_quantity(clock, "SM clock")))
    parts: list[Renderable] = [heading, Text(Sentence(", ").join(facts), style="dim")]
    if roofline.ceilings:
        parts.append(_table(roofline, width))
        parts += [Text(why) for why in _no_arithmetic(roofline)]
    parts.append(Text(roofline.reading))
    parts += [Text(f"note: {note}", style="dim") for note in roofline.notes]
    return parts


def _no_arithmetic(roofline: RooflineLaunch) -> list[str]:
    """Why there is no bar for arithmetic that was counted; `absences` explains what was not."""
    has_bar = any(ceiling.kind == "compute" for ceiling in _shown(roofline))
    if has_bar or not roofline.of_kind("compute"):
        return []
    return ["No bar for arithmetic: hardly any floating-point operations were counted."]


def _shown(roofline: RooflineLaunch) -> tuple[CeilingDocument, ...]:
    """Arithmetic that was not executed has no bar; an idle memory level has one."""
    return tuple(
        c
        for c in roofline.ceilings
        if c.kind == "memory" or c.reached_pct >= SHOWN_WORK or c.id == roofline.lead
    )


def _table(roofline: RooflineLaunch, width: int) -> Table:
    table = Table.grid(padding=(0, 1))
    for justify in ("left", "left", "left", "right", "right", "left", "right"):
        table.add_column(justify=justify, no_wrap=True)
    rows = [_row(roofline, ceiling) for ceiling in _shown(roofline)]
    taken = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    room = width - sum(taken) - len(taken) - 1
    bar = max(6, min(_MAX_BAR, room))
    for ceiling, (mark, label, share, *rest) in zip(_shown(roofline), rows):
        table.add_row(mark, label, Text(_bar(ceiling.share, bar), style="cyan"), share, *rest)
    return table


def _row(roofline: RooflineLaunch, ceiling: CeilingDocument) -> tuple[str, str, str, str, str, str]:
    """Mark, label, share, rate, peak, intensity."""
    achieved, peak = _rates(ceiling)
    star = "*" if _from_catalog(ceiling) else ""
    return (
        "●" if ceiling.id in roofline.nearest else " ",
        ceiling.label,
        f"{ceiling.reached:.1f}",
        achieved,
        f"of {peak}{star}" if peak else "",
        _intensity(roofline, ceiling),
    )


def _from_catalog(ceiling: CeilingDocument) -> bool:
    return ceiling.source.startswith("catalog")


def _rates(ceiling: CeilingDocument) -> tuple[str, str]:
    """Both in the unit of the peak, so that they are easy to compare; a rate that would be printed
    as 0.0 has its own unit."""
    if ceiling.achieved is None or ceiling.peak is None:
        return "no bytes", ""
    unit = ceiling.peak.scaled_unit()
    return _number(ceiling.achieved, unit), " ".join(ceiling.peak.to(unit).parts())


def _number(rate: Quantity, unit: str) -> str:
    value = rate.to(unit).value
    if value < _SMALL:
        return str(rate) if value else "0"
    return f"{value:.2f}" if value < 100 else format_number(value)


def _intensity(roofline: RooflineLaunch, ceiling: CeilingDocument) -> str:
    """Operations of the leading arithmetic per byte of the memory level."""
    for entry in roofline.lead_intensities():
        if entry.level == ceiling.id:
            unit = "OP/B" if entry.attainable.unit.startswith("op") else "FLOP/B"
            return f"{format_number(entry.value)} {unit}"
    return ""


def _bar(share: float, width: int) -> str:
    """Drawn in eighths of a character; more than 100 % is a full bar."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, rest = divmod(eighths, 8)
    drawn = "█" * whole + (_EIGHTHS[rest] if rest else "")
    return drawn + "·" * (width - len(drawn))
