"""`keet hotspots`: source lines ranked by what they cost, with the code beside the numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from keet.analysis.hotspots import Hotspots, Spot
from keet.catalog import stalls
from keet.profile import Absent, Launch
from keet.profile.names import file_name
from keet.render.source_text import source_line, source_lines
from keet.units import format_number

_CODE_WIDTH = 24
"""Room for code below which it gets a line of its own."""
_EXPLAINED = 3
"""Rows whose first stall reason is put into words."""
_STALLS_SHOWN = 2
_STALL_SHARE = 0.05
"""Below this a reason is noise beside the largest one."""

Found = Iterable[tuple[Launch, Hotspots | Absent]]


def hotspots_view(found: Found, width: int, top: int) -> Group:
    parts: list[RenderableType] = []
    silent: dict[Absent, list[Launch]] = {}
    reasons: dict[str, None] = {}
    for launch, spots in found:
        if isinstance(spots, Absent):
            silent.setdefault(spots, []).append(launch)
            continue
        if parts:
            parts.append("")
        parts += _launch_view(launch, spots, width, top)
        leading = [
            reason for spot in spots.spots[: min(top, _EXPLAINED)] for reason in _reasons(spot)[:1]
        ]
        reasons.update(dict.fromkeys(leading))
    parts += _legend(reasons)
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
    if found.partial:
        parts.append(Text(f"{found.partial}; {found.partial.remedy}", style="yellow"))
    code = _code(launch, found, parts)
    lines = source_lines(launch)
    entries = _function_starts(launch)
    shown = [_Row.of(spot, found, lines, code, entries) for spot in found.spots[:top]]
    parts += _wide(shown, found, width) or _narrow(shown, width)
    left = len(found.spots) - len(shown)
    if left > 0:
        rest = sum(spot.share or 0.0 for spot in found.spots[top:])
        noun = "line" if found.by == "line" else "instruction"
        more = f"{left} more {noun}{'' if left == 1 else 's'}: {rest:.1%}; --top {len(found.spots)}"
        parts.append(Text(more, style="dim"))
    parts += [Text(note, style="dim") for note in _notes(launch, found, lines)]
    return parts


def _legend(reasons: Iterable[str]) -> list[RenderableType]:
    """What the leading stall reasons stand for, in words."""
    known = stalls()
    lines: list[RenderableType] = [
        Text.assemble(
            (known[reason].label, "dim bold"), (f": waits for {known[reason].waits_for}", "dim")
        )
        for reason in reasons
    ]
    return ["", *lines] if lines else []


def _summary(found: Hotspots) -> str:
    ranked = "sample" if found.ranked_by == "samples" else "executed instruction"
    what = ranked if found.total == 1 else f"{ranked}s"
    noun = "source line" if found.by == "line" else "instruction"
    count = len(found.spots)
    none = "" if found.ranked_by == "samples" else ", none sampled,"
    return f"{found.total:,} {what}{none} over {count} {noun}{'' if count == 1 else 's'}"


def _notes(launch: Launch, found: Hotspots, lines: Mapping[str, Sequence[str]]) -> list[str]:
    """What to do about what is not there."""
    if not launch.locations:
        return ["no line information: build with nvcc -lineinfo, and see: keet show"]
    if found.by != "line" or lines:
        return []
    if launch.find_source is None:
        return ["the source text is not in the report: --source DIR finds it"]
    files = sorted({file_name(path) for path in launch.source_files})
    return [f"not found under --source: {', '.join(files[:4])}"]


def _code(launch: Launch, found: Hotspots, parts: list[RenderableType]) -> Mapping[int, str]:
    """The SASS, where rows are instructions; what stands in the way is said."""
    if found.by != "instruction":
        return {}
    code = launch.disassembly
    if isinstance(code, Absent):
        parts.append(Text(f"no SASS: {code.reason}; {code.remedy}", style="yellow"))
        return {}
    return code


def _function_starts(launch: Launch) -> list[int]:
    """Where the launch's functions begin: people know an instruction by its offset from there."""
    starts = launch.instances("launch__function_pcs")
    return sorted(int(pc) for pc in starts.values if isinstance(pc, (int, float))) if starts else []


class _Row(NamedTuple):
    """One spot, as text."""

    share: str
    weight: str
    place: str
    code: str
    waiting: str
    excess: str
    traffic: tuple[str, ...]

    @classmethod
    def of(
        cls,
        spot: Spot,
        found: Hotspots,
        lines: Mapping[str, Sequence[str]],
        code: Mapping[int, str],
        entries: Sequence[int],
    ) -> _Row:
        text = source_line(spot, lines) if spot.address is None else code.get(spot.address)
        return cls(
            share="-" if spot.share is None else f"{spot.share:.1%}",
            weight=_count(spot.samples if found.ranked_by == "samples" else spot.executed),
            place=_place(spot, entries),
            code=" ".join((text or "").split()),
            waiting=waiting_for(spot),
            excess=_excess(spot),
            traffic=tuple(_count(getattr(spot, name)) for name in _TRAFFIC.values()),
        )


