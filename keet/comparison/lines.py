"""Source lines of both sides, matched by what they say and not by their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from keet.analysis.hotspots import Hotspots, find_hotspots
from keet.comparison.alignment import align
from keet.comparison.both_sides import WeighedLaunch
from keet.comparison.code import is_toolkit, shared_lines
from keet.profile.launch import Location
from keet.texts import bounded_lines

_LEAST = 0.03
"""Of the longer side's time: a line that moved by less is not worth a look."""
_SURE = 2.0
"""Standard deviations of sampling that a difference must exceed."""


class LineCost(NamedTuple):
    """Time of one line on one side, by its share of the samples."""

    ns: float
    deviation: float
    """What chance in sampling makes of it."""


class LineChange(NamedTuple):
    """A line before and after; one is `None` where the line is gone or new."""

    before: Location | None
    after: Location | None
    code: str
    """As it reads after, or read before."""
    before_ns: float
    after_ns: float

    @property
    def fell(self) -> float:
        return self.before_ns - self.after_ns


class _Text(NamedTuple):
    """The lines of a side: their files' texts and what each line cost."""

    files: Mapping[str, Sequence[str]]
    costs: Mapping[Location, LineCost]


def changed_lines(
    before: Sequence[WeighedLaunch], after: Sequence[WeighedLaunch]
) -> list[LineChange] | str:
    """Lines whose time changed by more than sampling does, the largest change first; or why that
    can't be told."""
    sides = []
    for word, launches in (("before", before), ("after", after)):
        text = _read(launches)
        if isinstance(text, str):
            return f"{text} {word}"
        sides.append(text)
    one, other = sides
    matched = _match(one, other)
    whole = max(sum(cost.ns for cost in side.costs.values()) for side in sides)
    changes = [
        change
        for change, deviation in _pairs(one, other, matched)
        if abs(change.fell) > max(_SURE * deviation, _LEAST * whole)
    ]
    return sorted(changes, key=lambda change: -abs(change.fell))


def _read(launches: Sequence[WeighedLaunch]) -> _Text | str:
    files: dict[str, Sequence[str]] = {}
    costs: dict[Location, LineCost] = {}
    for each in launches:
        launch = each.explanation.launch
        found = find_hotspots(launch, "line") if launch.locations else None
        if not isinstance(found, Hotspots):
            return "no source lines"
        if found.ranked_by != "samples" or found.partial:
            return "no samples of the whole launch"
        files |= {path: bounded_lines(text) for path, text in launch.source_files.items() if text}
        for location, cost in _costs(each, found):
            costs[location] = _added(costs.get(location), cost)
    if not any(location.file in files for location in costs):
        return "no text of the sources (--source DIR)"
    return _Text(files, costs)


def _costs(each: WeighedLaunch, found: Hotspots) -> Iterator[tuple[Location, LineCost]]:
    whole = each.time or 0.0
    for spot in found.spots:
        if spot.location and spot.share:
            deviation = math.sqrt(spot.share * (1 - spot.share) / found.total)
            yield spot.location, LineCost(whole * spot.share, whole * deviation)


def _added(one: LineCost | None, other: LineCost) -> LineCost:
    if one is None:
        return other
    return LineCost(one.ns + other.ns, math.hypot(one.deviation, other.deviation))


def _pairs(
    one: _Text, other: _Text, matched: Mapping[Location, Location]
) -> Iterator[tuple[LineChange, float]]:
    """Each line that costs something, once, with the deviation of its difference."""
    nothing = LineCost(0.0, 0.0)
    partners = set(matched.values())
    for location, cost in one.costs.items():
        partner = matched.get(location)
        after = other.costs.get(partner, nothing) if partner else nothing
        code = _code(other, partner) if partner else _code(one, location)
        change = LineChange(location, partner, code, cost.ns, after.ns)
        yield change, math.hypot(cost.deviation, after.deviation)
    backwards = {after: before for before, after in matched.items()}
    for location, cost in other.costs.items():
        if location in partners and backwards[location] in one.costs:
            continue
        change = LineChange(backwards.get(location), location, _code(other, location), 0.0, cost.ns)
        yield change, cost.deviation


def _code(text: _Text, location: Location) -> str:
    lines = text.files.get(location.file, ())
    return lines[location.line - 1].strip() if 1 <= location.line <= len(lines) else ""


# --- matching


def _match(one: _Text, other: _Text) -> dict[Location, Location]:
    """The same pairs whichever side comes first: swapped sides must mirror."""
    if list(one.files.values()) > list(other.files.values()):
        return {after: before for before, after in _match(other, one).items()}
    matched: dict[Location, Location] = {}
    for file, partner in _file_pairs(one, other):
        for b, a in align(one.files[file], other.files[partner]):
            matched[Location(file, b + 1)] = Location(partner, a + 1)
    return matched


def _file_pairs(one: _Text, other: _Text) -> Iterator[tuple[str, str]]:
    """Each file with cost and its version on the other side, each at most once: the same path,
    then most lines in common; a single file that is left on both sides was rewritten."""
    here, there = (_files_with_cost(side) for side in (one, other))
    ranked = sorted(
        (-_kinship(one, a, other, b), sorted((a, b)), a, b) for a, b in product(here, there)
    )
    for unlikeness, _, a, b in ranked:
        if unlikeness < 0 and a in here and b in there:
            here.remove(a)
            there.remove(b)
            yield a, b
    own, others = ([f for f in side if not is_toolkit(f)] for side in (here, there))
    if len(own) == len(others) == 1:
        yield own[0], others[0]


def _files_with_cost(text: _Text) -> list[str]:
    return [f for f in dict.fromkeys(place.file for place in text.costs) if f in text.files]


def _kinship(one: _Text, file: str, other: _Text, partner: str) -> float:
    if file == partner:
        return 2.0
    if is_toolkit(file) or is_toolkit(partner):
        return 0.0
    return shared_lines("\n".join(one.files[file]), "\n".join(other.files[partner]))
