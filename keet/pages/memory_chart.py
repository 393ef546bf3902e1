"""The page of `keet chart`, and the words of a memory chart."""

from __future__ import annotations

from collections.abc import Iterator

from keet.documents.memory_chart import MemoryChart, MemoryLink, MemoryNode
from keet.pages.blocks import Block, Cell, Column, Span, Table, Text, Words
from keet.pages.figures import MemoryFigure

NOT_KNOWN = "not in the report"
LEGEND = (
    "Width of an arrow: bytes, of shared memory 128 per wavefront. Hatched: waste, which is not "
    "needed. Dashed: not in the report."
)


def space_of(link: MemoryLink) -> str:
    """What the traffic is about: `local memory: `; beyond the SMs, the operation or nothing."""
    ends = {link.source, link.target}
    if "sm" in ends:
        return f"{link.label.split()[0].rstrip(',')} memory: "
    return f"{link.label}: " if "l1" in ends else ""


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
    links = (
        f"{_ends(chart, link)}, {link.label}: {', '.join(number_texts(link))}{_waste(link)}"
        for link in chart.links
        if not link.is_idle
    )
    return f"#{chart.id} {chart.kernel}. {chart.limit} {'; '.join(links)}"


def _ends(chart: MemoryChart, link: MemoryLink) -> str:
    sign = "↔" if link.is_both else "→"
    return f"{chart.node(link.source).label} {sign} {chart.node(link.target).label}"


def _waste(link: MemoryLink) -> str:
    return (
        "" if link.waste_share is None else f", {link.waste_share:.0f} waste ({link.waste_reason})"
    )


def memory_figure(*charts: MemoryChart) -> MemoryFigure:
    return MemoryFigure(charts, short=[block for chart in charts for block in table_blocks(chart)])


def table_blocks(chart: MemoryChart) -> Iterator[Block]:
    """Units and links as tables; links that carried nothing are left out."""
    yield Text(chart.limit, "strong")
    columns = [
        Column("From → to", look="label"),
        Column("Traffic"),
        Column("Requests", is_number=True),
        Column("Bytes", is_number=True),
        Column("Of peak", is_number=True),
        Column("Waste"),
    ]
    shown = [link for link in chart.links if not link.is_idle]
    yield Table(columns, [_row(chart, link) for link in shown], name="Memory traffic")
    units = [
        f"{node.label} {', '.join(facts)}" for node in chart.nodes if (facts := [*_facts(node)])
    ]
    if units:
        yield Text((Span("Units: ", "strong"), "; ".join(units)))
    idle = [f"{_ends(chart, link)} {link.label}" for link in chart.links if link.is_idle]
    if idle:
        yield Text(f"Nothing moved: {', '.join(idle)}.", "muted")
    yield from (Text(note, "muted") for note in chart.notes)


def _row(chart: MemoryChart, link: MemoryLink) -> list[Words | Cell]:
    count = link.requests or link.wavefronts or link.instructions
    unit = "" if link.requests else " wavefronts" if link.wavefronts else " inst"
    mark = " (limit)" if link.is_limit else ""
    waste = "" if link.waste_share is None else f"{link.waste_share:.0f} {link.waste_reason}"
    return [
        _ends(chart, link),
        (link.label, Span(mark, "bad")),
        "-" if count is None else f"{count:short}{unit}",
        "-" if link.bytes is None else str(link.bytes),
        "-" if link.share is None else f"{link.share:.0f}",
        Span(waste, "warn"),
    ]


def _facts(node: MemoryNode) -> Iterator[str]:
    if node.hit_rate is not None:
        yield f"hit rate {node.hit_rate:.0f}"
    if node.load_hit_rate is not None:
        yield f"of loads {node.load_hit_rate:.0f}"
    if node.busy is not None:
        part = f" ({node.busiest})" if node.busiest != node.label else ""
        yield f"{node.busy:.0f} busy{part}{', limit' if node.is_limit else ''}"
