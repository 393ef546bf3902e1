"""The page of `keet chart`, and the words of a memory chart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from keet.documents.charts import MemoryChart, MemoryLink, MemoryNode, NodeId
from keet.evidence import Evidence
from keet.formatting import first_sentence
from keet.pages.blocks import (
    Block,
    Cell,
    Column,
    Heading,
    MemoryFigure,
    Page,
    Span,
    Table,
    Text,
    Words,
    table_of,
)

NOT_KNOWN = "not in the report"
LEGEND = (
    "Width of an arrow: bytes; 128 per wavefront of shared memory.",
    "Hatched: waste, bytes that are not needed, in % of the arrow's own.",
    "Dashed: not in the report. Busy and of peak: in % of the peak, over the elapsed cycles.",
)


def space_of(link: MemoryLink) -> str:
    """What the traffic is about: `local memory`; beyond the SMs, the operation or nothing."""
    ends = {link.source, link.target}
    if "sm" in ends:
        return f"{link.label.split()[0].rstrip(',')} memory"
    return link.label if "l1" in ends else ""


def number_texts(link: MemoryLink) -> list[str]:
    """What a link carries, in short: requests, bytes and share of the peak."""
    counts = (
        (link.requests, "req"),
        (None if link.requests else link.instructions, "inst"),
        (link.wavefronts, "wavefronts"),
    )
    texts = [f"{number:short} {unit}" for number, unit in counts if number is not None]
    if link.bytes is not None:
        texts.append(str(link.bytes))
    if link.share is not None:
        texts.append(f"{link.share:.0f} of peak")
    return texts or [NOT_KNOWN]


def chart_text(chart: MemoryChart) -> str:
    """The chart in words, for those who do not see it."""
    links = []
    for link in chart.links:
        numbers = number_texts(link)
        if link.waste_share is not None:
            numbers.append(f"{link.waste_share:.0f} of it waste ({link.waste_reason})")
        if not link.is_idle:
            links.append(f"{_ends(link)}, {link.label}: {', '.join(numbers)}")
    return f"#{chart.id} {chart.kernel}. {chart.headline} {'; '.join(links)}"


_ORDER: Mapping[NodeId, str] = {
    "sm": "SM",
    "l1": "L1",
    "shared": "shared",
    "l2": "L2",
    "dram": "DRAM",
    "host": "host",
    "peer": "peer",
}
"""From the SMs outwards."""


def _ends(link: MemoryLink, *, is_both: bool = False) -> str:
    """`SM ← L1`: the unit that is nearer to the SMs first."""
    inner, outer = (each for each in _ORDER if each in (link.source, link.target))
    sign = "↔" if is_both or link.is_both else "→" if link.source == inner else "←"
    return f"{_ORDER[inner]} {sign} {_ORDER[outer]}"


def chart_page(charts: Sequence[MemoryChart], of: int = 0, *, are_compared: bool = False) -> Page:
    """`of`: how many launches the longest one was chosen of."""
    if are_compared:
        return Page([*compared_blocks(charts[0], charts[1])], "Memory charts")
    blocks: list[Block] = []
    for chart in charts:
        took = f", {chart.duration}" if chart.duration else ""
        blocks.append(Heading((f"#{chart.id} ", Span(chart.kernel, "name"), took), 2))
        limit, others = first_sentence(chart.headline)
        blocks.append(Text((Span(limit, "strong"), f" {others}" if others else "")))
        blocks.append(memory_figure(chart))
    if of > 1:
        told = f"This launch takes most time of {of:,} launches; --launch N draws another."
        blocks.append(Text(told, "muted"))
    return Page(blocks, "Memory chart")


def memory_figure(chart: MemoryChart) -> MemoryFigure:
    return MemoryFigure([chart], short=[*table_blocks(chart)])


SIDES = ("Before", "After")


def compared_blocks(before: MemoryChart, after: MemoryChart) -> Iterator[Block]:
    """Two charts to the same scale; in other formats than HTML, one table."""
    names = []
    for side, chart in zip(SIDES, (before, after)):
        took = f", {chart.duration}" if chart.duration else ""
        names.append(f"{side}: #{chart.id} {chart.kernel}{took}")
        yield Text(f"{names[-1]}. {chart.headline}", only=("terminal", "markdown"))
    columns = [
        Column("Link", look="label", is_unbroken=True),
        Column("Traffic", is_unbroken=True),
        *(Column(side, is_number=True) for side in SIDES),
        Column("Of peak"),
        Column("Waste"),
    ]
    links = {link.id: (before.link(link.id), after.link(link.id)) for link in before.links}
    links |= {link.id: (before.link(link.id), link) for link in after.links}
    rows = [
        [
            _ends(known),
            known.label,
            *map(_moved, sides),
            _both(sides, "share"),
            _both(sides, "waste_share"),
        ]
        for sides in links.values()
        if (known := next((each for each in sides if each and _has_traffic(each)), None))
    ]
    table = Table(columns, rows, name="Memory traffic before and after")
    yield MemoryFigure([before, after], names, short=[table])


def _has_traffic(link: MemoryLink) -> bool:
    return any(link.numbers) and not link.is_idle


def _moved(link: MemoryLink | None) -> str:
    if link is None or link.amount is None:
        return "-"
    if link.bytes is not None:
        return str(link.bytes)
    unit = " wavefr." if link.wavefronts and link.wavefronts.value else ""
    return f"{link.amount:short}{unit}"


def _both(sides: Sequence[MemoryLink | None], name: str) -> str:
    """A share before and after, if there is one."""
    shares: list[Evidence | None] = [getattr(link, name, None) for link in sides]
    texts = ("-" if share is None else f"{share:.0f}" for share in shares)
    return " → ".join(texts) if any(shares) else ""


def table_blocks(chart: MemoryChart) -> Iterator[Block]:
    """Units and links as tables; links that carried nothing are left out."""
    known = [link for link in chart.links if any(link.numbers)]
    rows = [_row(link) for link in chart.links if _has_traffic(link)]
    if rows:
        yield table_of(rows, name="Memory traffic")
    units = [
        f"{node.label} {', '.join(facts)}" for node in chart.nodes if (facts := [*_facts(node)])
    ]
    if units:
        yield Text((Span("Units: ", "strong"), "; ".join(units)))
    idle = [link for link in known if link.is_idle]
    unknown = [link for link in chart.links if link not in known]
    for words, links in (("No traffic", idle), ("Not in the report", unknown)):
        if links:
            yield Text(f"{words}: {', '.join(_names(links))}.", "muted")
    yield from (Text(note, "muted") for note in chart.notes)


def _names(links: Sequence[MemoryLink]) -> Iterable[str]:
    """Both directions beyond L1 are one name: `L2 ↔ DRAM`."""
    link_names: dict[str, None] = {}
    for link in links:
        turned = any((each.source, each.target) == (link.target, link.source) for each in links)
        if "sm" in (link.source, link.target):
            link_names[link.label] = None
        elif turned or link.is_both:
            link_names[_ends(link, is_both=True)] = None
        else:
            link_names[f"{_ends(link)} {link.label}"] = None
    return link_names


def _row(link: MemoryLink) -> dict[Column, Words | Cell]:
    count, waste = link.requests or link.instructions, link.waste_share
    is_known = link.bytes is not None or link.wavefronts is not None
    wasted = "" if waste is None else f"{waste:.0f} {link.waste_reason}"
    limit = Span(" (limit)" if link.is_limit else "", "bad")
    return {
        Column("Link", look="label", is_unbroken=True): _ends(link),
        Column("Traffic", is_unbroken=True): (link.label, limit),
        Column("Requests", is_number=True): "-" if count is None else f"{count:short}",
        Column("Moved", is_number=True): _moved(link) if is_known else "-",
        Column("Of peak", is_number=True): "-" if link.share is None else f"{link.share:.0f}",
        Column("Waste, of the link"): Span(wasted, "warn"),
    }


def _facts(node: MemoryNode) -> Iterator[str]:
    if node.hit_rate is not None:
        yield f"hit rate {node.hit_rate:.0f}"
    if node.load_hit_rate is not None:
        yield f"hit rate of global loads {node.load_hit_rate:.0f}"
    if node.busy is not None:
        part = f" ({node.busiest})" if node.busiest != node.label else ""
        yield f"{node.busy:.0f} busy{part}{', limit' if node.is_limit else ''}"
