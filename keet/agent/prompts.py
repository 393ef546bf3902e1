"""What a model is told: the texts of keet/agent/texts, filled in.

What stems from a report (names, source, rule texts) is fenced with a mark that its writer could not
know, and called data: an instruction in it is part of what is examined, not of the task.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Template

from keet.agent.answers import Reading
from keet.catalog import findings
from keet.errors import one_line

AT_ONCE = 5
"""Tool calls of one round that are answered."""
_MARK = re.compile(r"\[(?=\s*(?:end\s+of\s+)?data\b)", re.IGNORECASE)
_TEXTS = Path(__file__).parent / "texts"


@cache
def _text(name: str) -> str:
    return (_TEXTS / f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def prompt_version() -> str:
    """Changes with every word that is sent: it is a part of the cache's key."""
    texts = [path.read_bytes() for path in sorted(_TEXTS.glob("*.md"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


def _filled(name: str, **blanks: str) -> str:
    return Template(_text(name)).substitute(blanks)


def fenced(what: str, text: str) -> str:
    """Data, between marks that depend on all of it: nobody can write the end of it ahead."""
    text = _MARK.sub("(", text)
    mark = hashlib.sha256(f"{what}\n{text}".encode(errors="backslashreplace")).hexdigest()[:16]
    return f"[data {mark}: {what}]\n{text}\n[end of data {mark}]"


def rules() -> str:
    return _text("rules")


def read(source: str, device: str, grid: str, block: str) -> str:
    ids = ", ".join(findings())
    gpu = fenced("the GPU", one_line(device))
    return _filled("read", gpu=gpu, grid=grid, block=block, ids=ids, source=_source(source))


def inspect(  # noqa: PLR0913 - the blanks of one form
    *, kernel: str, device: str, reading: Reading | None, evidence: str, source: str, rounds: int
) -> str:
    ids = f"\nFinding ids: {', '.join(findings())}\n"
    return _filled(
        "inspect",
        kernel=fenced("names of kernel and GPU", one_line(f"{kernel} on {device}")),
        reading=_said(reading) if reading else ids,
        evidence=_measured(evidence),
        source=_source(source) if source else "The source is not at hand.",
        tools=_tools(rounds),
    )


def repair(strays: Sequence[str], evidence: str) -> str:
    listed = "\n".join(f"{number}. {stray}" for number, stray in enumerate(strays, 1))
    return _filled(
        "repair", strays=fenced("what can't stand", listed), evidence=_measured(evidence)
    )


def ask(*, what: str, question: str, evidence: str, rounds: int) -> str:
    asked = fenced("the question", question)
    evidence = _measured(evidence)
    return _filled("ask", what=what, question=asked, evidence=evidence, tools=_tools(rounds))


def again(problem: str) -> str:
    return _filled("again", problem=problem)


def now() -> str:
    return _text("now")


def _tools(rounds: int) -> str:
    return _filled("tools", rounds=str(rounds), calls=str(AT_ONCE)) if rounds else ""


def _source(source: str) -> str:
    return fenced("source, numbered lines", source)


def _measured(evidence: str) -> str:
    return fenced("measured; [E...] are ids of evidence", evidence)


def _said(reading: Reading) -> str:
    """Its own words of the first step, which it does not see again otherwise."""
    guesses = "\n".join(
        f"{n}. {guess.text} ({guess.finding or 'no id'})"
        for n, guess in enumerate(reading.hypotheses, 1)
    )
    said = f"purpose: {reading.purpose}\nmapping: {reading.mapping}\nhypotheses:\n{guesses}"
    return f"\n{fenced('what you said of the source, before any number', said)}\n"
