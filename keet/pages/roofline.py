"""The page of `keet roofline`: a bar per ceiling, the arithmetic intensity, and a reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.hardware.ceilings import TIE
from keet.analysis.roofline.launch_roofline import SHOWN_WORK, LaunchRoofline
from keet.documents.charts import CeilingDocument, RooflineLaunch
from keet.evidence import Sentence, constant, of_quantity
from keet.formatting import listed
from keet.pages.blocks import Bar, Bars, Block, Gap, Heading, Page, Reader, Span, Text, Words
from keet.pages.capture import describe_device
from keet.units import format_number

_LONG_BARS = 100
"""Columns of a terminal from which on bars are long."""
_SMALL_RATE = 0.05
"""Rates below it, in the unit of the peak, are printed in their own unit."""
_LAUNCHES_NAMED = 4


def roofline_page(rooflines: Sequence[LaunchRoofline], reader: Reader) -> Page:
    length = 40 if reader.width >= _LONG_BARS else 24
    by_time = sorted(rooflines, key=lambda each: (-each.launch.rank_time, each.id))
    blocks = [block for each in by_time for block in _launch(each, length)]
    if len(by_time) > 1:
        blocks = [Text("Launches by time, the longest first.", "muted"), Gap(), *blocks]
    blocks += [Text(text, "muted") for text in absences(rooflines)]
    return Page([*blocks, Text(_legend(rooflines), "muted")], "Roofline")


def _launch(roofline: LaunchRoofline, length: int) -> Iterator[Block]:
    yield Heading((f"#{roofline.id} ", Span(roofline.kernel, "name")), 2)
    facts = [describe_device(roofline.launch.device)]
    if roofline.duration:
        facts.append(Sentence("{took}", took=of_quantity(roofline.duration, "duration")))
    if clock := roofline.sm_clock:
        facts.append(Sentence("SM clock {clock}", clock=of_quantity(clock, "SM clock")))
    yield Text(Sentence(", ").join(facts), "muted")
    shown = _shown(roofline)
    if shown:
        yield Bars([_bar(roofline, ceiling) for ceiling in shown], length, "Ceilings")
    # What was not counted is one of the absences.
    if roofline.of_kind("compute") and not any(each.kind == "compute" for each in shown):
        yield Text("No bar for arithmetic: hardly any floating-point operations were counted.")
    yield Text(roofline.reading)
    yield from (Text(f"note: {note}", "muted") for note in roofline.notes)
    yield Gap()


def _shown(roofline: RooflineLaunch) -> list[CeilingDocument]:
    """Arithmetic that was not executed has no bar; an idle memory level has one."""
    return [
        ceiling
        for ceiling in roofline.ceilings
        if ceiling.kind == "memory"
        or ceiling.reached_pct >= SHOWN_WORK
        or ceiling.id == roofline.lead
    ]


def _bar(roofline: RooflineLaunch, ceiling: CeilingDocument) -> Bar:
    """The rates in the unit of the peak, so that they are easy to compare; with them the operations
    of the leading arithmetic per byte of a memory level."""
    rates, achieved, peak = "rate not known", ceiling.achieved, ceiling.peak
    if achieved is not None and peak is not None:
        unit = peak.scaled_unit()
        star = "*" if _is_from_catalog(ceiling) else ""
        value = achieved.to(unit).value
        rate = f"{value:.2f}" if value < 100 else format_number(value)
        if value < _SMALL_RATE:  # would be printed as 0.0: it has its own unit
            rate = str(achieved) if value else "0"
        rates = f"{rate} of {' '.join(peak.to(unit).parts())}{star}"
    label: Words = rates
    for entry in roofline.lead_intensities():
        if entry.level == ceiling.id:
            unit = "OP/B" if entry.attainable.unit.startswith("op") else "FLOP/B"
            label = (rates, Span(f", {format_number(entry.value)} {unit}", "muted"))
    mark = "●" if ceiling.id in roofline.nearest else " "
    return Bar(ceiling.share, f"{ceiling.reached:.1f}", label, ceiling.label, mark=mark)


def _is_from_catalog(ceiling: CeilingDocument) -> bool:
    return ceiling.source.startswith("catalog")


def _legend(rooflines: Iterable[RooflineLaunch]) -> Sentence:
    words = Sentence(
        "● nearest ceiling, and those within {tie:.0f} points of it that reach at least half its "
        "share",
        tie=constant(TIE, "", "percentage points of a tie"),
    )
    shown = [ceiling for roofline in rooflines for ceiling in _shown(roofline)]
    if any(map(_is_from_catalog, shown)):
        words = Sentence("{words}; * peak by keet's catalog, not the report", words=words)
    if any(each.id == "l1" and each.achieved for each in shown):
        more = "; L1 here: bytes that loads return (keet show prints how busy L1 is)"
        words = Sentence("{words}{more}", words=words, more=more)
    return words


def absences(rooflines: Sequence[RooflineLaunch]) -> Iterator[str]:
    """What is not known and what to profile to get it, grouped by the remedy, once for all
    launches."""
    reasons: dict[str, dict[str, None]] = {}
    launches: dict[str, dict[str, None]] = {}
    for roofline in rooflines:
        for absent in roofline.skipped:
            reasons.setdefault(absent.remedy, {})[absent.reason] = None
            launches.setdefault(absent.remedy, {})[f"#{roofline.id}"] = None
    for remedy, texts in reasons.items():
        lacking = [*launches[remedy]]
        of = f"{listed(lacking, _LAUNCHES_NAMED)}: " if len(lacking) < len(rooflines) else ""
        yield f"{of}{', '.join(texts)}; {remedy}"
