"""Text of a tool's answer: each number with its evidence id, quotations escaped, pages of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from keet.errors import one_line
from keet.evidence import Evidence
from keet.explanation.explanation_types import LaunchExplanation
from keet_tools.tool_input import MAX_CHARACTERS, Abstention, Answer

Item = TypeVar("Item")
_CUT = "(cut)"
_PLACE = re.compile(r"(?:(?:fn\d+\+)?0x[0-9a-f]+ ?)?(?:[\w./+-]*\w\.[A-Za-z]\w{0,9}:\d+)?")


class AnswerText:
    """Formats numbers for an answer, and collects the evidence that the answer cites."""

    def __init__(self) -> None:
        self._cited: dict[str, Evidence] = {}

    def __call__(self, evidence: Evidence, spec: str = "") -> str:
        """`76.6% {l2_hit_rate_pct#0}`: the value and its evidence id."""
        self._cited[evidence.id] = evidence
        shown = format(evidence, spec or (".1f" if evidence.unit in ("%", "x") else ""))
        if evidence.unit == "x":
            shown = shown.replace(" x", "x")
        return f"{shown} {{{evidence.id}}}"

    def with_names(self, text: str, evidence: Iterable[Evidence]) -> str:
        """A text of keet with the evidence id after each number: `83% {l2_busy#0} of peak`."""
        forms = _by_number(evidence)
        named: list[str] = []
        used: set[str] = set()
        place = 0
        for match in _NUMBER.finditer(text):
            after = text[match.end() :]
            fitting = [form for form in forms.get(match[0], ()) if form.fits(match[0], after)]
            if not fitting or text.count("`", 0, match.start()) % 2:  # code is quoted unchanged
                continue
            around = _clause(text[: match.start()], after)
            # Equal numbers: use each id once before one is used again.
            fresh = [form for form in fitting if form.piece.id not in used] or fitting
            best = max(fresh, key=lambda form: form.likeness(around))
            used.add(best.piece.id)
            self._cited[best.piece.id] = best.piece
            end = match.end() + best.length_in(after)
            named.append(f"{text[place:end]} {{{best.piece.id}}}")
            place = end
        return "".join([*named, text[place:]])

    def headline(self, each: LaunchExplanation, limit: int) -> str:
        units = [ceiling.reached for ceiling in each.ceilings]
        own = [p for p in each.view.ledger if p.metric.startswith(("left.", "account."))]
        return self.with_names(shorten(each.verdict.headline, limit), [*own, *units])

    def answer(self, *lines: str) -> Answer:
        return Answer(
            _bounded([one_line(line) for line in lines if line]), tuple(self._cited.values())
        )


class _Form(NamedTuple):
    """One way to write a number in a text."""

    piece: Evidence
    unit: str
    """Including the separator before it: ` us`, `%`."""

    def fits(self, digits: str, after: str) -> bool:
        """Whether the unit follows; a number with many digits needs none."""
        return bool(self.length_in(after)) or not self.unit.strip() or len(digits) >= _UNMISTAKABLE

    def length_in(self, after: str) -> int:
        """Characters of the unit after the digits; a plain number may be a factor: `1.2x`."""
        unit = "x" if not self.unit and re.match(r"x\b", after) else self.unit
        rest = re.match(rf"{re.escape(unit)}(?:es|s)?(?!\w)", after) if unit else None
        return len(rest[0]) if rest else 0

    def likeness(self, around: str) -> int:
        words = set(re.findall(r"[a-z]\w+", around.lower()))
        return len(
            words & set(re.findall(r"[a-z]\w+", f"{self.piece.label} {self.piece.line}".lower()))
        )


def _clause(before: str, after: str) -> str:
    """The words around a number, up to the next number or semicolon."""
    left = re.split(r"\d;|;|\d ", before[-_AROUND:])[-1]
    right = re.split(r";|(?<!\w)\d", after[:_AROUND])[0]
    return f"{left} {right}"


_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\d)")
_AROUND = 60
"""Characters before and after a number that describe it."""
_UNMISTAKABLE = 6


def _by_number(evidence: Iterable[Evidence]) -> dict[str, list[_Form]]:
    """The forms of each number by their digits, for all roundings that texts use."""
    found: dict[str, list[_Form]] = {}
    for piece in {piece.id: piece for piece in evidence}.values():
        for shown in {format(piece, spec) for spec in ("", ".0f", ".1f", ".2f")}:
            digits = _NUMBER.match(shown)
            if digits:
                unit = shown[digits.end() :].replace(" x", "x")
                found.setdefault(digits[0], []).append(_Form(piece, unit))
    return found


def _bounded(lines: list[str]) -> str:
    """Callers limit the rows; if the text is still too long, the last rows are dropped."""
    text = "\n".join(lines)
    while len(text) > MAX_CHARACTERS and len(lines) > 1:
        lines = lines[:-1]
        text = "\n".join([*lines, _CUT])
    return text[:MAX_CHARACTERS]


def quote(text: str, limit: int = 80) -> str:
    """Text from a report as code: without control characters and backquotes, so that it can't be
    read as an instruction or as keet's own words."""
    plain = one_line(text.expandtabs(4).rstrip()).replace("`", "'")
    return f"`{plain if len(plain) <= limit else plain[: limit - 1] + '…'}`"


def place_name(name: str) -> str:
    """`file.cu:31` unchanged; anything else is quoted."""
    return name if _PLACE.fullmatch(name) else quote(name, 120)


def quote_prose(text: str, limit: int) -> str:
    """The same for prose; line breaks become spaces."""
    return quote(" ".join(text.split()), limit)


def shorten(text: str, limit: int) -> str:
    """Cut after a whole word, and never between a number and its unit."""
    if len(text) <= limit:
        return text
    words = text[: limit - 2].rsplit(" ", 1)[0].split(" ")
    while words and (re.search(r"\d", words[-1]) or "`" in words[-1]):
        words.pop()
    kept = " ".join(words)
    return (kept + "`" if kept.count("`") % 2 else kept) + " …"


def one_page(items: Sequence[Item], page: int, size: int) -> tuple[Sequence[Item], str]:
    """The items of a page, and a text about the other pages."""
    return choose_page([items[i : i + size] for i in range(0, len(items), size)], page)


def packed_page(items: Sequence[Item], costs: Sequence[int], page: int) -> tuple[list[Item], str]:
    """The same for items of different length: as many as fit. `costs`: characters per item."""
    room = MAX_CHARACTERS - 200
    pages: list[list[Item]] = []
    used = room
    for item, cost in zip(items, costs):
        if used + cost > room:
            pages.append([])
            used = 0
        pages[-1].append(item)
        used += cost
    return choose_page(pages, page)


Page = TypeVar("Page", bound=Sequence[object])


def choose_page(pages: Sequence[Page], page: int) -> tuple[Page, str]:
    last = len(pages)
    if not 1 <= page <= last:
        raise Abstention(f"there is no `page={page}`; the last is `page={last}`")
    if last == 1:
        return pages[0], ""
    more = f"; more: `page={page + 1}`" if page < last else ""
    return pages[page - 1], f"`page {page} of {last}`{more}"


def is_number(evidence: Evidence | None) -> bool:
    return evidence is not None and math.isfinite(evidence.value)
