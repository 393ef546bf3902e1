"""Each command with `--format json` has a schema, and prints documents that match it."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from keet.cli import COMMANDS, make_parser
from keet.formats.schema import DOCUMENTS
from tests.conftest import Keet
from tests.json_documents import check_document

SLOW, FAST = (f"kernels_samples/matrix_flip/{side}.ncu-rep" for side in ("slow", "fast"))
CALLS: dict[str, tuple[str, ...]] = {
    "explain": ("explain", SLOW, "--no-sass", "--no-model"),
    "explain-against": ("explain", FAST, "--against", SLOW, "--no-sass", "--no-model"),
    "diff": ("diff", SLOW, FAST),
    "show": ("show", SLOW),
    "metrics": ("metrics", SLOW),
    "hotspots": ("hotspots", SLOW, "--no-sass"),
    "roofline": ("roofline", SLOW),
    "chart": ("chart", SLOW),
    "amounts": ("amounts", SLOW),
    "top": ("top", "STORE"),
    "query": ("query", "STORE", "SELECT kernel FROM launches"),
    "insights": ("insights", "STORE", "--no-model"),
    "cases": ("cases", "transpose/power_of_two_tile"),
    "finding": ("finding", "tail_effect"),
    "verify": ("verify", "tests/golden/explain.matrix_flip.80.txt", "--report", SLOW),
    "doctor": ("doctor",),
}
ELSEWHERE = {
    "ask": "needs a model: tests/unit/pages/test_ask.py checks its document",
    "optimize": "takes a while: tests/test_optimize_command.py checks its document",
    "profile": "needs a GPU: it prints what `keet explain` prints for the new report",
}
"""Commands that can't run here, and why that is enough."""


def json_commands() -> set[str]:
    """Commands whose parser accepts `--format json`. The actions of `keet eval` are for developers
    and not part of the wheel."""
    found = set()
    for name, command in COMMANDS.items():
        module = import_module(f"keet.cli.{command.module}")
        if name == "eval":
            continue
        for action in make_parser(module, f"keet {name}")._actions:
            if "--format" in action.option_strings and "json" in (action.choices or ()):
                found.add(name)
    return found


def test_each_command_with_json_has_a_schema() -> None:
    assert json_commands() | {"explain-against"} == set(DOCUMENTS)


def test_each_schema_is_checked_against_output() -> None:
    assert CALLS.keys() | ELSEWHERE.keys() == set(DOCUMENTS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from keet.cli import main

    path = tmp_path_factory.mktemp("schemas") / "store"
    assert main(["-q", "batch", SLOW, FAST, "-o", str(path), "--jobs", "1"]) == 0
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_json_output_matches_its_schema(name: str, keet: Keet, store: Path) -> None:
    words = [str(store) if word == "STORE" else word for word in CALLS[name]]
    result = keet(*words, "--format", "json")
    assert result.err == "" or result.code in (0, 1), result.err
    check_document(name, json.loads(result.out))


@pytest.mark.slow
def test_several_reports_are_one_explain_document_per_line(keet: Keet) -> None:
    result = keet("explain", SLOW, FAST, "--no-sass", "--no-model", "--format", "json")
    lines = result.out.splitlines()
    assert len(lines) == 2
    for line in lines:
        check_document("explain", json.loads(line))
