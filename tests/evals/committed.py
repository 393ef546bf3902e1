"""The committed tables are what the commands print: `pytest --update` writes them again."""

from __future__ import annotations

from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "evals" / "results"


def check_committed(request: pytest.FixtureRequest, name: str, text: str) -> None:
    path = RESULTS / name
    if request.config.getoption("--update"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
