"""The accounts of both sides of a pair: bars in absolute time on one scale, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.comparison.causes.account_changes import PartChange
from keet.evidence import Evidence
from keet.formats.html.account import OTHER, Segment, account_bar, kind_of, swatch
from keet.formats.html.data_table import scrolling
from keet.formats.html.diff_source import common_unit, sign
from keet.formats.html.markup import Content, Html, element, fragment
from keet.formatting import capitalized
from keet.units import Quantity

_SIDES = ("before", "after")
_SEEN = 0.005
"""Part of the longer side's time below which a part gets no segment and no row of its own. A
judgement: on a bar of 800 pixels that is 4 pixels."""


def both_accounts(account: Sequence[PartChange]) -> Html:
    """`account`: the outermost parts, which add up to the time of each side."""
    parts = _ranked(account)
    wholes = [sum(_times(part)[which] for part in account) for which in (0, 1)]
    longer = max(wholes)
    bars = [_bar(parts, which, whole, longer) for which, whole in enumerate(wholes) if whole]
    return element("div", bars, _Table(parts, wholes).html(), class_="account both-accounts")


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
    found = [_segment(p, which, whole, least) for p in parts if _times(p)[which] >= least]
    small = sum(ns for part in parts if (ns := _times(part)[which]) < least)
    rest = Segment("", 100 * small / whole, str(Quantity(small, "ns")), OTHER, "")
    return (*found, rest) if found and small else tuple(found)


def _segment(part: PartChange, which: int, whole: float, least: float) -> Segment:
    ns, number = _times(part)[which], part.time.evidence[which]
    share = 100 * ns / whole
    within = _segments(_ranked(part.children), which, whole, least)
    tooltip = f"{part.part}\n{number}, {share:.1f}% of the time {_SIDES[which]}"
    return Segment(part.part, share, str(number), kind_of(part.id), tooltip, within)


def _ranked(parts: Sequence[PartChange]) -> list[PartChange]:
    return sorted(parts, key=lambda part: -sum(_times(part)))


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


class _Table:
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
            element("tbody", [self._rows(part) for part in self._parts]),
            element("tfoot", self._total()),
            class_="account-table",
        )
        return scrolling("Time by part", table)

    def _rows(self, part: PartChange) -> Iterator[Html]:
        """The part and the parts inside it; small ones share a row."""
        least = _SEEN * max(self._wholes)
        why = f"not split further: {part.not_split}" if part.not_split else None
        note = element("small", why, class_="muted not-split") if why else None
        yield self._row(part, [part.part, note])
        large = [child for child in part.children if max(_times(child)) >= least]
        small = [child for child in part.children if max(_times(child)) < least]
        # One small part takes no more room under its own name.
        named = _ranked(large if len(small) > 1 else part.children)
        yield from (self._row(child, child.part, within=True) for child in named)
        if len(small) > 1:
            yield self._small_row(small)

    def _row(self, part: PartChange, label: Content, *, within: bool = False) -> Html:
        share = _share_text(part.percent) if part.percent else None
        name = (swatch(kind_of(part.id)), label)
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
