"""Assigns each number of a sentence to the metric, launch and source line that it belongs to.

Names and numbers that are close together belong together. The distance is counted in characters;
commas, `while` and numbers in between count extra.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise, product
from typing import NamedTuple, TypeVar

from keet.catalog import metric_with_id, unit_of
from keet.verification.metric_names import (
    DRAM_TRAFFIC,
    L1_ELAPSED,
    NCU_NAME,
    ROOFLINE,
    STALL_SHARE,
    TIME_SHARE,
    Term,
    terms_in,
)
from keet.verification.numbers import TextNumber
from keet.verification.sentences import SentenceSpan, Spanned
from keet.verification.subjects import LaunchLookup, LaunchName, TextPlace, row_place
from keet.verification.verdicts import fits

_FARTHEST_NAME = 120
_CLOSE_BEHIND = 30
_AGAIN = 20
"""Extra distance for using a name for a second number."""
_FIRM = 90
"""Beyond this distance, a number that differs may belong to something else."""
_TIGHT = re.compile(
    r"(?:[`*]*\s+(?:of|for|in)\s+(?:the\s+)?(?:kernel\s+|launch\s+)?[^\s,;()]+)?"
    r"(?:['’s`*_:=|(\s]|\b(?:is|was|are|were|of|at|to|only|about|just|reaches|reached|equals|stands"
    r"|has|shows|reads|value|averages?|amounts?)\b)*"
)
_TIGHT_BEHIND = re.compile(r"\s+(?:(?:are|is|were|was)\s+)?")
_PARTS = (
    (re.compile(r"\b(?:while|whereas|but|although|versus|vs|than|against|compared)\b"), 30),
    (re.compile(r"\band\b"), 12),
    (re.compile(r"[;—]|\. "), 25),
    (re.compile(r","), 15),
    (re.compile(r"\|"), 4),
)
_OTHER_CLAUSE = re.compile(r"[,;:]|\b(?:and|while|whereas|but|than)\b")
_CAUSE = re.compile(r"\b(?:lost|due|owed) to\s+\Z|\b(?:caused by|because of)\s+\Z")
"""Before a name that states a cause, not the metric of the number."""
_LISTED = re.compile(
    r"\s*(?:,|/|,?\s*\b(?:and|or|against|versus|vs|compared\s+(?:to|with))\b\.?"
    r"|\b(?:is|are|was|were)\s+(?:\w+\s+){0,3}(?:than|of|twice|half)\b|\b(?:exceed|outnumber)s?\b)"
    r"\s*(?:the\s+|its\s+|for\s+|in\s+)?"
)
"""Between the items of a list; `L2 is busier than DRAM` is a list for the numbers after it."""
_APPOSED = re.compile(r"[\s,(]*(?:i\.\s?e\.|that is|in other words|=|equal to|meaning)[\s,]*|\s*\(")
_AT_OTHERS = re.compile(r"[^;:\n]{0,24}\bat other lines\b|\s*(?:per iteration|gives? the same)\b")
"""After a number below the title of a source line: the number does not belong to that line."""
_NEXT_CELL = re.compile(r"(?<!\s)[^\S\n]{2,}(?!\n)")
"""Between columns of a printed row."""


Where = TypeVar("Where", bound=Spanned)


class Claim(NamedTuple):
    """A number, and what its sentence says about it."""

    number: TextNumber
    term: Term | None
    firm: bool
    """The name surely belongs to the number, so the number can be contradicted."""
    misfit: Term | None
    """If no name fits the unit: the name right before the number."""
    place: TextPlace | None
    subject: LaunchName | None
    sentence: SentenceSpan


def find_claims(
    sentence: SentenceSpan,
    numbers: Sequence[TextNumber],
    launches: LaunchLookup,
    places: Sequence[TextPlace] = (),
    title: TextPlace | None = None,
) -> list[Claim]:
    """The claims of one sentence, with positions in the sentence. `places`: of the sentence.
    `title`: the source line in the title of the text, if any."""
    text = sentence.text
    names = launches.named_in(text)
    taken: list[Spanned] = [*places, *names]
    terms = [t for t in terms_in(text) if not any(s.start <= t.start < s.end for s in taken)]
    leading = row_place(text, places, title)
    free = [
        number
        for number in numbers
        if capacity(text, number) is None and not (title and _AT_OTHERS.match(text, number.end))
    ]
    bonds = _Bonds(text, free, terms)
    if not places:  # for a line, it is a share of the samples
        bonds.give_shares_to_stalls()
    chosen = bonds.chosen
    listed_places, listed_names = in_order(text, numbers, places), in_order(text, numbers, names)
    return [
        Claim(
            number=number,
            term=chosen[number].term if number in chosen else None,
            firm=number in chosen and chosen[number].firm,
            misfit=None if number in chosen else _misfit(text, number, terms),
            place=leading
            or listed_places.get(number)
            or _nearest(text, number, _own_places(number, places, title), numbers)
            or title,
            subject=listed_names.get(number) or _subject(text, number, names, numbers),
            sentence=sentence,
        )
        for number in numbers
    ]


def _own_places(
    number: TextNumber, places: Sequence[TextPlace], title: TextPlace | None
) -> Sequence[TextPlace]:
    """Below the title of a source line, a place after a number is what the line waits for."""
    return [place for place in places if place.end <= number.start] if title else places


class _Bond(NamedTuple):
    """A number and a name that may belong together, and their distance."""

    cost: int
    number: TextNumber
    term: Term
    again: bool = False
    """The name already has a number."""

    @property
    def firm(self) -> bool:
        counted = self.again and self.number.unit not in ("%", "ns", "byte/s", "byte")
        return not self.term.entry.weak and not counted and self.cost <= _FIRM


class _Bonds:
    """Which name belongs to which number of a sentence: lists by order, then the closest pairs
    first."""

    def __init__(self, text: str, numbers: Sequence[TextNumber], terms: Sequence[Term]) -> None:
        self._text, self._numbers, self._terms = text, numbers, terms
        amounts = [number for number in numbers if not number.shape]
        listed = in_order(text, amounts, terms)
        if not all(_fits(text, number, term) for number, term in listed.items()):
            listed = {}
        self.chosen = {number: _Bond(0, number, term) for number, term in listed.items()}
        self._choose_closest([number for number in amounts if number not in listed])
        for first, second in pairwise(amounts):
            # `DRAM moves 242.5 GB/s, i.e. 5.0 % of peak`: the second has the name of the first
            same = _APPOSED.fullmatch(text[first.end : second.start]) and self.chosen.get(first)
            if same and _fits(text, second, same.term):
                self.chosen[second] = _Bond(0, second, same.term)

    def _choose_closest(self, numbers: Sequence[TextNumber]) -> None:
        """A name that already has a number is put back into the queue with a larger distance."""
        bonds = (
            _Bond(self._cost(number, term) + _weight(term), number, term)
            for number, term in product(numbers, self._terms)
            if self._in_reach(number, term) and _fits(self._text, number, term)
        )
        queue = [(bond.cost, index, bond) for index, bond in enumerate(bonds)]
        heapify(queue)
        used = {bond.term for bond in self.chosen.values()}
        while queue and queue[0][0] <= _FARTHEST_NAME:
            cost, index, bond = heappop(queue)
            if bond.number in self.chosen:
                continue
            if bond.term in used and not bond.again:
                again = bond._replace(cost=bond.cost + _AGAIN, again=True)
                heappush(queue, (cost + _AGAIN, index, again))
                continue
            self.chosen[bond.number] = bond
            used.add(bond.term)

    def _cost(self, number: TextNumber, term: Term) -> int:
        return _cost(self._text, number, term, self._numbers)

    def _in_reach(self, number: TextNumber, term: Term) -> bool:
        """Fast test by distance. A name in a column after the number's column belongs to another
        number."""
        if max(term.start - number.end, number.start - term.end) > _FARTHEST_NAME:
            return False
        return not _NEXT_CELL.search(self._text, number.end, max(number.end, term.start))

    def give_shares_to_stalls(self) -> None:
        """`Wait accounts for 17 % of the samples`: the share is that of the stall."""
        stalled = [term for term in self._terms if term.metric_ids[0].startswith(STALL_SHARE)]
        for number, bond in self.chosen.items():
            if stalled and number.unit == "%" and "samples_total" in bond.term.metric_ids:
                near = min(stalled, key=partial(self._cost, number))
                surely = near._replace(entry=near.entry._replace(weak=False))
                self.chosen[number] = _Bond(self._cost(number, near), number, surely)


def in_order(
    text: str, numbers: Sequence[TextNumber], spots: Sequence[Where]
) -> dict[TextNumber, Where]:
    """`L1 and L2 reach 49.2 % and 76.6 %`: a list of names, then as long a list of numbers."""
    pairs: dict[TextNumber, Where] = {}
    runs = _lists(text, numbers)
    for names in _lists(text, spots):
        behind = [run for run in runs if run[0].start >= names[-1].end]
        if behind and len(behind[0]) == len(names):
            pairs |= dict(zip(behind[0], names))
    return pairs


def _lists(text: str, spots: Sequence[Where]) -> list[list[Where]]:
    """Sequences of two or more, separated only by commas and `and`."""
    runs: list[list[Where]] = []
    for spot in spots:
        if runs and _LISTED.fullmatch(text[runs[-1][-1].end : spot.start]):
            runs[-1].append(spot)
        else:
            runs.append([spot])
    return [run for run in runs if len(run) > 1]


def _weight(term: Term) -> int:
    """Extra distance for single words (`L2`, `time`), which say less than a whole name."""
    return 20 if term.entry.weak else 6 if term.words == 1 else 0


def _cost(text: str, number: TextNumber, other: Spanned, numbers: Sequence[TextNumber]) -> int:
    if other.start < number.end and other.end > number.start:
        return 0  # the name is the number's own unit: `16 registers per thread`
    before = other.end <= number.start
    start, end = (other.end, number.start) if before else (number.end, other.start)
    gap = text[start:end]
    cost = len(gap) + (0 if before else 3)
    cost += sum(price * len(part.findall(gap)) for part, price in _PARTS)
    place = (bisect_left(numbers, at, key=lambda n: n.start) for at in (end, start))
    cost += 25 * (next(place) - next(place))
    if ")" in gap or (not before and re.match(r"\s*[),;]", gap)):
        cost += 12
    return cost


def _nearest(
    text: str, number: TextNumber, spots: Sequence[Where], numbers: Sequence[TextNumber]
) -> Where | None:
    return min(spots, key=lambda spot: _cost(text, number, spot, numbers), default=None)


def _subject(
    text: str, number: TextNumber, names: Sequence[LaunchName], numbers: Sequence[TextNumber]
) -> LaunchName | None:
    """The launch before the number, or one close after it: `12.26 us for transpose_tiles`."""
    near = [
        name
        for name in names
        if name.start < number.start or _cost(text, number, name, numbers) <= _CLOSE_BEHIND
    ]
    subject = _nearest(text, number, near, numbers)
    for name in names if subject else ():
        # `launch 2 (normalise) takes 5 us`, `normalise takes 5 us in launch 2`: that launch of it
        apart = _OTHER_CLAUSE.search(text, min(name.end, number.end), max(name.start, number.start))
        if subject and set(name.launches) < set(subject.launches) and not apart:
            return name
    return subject


def _misfit(text: str, number: TextNumber, terms: Sequence[Term]) -> Term | None:
    if re.match(r"\s*of\b", text[number.end :]):
        return None  # a share of something else
    for term in terms:
        if _CAUSE.search(text, max(0, term.start - 24), term.start):
            continue
        flags = term.entry
        vague = flags.weak or flags.verb or flags.part  # `DRAM: 0.136 flop/byte` is no share
        named = number.unit and term.start < number.start and not vague
        if named and _is_tight(text, number, term):
            return term
    return None


def _is_tight(text: str, number: TextNumber, term: Term) -> bool:
    """`The hit rate is only 89.9`, `89.9 hit rate`: the name surely belongs to the number."""
    if term.start >= number.start:
        between = text[number.end : term.start]
        return term.start < number.end or bool(_TIGHT_BEHIND.fullmatch(between))
    return leads_to(text[term.end : number.start])


def names_tightly(claim: Claim) -> bool:
    """Whether the metric name is right next to the number: `the duration is 69 us`."""
    term = claim.term
    if term is None or not claim.firm or term.entry.part or term.entry.verb:
        return False
    return _is_tight(claim.sentence.text, claim.number, term)


def leads_to(between: str) -> bool:
    """Whether a name and a number with only this text in between belong together."""
    return bool(_TIGHT.fullmatch(between))


def _fits(text: str, number: TextNumber, term: Term) -> bool:
    """Whether the metric can be given in the number's unit."""
    if term.entry.verb and term.start > number.start:
        return False
    if (not number.unit or number.alone) and not _is_tight(text, number, term):
        return False
    return any(fits(number, unit, lenient=True) for unit in _units(term))


