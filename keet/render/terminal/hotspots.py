"""The view of `keet hotspots` for a terminal: source lines ranked by cost, beside their code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from keet.analysis.code_names import offset_in_function, sass_text
from keet.analysis.examined import Examined, first_wait, source_lines
from keet.analysis.sass.instructions.instruction import parse
from keet.analysis.source_lines import Hotspots, Spot
from keet.documents.hotspots import HotspotsLaunch
from keet.documents.shared_types import Skipped
from keet.evidence import Sentence, constant, counted
from keet.formatting import share_cell
from keet.pages.hotspots import (
    columns_text,
    few_samples_text,
    hotspots_notes,
    hotspots_summary,
    launch_list,
    purposes_text,
    stall_reasons,
    stall_texts,
    waits_for,
)
from keet.profile import Launch
from keet.profile.names import file_name
from keet.render.terminal.hotspots_code import (
    mix_lines,
    pointer_table,
    printed_reasons,
    stall_legend,
)
from keet.render.terminal.layout import Group, Renderable, Table, Text
from keet.units import format_number

_CODE_WIDTH = 24
"""If fewer characters are left for the code, it gets a line of its own."""
_EXPLAINED = 3
"""Leading rows: their producer and purposes are printed even if they need lines of their own."""


def hotspots_view(
    found: Iterable[HotspotsLaunch], width: int, top: int, *, page_at: int | None = None
) -> Group:
    """`page_at`: position of the first printed row, for a tool with pages."""
    parts: list[Renderable] = []
    silent: dict[Skipped, list[HotspotsLaunch]] = {}
    opaque: dict[Skipped, list[Launch]] = {}  # rows would need memory
    reasons: dict[str, None] = {}
    rows = slice(page_at or 0, (page_at or 0) + top)
    layout = _Layout(width, rows, is_page=page_at is not None)
    columns = ""
    for each in found:
        if not isinstance(each, Examined):
            silent.setdefault(each.skipped[0], []).append(each)
            continue
        if missing := each.opaque:
            opaque.setdefault(missing, []).append(each.launch)
        if parts:
            parts.append("")
        view = _launch_view(each, layout, columns)
        parts += view.parts
        columns = view.columns or columns
        reasons.update(dict.fromkeys(printed_reasons(each.rows[rows], view.waiting)))
    parts += stall_legend(reasons)
    for absent, launches in silent.items():
        text = Sentence("{of}: {why}", of=launch_list(launches), why=absent.reason)
        parts += [Text(text, style="yellow"), Text(absent.remedy)]
    parts += opaque_notes(opaque)
    return Group(*parts)


def opaque_notes(opaque: Mapping[Skipped, Sequence[Launch]]) -> list[Text]:
    """Why the machine code of some launches was not analysed."""
    return [
        Text(
            Sentence(
                "Machine code not analysed ({of}): {why}; {remedy}",
                of=launch_list(launches),
                why=absent.reason,
                remedy=absent.remedy,
            ),
            style="dim",
        )
        for absent, launches in opaque.items()
    ]


class _Layout(NamedTuple):
    width: int
    rows: slice
    is_page: bool
    """For a tool with pages."""


class _RowsView(NamedTuple):
    parts: list[Renderable]
    waiting: Sequence[str]
    """The texts with stall reasons, as printed."""
    columns: str = ""
    """Names the columns of rows that are not a table."""


def _launch_view(found: Examined, layout: _Layout, columns: str) -> _RowsView:
    """`columns`: the names of columns that were printed last, which are not repeated."""
    parts: list[Renderable] = [
        Text.assemble(
            (f"#{found.id} ", "dim"),
            (found.kernel, "bold"),
            (Sentence(": {summary}", summary=hotspots_summary(found)), "dim"),
        )
    ]
    if found.partial:
        text = Sentence("; ").join([found.partial.text, found.partial.remedy])
        parts.append(Text(text, style="yellow"))
    if few := few_samples_text(found):
        parts.append(Text(few, style="yellow"))
    parts += mix_lines(found)
    shown = _rows(found, layout.rows)
    width = layout.width
    rows = _wide(shown, found, width) or _narrow(shown, found, width)
    if rows.columns != columns:
        parts += [Text(rows.columns, style="dim")] if rows.columns else []
    parts += rows.parts
    if not layout.is_page:
        parts += _left_out(found, len(shown))
    parts += pointer_table(found, width)
    launch = found.launch
    notes = hotspots_notes(launch, found, source_lines(launch), for_tool=layout.is_page)
    parts += [Text(note, style="dim") for note in notes]
    return _RowsView(parts, rows.waiting, rows.columns)


def _left_out(found: Hotspots, shown: int) -> list[Renderable]:
    left = len(found.rows) - shown
    if left <= 0:
        return []
    share = sum(spot.share or 0.0 for spot in found.rows[shown:])
    text = Sentence(
        "{more} ({rest:cell} of {whole}): {option}",
        more=counted(left, "more line" if found.by == "line" else "more instruction"),
        rest=found.number("share of the rest", 100 * share, "%"),
        whole="samples" if found.ranked_by == "samples" else "executed instructions",
        option=f"--top {len(found.rows)}",
    )
    return [Text(text, style="dim")]


class _Row(NamedTuple):
    """One spot (source line or instruction), as text."""

    share: str
    weight: str
    place: str
    code: str
    waiting: tuple[str, str, str, str]
    """What its samples wait for, in four variants from long to short: two reasons with both
    producers; two reasons, only the first with its producer; one reason with its producer; two
    reasons without."""
    elsewhere: str
    """The first reason, with its producer if that is on another line."""
    purposes: str
    excess: str
    traffic: tuple[str, ...]


def _rows(found: Examined, which: slice) -> list[_Row]:
    entries = found.launch.function_starts
    rows = []
    for spot in found.rows[which]:
        text = spot.source
        if spot.address is not None:
            text = sass_text(parse(spot.address, spot.sass or ""), entries)
        waiting = _wordings(spot, found)
        row = _Row(
            share="-" if spot.share is None else share_cell(spot.share),
            weight=_count(spot.samples if found.ranked_by == "samples" else spot.executed),
            place=_place(spot, entries),
            code=" ".join((text or "").split()),
            waiting=waiting,
            elsewhere=waiting[2] if _is_elsewhere(spot) else waiting[3].partition(",")[0],
            purposes=_purposes(spot),
            excess=_excess(spot),
            traffic=tuple(_count(getattr(spot, name)) for name in _TRAFFIC.values()),
        )
        rows.append(row)
    return rows


def _purposes(spot: Spot) -> str:
    if spot.address is None or not spot.purposes:
        return purposes_text(spot.purposes)
    return spot.purposes[0].purpose  # only for a single instruction


def _is_elsewhere(spot: Spot) -> bool:
    wait = first_wait(spot.waits, next(iter(stall_reasons(spot)), ""))
    return wait is not None and (spot.address is not None or wait.producer != spot.location)


def _wordings(spot: Spot, found: Examined) -> tuple[Sentence, Sentence, Sentence, Sentence]:
    plain = stall_texts(spot)
    if not plain:
        return (Sentence(),) * 4
    full = plain
    if code := found.code:
        offset = None if spot.address is None else offset_in_function(found.launch)
        waits = [first_wait(spot.waits, reason) for reason in stall_reasons(spot)[: len(plain)]]
        full = [
            Sentence("{text}{awaited}", text=text, awaited=awaited)
            for text, awaited in zip(
                plain, (waits_for(code, wait, spot.location, offset) for wait in waits)
            )
        ]
    comma = Sentence(", ")
    return comma.join(full), comma.join([full[0], *plain[1:]]), full[0], comma.join(plain)


_TRAFFIC = {
    "Warp inst": "executed",
    "Glob. sectors": "sectors_global",
    "excess sectors": "sectors_global_excess",
    "Shared wavefr.": "wavefronts_shared",
    "excess wavefr.": "wavefronts_shared_excess",
}
"""Columns of the wide table."""


def _excess(spot: Spot) -> Sentence:
    """The cost of uncoalesced accesses and bank conflicts; empty if there is none."""
    amounts = {
        "global sectors": (spot.sectors_global_excess, spot.sectors_global),
        "shared wavefronts": (spot.wavefronts_shared_excess, spot.wavefronts_shared),
    }
    return Sentence("; ").join(
        Sentence(
            "{share:.0f} of {all:,d} {what} in excess",
            share=constant(100 * (excess / every), "%", f"{what} in excess"),
            all=constant(every, "", what),
            what=what,
        )
        for what, (excess, every) in amounts.items()
        if excess and every
    )


def _narrow(rows: Sequence[_Row], found: Hotspots, width: int) -> _RowsView:
    """Several lines per spot: the numbers, then the code and the excess, which may use the whole
    width."""
    share = max(len(row.share) for row in rows)
    weight = max(len(row.weight) for row in rows)
    indent = " " * (share + weight + 4)
    room = max(20, width - len(indent))
    columns = columns_text(
        found,
        has_stalls=any(row.waiting[0] for row in rows),
        has_code=any(row.code for row in rows),
        has_purposes=any(row.purposes for row in rows),
    )
    lines: list[Renderable] = []
    heads: list[str] = []
    for index, row in enumerate(rows):
        head = Text(f"{row.share:>{share}}  {row.weight:>{weight}}  ")
        head.append(row.place, style="cyan")
        is_leading = index < _EXPLAINED
        first, below = _heading(row, head, width, is_leading=is_leading)
        lines.append(first)
        heads.append(first.plain)
        lines += [Text(indent).append_text(part) for part in below]
        has_purposes = first.plain.endswith(row.purposes)
        rest = row._replace(purposes="") if has_purposes else row
        lines += [
            Text(indent).append_text(part) for part in _under(rest, room, is_leading=is_leading)
        ]
    return _RowsView(lines, heads, columns)


def _heading(row: _Row, head: Text, width: int, *, is_leading: bool) -> tuple[Text, list[Text]]:
    """The first line of a spot. For a leading spot, the producer follows on a second line if it did
    not fit."""
    left = width - len(head) - 2
    shortest = row.waiting[3].partition(",")[0]
    waiting = next((way for way in row.waiting if len(way) <= left), shortest)
    head.append(f"  {waiting}" if waiting else "")
    if not row.code and row.purposes and len(head) + 3 + len(row.purposes) <= width:
        head.append(f"   {row.purposes}", style="dim")
    is_missing = is_leading and len(row.waiting[2]) > left and row.waiting[2] != shortest
    producer = row.waiting[2].removeprefix(shortest).strip()
    return head, [Text(producer)] if is_missing else []


def _under(row: _Row, room: int, *, is_leading: bool) -> Iterator[Text]:
    """The code and its purpose. If they do not fit on one line, the purpose is only printed for
    leading rows, on its own line."""
    for_code = room - len(row.purposes) - 3 if row.purposes else room
    is_apart = bool(row.purposes) and (
        len(row.code) > for_code if is_leading else for_code < _CODE_WIDTH
    )
    fits = room if is_apart else for_code
    if row.code:
        cut = row.code if len(row.code) <= fits else row.code[: fits - 1] + "…"
        line = Text(cut, style="bold")
        if row.purposes and not is_apart:
            line.append(f"   {row.purposes}", style="not bold dim")
        yield line
    if row.purposes and is_leading and (is_apart or not row.code):
        yield Text(row.purposes, style="dim")
    if row.excess:
        yield Text(row.excess[:room], style="yellow")


def _wide(rows: Sequence[_Row], found: Hotspots, width: int) -> _RowsView | None:
    """One line per spot; None if the numbers leave no room for the code."""
    longest = max(len(row.code) for row in rows)
    traffic = {
        heading: [row.traffic[i] for row in rows]
        for i, heading in enumerate(_TRAFFIC)
        if any(row.traffic[i] not in ("0", "-") for row in rows)
    }
    for wording in (
        [row.waiting[1] for row in rows],
        [row.waiting[2] for row in rows],
        [row.elsewhere for row in rows],
    ):
        columns = _columns(rows, found, wording)
        used = sum(_column_width(*column) for column in [*columns.items(), *traffic.items()])
        room = width - used - 2
        if room >= min(longest, _CODE_WIDTH):
            return _RowsView([_table(rows, columns, traffic, min(longest, room))], wording)
    return None


def _columns(
    rows: Sequence[_Row], found: Hotspots, wording: Sequence[str]
) -> dict[str, Sequence[str]]:
    columns: dict[str, Sequence[str]] = {
        "Share": [row.share for row in rows],
        "Samples" if found.ranked_by == "samples" else "Count": [row.weight for row in rows],
        "Where": [row.place for row in rows],
        "Waiting for": wording,
    }
    purposes = [row.purposes.partition(",")[0] for row in rows]
    return {**columns, "Purpose": purposes} if any(purposes) else columns


def _table(
    rows: Sequence[_Row],
    columns: Mapping[str, Sequence[str]],
    traffic: Mapping[str, Sequence[str]],
    for_code: int,
) -> Table:
    table = Table(is_ruled=True, has_edge=True, padding=(0, 1))
    for heading in columns:
        is_number = heading in ("Share", "Samples", "Count")
        style = "cyan" if heading == "Where" else ""
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(heading, justify=justify, style=style, no_wrap=True)
        if heading == "Where" and for_code:
            table.add_column("Code", no_wrap=True, max_width=for_code)
    for heading in traffic:
        table.add_column(heading.strip(), justify="right", no_wrap=True)
    for index, row in enumerate(rows):
        cells: list[Renderable] = [column[index] for column in columns.values()]
        if for_code:
            cells.insert(3, Text(row.code, style="bold", overflow="ellipsis"))
        table.add_row(*cells, *(column[index] for column in traffic.values()))
    return table


def _column_width(heading: str, cells: Sequence[str]) -> int:
    return max(map(len, [heading, *cells])) + 2


def _count(value: int | None) -> str:
    return "-" if value is None else format_number(value)


def _place(spot: Spot, entries: Sequence[int]) -> str:
    """`tour.cu:21`; for an instruction, after its offset in the function, as cuobjdump prints
    it."""
    line = f"{file_name(spot.location.file)}:{spot.location.line}" if spot.location else ""
    if spot.address is None:
        return line or "no source line"
    start = max((entry for entry in entries if entry <= spot.address), default=0)
    return f"{spot.address - start:#06x} {line}".strip()
