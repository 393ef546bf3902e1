"""Finds which lines of the planted cause and of decoys a program changed.

A changed line does not mean that the flaw is fixed, and a flaw can be fixed elsewhere (an
alignment, a tile size), so lines are only used together with the time. A program that runs
correctly, keeps every line of the cause and gains nothing was changed in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from evals.optimize.gpu.scorer.source import without_comments
from kernels_samples.samples import Cause, Decoy, Sample

GAIN = 1.1
"""A smaller speed-up counts as no gain."""
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[\w.]+|\S')
_FUNCTION = re.compile(r"(\w+)\s*\([^;{}]*\)\s*(?:const\s*)?\{\s*$")


class ChangedLines(NamedTuple):
    """Whether a program changed the lines that sample.toml names."""

    kept_cause: bool | None
    """Every line of it. None: no lines are named, or the fix keeps them."""
    touched_decoy: bool | None
    """Any of them. None: there is no decoy."""
    told: str


def changed_lines(sample: Sample, code: str) -> ChangedLines:
    causes = _told_by_lines(sample)
    kept = [cause for cause in causes if _kept(sample, cause, code)]
    decoys = [decoy for decoy in sample.truth.decoy if decoy.variant == "slow"]
    touched = [decoy for decoy in decoys if not _kept(sample, decoy, code)]
    return ChangedLines(
        len(kept) == len(causes) if causes else None,
        bool(touched) if decoys else None,
        f"{_cause_words(causes, kept)}; {_decoy_words(decoys, touched)}",
    )


def is_wrong_place(speedup: float | None, *, kept_cause: bool | None) -> bool | None:
    """For a program that ran correctly; None: it did not, or its lines are not informative."""
    if speedup is None or kept_cause is None:
        return None
    return kept_cause and speedup < GAIN


def _told_by_lines(sample: Sample) -> tuple[Cause, ...]:
    """Causes in `slow` that a fix has to change. Braces are left out: they are only named because
    reports attribute cost to them. Empty if even `fast` keeps all lines (its fix is elsewhere)."""
    named = [cause for cause in sample.truth.cause if cause.variant == "slow"]
    spoken = [cause for cause in named if re.search(r"\w", cause.code)]
    fast = _text(sample.source(sample.variants[-1]))
    return () if all(_kept(sample, cause, fast) for cause in spoken) else tuple(spoken)


def _kept(sample: Sample, place: Cause | Decoy, code: str) -> bool:
    """Whether the line occurs as often as before: removing one of several is a change."""
    if place.file:
        return _still_uses(sample.file_of(place), place.line, code)
    before = _flat(_text(sample.source("slow")))
    line = _flat(place.code)
    return _flat(code).count(line) >= max(1, before.count(line))


def _still_uses(header: Path, line: int, code: str) -> bool:
    """Headers do not change: a program can only leave one out, or not call its functions."""
    bare = without_comments(code)
    included = re.search(rf'#\s*include\s*[<"]{re.escape(header.name)}[>"]', bare)
    name = _function_around(_text(header).splitlines(), line)
    return bool(included) and (name is None or re.search(rf"\b{name}\s*[<(]", bare) is not None)


def _function_around(lines: Sequence[str], line: int) -> str | None:
    found = (_FUNCTION.search(text) for text in reversed(lines[:line]))
    return next((match[1] for match in found if match), None)


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _flat(code: str) -> str:
    """The tokens with separators: spaces, line breaks and comments do not matter."""
    tokens = _TOKEN.findall(without_comments(code))
    return "".join(f"\x01{token}\x02" for token in tokens)


def _cause_words(causes: Sequence[Cause], kept: Sequence[Cause]) -> str:
    if not causes:
        return "no line tells whether the cause was changed"
    if len(kept) == len(causes):
        return f"kept every line of the cause ({_lines(causes)})"
    changed = [cause for cause in causes if cause not in kept]
    return f"changed {len(changed)} of {len(causes)} lines of the cause ({_lines(changed)})"


def _decoy_words(decoys: Sequence[Decoy], touched: Sequence[Decoy]) -> str:
    if not decoys:
        return "there is no decoy"
    return f"changed the decoy of {_lines(touched)}" if touched else "left the decoys alone"


def _lines(named: Iterable[Cause | Decoy]) -> str:
    return ", ".join(f"{place.file or 'slow.cu'}:{place.line}" for place in named)
