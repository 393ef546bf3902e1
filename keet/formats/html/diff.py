"""Both sides of a pair: the accounts as bars on one scale, and the sources side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.comparison.causes.account_changes import PartChange
from keet.comparison.causes.aligned_files import (
    WHOLE_FILE,
    AlignedRow,
    FilePair,
    FileSide,
    RowBlock,
    stretches,
)
from keet.comparison.causes.line_changes import (
    NOTHING,
    SURE,
    LineCost,
    sampled_time,
)
from keet.evidence import Evidence
from keet.formats.html.account import OTHER, Segment, account_bar, kind_of, swatch, tints
from keet.formats.html.markup import Content, Html, element, fragment, heat_class, scrolling
from keet.formatting import capitalized, percent_text, share_cell
from keet.pages.diff_source import FEW_SAMPLES, common_unit
from keet.pages.figures import AccountsFigure, SidesFigure
from keet.profile.names import file_name
from keet.safe_text import one_line, shortened
from keet.units import Quantity

# --- the sources

_LONGEST = 400
"""Characters of a line that are shown."""
_SIDES = ("before", "after")


def draw_sides(block: SidesFigure) -> Html:
    return fragment([_listing(each, block) for each in block.files])


# --- a file on both sides


def _listing(files: FilePair, block: SidesFigure) -> Html:
    times = all(side.of.sampled for side in (files.before, files.after) if side)
    listing = _Listing(files, block, times=times)
    return element(
        "figure",
        element("figcaption", _caption(files)),
        element(
            "div",
            listing.head(),
            [listing.stretch(each) for each in stretches(files)],
            class_="scroll sides" if times else "scroll sides no-times",
            tabindex="0",
            role="region",
            aria_label=one_line(f"Source before and after: {_caption(files)}"),
        ),
    )


def _caption(files: FilePair) -> str:
    one, other = (file_name(side.path) if side else None for side in (files.before, files.after))
    if one and other:
        return one if one == other else f"{one} → {other}"
    return f"{one} (only before)" if one else f"{other} (only after)"


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
        noun = "sample" if total == 1 else "samples"
        one = sampled_time(side.of.per_sample, unit=self._unit)
        return fragment(name, element("small", f" {total:,} {noun}, one is about {one}"))

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
        sides = (self._files.before, self._files.after)
        cells = [
            self._cells(which, side, number, text, row)
            for which, (side, number, text) in enumerate(
                zip(sides, (row.before, row.after), marked, strict=True)
            )
        ]
        change = self._change(row) if self._times else None
        names = ("row", "edited" if edited else "", "warm" if self._files.is_hot(row) else "")
        return element("div", cells[0], change, cells[1], class_=" ".join(filter(None, names)))

    def _cells(
        self, which: int, side: FileSide | None, number: int | None, text: Content, row: AlignedRow
    ) -> Html:
        side_class = _SIDES[which]
        if side is None or number is None:
            return element("span", class_=f"none {side_class}")
        is_linked = side.cost(number).ns or number in (self._files.moved, self._arrived)[which]
        name = self._id(which, side, number) if is_linked else None
        mark = ("−" if which == 0 else "+") if self._files.is_edited(row) else ""
        # What a change is the difference of is shown on both sides.
        shown = side.is_hot(number) or (row.matched and self._files.is_hot(row))
        return fragment(
            element(
                "span",
                str(number + 1),
                class_=f"no {side_class}{' line' if name else ''}",
                id=name,
            ),
            self._heat(which, side, number) if shown else _no_heat(which),
            element(
                "span",
                element("i", mark),
                element("code", text),
                self._moved(which, number),
                class_=f"code {side_class}",
            ),
        )

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
        sides = (self._files.before, self._files.after)
        one, other = (
            side.cost(number) if side else NOTHING
            for side, number in zip(sides, row[:2], strict=True)
        )
        if row.matched:
            parts = [self._change_text(one, other)] if self._files.is_hot(row) else []
            return element("span", parts, class_="change")
        changes = ((one, NOTHING), (NOTHING, other))
        parts = [
            self._change_text(*change)
            for change, side, number in zip(changes, sides, row[:2], strict=True)
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
    return (
        percent_text(100 * share) if samples < FEW_SAMPLES and share >= 0.01 else share_cell(share)
    )


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
    return [list(_with_mark(text, first, len(text) - last)) for text in (one, other)]


def _alike(one: str, other: str) -> int:
    """The number of equal characters at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _with_mark(text: str, start: int, stop: int) -> Iterator[Content]:
    start += len(text[start:stop]) - len(text[start:stop].lstrip())  # indentation is no news
    yield text[:start]
    if start < stop:
        yield element("mark", text[start:stop])
    yield text[stop:]


# --- the accounts

_SEEN = 0.005
"""Part of the longer side's time below which a part gets no segment and no row of its own. A
judgement: on a bar of 800 pixels that is 4 pixels."""


def draw_accounts(block: AccountsFigure) -> Html:
    account = block.account
    parts = _ranked(account)
    wholes = [sum(_times(part)[which] for part in account) for which in (0, 1)]
    longer = max(wholes)
    bars = [_bar(parts, which, whole, longer) for which, whole in enumerate(wholes) if whole]
    return element("div", bars, _AccountTable(parts, wholes).html(), class_="account both-accounts")


