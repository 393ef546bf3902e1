"""Where the time of a launch goes: a bar that adds up, the same as a table, and the busiest units.

Sizes are percentages, so that the bar fills the width that there is. The style sheet decides which
labels fit, from the width that each one needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from keet.analysis.account import UNKNOWN
from keet.analysis.hardware.ceilings import NEAR_PEAK, Ceiling
from keet.explanation.account_texts import AccountRow, account_rows, time_text
from keet.formats.html.markup import NOTHING, Html, element, fragment, prose, scrolling, table
from keet.formats.svg.markup import text_width
from keet.formatting import capitalized, percent_text
from keet.pages.blocks import AccountFigure, AccountTree
from keet.pages.capture import workload_noun
from keet.pages.launch import busiest_units, evidence_text, shown_notes, with_depth

_ROW = 34
"""Least height in pixels: large enough to be touched."""
_FONT, _PADDING = 12, 14
"""Pixels of a label: the size of its letters, and what is kept free beside it."""
_STEPS = (280, 340, 420, 520, 640, 800, 1000, 1300)
"""Widths of the bar, in pixels, from which labels appear: `.from-N` and `.until-N` of the style."""
_LEAST_VISIBLE = 0.05
"""Percent of the time. Less is not visible, and may come from rounding of sums."""


class Segment(NamedTuple):
    """A part of a bar."""

    label: str
    """Printed in the bar where there is room. Empty: never."""
    share: float
    """Per cent of the whole time."""
    time: str
    kind: str
    """What it is: see `kind_of`."""
    tooltip: str
    within: tuple[Segment, ...] = ()
    """What it consists of: a second row, below it."""
    tint: int = 0
    """How many parts of the same kind are before it: parts of one kind are less and less dense."""

    @property
    def look(self) -> str:
        return look_of(self.kind, self.tint)


_TINTS = 2
"""Of each kind, besides its own colour: see `.tint-1` in charts.css."""


def look_of(kind: str, tint: int) -> str:
    return f"k-{kind} tint-{min(tint, _TINTS)}" if tint else f"k-{kind}"


_KINDS: Mapping[str, str] = {
    "issuing.lanes_off": "lost",
    "issuing.value": "work",
    "issuing.memory": "work",
    "issuing.instructions": "work",
    "issuing.rest": "overhead",
    "issuing.address": "overhead",
    "issuing.control": "overhead",
    "issuing.conversion": "overhead",
    "issuing.move": "overhead",
    "issuing.sync": "overhead",
    "issuing.integer": "overhead",
    "issuing": "work",
    "waiting.busy.dram": "dram",
    "waiting.busy.l2": "l2",
    "waiting.busy.hot_l2_slice": "l2",
    "waiting.busy.l1": "l1",
    "waiting.busy.lsu": "l1",
    "waiting.busy.host_link": "host",
    "waiting.busy.nvlink": "host",
    "waiting.busy": "pipe",
    "waiting.latency": "latency",
    "waiting.barrier": "sync",
    "waiting.membar": "sync",
    "waiting.sleeping": "sync",
    "waiting.branch": "fetch",
    "waiting.fetch": "fetch",
    "waiting": "waiting",
    "active": "waiting",
    "idle": "idle",
    "launch": "launch",
}
"""Part ids, or how they begin, and the kinds that charts.css has a colour for. The first that fits
applies."""
OTHER = "rest"
"""The kind of several small parts together, and of parts that are not in the table."""
_SMALLER = "smaller parts"


@lru_cache(maxsize=256)
def kind_of(part_id: str) -> str:
    """`dram` for `waiting.busy.dram`: the same kind has the same colour in all charts."""
    if part_id.rpartition(".")[2] == UNKNOWN:
        return UNKNOWN
    known = f"{part_id.replace('active.busy', 'waiting.busy', 1)}."
    return next((kind for begin, kind in _KINDS.items() if known.startswith(f"{begin}.")), OTHER)


# --- the bar


def account_bar(segments: Sequence[Segment], *, length: float = 100.0, name: str) -> Html:
    """The parts side by side, with the parts inside them in a second row.

    `length`: of the bar, in per cent of its place, so that bars of several times can be compared.
    `name`: what the whole bar is, for readers who do not see it.
    """
    depth = 2 if any(segment.within for segment in segments) else 1
    marks: list[Html] = []
    for start, segment in _placed(segments, 0.0):
        rows = 1 if segment.within else depth
        marks += _mark(segment, start, length, (0, rows))
        for inner_start, inner in _placed(segment.within, start):
            marks += _mark(inner, inner_start, length, (1, 1))
    drawing = element(
        "svg", marks, class_="account-bar", width="100%", height=depth * _ROW, role="img",
        aria_label=name,
    )  # fmt: skip
    return element("div", drawing, class_="account-scale")


def _placed(segments: Sequence[Segment], start: float) -> Iterator[tuple[float, Segment]]:
    for segment in segments:
        yield start, segment
        start += segment.share


def _mark(segment: Segment, start: float, length: float, rows: tuple[int, int]) -> Iterator[Html]:
    """`rows`: the first one, and how many."""
    x, width = (f"{value * length / 100:.3f}%" for value in (start, segment.share))
    y, height = (_ROW * row for row in rows)
    middle = y + height / 2
    title = element("title", segment.tooltip) if segment.tooltip else None
    yield element(
        "rect", title, class_=f"part {segment.look}", x=x, y=y, width=width, height=height
    )
    if segment.kind == UNKNOWN:
        end = f"{(start + segment.share) * length / 100:.3f}%"
        yield element("line", class_="hatch", x1=x, x2=end, y1=middle, y2=middle)
    if words := list(_labels(segment, length)):
        yield element("svg", words, x=x, y=y, width=width, height=height)


def _labels(segment: Segment, length: float) -> Iterator[Html]:
    """The share, and with the label behind it from the width on at which that fits."""
    if not segment.label or segment.share <= 0 or length <= 0:
        return

    def first_step(words: str) -> int | None:
        """None: it fits on no bar."""
        needed = (text_width(words, _FONT) + _PADDING) / (segment.share / 100 * length / 100)
        return next((step for step, width in enumerate(_STEPS) if width >= needed), None)

    share = percent_text(segment.share)
    words = f"{share} {segment.label}"
    alone, whole = first_step(share), first_step(words)
    place = {"x": 7, "y": "50%", "dominant_baseline": "central"}
    if alone is not None and alone != whole:
        until = f" until-{whole}" if whole is not None else ""
        yield element("text", share, class_=f"from-{alone}{until}", **place)
    if whole is not None:
        yield element("text", words, class_=f"from-{whole}", **place)


# --- of a launch


def draw_account(block: AccountFigure) -> Html:
    """Empty for a launch without an account."""
    each = block.each
    if each.verdict.not_judged:
        return NOTHING
    rows = account_rows(each.view, each.account)
    noun = workload_noun(each.launch)
    name = f"Time of the {noun} by what it is spent on; the table below has the same numbers"
    units: list[Html] = []
    if busiest := busiest_units(each):
        title = element("p", "Units, share of peak", class_="units-title")
        units = [title, element("div", map(_unit, busiest), class_="units")]
    notes = [element("p", prose(note.text)) for note in shown_notes(each)]
    whole = str(each.launch.get("duration") or "")
    lines = []
    for row, look in zip(rows, _looks(rows)):
        head = element("th", swatch(*look), row.label, scope="row")
        lines.append(_cells(head, f"{row.share:.0f}", row.time))
    foot = _cells(element("th", f"Whole {noun}", scope="row"), "100%", whole)
    shown = table(_HEADS, lines, foot, class_="account-table flat") if rows else None
    beside = element("div", shown, element("div", units), class_="account-columns")
    return element(
        "div",
        account_bar(segments_of(rows), name=name) if rows else None,
        element("div", beside, class_="account-scale"),
        notes,
        class_="account",
    )


def segments_of(rows: Sequence[AccountRow]) -> list[Segment]:
    """One per row, and a last one without a label for what is too small for a row, so that
    everything adds up."""
    segments = []
    for row, (kind, tint) in zip(rows, _looks(rows)):
        took = f", {row.time}" if row.us else ""
        tooltip = f"{row.label}\n{row.share:.1f} of the time{took}"
        share = float(row.share.value)
        segments.append(Segment(row.label, share, row.time, kind, tooltip, tint=tint))
    left = 100.0 - sum(segment.share for segment in segments)
    return (
        [*segments, Segment("", left, "", OTHER, _SMALLER)] if left >= _LEAST_VISIBLE else segments
    )


def _looks(rows: Sequence[AccountRow]) -> list[tuple[str, int]]:
    """The kind and the tint of each row."""
    kinds = [kind_of(row.parts[0].id) if len(row.parts) == 1 else OTHER for row in rows]
    return [*zip(kinds, tints(kinds))]


def tints(kinds: Sequence[str]) -> list[int]:
    """Of parts that are beside each other."""
    return [kinds[:at].count(kind) for at, kind in enumerate(kinds)]


def swatch(kind: str, tint: int = 0) -> Html:
    """The colour of a kind, before its name."""
    return element("span", class_=f"swatch {look_of(kind, tint)}", aria_hidden="true")


_HEADS = {"Part": "", "Share": "number", "Time": "number"}


def _cells(name: Html, share: str, time: str, *others: Html) -> Html:
    numbers = [element("td", number, class_="number") for number in (share, time)]
    return element("tr", name, numbers, *others)


def draw_tree(block: AccountTree) -> Html | None:
    """With the evidence ids of each share and of the numbers it was computed from. Parts of
    the bar have its colours."""
    each = block.each
    if each.verdict.not_judged or not each.account:
        return None
    drawn = account_rows(each.view, each.account)
    of_bar = {row.parts[0].id: tint for row, (_, tint) in zip(drawn, _looks(drawn))}
    rows = []
    for part, depth in with_depth(each.account):
        mark = swatch(kind_of(part.id), of_bar.get(part.id, 0))
        inner = f"within within-{depth}" if depth else None
        name = element("th", mark, part.part, scope="row", class_=inner)
        source = element("td", element("code", evidence_text(part), class_="break"))
        rows.append(_cells(name, f"{part.percent:.1f}", time_text(part.time), source))
    heads = {**_HEADS, "Number, and what it is computed from": ""}
    summary = element("summary", "Every part, and how it is known")
    box = scrolling("Every part of the time", table(heads, rows, class_="account-table"))
    return element("details", summary, box, class_="fold", data_print=True)


# --- the busiest units


def _unit(ceiling: Ceiling) -> Html:
    """With the busiest stage of a memory level; a stage that is only inferred is not named."""
    name = ceiling.spoken.removeprefix("the ").partition(" (")[0]
    busiest, stage = ceiling.stage, ""
    if busiest and not busiest.inferred and ceiling.kind == "memory":
        stage = "" if ceiling.name in (busiest.label, "LSU") else busiest.label
    return fragment(
        element("span", capitalized(name)),
        share_bar(ceiling.share, "near" if ceiling.reached.value >= NEAR_PEAK else ""),
        element("span", f"{ceiling.reached:.0f}", class_="number"),
        element("small", f"busiest stage: {stage}", class_="muted") if stage else None,
    )


def share_bar(share: float, kind: str = "") -> Html:
    """A small bar of a share from 0 to 1, beside its number; more is drawn as all of it."""
    width = f"{100 * min(max(share, 0.0), 1.0):.2f}%"
    return element(
        "svg",
        element("rect", width="100%", height=12, rx=2, class_="track"),
        element("rect", width=width, height=12, rx=2, class_=f"fill {kind}".rstrip()),
        class_="share-bar", width="100%", height=12, aria_hidden="true",
    )  # fmt: skip