def _units(term: Term) -> set[str]:
    units = set(map(_unit, term.metric_ids))
    # `21.8 % of the samples`: of a source line
    return units | {"%"} if "samples_total" in term.metric_ids else units


def _unit(metric_id: str) -> str:
    if metric_id in (TIME_SHARE, L1_ELAPSED) or metric_id.startswith((STALL_SHARE, ROOFLINE)):
        return "%"
    if metric_id == DRAM_TRAFFIC:
        return "byte"
    if metric_id.startswith(NCU_NAME):
        return unit_of(metric_id.removeprefix(NCU_NAME))
    return metric_with_id(metric_id).unit


_OF = re.compile(r"\b(?:of|than)\s+(?:(?:the|its|all)\s+)?\Z")
_HOLDS = (
    ("byte", 32, "sector", "a sector has 32 bytes"),
    ("thread", 32, "warp", "a warp has 32 threads"),
    ("lane", 32, "warp", "a warp has 32 lanes"),
    ("", 32, "warp", "a warp has 32 threads"),
)


def capacity(text: str, number: TextNumber) -> str | None:
    """The statement if the number is a capacity of the hardware after `of`, as the 32 in `4 of 32
    bytes per sector`; else None."""
    if number.shape or not _OF.search(text[max(0, number.start - 12) : number.start]):
        return None
    for unit, size, holder, said in _HOLDS:
        whose = rf"(?:\s+(?:per|of|in)\s+(?:an?|the|each|every)?\s*(?:full\s+)?{holder}s?\b)"
        named = f"/{holder}" in number.unit or re.match(whose, text[number.end :])
        if named and number.unit.split("/")[0] == unit and number.value == size:
            return said
    return None


def with_capacity_units(text: str, numbers: Sequence[TextNumber]) -> list[TextNumber]:
    """`4 of the 32 bytes`: the unit of the 4 is bytes too."""
    pairs = [(this, other) for this, other in pairwise(numbers) if capacity(text, other)]
    surely = {this: this._replace(alone=None) for this, _ in pairs}
    return [surely.get(number, number) for number in numbers]
