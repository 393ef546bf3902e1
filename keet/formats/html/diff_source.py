"""The source of a pair on both sides, aligned by line, with what each line cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.causes.line_changes import (
    NONE_SEEN,
    NOTHING,
    SURE,
    LineCost,
    SideLines,
    read_lines,
    sampled_time,
)
from keet.evidence import Reference, Sentence, constant
from keet.formats.html.diff_hottest import hottest_code
from keet.formats.html.diff_rows import (
    WHOLE_FILE,
    AlignedRow,
    FilePair,
    FileSide,
    RowBlock,
    paired_files,
    stretches,
)
from keet.formats.html.heat import heat_class
from keet.formats.html.markup import Content, Html, element, fragment
from keet.formatting import percent_text, share_cell
from keet.pages.anchors import Anchors
from keet.profile.launch import Location
from keet.profile.names import file_name
from keet.safe_text import one_line, shortened
from keet.units import Quantity

_LONGEST = 400
"""Characters of a line that are shown."""
_SIDES = ("before", "after")
_FEW = 1_000
"""Samples of a side below which chance moves shares by whole per cents, as on explain's page."""
_LEGEND = (
    "Each line with its share of the side's samples and the time that stands for (share of the "
    "samples x duration), where a side has 0.5 % or more there. < means that no sample hit the "
    "line. Change is time after less time before; grey where it is within the sampling error. A "
    "line marked − is gone or reads differently after, one marked + is new or reads differently."
)
_LEGEND_SHARES = (
    "Each line with its share of the side's samples (of the executed instructions where a report "
    "has no samples). No times: a side was not sampled for the whole launch. A line marked − is "
    "gone or reads differently after, one marked + is new or reads differently."
)


class SourceSides(NamedTuple):
    """What a page shows of the sources of a pair."""

    heading: str
    html: Html
    links: dict[tuple[str, Location], str]
    """Ids of lines by side, `before` or `after`."""


class _Names:
    """Ids of lines on the page: other parts of the page link to them."""

    def __init__(self, anchors: Anchors, launches: Sequence[int]) -> None:
        self._sides = [Anchors(anchors.top(side)) for side in _SIDES]
        self._launches = launches
        self.given: dict[tuple[str, Location], str] = {}

    def of(self, which: int, side: FileSide, number: int) -> str:
        place = Location(side.path, number + 1)
        name = self._sides[which].line(self._launches[which], *place)
        self.given[_SIDES[which], place] = name
        return name


def source_sides(
    before: Sequence[WeightedLaunch], after: Sequence[WeightedLaunch], anchors: Anchors
) -> SourceSides:
    """Both sources side by side; where one is missing, the hottest lines of each side."""
    one, other = read_lines(before), read_lines(after)
    if isinstance(one, SideLines) and isinstance(other, SideLines):
        names = _Names(anchors, [side[0].explanation.launch.id for side in (before, after)])
        unit = common_unit((one.whole, other.whole))
        listings = [_listing(each, names, unit) for each in paired_files(one, other)]
        if listings:
            times = one.sampled and other.sampled
            legend = element("p", _LEGEND if times else _LEGEND_SHARES, class_="muted")
            few = _few_samples(one, other) if times else None
            warning = element("p", few, class_="note warn") if few else None
            html = fragment(legend, warning, listings)
            return SourceSides("Source before and after", html, names.given)
    lacks = [f"{s} {w}" for s, w in zip((one, other), _SIDES, strict=True) if isinstance(s, str)]
    return SourceSides("Hottest code before and after", hottest_code(before, after, lacks), {})


def common_unit(wholes: Sequence[float]) -> str:
    """Of times of two sides, given in nanoseconds, in one column: that of the shorter side."""
    return Quantity(min(filter(None, wholes), default=0.0), "ns").scaled_unit()


def _few_samples(*sides: SideLines) -> Sentence | None:
    if min(side.samples for side in sides) >= _FEW:
        return None
    return Sentence(
        "Few samples: {counts}. By chance, the time of the hottest line may be off by up to about "
        "{errors} (two standard deviations), and by more where SMs run in step: their samples are "
        "then not independent. A line that no sample hit took below about {unseen} (rule of "
        "three: {rule}/n of the time, of n samples, with {sure} % confidence).",
        counts=_of_both(f"{side.samples:,}" for side in sides),
        errors=_of_both(sampled_time(_error(side)) for side in sides),
        unseen=_of_both(sampled_time(side.unseen) for side in sides),
        rule=constant(NONE_SEEN, "", "samples that a line without a sample may have missed"),
        sure=constant(95, "", "confidence of the rule of three in per cent"),
    )


def _of_both(numbers: Iterable[str]) -> Sentence:
    """Of the samples of both sides, which have no ledger."""
    before, after = (Reference(each, ()) for each in numbers)
    return Sentence.of((before, " before and ", after, " after"))


def _error(side: SideLines) -> float:
    """Nanoseconds."""
    hottest = max(side.costs.values(), key=lambda cost: cost.ns, default=NOTHING)
    return SURE * hottest.deviation


# --- a file on both sides


def _listing(files: FilePair, names: _Names, unit: str) -> Html:
    times = all(side.of.sampled for side in (files.before, files.after) if side)
    listing = _Listing(files, names, unit, times=times)
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
    """One file on both sides. `unit`: of all its times."""

    def __init__(self, files: FilePair, names: _Names, unit: str, *, times: bool) -> None:
        self._files, self._names, self._times = files, names, times
        self._unit = unit
        self._arrived = {after: before for before, after in files.moved.items()}
        self._drops_cold = len(files.rows) > WHOLE_FILE

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
        name = self._names.of(which, side, number) if is_linked else None
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
        name = self._names.of(1 - which, side, partner)
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
    return percent_text(100 * share) if samples < _FEW and share >= 0.01 else share_cell(share)


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
