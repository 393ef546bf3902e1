"""Figures for the head of a launch: its rates with their shares of the peak, and how it fills the
GPU. What the report does not have is left out."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.amounts.resources import block_resources, blocks_text, warps_text
from keet.analysis.hardware.ceilings import SECTOR, Ceiling, per_second, positive
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.ledger import LaunchLedger
from keet.analysis.parameters import NEGLIGIBLE
from keet.analysis.roofline.compute import compute_ceilings, loads_constants
from keet.analysis.roofline.launch_roofline import SHOWN_WORK, lead_of
from keet.analysis.roofline.memory import dram_ceiling, slow_dram_clock
from keet.documents.shared_types import FigureDocument
from keet.evidence import Evidence, Sentence, finite
from keet.profile import Absent
from keet.units import Quantity


@cached_per_view
def launch_figures(view: LaunchView) -> tuple[FigureDocument, ...]:
    return (*moving_figures(view), *_filling(view))


def moving_figures(view: LaunchView) -> tuple[FigureDocument, ...]:
    """Rates with their shares of the peak, bytes and hit rates."""
    rates = tuple(_rates(view))
    has_dram = any(figure.id == "dram" for figure in rates)
    return (*rates, *_moved(view, "" if has_dram else "DRAM "))


_LONGEST = 172
"""Characters of the line: two lines of 80 columns."""
_LESS_TELLING = (
    "blocks_per_sm", "l2_bytes", "waves", "l1_hit_rate", "dram_written", "dram_read", "l2_hit_rate",
)  # fmt: skip
"""Left out where the line would be longer, this one first."""


def figures_text(view: LaunchView) -> Sentence:
    """On one line, without those that are too many for it; empty if the report has none."""
    figures = {
        figure.id: figure.text for figure in launch_figures(view) if not _is_negligible(figure)
    }
    for name in _LESS_TELLING:
        if sum(map(len, figures.values())) + 2 * len(figures) > _LONGEST:
            figures.pop(name, None)
    return Sentence(", ").join(figures.values())


def _is_negligible(figure: FigureDocument) -> bool:
    """Rates and hits of less than a hundredth tell nothing, unless it is how busy DRAM is."""
    if figure.id == "arithmetic":
        return figure.share_pct is not None and figure.share_pct < 100 * NEGLIGIBLE
    return figure.id == "l1_hit_rate" and (figure.value or 0.0) < 100 * NEGLIGIBLE


def _rates(view: LaunchView) -> Iterator[FigureDocument]:
    compute, _ = compute_ceilings(view.ledger, view.ceilings)
    lead = lead_of(compute, constants=loads_constants(view.ledger, view.ceilings))
    if lead is not None and lead.reached.value >= SHOWN_WORK:
        yield from _rate("arithmetic", lead)
    memory = dram_ceiling(view.ledger, view.ceilings)
    if not isinstance(memory, Absent):
        yield from _rate("dram", memory, _counted_share(view))
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
        ledger.named(f"lts__t_sectors_op_read_lookup_{result}.sum", f"L2 sectors read, {result}")
        for result in ("hit", "miss")
    )
    if hit is None or missed is None or hit.value + missed.value <= 0:
        return
    share = Quantity(100 * hit.value / (hit.value + missed.value), "%")
    hits = ledger.derived("lone.l2.hits", share, "sectors read that hit in L2", hit, missed)
    yield _made("l2_hits", Sentence("{hits:.0f} of L2 reads hit", hits=hits), hits)


def _rate(name: str, ceiling: Ceiling, counted: Sentence | str = "") -> Iterator[FigureDocument]:
    rate, share = ceiling.achieved, ceiling.reached
    if rate is not None and rate.value > 0:
        form = "{unit} {rate} ({share:.0f} of peak{counted})"
        words = Sentence(form, rate=rate, unit=ceiling.name, share=share, counted=counted)
        yield _made(name, words, rate, share)


def _counted_share(view: LaunchView) -> Sentence | str:
    """The share that ncu measured, where it is not that of the rate over the duration."""
    busy = view.ceilings.reached("DRAM")
    if busy is None or slow_dram_clock(view.ledger) is None:
        return ""
    return Sentence(" over the duration; {busy:.0f} over the cycles that ncu counted", busy=busy)


def _moved(view: LaunchView, dram: str) -> Iterator[FigureDocument]:
    """Bytes and hit rates of the memory levels; nothing of a level that moved nothing. `dram`: its
    name, unless a rate before has it."""
    read, written = positive(view.get("dram_bytes_read")), positive(view.get("dram_bytes_written"))
    if read is not None:
        yield _made("dram_read", Sentence("{dram}{read} read", dram=dram, read=read), read)
    if written is not None:
        text = Sentence("{dram}{written} written", dram=dram, written=written)
        yield _made("dram_written", text, written)
    sectors = positive(view.get("l2_l1_sectors"))
    if sectors is not None:
        size = Quantity(SECTOR * float(sectors.value), "byte")
        label = "bytes between L1 and L2"
        moved = view.ledger.derived("l2_l1_bytes", size, label, sectors)
        yield _made("l2_bytes", Sentence("{moved} between L1 and L2", moved=moved), moved)
    for level in ("L2", "L1"):
        hits = positive(view.get(f"{level.lower()}_hit_rate_pct"))
        if hits is not None:
            text = Sentence("{level} hits {hits:.0f}", level=level, hits=hits)
            yield _made(f"{level.lower()}_hit_rate", text, hits)


def _filling(view: LaunchView) -> Iterator[FigureDocument]:
    """Empty for ranges and graphs, whose values are sums or maxima over several launches."""
    known = block_resources(view)
    if known is None:
        return
    if known.waves is not None:
        yield _figure("waves", "{number:.1f} waves", known.waves)
    if known.registers is not None:
        yield _figure("registers_per_thread", "{number:.0f} registers", known.registers)
    if known.spills is not None and known.has_spills:
        yield _figure("spills_per_thread", "{number:.0f} spills", known.spills)
    if known.shared is not None and known.shared.value > 0:
        text = Sentence("{size} shared", size=known.shared)
        yield _made("shared_memory_per_block", text, known.shared)
    if known.blocks is not None and (blocks := blocks_text(known)) is not None:
        yield _made("blocks_per_sm", blocks, known.blocks)
    if known.warps is not None and (warps := warps_text(known, averaged=True)) is not None:
        yield _made("warps_per_sm", warps, known.warps)


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
