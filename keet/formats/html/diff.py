"""Both sides of a pair: the accounts as bars on one scale, and the sources side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from keet.comparison.causes.account_changes import PartChange
from keet.comparison.causes.line_changes import (
    NOTHING,
    SURE,
    WHOLE_FILE,
    AlignedRow,
    FilePair,
    FileSide,
    LineCost,
    RowBlock,
    sampled_time,
    stretches,
)
from keet.formats.html.account import OTHER, Segment, account_bar, kind_of, swatch, tints
from keet.formats.html.markup import Content, Html, element, fragment, heat_class, scrolling, table
from keet.formatting import capitalized, count_noun, percent_text, share_cell
from keet.pages.blocks import AccountsFigure, SidesFigure
from keet.pages.diff_source import FEW_SAMPLES, common_unit
from keet.profile.launch import file_name
from keet.safe_text import shortened
from keet.units import Quantity

# --- the sources

_LONGEST = 400
"""Characters of a line that are shown."""
_SIDES = ("before", "after")


def draw_sides(block: SidesFigure) -> Html:
    return fragment([_listing(file, block) for file in block.files])


# --- a file on both sides


def _listing(files: FilePair, block: SidesFigure) -> Html:
    times = all(side.of.sampled for side in (files.before, files.after) if side)
    listing = _Listing(files, block, times=times)
    one, other = (file_name(side.path) if side else None for side in (files.before, files.after))
    caption = f"{one} (only before)" if one else f"{other} (only after)"
    if one and other:
        caption = one if one == other else f"{one} → {other}"
    rows = [listing.stretch(stretch) for stretch in stretches(files)]
    kind = "scroll sides" if times else "scroll sides no-times"
    box = scrolling(f"Source before and after: {caption}", listing.head(), rows, kind=kind)
    return element("figure", element("figcaption", caption), box)


class _Listing:
    """One file on both sides."""

    def __init__(self, files: FilePair, block: SidesFigure, *, times: bool) -> None:
        self._files, self._block, self._times = files, block, times
        self._unit = block.unit
        self._arrived = {after: before for before, after in files.moved.items()}
        self._drops_cold = len(files.rows) > WHOLE_FILE

    def _id(self, which: int, side: FileSide, number: int) -> str:
        """Other parts of the page link to it."""
        launch = self._block.launches[which]
        return self._block.anchors[which].line(launch, side.path, number + 1)

    def head(self) -> Html:
        sides = [
            element("span", self._name(word, side) if side else f"not {word}")
            for word, side in zip(_SIDES, (self._files.before, self._files.after), strict=True)
        ]
        change = element("span", "change", class_="change") if self._times else None
        return element("div", sides[0], change, sides[1], class_="row head")

    def _name(self, word: str, side: FileSide) -> Html:
        """With the number of samples that the times of the side are based on."""
        name, total = f"{word}: {file_name(side.path)}", side.of.samples
        if not self._times or not total:
            return fragment(name)
        one = sampled_time(side.of.per_sample, unit=self._unit)
        samples = f" {count_noun(total, 'sample')}, one is about {one}"
        return fragment(name, element("small", samples))

    def stretch(self, part: RowBlock) -> Html:
        if not part.folded:
            return fragment(map(self._row, part.rows))
        said = _span_text(part.rows)
        if self._drops_cold:
            return element("p", f"{said} left out", class_="cut muted")
        rows = element("div", map(self._row, part.rows))
        return element("details", element("summary", said), rows, class_="cold")

    def _row(self, row: AlignedRow) -> Html:
        edited = self._files.is_edited(row)
        texts = [shortened(text, _LONGEST) for text in self._files.texts(row)]
        marked = _marked(*texts) if edited and row.matched else texts
        cells = [self._cells(which, row, marked[which]) for which in (0, 1)]
        change = self._change(row) if self._times else None
        names = ("row", "edited" if edited else "", "warm" if self._files.is_hot(row) else "")
        return element("div", cells[0], change, cells[1], class_=" ".join(filter(None, names)))

    def _cells(self, which: int, row: AlignedRow, text: Content) -> Html:
        """Of one side."""
        side_class, number = _SIDES[which], row[which]
        side = (self._files.before, self._files.after)[which]
        if side is None or number is None:
            return element("span", class_=f"none {side_class}")
        is_linked = side.cost(number).ns or number in (self._files.moved, self._arrived)[which]
        name = self._id(which, side, number) if is_linked else None
        mark = ("−" if which == 0 else "+") if self._files.is_edited(row) else ""
        # What a change is the difference of is shown on both sides.
        shown = side.is_hot(number) or (row.matched and self._files.is_hot(row))
        return fragment(
            element(
                "span", str(number + 1), class_=f"no {side_class}{' line' if name else ''}", id=name
            ),
            self._heat(which, side, number) if shown else _no_heat(which),
            element(
                "span", element("i", mark), element("code", text), self._moved(which, number),
                class_=f"code {side_class}",
            ),
        )  # fmt: skip

    def _heat(self, which: int, side: FileSide, number: int) -> Html:
        share, cost, total = side.share(number), side.cost(number), side.of.samples
        if not cost.ns and not self._times:
            return _no_heat(which)
        said = share_text(share, total) if cost.ns else "<"
        ns = cost.ns or side.of.unseen
        told = sampled_time(ns, cost.deviation or math.inf, self._unit)
        time = element("b", told) if self._times else None
        names = ("heat", heat_class(share), _SIDES[which])
        return element(
            "span",
            fragment(said, " " if time else None, time),
            class_=" ".join(filter(None, names)),
            title=f"{cost.samples:,} of {total:,} samples" if self._times else None,
        )

    def _moved(self, which: int, number: int) -> Html | None:
        """Where the same line is on the other side."""
        partner = (self._files.moved, self._arrived)[which].get(number)
        side = (self._files.after, self._files.before)[which]
        if partner is None or side is None:
            return None
        name = self._id(1 - which, side, partner)
        word = "to" if which == 0 else "from"
        return element("a", f"moved {word} {partner + 1}", href=f"#{name}", class_="moved")

    def _change(self, row: AlignedRow) -> Html:
        """Where a side is hot. Of a row whose two lines are different ones: what is gone, and what
        is new."""
        sides = [*zip((self._files.before, self._files.after), row[:2], strict=True)]
        one, other = (side.cost(number) if side else NOTHING for side, number in sides)
        if row.matched:
            parts = [self._change_text(one, other)] if self._files.is_hot(row) else []
        else:
            parts = [
                self._change_text(*change)
                for change, (side, number) in zip(((one, NOTHING), (NOTHING, other)), sides)
                if side and side.is_hot(number)
            ]
        return element("span", parts, class_="change")

    def _change_text(self, one: LineCost, other: LineCost) -> Html:
        change = other.ns - one.ns
        deviation = math.hypot(one.deviation, other.deviation)
        sure = abs(change) > SURE * deviation
        word = ("good" if change < 0 else "bad") if sure else "muted"
        time = sampled_time(abs(change), deviation, self._unit)
        return element("span", f"{sign(change)}{time}", class_=word)


def _no_heat(which: int) -> Html:
    return element("span", class_=f"heat {_SIDES[which]}")


def sign(change: float) -> str:
    return "+" if change > 0 else "−" if change < 0 else ""


def share_text(share: float, samples: int) -> str:
    """Without decimals that the number of samples does not support."""
    is_rough = samples < FEW_SAMPLES and share >= 0.01
    return percent_text(100 * share) if is_rough else share_cell(share)


def _span_text(rows: Sequence[AlignedRow]) -> str:
    """Which lines a folded stretch has: `lines 12 to 80 (14 to 82 after)`."""
    one, other = (
        [number + 1 for row in rows if (number := row[which]) is not None] for which in (0, 1)
    )
    count = f"{len(rows)} lines"
    if not one or not other:
        lines, word = (one, _SIDES[0]) if one else (other, _SIDES[1])
        return f"{count}: {lines[0]} to {lines[-1]} {word}"
    same = one == other
    after = "" if same else f" before, {other[0]} to {other[-1]} after"
    return f"{count}: {one[0]} to {one[-1]}{after}"


def _marked(one: str, other: str) -> list[Content]:
    """Marks what differs between two versions of a line."""
    first = _alike(one, other)
    last = _alike(one[first:][::-1], other[first:][::-1])
    marked: list[Content] = []
    for text in (one, other):
        changed = text[first : len(text) - last]
        start = len(text) - last - len(changed.lstrip())  # indentation is no news
        mark = element("mark", changed.lstrip()) if changed.strip() else None
        marked.append([text[:start], mark, text[len(text) - last :]])
    return marked


def _alike(one: str, other: str) -> int:
    """The number of equal characters at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))


