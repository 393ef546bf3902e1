"""The prompts: the templates in keet/agent/prompt_texts, filled in.

Text from a report (names, source, rule texts) is fenced with a mark that its writer could not know,
and called data: an instruction in it is part of the data, not of the task.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Template

from keet.errors import one_line
from keet.findings import findings

AT_ONCE = 5
"""Tool calls per round that are run."""
_MARK = re.compile(r"\[(?=\s*(?:end\s+of\s+)?data\b)", re.IGNORECASE)
_TEXTS = Path(__file__).parent / "prompt_texts"


@cache
def _text(name: str) -> str:
    return (_TEXTS / f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def prompt_version() -> str:
    """Hash of all templates: part of the cache key."""
    texts = [path.read_bytes() for path in sorted(_TEXTS.glob("*.md"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


def _filled(name: str, **blanks: str) -> str:
    return Template(_text(name)).substitute(blanks)


def fenced(what: str, text: str) -> str:
    """Data between marks that depend on all of it, so that data cannot contain its own end mark."""
    text = _MARK.sub("(", text)
    mark = hashlib.sha256(f"{what}\n{text}".encode(errors="backslashreplace")).hexdigest()[:16]
    return f"[data {mark}: {what}]\n{text}\n[end of data {mark}]"


def rules() -> str:
    return _text("rules")


def explain(*, what: str, build: str, source: str, evidence: str, rounds: int) -> str:
    """What is the same for all kernels comes first, then the source: servers cache the beginning
    of a request. `source`: empty if it may not be sent."""
    return _filled(
        "explain",
        findings="; ".join(
            f"{spec.id} ({', '.join(spec.claims)})" for spec in findings().values() if spec.claims
        ),
        kernel=fenced("the kernel", one_line(what)),
        build=f"\nBuild: {one_line(build)}." if build else "",
        source=fenced("source, numbered lines", source) if source else "The source is not at hand.",
        evidence=_measured(evidence),
        tools=_tools(rounds),
    )


def repair(problems: Sequence[str], evidence: str) -> str:
    listed = "\n".join(f"{number}. {problem}" for number, problem in enumerate(problems, 1))
    return _filled(
        "repair", problems=fenced("what cannot stand", listed), evidence=_measured(evidence)
    )


def ask(*, what: str, question: str, evidence: str, rounds: int) -> str:
    asked = fenced("the question", question)
    evidence = _measured(evidence)
    return _filled("ask", what=what, question=asked, evidence=evidence, tools=_tools(rounds))


def insights(evidence: str) -> str:
    return _filled("insights", evidence=fenced("what the set shows", evidence))


def ask_again(problem: str) -> str:
    return _filled("ask_again", problem=problem)


def answer_now() -> str:
    return _text("answer_now")


def _tools(rounds: int) -> str:
    return _filled("tools", rounds=str(rounds), calls=str(AT_ONCE)) if rounds else ""


def _measured(evidence: str) -> str:
    return fenced("measured; names in braces", evidence)
