"""Numbers that are evidence, and said of another thing: another line, report or metric.

Only where the evidence is cited with the number: what it is said of can then be held against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.evidence import CITED, Evidence
from keet.units import Quantity
from keet.verification.binding import find_places, leads_to
from keet.verification.grounding import Verified
from keet.verification.lexicon import words_of
from keet.verification.matching import agrees, fits
from keet.verification.numbers import SaidNumber, find_numbers

_RANGE = re.compile(r"\b(\d{1,6})\s?(?:[-–]|to)\s?(\d{1,6})\b")
_LINES = re.compile(r"\w:\d|\b[Ll]ines?\s+\d")
_HAS = re.compile(
    r"[\s`*('’s]*(?:(?:alone|has|have|holds?|takes?|with|is|at|shows?|carries|gets|costs?|makes)\s+)*"
    r"(?:only\s+|about\s+|just\s+)?\(?"
)
"""Between a line and a number that must be its own."""
_REPORT = re.compile(r"\breport\s+(\d+)\b", re.IGNORECASE)
_REPORT_BEHIND = re.compile(
    r"[^\w\[\]]{0,3}\[E\d*\]\s*\(?(?:in|of|for|from|with|at)\s+report\s+(\d+)\b", re.IGNORECASE
)
_ID = re.compile(r"\[E\d+[^\]]*\]")
_TURN = re.compile(
    r"\b(?:other|second|latter|against|than|vs|versus|compared|while|whereas|but)\b", re.IGNORECASE
)
"""From here on, a sentence that began with one report or line may speak of another."""
_SIDE = r"[^\[\]]{1,30}\[(E\d+)\]"
_FROM_TO = re.compile(rf"((?:\w+\s+){{0,3}})\bfrom\s{_SIDE}\s+(down\s+|up\s+)?to\s{_SIDE}")
_THEN = re.compile(
    rf"\[(E\d+)\]\s*(?:->|→|⇒|=>|\bbec[ao]mes?\b){_SIDE}"
    rf"|\bwas\s{_SIDE}\W*(?:(?:and|but|it|is|takes)\s+){{0,3}}now\s{_SIDE}"
    rf"|\bbefore\b{_SIDE}[^\w\[\]]*(?:and\s+)?after\b{_SIDE}",
    re.IGNORECASE,
)
"""What was, and then what is."""
_BETTER = re.compile(r"\b(?:performance|speed\w*|efficiency)\b", re.IGNORECASE)
_READS = re.compile(r"\b(?:reads?|loads?|loaded)\b", re.IGNORECASE)
_WRITES = re.compile(r"\b(?:writes?|wrote|written|stores?|stored)\b", re.IGNORECASE)
_DONE_TO = re.compile(
    r"\b(reads?|loads?|writes?|wrote|stores?)(?:\s+(?:only|about|just|some|are|is|of|at|bytes))*:?\s+\Z",
    re.IGNORECASE,
)
_IS_DONE = re.compile(
    r"[^\w\[\]]{0,3}\[E\d+\]\s+(?:are\s+|is\s+)?(read|loaded|written|stored)\b", re.IGNORECASE
)
_FALLS = re.compile(
    r"\b(?:fell|falls?|drop\w*|shr[aiu]nk\w*|s[aiu]nks?|de(?:creas|clin)\w*)\b", re.I
)
_RISES = re.compile(r"\b(?:rose|rises?|gr[eo]ws?|grown|increas\w*|climb\w*)\b", re.IGNORECASE)


class Elsewhere(NamedTuple):
    number: SaidNumber
    reason: str


class _Said(NamedTuple):
    """A number, and evidence that is cited for it and is that number."""

    number: SaidNumber
    piece: Evidence


def said_elsewhere(
    sentence: str,
    verified: Sequence[Verified],
    pieces: Mapping[str, Evidence],
    origins: Mapping[str, int],
) -> Iterator[Elsewhere]:
    """`origins`: the report that a piece is of, where there are several."""
    for said in _with_ids(sentence, verified, pieces):
        reason = (
            _of_other_line(sentence, said)
            or _of_other_report(sentence, said, origins)
            or _of_other_name(sentence, said, pieces)
            or _of_other_way(sentence, said)
        )
        if reason:
            yield Elsewhere(said.number, reason)


def _with_ids(
    sentence: str, verified: Sequence[Verified], pieces: Mapping[str, Evidence]
) -> Iterator[_Said]:
    """Ids stand right behind, or behind the words that go with the number, up to the next one."""
    starts = [entry.number.start for entry in verified[1:]]
    for entry, end in zip(verified, [*starts, len(sentence)]):
        behind = CITED.findall(sentence, entry.number.end, end)
        found = [pieces[each] for each in entry.evidence if each in behind and each in pieces]
        if len(found) == 1:
            yield _Said(entry.number, found[0])


def _of_other_line(sentence: str, said: _Said) -> str | None:
    """The line right before the number is its own; else the line has to be named anywhere."""
    line = said.piece.line
    before = [place for place in find_places(sentence) if place.end <= said.number.start]
    wanted = line.rpartition(":")[2] if line else ""
    if not wanted.isdecimal() or not _LINES.search(sentence):
        return None
    if before and _has_turned(sentence[before[-1].end : said.number.start]):
        return None
    if before and _HAS.fullmatch(sentence, before[-1].end, said.number.start):
        named = before[-1].line == int(wanted)
    else:
        named = _names_line(sentence, int(wanted))
    return None if named else f"{said.piece.id} is of {line}"


def _names_line(sentence: str, line: int) -> bool:
    """`slow.cu:45`, `line 45`, `lines 42 and 45`, `lines 41 to 46`; not `45 %`."""
    for number in find_numbers(sentence):
        if sentence[: number.start].endswith(":"):
            continue  # of a file whose name has no ending: `cmath:1073`
        blank = " " * (number.end - number.start)
        sentence = sentence[: number.start] + blank + sentence[number.end :]
    within = (int(first) <= line <= int(last) for first, last in _RANGE.findall(sentence))
    return any(within) or bool(re.search(rf"\b{line}\b", sentence))


def _of_other_report(sentence: str, said: _Said, origins: Mapping[str, int]) -> str | None:
    """Of the report that is named right behind, or was named last."""
    own = origins.get(said.piece.id)
    named = _reports_of(sentence, said.number)
    if own is None or not named or own in named:
        return None
    return f"{said.piece.id} is of report {own}"


def _reports_of(sentence: str, number: SaidNumber) -> set[int]:
    """Several where a list goes before the numbers; none where that can't be said."""
    if behind := _REPORT_BEHIND.match(sentence, number.end):
        return {int(behind[1])}
    before = sentence[: number.start]
    first, *parts = _ID.split(before)
    # What stands right behind an id is said of the number before it.
    own = [first, *(_REPORT_BEHIND.sub("", f"[E]{part}") for part in parts)]
    named = [{int(match[1]) for match in _REPORT.finditer(part)} for part in own]
    last = [match.end() for match in _REPORT.finditer(before)][-1:]
    if not last or _has_turned(before[last[0] :]):
        return set()
    return next((found for found in reversed(named) if found), set())


