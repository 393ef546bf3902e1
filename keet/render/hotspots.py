"""`keet hotspots`: source lines ranked by what they cost, with the code beside the numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from keet.analysis.hotspots import Hotspots, Spot
from keet.catalog import stalls
from keet.profile import Absent, Launch
from keet.render.source_text import source_line, source_lines
from keet.units import format_number

WIDE = 120
_STALLS_SHOWN = 2
_STALL_SHARE = 0.05
"""Below this a reason is noise beside the largest one."""

Found = Iterable[tuple[Launch, Hotspots | Absent]]


def hotspots_view(found: Found, width: int, top: int) -> Group:
    parts: list[RenderableType] = []
    silent: dict[Absent, list[Launch]] = {}
    for launch, spots in found:
        if isinstance(spots, Absent):
            silent.setdefault(spots, []).append(launch)
            continue
        if parts:
            parts.append("")
        parts += _launch_view(launch, spots, width, top)
    for absent, launches in silent.items():
        numbers = ", ".join(f"#{launch.id} {launch.kernel}" for launch in launches[:4])
        more = f" and {len(launches) - 4} more" if len(launches) > 4 else ""
        parts.append(Text(f"{numbers}{more}: {absent.reason}", style="yellow"))
        parts.append(Text(absent.remedy))
    return Group(*parts)


def _launch_view(launch: Launch, found: Hotspots, width: int, top: int) -> list[RenderableType]:
    parts: list[RenderableType] = [
        Text.assemble(
            (f"#{launch.id} ", "dim"), (launch.kernel, "bold"), (f": {_summary(found)}", "dim")
        )
    ]
    code = _code(launch, found, parts)
    lines = source_lines(launch)
    shown = [_Row.of(spot, found, lines, code) for spot in found.spots[:top]]
    parts.append(_wide(shown, found, width) if width >= WIDE else _narrow(shown, width))
    left = len(found.spots) - len(shown)
    if left > 0:
        rest = sum(spot.share or 0.0 for spot in found.spots[top:])
        noun = "line" if found.by == "line" else "instruction"
        plural = "" if left == 1 else "s"
        parts.append(
            Text(f"{left} more {noun}{plural}: {rest:.1%}; --top {len(found.spots)}", style="dim")
        )
    if found.by == "line" and not lines:
        parts.append(
            Text("the source text is not in the report: --source DIR finds it", style="dim")
        )
    return parts


def _summary(found: Hotspots) -> str:
    what = "samples" if found.ranked_by == "samples" else "executed instructions, none sampled"
    noun = "source lines" if found.by == "line" else "instructions"
    return f"{found.total:,} {what} over {len(found.spots)} {noun}"


def _code(launch: Launch, found: Hotspots, parts: list[RenderableType]) -> Mapping[int, str]:
    """The SASS, where rows are instructions; what stands in the way is said."""
    if found.by != "instruction":
        return {}
    code = launch.disassembly
    if isinstance(code, Absent):
        parts.append(Text(f"no SASS: {code.reason}; {code.remedy}", style="yellow"))
        return {}
    return code


@dataclass(frozen=True, slots=True)
class _Row:
    """One spot, as text."""

    share: str
    weight: str
    place: str
    code: str
    waiting: str
    traffic: tuple[str, ...]

    @classmethod
    def of(
        cls,
        spot: Spot,
        found: Hotspots,
        lines: Mapping[str, Sequence[str]],
        code: Mapping[int, str],
    ) -> _Row:
        text = source_line(spot, lines) if spot.address is None else code.get(spot.address)
        return cls(
            share="-" if spot.share is None else f"{spot.share:.1%}",
            weight=_count(spot.samples if found.ranked_by == "samples" else spot.executed),
            place=_place(spot),
            code=" ".join((text or "").split()),
            waiting=waiting_for(spot),
            traffic=tuple(_count(getattr(spot, name)) for name in _TRAFFIC.values()),
        )


_TRAFFIC = {
    "Executed": "executed",
    "Sectors": "sectors_global",
    "Excess": "sectors_global_excess",
    "Wavefronts": "wavefronts_shared",
    "Excess ": "wavefronts_shared_excess",
}
"""Columns of the wide table; the blank tells the two excesses apart."""


def _narrow(rows: Sequence[_Row], width: int) -> Table:
    """Two lines a spot: the numbers, then the code with the whole width to itself."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="ellipsis", no_wrap=True)
    indent = max(len(row.share) for row in rows) + max(len(row.weight) for row in rows) + 4
    for row in rows:
        headline = Text(row.place, style="cyan")
        headline.append(f"  {row.waiting}", style="default")
        if row.code:
            code = row.code
            headline.append("\n")
            headline.append(code[: max(20, width - indent - 1)], style="bold")
        table.add_row(row.share, row.weight, headline)
    return table


