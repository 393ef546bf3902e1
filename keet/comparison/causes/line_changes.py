"""Source lines of both sides, matched by their text, and how much time each took.

Two versions of a file are shown side by side. Lines that are the same or versions of one another
share a row, as long as their order is the same on both sides. What stands between two such rows is
gone on the left and new on the right.
"""

from __future__ import annotations

import difflib
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, zip_longest
from typing import NamedTuple

from keet.analysis.hotspots.source_lines import Hotspots, find_hotspots
from keet.analysis.library import is_toolkit
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.same_kernel import common_part, distinctive_lines, share_in_common
from keet.profile.launch import Location
from keet.safe_text import bounded_lines
from keet.units import Quantity

_ALIKE = 0.6
"""Similarity of two lines, at least, to be versions of one another."""
_BLOCK = 60
"""Largest edited range, in lines, in which versions of lines are searched."""
_PATCH = 400
"""Largest range without landmarks, in lines, that is still aligned."""


class _Range(NamedTuple):
    """Lines `b1` to `b2` of one text, at the position of `a1` to `a2` in the other."""

    b1: int
    b2: int
    a1: int
    a2: int


def align(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of line numbers, from 0: lines that are equal except for indentation, or versions of
    one another. Each line is in at most one pair."""
    before, after = [line.strip() for line in one], [line.strip() for line in other]
    partners: dict[int, int] = {}
    edited: list[_Range] = []
    open_ranges = [_Range(0, len(before), 0, len(after))]
    while open_ranges:
        place = _trim(before, after, open_ranges.pop(), partners)
        if place.b1 == place.b2 or place.a1 == place.a2:
            continue
        # The longest sequence of such lines that has the same order on both sides.
        if landmarks := in_order(_once(before, after, place)):
            open_ranges += _between(place, landmarks)
        else:
            edited += _patch(before, after, place, partners)
    taken = set(partners.values())
    whole = _Range(0, len(before), 0, len(after))
    moved = [(b, a) for b, a in _once(before, after, whole) if b not in partners and a not in taken]
    partners |= dict(moved)
    taken = set(partners.values())
    for place in edited:
        partners |= _versions(before, after, place, partners, taken)
    return sorted(partners.items())


def _trim(
    before: Sequence[str], after: Sequence[str], place: _Range, partners: dict[int, int]
) -> _Range:
    """Matches equal lines at both ends, and returns the middle."""
    b1, b2, a1, a2 = place
    while b1 < b2 and a1 < a2 and before[b1] == after[a1]:
        partners[b1] = a1
        b1, a1 = b1 + 1, a1 + 1
    while b1 < b2 and a1 < a2 and before[b2 - 1] == after[a2 - 1]:
        b2, a2 = b2 - 1, a2 - 1
        partners[b2] = a2
    return _Range(b1, b2, a1, a2)


def _once(before: Sequence[str], after: Sequence[str], place: _Range) -> list[tuple[int, int]]:
    """Lines that occur once on each side of a range, in the order of the first text."""
    counts = [Counter(before[place.b1 : place.b2]), Counter(after[place.a1 : place.a2])]
    where = {after[a]: a for a in range(place.a1, place.a2)}
    return [
        (b, where[before[b]])
        for b in range(place.b1, place.b2)
        if counts[0][before[b]] == counts[1][before[b]] == 1 and before[b]
    ]


def in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Longest subsequence with the same order on both sides; `pairs` are sorted by the first."""
    ends: list[int] = []
    tops: list[int] = []
    previous: list[int] = []
    for number, (_, after) in enumerate(pairs):
        at = bisect_left(ends, after)
        previous.append(tops[at - 1] if at else -1)
        ends[at : at + 1] = [after]
        tops[at : at + 1] = [number]
    chain, number = [], tops[-1] if tops else -1
    while number >= 0:
        chain.append(pairs[number])
        number = previous[number]
    return chain[::-1]


def _between(place: _Range, landmarks: Sequence[tuple[int, int]]) -> Iterator[_Range]:
    """The ranges between landmarks; each begins with the landmark before it."""
    starts = [(place.b1, place.a1), *landmarks]
    stops = [*landmarks, (place.b2, place.a2)]
    for (b1, a1), (b2, a2) in zip(starts, stops, strict=True):
        yield _Range(b1, b2, a1, a2)


def _patch(
    before: Sequence[str], after: Sequence[str], place: _Range, partners: dict[int, int]
) -> Iterator[_Range]:
    """Aligns a range without landmarks, and yields the ranges where lines were replaced."""
    b1, b2, a1, a2 = place
    if max(b2 - b1, a2 - a1) > _PATCH:
        return
    matcher = difflib.SequenceMatcher(None, before[b1:b2], after[a1:a2], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            partners |= dict(zip(range(b1 + i1, b1 + i2), range(a1 + j1, a1 + j2), strict=True))
        elif tag == "replace" and max(i2 - i1, j2 - j1) <= _BLOCK:
            yield _Range(b1 + i1, b1 + i2, a1 + j1, a1 + j2)


def _versions(
    before: Sequence[str],
    after: Sequence[str],
    place: _Range,
    partners: Container[int],
    taken: set[int],
) -> dict[int, int]:
    """Similar lines in an edited range, the most similar first. Adds to `taken`."""
    likeness = [
        (-ratio, abs(b - place.b1 - a + place.a1), b, a)
        for b in range(place.b1, place.b2)
        for a in range(place.a1, place.a2)
        if b not in partners and a not in taken and (ratio := _likeness(before[b], after[a]))
    ]
    versions: dict[int, int] = {}
    for *_, b, a in sorted(likeness):
        if b not in versions and a not in taken:
            versions[b] = a
            taken.add(a)
    return versions


def _likeness(one: str, other: str) -> float:
    """By words in any order (edits swap indices) and by characters (edits rename); 0 below
    `_ALIKE`."""
    words = common_part(*(Counter(re.findall(r"\w+", line)) for line in (one, other)))
    if words >= _ALIKE:
        return words
    matcher = difflib.SequenceMatcher(None, one, other)
    if matcher.real_quick_ratio() < _ALIKE or matcher.quick_ratio() < _ALIKE:
        return 0.0
    ratio = matcher.ratio()
    return ratio if ratio >= _ALIKE else 0.0


_LEAST_CHANGE = 0.03
"""Smallest change of a line that is reported, as a share of the longer side's time."""
SURE = 2.0
"""Standard deviations of sampling that a difference must exceed."""
NONE_SEEN = 3.0
"""Rule of three: a line that none of n samples hit takes less than 3/n of the time, with 95 %
confidence."""


class LineCost(NamedTuple):
    """Time of one line on one side, by its share of the samples."""

    ns: float
    deviation: float
    """Standard deviation from sampling, if samples are independent. Samples of SMs that run in step
    are not, so it may be larger."""
    samples: int = 0


NOTHING = LineCost(0.0, 0.0)
"""Cost of a line that does not exist."""


def sampled_time(ns: float, deviation: float = math.inf, unit: str | None = None) -> str:
    """`94 us`, `1.4 us`: two significant digits, three if the deviation is below 1 %, and all
    digits before the point. `unit`: default: chosen by size."""
    amount = Quantity(ns, "ns")
    scaled = amount.to(unit or amount.scaled_unit())
    size = math.floor(math.log10(scaled.value)) if scaled.value > 0 else 2
    behind = (2 if deviation < 0.01 * ns else 1) - size
    return f"{scaled.value:,.{max(0, behind)}f} {scaled.unit}"


class LineChange(NamedTuple):
    """A line before and after; one is `None` if the line is gone or new."""

    before: Location | None
    after: Location | None
    code: str
    """Text after; text before if the line is gone."""
    costs: tuple[LineCost, LineCost]
    most: tuple[float | None, float | None] = (None, None)
    """Upper bound in nanoseconds on a side where the line exists but no sample hit it."""

    @property
    def fell(self) -> float:
        return self.costs[0].ns - self.costs[1].ns


class SideLines(NamedTuple):
    """The lines of a side: texts of the files and the cost of each line."""

    files: Mapping[str, Sequence[str]]
    costs: Mapping[Location, LineCost]
    whole: float = 0.0
    """Nanoseconds of the side, including instructions without a source line."""
    sampled: bool = True
    """False: the costs are not times, but still rank the lines: a launch was sampled for a part of
    its time only, or has execution counts instead of samples."""
    samples: int = 0
    """All samples of the side, including instructions without a source line."""
    per_sample: float = 0.0
    """Nanoseconds per sample: the maximum over the launches."""

    @property
    def unseen(self) -> float:
        """Nanoseconds that a line without a sample may take at most."""
        return NONE_SEEN * self.per_sample

    def cost(self, location: Location | None) -> LineCost:
        """A line without a sample may have missed one by chance. None: there is no such line."""
        if location is None:
            return NOTHING
        return self.costs.get(location) or LineCost(0.0, self.per_sample)

    def code(self, location: Location | None) -> str:
        lines = self.files.get(location.file, ()) if location else ()
        inside = location is not None and 1 <= location.line <= len(lines)
        return lines[location.line - 1].strip() if location and inside else ""

    def share(self, location: Location) -> float:
        """Of the samples of the side, 0 to 1."""
        cost = self.costs.get(location)
        return cost.ns / self.whole if cost and self.whole else 0.0


def changed_lines(
    before: Sequence[WeightedLaunch], after: Sequence[WeightedLaunch]
) -> list[LineChange] | str:
    """Lines whose time changed by more than the sampling error, the largest change first; or the
    reason why that is not known."""
    sides = []
    for word, launches in (("before", before), ("after", after)):
        lines = read_lines(launches)
        if isinstance(lines, str):
            return f"{lines} {word}"
        if not lines.sampled:
            return f"no samples of the whole launch {word}"
        sides.append(lines)
    one, other = sides
    matched = match_lines(one, other)
    whole = max(sum(cost.ns for cost in side.costs.values()) for side in sides)
    changes = [
        change
        for change, deviation in _pairs(one, other, matched)
        if abs(change.fell) > max(SURE * deviation, _LEAST_CHANGE * whole)
    ]
    return sorted(changes, key=lambda change: -abs(change.fell))


def read_lines(launches: Sequence[WeightedLaunch]) -> SideLines | str:
    """Costs of the lines of one side, summed over its launches; or what is missing."""
    sampled, samples, per_sample = True, 0, 0.0
    files: dict[str, Sequence[str]] = {}
    costs: dict[Location, LineCost] = {}
    for each in launches:
        launch = each.explanation.launch
        hotspots = find_hotspots(launch, "line") if launch.locations else None
        if not isinstance(hotspots, Hotspots):
            return "no source lines"
        sampled = sampled and hotspots.ranked_by == "samples" and not hotspots.partial
        samples += hotspots.total
        per_sample = max(per_sample, (each.time or 0.0) / hotspots.total if hotspots.total else 0.0)
        files |= {path: bounded_lines(text) for path, text in launch.source_files.items() if text}
        for location, cost in _costs(each, hotspots):
            costs[location] = _added(costs.get(location), cost)
    if not any(location.file in files for location in costs):
        return "no text of the sources (--source DIR)"
    whole = sum(each.time or 0.0 for each in launches)
    return SideLines(files, costs, whole, sampled, samples, per_sample)


def _costs(each: WeightedLaunch, hotspots: Hotspots) -> Iterator[tuple[Location, LineCost]]:
    whole = each.time or 0.0
    for spot in hotspots.rows:
        if spot.location and spot.share:
            deviation = math.sqrt(spot.share * (1 - spot.share) / hotspots.total)
            count = spot.samples or 0
            yield spot.location, LineCost(whole * spot.share, whole * deviation, count)


def _added(one: LineCost | None, other: LineCost) -> LineCost:
    if one is None:
        return other
    deviation = math.hypot(one.deviation, other.deviation)
    return LineCost(one.ns + other.ns, deviation, one.samples + other.samples)


def _pairs(
    one: SideLines, other: SideLines, matched: Mapping[Location, Location]
) -> Iterator[tuple[LineChange, float]]:
    """Each line with a cost once, with the standard deviation of its change."""
    backwards = {after: before for before, after in matched.items()}
    there = ((backwards.get(place), place) for place in other.costs)
    places: Iterable[tuple[Location | None, Location | None]] = (
        *((place, matched.get(place)) for place in one.costs),
        *((before, after) for before, after in there if before not in one.costs),
    )
    for before, after in places:
        costs = (one.cost(before), other.cost(after))
        code = other.code(after) if after else one.code(before)
        most = (
            one.unseen if before and not costs[0].samples else None,
            other.unseen if after and not costs[1].samples else None,
        )
        deviation = math.hypot(*(cost.deviation for cost in costs))
        yield LineChange(before, after, code, costs, most), deviation


# --- matching


class FileMatch(NamedTuple):
    """A file and its version on the other side."""

    before: str
    after: str
    lines: Sequence[tuple[int, int]]
    """Line numbers, from 0, of lines that are equal or versions of one another, in the order of the
    file before."""


def match_lines(one: SideLines, other: SideLines) -> dict[Location, Location]:
    return {
        Location(file, b + 1): Location(partner, a + 1)
        for file, partner, lines in match_files(one, other)
        for b, a in lines
    }


def match_files(one: SideLines, other: SideLines) -> list[FileMatch]:
    """Symmetric: swapped sides give the same pairs."""
    if list(one.files.values()) > list(other.files.values()):
        return [
            FileMatch(before, after, sorted((b, a) for a, b in lines))
            for after, before, lines in match_files(other, one)
        ]
    return [
        FileMatch(file, partner, _aligned(tuple(one.files[file]), tuple(other.files[partner])))
        for file, partner in file_pairs(one, other)
    ]


@lru_cache(maxsize=256)
def _aligned(one: tuple[str, ...], other: tuple[str, ...]) -> Sequence[tuple[int, int]]:
    """Cached: the HTML page shows what the comparison has already matched."""
    return align(one, other)


def file_pairs(one: SideLines, other: SideLines) -> Iterator[tuple[str, str]]:
    """Pairs of files with a cost, each file at most once: by equal path, then by common lines; if
    one file is left on each side, it was rewritten."""
    here, there = (_files_with_cost(side) for side in (one, other))
    for path in sorted({*here}.intersection(there)):
        here.remove(path)
        there.remove(path)
        yield path, path
    own, others = ([f for f in side if not is_toolkit(f)] for side in (here, there))
    for a, b in _by_similarity(_distinctive(one, own), _distinctive(other, others)):
        if a in own and b in others:
            own.remove(a)
            others.remove(b)
            yield a, b
    if len(own) == len(others) == 1:
        yield own[0], others[0]


def _by_similarity(
    here: Mapping[str, frozenset[str]], there: Mapping[str, frozenset[str]]
) -> list[tuple[str, str]]:
    """Pairs of files that have lines in common, the most similar first."""
    having: dict[str, list[str]] = {}
    for b, lines in there.items():
        for line in lines:
            having.setdefault(line, []).append(b)
    ranked = [
        (-similarity, sorted((a, b)), a, b)
        for a, lines in here.items()
        for b, common in Counter(b for line in lines for b in having.get(line, ())).items()
        if (similarity := share_in_common(common, min(len(lines), len(there[b]))))
    ]
    return [(a, b) for _, _, a, b in sorted(ranked)]


def _distinctive(side: SideLines, files: Sequence[str]) -> dict[str, frozenset[str]]:
    return {file: distinctive_lines("\n".join(side.files[file])) for file in files}


def _files_with_cost(text: SideLines) -> list[str]:
    return [f for f in dict.fromkeys(place.file for place in text.costs) if f in text.files]


HOT = 0.005
"""Share of a side's samples from which a line is shown and not folded: HTML colours it."""
_LEAST_SHARE = 0.01
"""Share of the samples from which a file is shown, on either side. A judgement: headers of the
toolkit often have a line or two with a sample."""
_CONTEXT = 3
"""Lines around what changed or is hot, as `diff -u` has them."""
_FOLDED_FROM = 6
"""Lines in a row that are worth folding."""
WHOLE_FILE = 1_500
"""Rows up to which all text of a file is on the page, folded; of longer files, only what is around
changed and hot lines."""
_MOST_ROWS = 3_000
"""Rows of a file that are shown. Beyond that only what is hot: at most 200 lines a side have 0.5 %
of the samples each."""


class FileSide(NamedTuple):
    """One file on one side."""

    path: str
    lines: Sequence[str]
    of: SideLines
    time: float
    """Nanoseconds of the file."""

    def share(self, number: int | None) -> float:
        """Of the samples of the side; `number` from 0."""
        return 0.0 if number is None else self.of.share(Location(self.path, number + 1))

    def cost(self, number: int | None) -> LineCost:
        return NOTHING if number is None else self.of.cost(Location(self.path, number + 1))

    def is_hot(self, number: int | None) -> bool:
        return self.share(number) >= HOT

    def text(self, number: int | None) -> str:
        return "" if number is None else self.lines[number]


class AlignedRow(NamedTuple):
    """Lines by number, from 0; None: this side has no line here."""

    before: int | None
    after: int | None
    matched: bool
    """The two are one line, edited or not; else they only stand in the same place."""


class RowBlock(NamedTuple):
    """Consecutive rows that are all shown or all folded."""

    rows: tuple[AlignedRow, ...]
    folded: bool


class FilePair(NamedTuple):
    """A file and its version on the other side; None where the file is on one side only."""

    before: FileSide | None
    after: FileSide | None
    moved: Mapping[int, int]
    """Lines before that moved: after, they are not between the same neighbours."""
    rows: tuple[AlignedRow, ...]

    @property
    def time(self) -> float:
        """Nanoseconds of both sides: what files are ranked by."""
        return sum(side.time for side in (self.before, self.after) if side)

    @property
    def matters(self) -> bool:
        sides = (side for side in (self.before, self.after) if side)
        return any(side.time >= _LEAST_SHARE * side.of.whole for side in sides)

    def is_edited(self, row: AlignedRow) -> bool:
        if not row.matched:
            return True
        one, other = self.texts(row)
        return one.strip() != other.strip()

    def texts(self, row: AlignedRow) -> tuple[str, str]:
        one = self.before.text(row.before) if self.before else ""
        return one, self.after.text(row.after) if self.after else ""

    def is_hot(self, row: AlignedRow) -> bool:
        sides = ((self.before, row.before), (self.after, row.after))
        return any(side is not None and side.is_hot(number) for side, number in sides)


def paired_files(one: SideLines, other: SideLines) -> list[FilePair]:
    """The files with a relevant share of the samples, the costliest first."""
    before, after = _files(one), _files(other)
    pairs = []
    for match in match_files(one, other):
        here, there = before.pop(match.before), after.pop(match.after)
        ordered = in_order(match.lines)
        moved = dict(set(match.lines) - set(ordered))
        rows = _rows(ordered, len(here.lines), len(there.lines))
        pairs.append(FilePair(here, there, moved, tuple(rows)))
    pairs += [FilePair(x, None, {}, tuple(_rows((), len(x.lines), 0))) for x in before.values()]
    pairs += [FilePair(None, x, {}, tuple(_rows((), 0, len(x.lines)))) for x in after.values()]
    return sorted((pair for pair in pairs if pair.matters), key=lambda pair: -pair.time)


def _files(side: SideLines) -> dict[str, FileSide]:
    """The files with samples whose text is available."""
    times: dict[str, float] = {}
    for place, cost in side.costs.items():
        if place.file in side.files:
            times[place.file] = times.get(place.file, 0.0) + cost.ns
    return {file: FileSide(file, side.files[file], side, ns) for file, ns in times.items()}


def _rows(ordered: Sequence[tuple[int, int]], lines: int, others: int) -> Iterator[AlignedRow]:
    b, a = 0, 0
    for before, after in (*ordered, (lines, others)):
        for gone, new in zip_longest(range(b, before), range(a, after)):
            yield AlignedRow(gone, new, matched=False)
        if before < lines and after < others:
            yield AlignedRow(before, after, matched=True)
        b, a = before + 1, after + 1


# --- what is shown, and what is folded


def stretches(files: FilePair) -> list[RowBlock]:
    """All rows in order. What neither changed nor is hot, nor is near such a line, is folded; so is
    what one side has alone, where there is much of it and it is cold."""
    shown, count = _shown(files), len(files.rows)
    folded = [False] * count  # too few rows to fold are joined with their neighbours
    for is_shown, group in groupby(range(count), key=shown.__contains__):
        numbers = list(group)
        for number in numbers if not is_shown and len(numbers) >= _FOLDED_FROM else ():
            folded[number] = True
    return [
        RowBlock(tuple(files.rows[number] for number in group), is_folded)
        for is_folded, group in groupby(range(count), key=folded.__getitem__)
    ]


def _shown(files: FilePair) -> set[int]:
    hot = [number for number, row in enumerate(files.rows) if files.is_hot(row)]
    both = files.before is not None and files.after is not None
    edited = [n for n, row in enumerate(files.rows) if files.is_edited(row)] if both else []
    shown = _around((*hot, *edited), len(files.rows))
    return shown if len(shown) <= _MOST_ROWS else _around(hot, len(files.rows))


def _around(numbers: Sequence[int], count: int) -> set[int]:
    return {
        near
        for number in numbers
        for near in range(max(0, number - _CONTEXT), min(count, number + _CONTEXT + 1))
    }