# --- the accounts

_SEEN = 0.005
"""Part of the longer side's time below which a part gets no segment and no row of its own. A
judgement: on a bar of 800 pixels that is 4 pixels."""


def draw_accounts(block: AccountsFigure) -> Html:
    parts = _ranked(block.account)
    before, after = (sum(_times(part)[which] for part in block.account) for which in (0, 1))
    longer = max(before, after)
    bars = [_bar(parts, n, whole, longer) for n, whole in enumerate((before, after)) if whole]
    shown = _account_table(parts, (before, after))
    return element("div", bars, shown, class_="account both-accounts")


def _times(part: PartChange) -> tuple[float, float]:
    before, after = part.time.evidence
    return float(before.value), float(after.value)


def _bar(parts: Sequence[PartChange], which: int, whole: float, longer: float) -> Html:
    word, time = _SIDES[which], Quantity(whole, "ns")
    segments = _segments(parts, which, whole, _SEEN * longer)
    name = f"Time {word} by what it is spent on; the table below has the same numbers"
    return fragment(
        element("p", element("b", capitalized(word)), f" {time}", class_="side-name"),
        account_bar(segments, length=100 * whole / longer, name=name),
    )


def _segments(
    parts: Sequence[PartChange], which: int, whole: float, least: float
) -> tuple[Segment, ...]:
    """In the same order on both sides. Parts below `least` nanoseconds are one part at the end,
    without an anchor."""
    segments: list[Segment] = []
    small = 0.0
    for part, tint in zip(parts, _tints(parts)):
        ns, number = _times(part)[which], part.time.evidence[which]
        if ns < least:
            small += ns
            continue
        share, kind = 100 * ns / whole, kind_of(part.id)
        tooltip = f"{part.part}\n{number}, {share:.1f}% of the time {_SIDES[which]}"
        within = _segments(_ranked(part.children), which, whole, least)
        segments.append(Segment(part.part, share, str(number), kind, tooltip, within, tint))
    if segments and small:
        segments.append(Segment("", 100 * small / whole, str(Quantity(small, "ns")), OTHER, ""))
    return tuple(segments)