_TRAFFIC = {
    "Warp inst": "executed",
    "Glob. sectors": "sectors_global",
    "excess": "sectors_global_excess",
    "Shared wavefr.": "wavefronts_shared",
    "excess ": "wavefronts_shared_excess",
}
"""Columns of the wide table; the blank tells the two excesses apart."""


def _excess(spot: Spot) -> str:
    """What coalescing and banks cost the line; nothing where they cost nothing."""
    parts = []
    if spot.sectors_global_excess and spot.sectors_global:
        share = spot.sectors_global_excess / spot.sectors_global
        parts.append(f"{share:.0%} of {spot.sectors_global:,} global sectors in excess")
    if spot.wavefronts_shared_excess and spot.wavefronts_shared:
        share = spot.wavefronts_shared_excess / spot.wavefronts_shared
        parts.append(f"{share:.0%} of {spot.wavefronts_shared:,} shared wavefronts in excess")
    return "; ".join(parts)


def _narrow(rows: Sequence[_Row], width: int) -> list[Text]:
    """Lines a spot: the numbers, then the code and the excess, with the width to themselves."""
    share = max(len(row.share) for row in rows)
    weight = max(len(row.weight) for row in rows)
    indent = " " * (share + weight + 4)
    room = max(20, width - len(indent))
    lines: list[Text] = []
    for row in rows:
        head = Text(f"{row.share:>{share}}  {row.weight:>{weight}}  ")
        head.append(row.place, style="cyan")
        waiting = row.waiting
        if len(head) + 2 + len(waiting) > width:
            waiting = waiting.partition(",")[0]
        head.append(f"  {waiting}" if waiting else "")
        lines.append(head)
        lines += [Text(indent + part, style=style) for part, style in _under(row, room)]
    return lines


def _under(row: _Row, room: int) -> Iterator[tuple[str, str]]:
    if row.code:
        cut = row.code if len(row.code) <= room else row.code[: room - 1] + "…"
        yield cut, "bold"
    if row.excess:
        yield row.excess[:room], "yellow"


def _wide(rows: Sequence[_Row], found: Hotspots, width: int) -> list[RenderableType]:
    """One line a spot, where the numbers leave room for the code; else nothing."""
    weight = "Samples" if found.ranked_by == "samples" else "Count"
    columns = {
        "Share": [row.share for row in rows],
        weight: [row.weight for row in rows],
        "Where": [row.place for row in rows],
        "Waiting for": [row.waiting for row in rows],
        **{heading: [row.traffic[i] for row in rows] for i, heading in enumerate(_TRAFFIC)},
    }
    used = sum(max(map(len, [heading, *cells])) + 2 for heading, cells in columns.items())
    longest = max(len(row.code) for row in rows)
    room = width - used - 2
    if room < min(longest, _CODE_WIDTH):
        return []
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("Share", weight):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Where", style="cyan", no_wrap=True)
    if longest:
        table.add_column("Code", no_wrap=True, max_width=min(longest, room))
    table.add_column("Waiting for", no_wrap=True)
    for heading in _TRAFFIC:
        table.add_column(heading.strip(), justify="right", no_wrap=True)
    for row in rows:
        code = [Text(row.code, style="bold", overflow="ellipsis")] if longest else []
        table.add_row(row.share, row.weight, row.place, *code, row.waiting, *row.traffic)
    return [table]


def _count(value: int | None) -> str:
    return "-" if value is None else format_number(value)


def _place(spot: Spot, entries: Sequence[int]) -> str:
    """`tour.cu:21`; an instruction's offset in its function stands before it, as in cuobjdump."""
    line = f"{file_name(spot.location.file)}:{spot.location.line}" if spot.location else ""
    if spot.address is None:
        return line or "no line"
    start = max((entry for entry in entries if entry <= spot.address), default=0)
    return f"{spot.address - start:#06x} {line}".strip()


def _reasons(spot: Spot) -> list[str]:
    """The stall reasons that matter for a spot, the largest first."""
    known = stalls()
    shares = spot.stall_shares()
    return [r for r, share in shares if known[r].counts_as_stall and share >= _STALL_SHARE]


def waiting_for(spot: Spot) -> str:
    """The largest stall reasons with their share of the row's samples."""
    known, shares = stalls(), dict(spot.stall_shares())
    shown = _reasons(spot)[:_STALLS_SHOWN]
    return ", ".join(f"{known[reason].label} {shares[reason]:.0%}" for reason in shown)


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
