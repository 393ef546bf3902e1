"""An answer by a model: its paragraphs and code, and which launch each number it cites is of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from keet.evidence import Evidence
from keet.explanation.analyst import Explanation, LaunchExplanation
from keet.explanation.statement import Answered

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


class Block(NamedTuple):
    """Lines that belong together: a paragraph, a list, or a piece of code."""

    is_code: bool
    lines: tuple[str, ...]


def blocks_of(text: str) -> list[Block]:
    """A fence that is never closed holds the rest: better code than half a page of markup."""
    return [Block(is_code, lines) for is_code, lines in _blocks(text) if any(map(str.strip, lines))]


def _blocks(text: str) -> Iterator[tuple[bool, tuple[str, ...]]]:
    lines: list[str] = []
    fence = ""
    for line in text.expandtabs(4).splitlines():
        mark = _FENCE.match(line)
        ends = mark[1].startswith(fence) and line.strip() == mark[1] if mark and fence else mark
        if ends or not (fence or line.strip()):
            yield bool(fence), tuple(lines)
            lines = []
            fence = mark[1] if mark and not fence else ""
        else:
            lines.append(line)
    yield bool(fence), tuple(lines)


class Origin(NamedTuple):
    """Where a number is from."""

    report: int
    """Position among the reports that were asked about."""
    explanation: Explanation
    launch: LaunchExplanation


def origin_of(entry: Evidence, answered: Answered) -> Origin | None:
    """None for what belongs to no single launch, as a difference between two does."""
    for report, explanation in enumerate(answered.explanations):
        for launch in explanation.launches:
            if entry in launch.evidence:
                return Origin(report, explanation, launch)
    return None


def paths_of(answered: Answered) -> list[str]:
    return [explanation.profile.provenance.path for explanation in answered.explanations]


def verified_text(answered: Answered) -> str:
    """A stray number is dropped from an answer, so those that stand are all verified."""
    whose = "report" if len(answered.explanations) == 1 else "reports"
    return f"{answered.numbers} of {answered.numbers} numbers verified against the {whose}"