def _has_turned(between: str) -> bool:
    """`slow.cu:30 has 83 sectors [E1] against 91 sectors [E2]`: the second is of another."""
    return bool(CITED.search(between) and _TURN.search(between))


def _of_other_name(sentence: str, said: _Said, pieces: Mapping[str, Evidence]) -> str | None:
    """`DRAM Bytes Written is 132.7 MB [E84]`, where E84 is what was read."""
    before = sentence[: said.number.start]
    labels = {piece.label for piece in pieces.values() if " " in piece.label}
    called = max((label for label in labels if _ends_with_name(before, label)), key=len, default="")
    own = said.piece.label
    # A part of the evidence's own name says less, not something else: `L1` for `L1 data stage`.
    if not called or set(words_of(called)) <= set(words_of(own)):
        return None
    others = [p for p in pieces.values() if p.label == called and fits(said.number, p.unit)]
    if not others or any(_is_same(said, other) for other in others):
        return None
    return f"{said.piece.id} is {own}, not {called}"


def _is_same(said: _Said, other: Evidence) -> bool:
    """One metric may have two labels, and two metrics one value."""
    value = Quantity(other.value, other.unit)
    return other.metric == said.piece.metric or agrees(said.number, value)


def _of_other_way(sentence: str, said: _Said) -> str | None:
    """`It writes 132.7 MB [E84]`, where E84 is what was read."""
    label = said.piece.label
    reads, writes = bool(_READS.search(label)), bool(_WRITES.search(label))
    before = _DONE_TO.search(sentence, 0, said.number.start)
    found = before or _IS_DONE.match(sentence, said.number.end)
    if reads == writes or not found:
        return None
    wrong = _WRITES.search(found[1]) if reads else _READS.search(found[1])
    return f"{said.piece.id} is {label}" if wrong else None


def _ends_with_name(before: str, label: str) -> bool:
    """Whether that name stands right before the number."""
    at = before.lower().rfind(label.lower())
    if at < 0 or before[at - 1 : at].isalnum():
        return False
    return leads_to(before[at + len(label) :])


def wrong_change(
    sentence: str, pieces: Mapping[str, Evidence], origins: Mapping[str, int]
) -> str | None:
    """`from 44 % [E1] to 23 % [E2]` compares one quantity with itself, the earlier one first."""
    for verb, before, way, after in _FROM_TO.findall(sentence):
        first, second = pieces[before], pieces[after]
        if first.metric != second.metric:
            return f"{first.id} is {first.label}, {second.id} is {second.label}: not one quantity"
        if reason := _goes_otherwise(verb, way, first, second):
            return reason
        if reason := _turned_round(sentence, first, second, origins):
            return reason
    for match in _THEN.finditer(sentence):
        first, second = (pieces[found] for found in match.groups() if found)
        if reason := _turned_round(sentence, first, second, origins):
            return reason
    return None


def _goes_otherwise(verb: str, way: str, first: Evidence, second: Evidence) -> str | None:
    """`It speeds up from 2 ms to 1 ms` is right: only what is said of the number itself counts."""
    if _BETTER.search(verb):
        return None
    falls = _FALLS.search(verb) or way.startswith("down")
    rises = _RISES.search(verb) or way.startswith("up")
    if (falls and first.value < second.value) or (rises and first.value > second.value):
        return f"{first.id} is {first}, {second.id} is {second}: it goes the other way"
    return None


def _turned_round(
    sentence: str, first: Evidence, second: Evidence, origins: Mapping[str, int]
) -> str | None:
    """The later report's value is said to be the earlier one."""
    ids = (first.id, second.id)
    reports = [origins[found] for found in ids if found in origins]
    ordered = len(reports) < len(ids) or reports[0] <= reports[1]
    if first.metric != second.metric or ordered or _REPORT.search(sentence):
        return None
    said = " and ".join(f"{found} is of report {origins[found]}" for found in ids)
    return f"{said}: say which report is which"