def _ranked(parts: Sequence[PartChange]) -> list[PartChange]:
    return sorted(parts, key=lambda part: -sum(_times(part)))


def _tints(ranked: Sequence[PartChange]) -> list[int]:
    """The same for both bars and the table."""
    return tints([kind_of(part.id) for part in ranked])


# --- the table


class _Row(NamedTuple):
    name: Content
    ns: tuple[float, float]
    share: str | None
    """Of the change; None: without a cell of it."""
    is_within: bool = False


def _account_table(parts: Sequence[PartChange], wholes: tuple[float, float]) -> Html:
    """All times have the same unit and the same number of decimals: enough for four digits of the
    shorter side, as times are printed elsewhere."""
    unit = common_unit(wholes)
    shorter = Quantity(min(filter(None, wholes), default=0.0), "ns").to(unit)
    digits = 1 if shorter.value >= 100 else 2
    has_shares = any(part.percent for part in parts)

    def scaled(ns: float) -> float:
        return float(Quantity(ns, "ns").to(unit).value)

    def time_of(ns: float) -> str:
        number = f"{scaled(ns):,.{digits}f}"
        return f"<{10**-digits:g}" if ns > 0 and not float(number.replace(",", "")) else number

    def html(row: _Row) -> Html:
        kind = "within" if row.is_within else None
        change = round(scaled(row.ns[1] - row.ns[0]), digits)
        word = "good" if change < 0 else "bad" if change > 0 else "muted"
        return element(
            "tr",
            element("th", row.name, scope="row", class_=kind),
            [element("td", time_of(each), class_="number") for each in row.ns],
            element("td", f"{sign(change)}{abs(change):,.{digits}f}", class_=f"number {word}"),
            None if row.share is None else element("td", row.share, class_="number of-change"),
            class_=kind,
        )

    heads = {"Part": ""}
    heads |= {f"{name}, {unit}": "number" for name in ("Before", "After", "Change")}
    if has_shares:
        heads["Share of the change"] = "number of-change"
    whole = _Row("Whole, which the parts add up to", wholes, "" if has_shares else None)
    least = _SEEN * max(wholes)
    rows = [
        html(row) for part, tint in zip(parts, _tints(parts)) for row in _rows_of(part, tint, least)
    ]
    shown = table(heads, rows, html(whole), class_="account-table")
    return scrolling("Time by part", shown)


def _rows_of(part: PartChange, tint: int, least: float) -> Iterator[_Row]:
    """The part and the parts inside it; those below `least` nanoseconds share a row."""

    def row_of(part: PartChange, label: Content, tint: int, *, is_within: bool) -> _Row:
        share = None
        if part.percent:  # a change that rounds to zero has no sign
            share = "0%" if -0.5 < part.percent.value < 0 else f"{part.percent:.0f}"
        return _Row((swatch(kind_of(part.id), tint), label), _times(part), share, is_within)

    why = f"not split further: {part.not_split}" if part.not_split else None
    note = element("small", why, class_="muted not-split") if why else None
    yield row_of(part, [part.part, note], tint, is_within=False)
    children = _ranked(part.children)
    small = [child for child in children if max(_times(child)) < least]
    for child, inner in zip(children, _tints(children)):
        # One small part takes no more room under its own name.
        if len(small) < 2 or child not in small:
            yield row_of(child, child.part, inner, is_within=True)
    if len(small) > 1:
        before, after = (sum(_times(child)[which] for child in small) for which in (0, 1))
        shares = [float(child.percent.value) for child in small if child.percent]
        share = f"{sum(shares):.0f}%".replace("-0%", "0%") if shares else None
        name = (swatch(OTHER), f"{len(small)} smaller parts")
        yield _Row(name, (before, after), share, is_within=True)
