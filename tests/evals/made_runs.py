"""Runs and answers that were made up."""

from __future__ import annotations

from typing import Any

from evals.runs import Answer, Run


def a_run(*conditions: str, samples: tuple[str, ...] = ("a", "b"), **more: Any) -> Run:
    told = {"created": "2026-11-15", "keet": "7.7", "prompt_version": "v1", **more}
    return Run(conditions=conditions, samples=samples, **told)


def an_answer(id_: str, text: str = "A", **more: Any) -> Answer:
    told = {"model": "m", "date": "2026-11-15", "keet": "7.7", "prompt_version": "v1", **more}
    return Answer(id=id_, text=text, **told)
