"""How tools put numbers and strangers' words: each number with its id, each quotation inert."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from keet.errors import one_line
from keet.evidence import Evidence
from keet.explanation.analyst import LaunchExplanation
from keet.profile import Launch
from keet.verification.grounding import check_grounding
from keet_tools.case import MAX_CHARACTERS, Abstention, Answer

Item = TypeVar("Item")
_CUT = "(cut)"
_PLACE = re.compile(r"(?:(?:fn\d+\+)?0x[0-9a-f]+ ?)?(?:[\w./+-]*\w\.[A-Za-z]\w{0,9}:\d+)?")


class Telling:
    """A text in the making, which keeps the evidence that it says."""

    def __init__(self) -> None:
        self._said: dict[str, Evidence] = {}

    def __call__(self, evidence: Evidence, spec: str = "") -> str:
        """`76.6% [E3]`."""
        self._said[evidence.id] = evidence
        shown = format(evidence, spec or (".1f" if evidence.unit in ("%", "x") else ""))
        if evidence.unit == "x":
            shown = shown.replace(" x", "x")
        return f"{shown} [{evidence.id}]"

    def with_ids(self, text: str, evidence: Iterable[Evidence], launch: Launch | None) -> str:
        """A text that has its numbers already, with the id behind each: `60% [E13] of the ...`"""
        pieces = {piece.id: piece for piece in evidence}
        self._said |= pieces
        grounding = check_grounding(text, pieces.values(), launch=launch)
        for number, ids in reversed(grounding.verified):
            if ids:
                text = f"{text[: number.end]} [{ids[0]}]{text[number.end :]}"
        return text

    def keep(self, evidence: Iterable[Evidence]) -> None:
        """Evidence of a text that has its ids already."""
        self._said |= {piece.id: piece for piece in evidence}

    def headline(self, each: LaunchExplanation, limit: int) -> str:
        units = [ceiling.reached for ceiling in each.ceilings]
        left = [piece for piece in each.view.ledger if piece.metric.startswith("left.")]
        return self.with_ids(shorten(each.verdict.headline, limit), [*left, *units], each.launch)

    def answer(self, *lines: str) -> Answer:
        return Answer(
            _bounded([one_line(line) for line in lines if line]), tuple(self._said.values())
        )


def _bounded(lines: list[str]) -> str:
    """Rows are cut where they are made; should they be too long all the same, the last go."""
    text = "\n".join(lines)
    while len(text) > MAX_CHARACTERS and len(lines) > 1:
        lines = lines[:-1]
        text = "\n".join([*lines, _CUT])
    return text[:MAX_CHARACTERS]


def quote(text: str, limit: int = 80) -> str:
    """A stranger's words, as code: no control characters, no way out of the quotes, no claim."""
    plain = one_line(text.expandtabs(4).rstrip()).replace("`", "'")
    return f"`{plain if len(plain) <= limit else plain[: limit - 1] + '…'}`"


def place_name(name: str) -> str:
    """`file.cu:31` as it stands; what could be read as anything else, quoted."""
    return name if _PLACE.fullmatch(name) else quote(name, 120)


def quote_prose(text: str, limit: int) -> str:
    """The same for running text, whose line breaks mean nothing."""
    return quote(" ".join(text.split()), limit)


def shorten(text: str, limit: int) -> str:
    """Whole words, and none that was part of a number with its unit."""
    if len(text) <= limit:
        return text
    words = text[: limit - 2].rsplit(" ", 1)[0].split(" ")
    while words and (re.search(r"\d", words[-1]) or "`" in words[-1]):
        words.pop()
    kept = " ".join(words)
    return (kept + "`" if kept.count("`") % 2 else kept) + " …"


def one_page(items: Sequence[Item], page: int, size: int) -> tuple[Sequence[Item], str]:
    """The items of a page, and what to say of the others."""
    return choose_page([items[i : i + size] for i in range(0, len(items), size)], page)


def packed_page(items: Sequence[Item], costs: Sequence[int], page: int) -> tuple[list[Item], str]:
    """The same for items of different length: as many as there is room for."""
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
