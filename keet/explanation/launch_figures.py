"""Figures for the head of a launch: its rates with their shares of the peak, and how it fills the
GPU. What the report does not have is left out."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.hardware.rates import per_second, positive
from keet.analysis.kernel.resident_warps import resident_blocks
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.ledger import LaunchLedger
from keet.analysis.roofline.compute import compute_ceilings, loads_constants
from keet.analysis.roofline.launch_roofline import SHOWN_WORK, lead_of
from keet.analysis.roofline.memory import dram_ceiling
from keet.documents.explain import FigureDocument
from keet.evidence import Evidence, Sentence, finite
from keet.profile import Absent, Workload
from keet.units import Quantity


@cached_per_view
def launch_figures(view: LaunchView) -> tuple[FigureDocument, ...]:
    return (*_rates(view), *_filling(view))


def figures_text(view: LaunchView) -> Sentence:
    """On one line; empty if the report has none of them."""
    return Sentence(", ").join(figure.text for figure in launch_figures(view))


def _rates(view: LaunchView) -> Iterator[FigureDocument]:
    compute, _ = compute_ceilings(view.ledger, view.ceilings)
    lead = lead_of(compute, constants=loads_constants(view.ledger, view.ceilings))
    if lead is not None and lead.reached.value >= SHOWN_WORK:
        yield from _rate("arithmetic", lead)
    memory = dram_ceiling(view.ledger, view.ceilings)
    if not isinstance(memory, Absent):
        yield from _rate("dram", memory)
    yield from lone_figures(view)


@cached_per_view
def lone_figures(view: LaunchView) -> tuple[FigureDocument, ...]:
    """Traffic of L2, of a report that has its counters alone, without any peak."""
    return () if view.ceilings.ranked else tuple(_lone_figures(view.ledger))


def _lone_figures(ledger: LaunchLedger) -> Iterator[FigureDocument]:
    moved = positive(ledger.named("lts__t_bytes.sum", "L2 bytes"))
    rate = per_second(ledger, "lone.l2.rate", "L2 bytes per second", moved) if moved else None
    if rate is not None:
        yield _made("l2", Sentence("L2 {rate}", rate=rate), rate)
    hit, missed = (
        ledger.named(f"lts__t_sectors_op_read_lookup_{found}.sum", f"L2 sectors read, {found}")
        for found in ("hit", "miss")
    )
    if hit is None or missed is None or hit.value + missed.value <= 0:
        return
    share = Quantity(100 * hit.value / (hit.value + missed.value), "%")
    hits = ledger.derived("lone.l2.hits", share, "sectors read that hit in L2", hit, missed)
    yield _made("l2_hits", Sentence("{hits:.0f} of L2 reads hit", hits=hits), hits)


def _rate(name: str, ceiling: Ceiling) -> Iterator[FigureDocument]:
    rate, share = ceiling.achieved, ceiling.reached
    if rate is not None and rate.value > 0:
        form = "{unit} {rate} ({share:.0f} of peak)"
        yield _made(name, Sentence(form, rate=rate, unit=ceiling.name, share=share), rate, share)


def _filling(view: LaunchView) -> Iterator[FigureDocument]:
    """Empty for ranges and graphs, whose values are sums or maxima over several launches."""
    if view.launch.workload is not Workload.KERNEL:
        return
    waves, registers = (view.get(name) for name in ("waves_per_sm", "registers_per_thread"))
    if waves is not None:
        yield _figure("waves", "{number:.1f} waves", waves)
    if registers is not None:
        yield _figure("registers_per_thread", "{number:.0f} registers per thread", registers)
    blocks = resident_blocks(view)
    if blocks is not None and blocks.given is not None:
        form = f"{{number:.0f}} {_blocks(blocks.given)} per SM ({{fit:.0f}} fit)"
        text = Sentence(form, number=blocks.given, fit=blocks.fit)
        yield _made("blocks_per_sm", text, blocks.given)
    elif blocks is not None:
        form = f"{{number:.0f}} {_blocks(blocks.fit)} per SM"
        yield _figure("blocks_per_sm", form, blocks.fit)


def _blocks(number: Evidence) -> str:
    return "block" if number.value == 1 else "blocks"


def _made(
    name: str, text: Sentence, value: Evidence, share: Evidence | None = None
) -> FigureDocument:
    return FigureDocument(
        id=name,
        text=text,
        value=finite(value),
        unit=value.unit,
        share_pct=finite(share),
        evidence=(value, share) if share else (value,),
    )


def _figure(name: str, form: str, value: Evidence) -> FigureDocument:
    return _made(name, Sentence(form, number=value._replace(unit="")), value)