def _times(part: PartChange) -> tuple[float, float]:
    before, after = part.time.evidence
    return float(before.value), float(after.value)


# --- bars


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
    found = [
        _segment(part, tint, which, whole, least)
        for part, tint in zip(parts, _tints(parts))
        if _times(part)[which] >= least
    ]
    small = sum(ns for part in parts if (ns := _times(part)[which]) < least)
    rest = Segment("", 100 * small / whole, str(Quantity(small, "ns")), OTHER, "")
    return (*found, rest) if found and small else tuple(found)


def _segment(part: PartChange, tint: int, which: int, whole: float, least: float) -> Segment:
    ns, number = _times(part)[which], part.time.evidence[which]
    share = 100 * ns / whole
    within = _segments(_ranked(part.children), which, whole, least)
    tooltip = f"{part.part}\n{number}, {share:.1f}% of the time {_SIDES[which]}"
    return Segment(part.part, share, str(number), kind_of(part.id), tooltip, within, tint)


def _ranked(parts: Sequence[PartChange]) -> list[PartChange]:
    return sorted(parts, key=lambda part: -sum(_times(part)))


def _tints(ranked: Sequence[PartChange]) -> list[int]:
    """The same for both bars and the table."""
    return tints([kind_of(part.id) for part in ranked])


# --- the table


class _Column(NamedTuple):
    """All times of the table have the same unit and the same number of decimals."""

    unit: str
    digits: int

    def text(self, ns: float) -> str:
        number = f"{self._scaled(ns):,.{self.digits}f}"
        return f"<{10**-self.digits:g}" if ns > 0 and not float(number.replace(",", "")) else number

    def change(self, before: float, after: float) -> Html:
        rounded = round(self._scaled(after - before), self.digits)
        word = "good" if rounded < 0 else "bad" if rounded > 0 else "muted"
        said = f"{sign(rounded)}{abs(rounded):,.{self.digits}f}"
        return element("td", said, class_=f"number {word}")

    def _scaled(self, ns: float) -> float:
        return float(Quantity(ns, "ns").to(self.unit).value)


def _column(wholes: Sequence[float]) -> _Column:
    """Enough decimals for four digits of the shorter side, as times are printed elsewhere."""
    unit = common_unit(wholes)
    shorter = Quantity(min(filter(None, wholes), default=0.0), "ns").to(unit)
    return _Column(unit, 1 if shorter.value >= 100 else 2)


class _AccountTable:
    def __init__(self, parts: Sequence[PartChange], wholes: Sequence[float]) -> None:
        self._parts, self._wholes = parts, wholes
        self._column = _column(wholes)
        self._has_shares = any(part.percent for part in parts)

    def html(self) -> Html:
        names = (f"{name}, {self._column.unit}" for name in ("Before", "After", "Change"))
        heads = [element("th", name, scope="col", class_="number") for name in names]
        if self._has_shares:
            heads.append(
                element("th", "Share of the change", scope="col", class_="number of-change")
            )
        table = element(
            "table",
            element("thead", element("tr", element("th", "Part", scope="col"), heads)),
            element("tbody", map(self._rows, self._parts, _tints(self._parts))),
            element("tfoot", self._total()),
            class_="account-table",
        )
        return scrolling("Time by part", table)

    def _rows(self, part: PartChange, tint: int) -> Iterator[Html]:
        """The part and the parts inside it; small ones share a row."""
        least = _SEEN * max(self._wholes)
        why = f"not split further: {part.not_split}" if part.not_split else None
        note = element("small", why, class_="muted not-split") if why else None
        yield self._row(part, [part.part, note], tint)
        children = _ranked(part.children)
        small = [child for child in children if max(_times(child)) < least]
        for child, inner in zip(children, _tints(children)):
            # One small part takes no more room under its own name.
            if len(small) < 2 or child not in small:
                yield self._row(child, child.part, inner, within=True)
        if len(small) > 1:
            yield self._small_row(small)

    def _row(self, part: PartChange, label: Content, tint: int, *, within: bool = False) -> Html:
        share = _share_text(part.percent) if part.percent else None
        name = (swatch(kind_of(part.id), tint), label)
        return self._cells(name, _times(part), share, within=within)

    def _small_row(self, parts: Sequence[PartChange]) -> Html:
        before, after = (sum(_times(part)[which] for part in parts) for which in (0, 1))
        shares = [float(part.percent.value) for part in parts if part.percent]
        share = f"{sum(shares):.0f}%".replace("-0%", "0%") if shares else None
        name = (swatch(OTHER), f"{len(parts)} smaller parts")
        return self._cells(name, (before, after), share, within=True)

    def _cells(
        self, name: Content, ns: tuple[float, float], share: str | None, *, within: bool = False
    ) -> Html:
        kind = "within" if within else None
        return element(
            "tr",
            element("th", name, scope="row", class_=kind),
            [element("td", self._column.text(each), class_="number") for each in ns],
            self._column.change(*ns),
            None if share is None else element("td", share, class_="number of-change"),
            class_=kind,
        )

    def _total(self) -> Html:
        before, after = self._wholes
        name = "Whole, which the parts add up to"
        return self._cells(name, (before, after), "" if self._has_shares else None)


def _share_text(share: Evidence) -> str:
    """A change that rounds to zero has no sign."""
    return "0%" if -0.5 < share.value < 0 else f"{share:.0f}"
