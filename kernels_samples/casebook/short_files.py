"""The two short files that explanations read: what fixing a finding gained, and a summary of each
case with the lines of its diff that tell most."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from keet.catalog.loading import CaseSummary, Precedents
from keet.documents.finding import CaseDocument


def precedents_text(cases: Iterable[CaseDocument]) -> str:
    """The file of precedents."""
    gains: dict[str, list[float]] = defaultdict(list)
    lookalikes = Counter[str]()
    for case in cases:
        if case.lookalike:
            lookalikes[case.finding] += 1
        else:
            gains[case.finding].append(case.gain)
    rows = []
    for finding, own in sorted(gains.items()):
        row = Precedents(len(own), min(own), median(own), max(own), lookalikes[finding])
        rounded = {
            name: round(value, 2) if isinstance(value, float) else value
            for name, value in row._asdict().items()
        }
        rows.append(f" {json.dumps(finding)}: {json.dumps(rounded)}")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def summaries_text(cases: Iterable[CaseDocument]) -> str:
    """The file of summaries, one case per line."""
    gained = (_summary(case) for case in cases if not case.lookalike)
    rows = ",\n".join(f" {json.dumps(summary, ensure_ascii=False)}" for summary in gained)
    return f"[\n{rows}\n]\n"


def _summary(case: CaseDocument) -> CaseSummary:
    return CaseSummary(
        case.id,
        case.finding,
        case.archetype,
        case.language,
        round(case.gain, 2),
        tuple(dict.fromkeys((case.kernel, case.kernel_after))),
        telling_lines(case.diff),
    )


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
