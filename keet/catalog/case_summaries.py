"""The casebook in short: of each case that gained, what is needed to find the nearest one.

A separate file, so that an explanation does not load the index of all cases. `make casebook-import`
writes both, and a test fails if they differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from keet.catalog.precedents import gain_of_cause

if TYPE_CHECKING:
    from keet.catalog.cases import CaseEntry

CASE_SUMMARIES = Path(__file__).with_name("case_summaries.json")


class CaseSummary(NamedTuple):
    """A measured case in short."""

    id: str
    finding: str
    archetype: str
    language: str
    """`cuda` or `triton`."""
    gain: float
    """Times faster, of this cause alone."""
    kernels: tuple[str, ...]
    """Names of the kernel before and after the fix."""
    changes: tuple[str, ...]
    """Two or three lines of the diff, each with its `-` or `+`."""

    @property
    def family(self) -> str:
        return self.id.partition("/")[0]


@cache
def case_summaries() -> tuple[CaseSummary, ...]:
    """Look-alikes are left out: they gained nothing."""
    rows = json.loads(CASE_SUMMARIES.read_text(encoding="utf-8"))
    return tuple(
        CaseSummary(id_, finding, archetype, language, gain, tuple(kernels), tuple(changes))
        for id_, finding, archetype, language, gain, kernels, changes in rows
    )


def summaries_text(entries: Iterable[CaseEntry]) -> str:
    """The content of the file, one case per line."""
    gained = (_summary(entry) for entry in entries if not entry.lookalike)
    rows = ",\n".join(f" {json.dumps(summary, ensure_ascii=False)}" for summary in gained)
    return f"[\n{rows}\n]\n"


def _summary(entry: CaseEntry) -> CaseSummary:
    return CaseSummary(
        entry.id,
        entry.finding,
        entry.archetype,
        entry.language,
        round(gain_of_cause(entry), 2),
        tuple(dict.fromkeys((entry.kernel, entry.kernel_after))),
        telling_lines(entry.diff),
    )


# --- the lines of a diff that tell most

_LONGEST = 110
"""Characters of a line."""
_SIMILAR = 0.5
"""Share of common words from which a line is the edited form of another."""
_SAYS_NOTHING = re.compile(
    r"__global__|__device__|<<<|^(?:template|static|inline|extern|void|using|#include|//|@|def )"
    r"|^else\b|^[\s{}();,]*$|^\w+\s+\w+\s*\(|__restrict__|^[\w:*&<>, ]+\)\s*\{$"
)
"""Heads of functions, calls of kernels, braces and comments: names differ there, not the code."""
_WORD = re.compile(r"\w+|[^\s\w]")
_TYPE = re.compile(r"(?:float|double|half|int|unsigned|char|short|long|__\w+|\d).*")


def telling_lines(diff: str) -> tuple[str, ...]:
    """The edited line that keeps most of its words, before and after, and the longest new line;
    without an edited line, the longest removed one and two new ones."""
    removed, added = (list(_changed(diff, sign)) for sign in "-+")
    if not removed and not added:  # only the call or its template arguments differ
        removed, added = (list(_changed(diff, sign, every=True)) for sign in "-+")
    added = [line for line in added if not any(_is_renamed(old, line) for old in removed)]
    pairs = [(_likeness(one, other), one, other) for one in removed for other in added]
    likeness, old, new = max(pairs, default=(0.0, "", ""))
    if likeness < _SIMILAR:
        return (*_marked("-", _longest(removed, 1)), *_marked("+", _longest(added, 2)))
    others = [line for line in added if all(_likeness(x, line) < _SIMILAR for x in removed)]
    return (*_marked("-", [old]), *_marked("+", [new, *_longest(others, 1)]))


def _changed(diff: str, sign: str, *, every: bool = False) -> Iterator[str]:
    """Lines with this sign that the other side does not have. `every`: also heads and calls."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    kept = {line[1:].strip() for line in lines if line[:1] != sign}
    for line in lines:
        text = line[1:].strip()
        if line[:1] == sign and text not in kept and (every or not _SAYS_NOTHING.search(text)):
            yield text


def _likeness(one: str, other: str) -> float:
    """Share of common words."""
    words, others = ({*_WORD.findall(line)} for line in (one, other))
    return len(words & others) / len(words | others)


def _is_renamed(one: str, other: str) -> bool:
    """Whether only one name differs, and it is not a type or a number."""
    words, others = _WORD.findall(one), _WORD.findall(other)
    differ = {pair for pair in zip(words, others) if pair[0] != pair[1]}
    is_same = len(words) == len(others) and len(differ) <= 1
    return is_same and not any(_TYPE.fullmatch(word) for pair in differ for word in pair)


def _longest(lines: Sequence[str], most: int) -> list[str]:
    """In their order. Lines that do not fit are the last choice."""
    ranked = sorted(lines, key=lambda line: (len(line) > _LONGEST, -len(line)))[:most]
    return [line for line in lines if line in ranked][:most]


def _marked(sign: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{sign} {line if len(line) <= _LONGEST else line[: _LONGEST - 1] + '…'}"
