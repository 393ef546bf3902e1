"""Runs and answers that were made up, committed tables, and a terminal that folds nothing."""

import os
from pathlib import Path
from typing import Any

import pytest

from evals.runs import Answer, Run

ALL = "KEET_TEST_ALL_EVALS" in os.environ
"""What takes minutes and depends on little else. Read at import: tests run without KEET_ variables."""
RESULTS = Path(__file__).parents[2] / "evals" / "results"


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


def check_committed(request: pytest.FixtureRequest, name: str, text: str) -> None:
    """It is what the command prints; `pytest --update` writes it again."""
    path = RESULTS / name
    if request.config.getoption("--update"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def a_run(*conditions: str, samples: tuple[str, ...] = ("a", "b"), **more: Any) -> Run:
    told = {"created": "2026-11-15", "keet": "7.7", "prompt_version": "v1", **more}
    return Run(conditions=conditions, samples=samples, **told)


def an_answer(id_: str, text: str = "A", **more: Any) -> Answer:
    told = {"model": "m", "date": "2026-11-15", "keet": "7.7", "prompt_version": "v1", **more}
    return Answer(id=id_, text=text, **told)