def _wide(rows: Sequence[_Row], found: Hotspots, width: int) -> Table:
    """One line a spot; the code gets the room that the numbers leave."""
    weight = "Samples" if found.ranked_by == "samples" else "Count"
    columns = {
        "Share": [row.share for row in rows],
        weight: [row.weight for row in rows],
        "Where": [row.place for row in rows],
        "Waiting for": [row.waiting for row in rows],
        **{heading: [row.traffic[i] for row in rows] for i, heading in enumerate(_TRAFFIC)},
    }
    used = sum(max(map(len, [heading, *cells])) + 2 for heading, cells in columns.items())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("Share", weight):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Where", style="cyan", no_wrap=True)
    longest = max(len(row.code) for row in rows)
    table.add_column("Code", no_wrap=True, max_width=min(longest, max(20, width - used - 4)))
    table.add_column("Waiting for", no_wrap=True)
    for heading in _TRAFFIC:
        table.add_column(heading.strip(), justify="right", no_wrap=True)
    for row in rows:
        code = Text(row.code, style="bold", overflow="ellipsis")
        table.add_row(row.share, row.weight, row.place, code, row.waiting, *row.traffic)
    return table


def _count(value: int | None) -> str:
    return "-" if value is None else format_number(value)


def _place(spot: Spot) -> str:
    """`tour.cu:21`; an instruction by the low digits of its address, which people compare by."""
    line = f"{file_name(spot.location.file)}:{spot.location.line}" if spot.location else ""
    if spot.address is None:
        return line or "no line"
    return f"{spot.address & 0xFFFFF:05x} {line}".strip()


def file_name(path: str) -> str:
    return (PureWindowsPath(path) if "\\" in path else PurePosixPath(path)).name


def waiting_for(spot: Spot) -> str:
    """The largest stall reasons with their share of the row's samples."""
    known = stalls()
    parts = [
        f"{known[reason].label} {share:.0%}"
        for reason, share in spot.stall_shares()
        if known[reason].counts_as_stall and share >= _STALL_SHARE
    ]
    return ", ".join(parts[:_STALLS_SHOWN])


CSV_HEADER = (
    "launch",
    "kernel",
    "file",
    "line",
    "address",
    "sass",
    "source",
    "instructions",
    "share",
    "samples",
    "executed",
    "threads_executed",
    "sectors_global",
    "sectors_global_excess",
    "sectors_local",
    "wavefronts_shared",
    "wavefronts_shared_excess",
)


def hotspots_csv(found: Found, top: int | None) -> str:
    """A row a spot; behind the fixed columns, one for the samples of each stall reason."""
    rows = [row for launch, spots in found for row in _csv_rows(launch, spots, top)]
    reasons = sorted({reason for _, spot in rows for reason, _ in spot.stalls})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*CSV_HEADER, *(f"stall_{reason}" for reason in reasons)])
    for cells, spot in rows:
        by_reason = dict(spot.stalls)
        counts = [by_reason.get(reason, 0) for reason in reasons]
        writer.writerow(["" if cell is None else cell for cell in [*cells, *counts]])
    return out.getvalue()


def _csv_rows(
    launch: Launch, found: Hotspots | Absent, top: int | None
) -> list[tuple[list[object], Spot]]:
    if isinstance(found, Absent):
        return []
    lines = source_lines(launch)
    code = _code(launch, found, [])
    return [
        (
            [
                launch.id,
                launch.kernel,
                spot.location.file if spot.location else None,
                spot.location.line if spot.location else None,
                spot.address,
                code.get(spot.address) if spot.address is not None else None,
                source_line(spot, lines),
                spot.instructions,
                spot.share,
                *(getattr(spot, name) for name in CSV_HEADER[9:]),
            ],
            spot,
        )
        for spot in found.spots[:top]
    ]
