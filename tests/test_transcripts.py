"""Runs with a capable model, replayed without it (docs/agent.md says how they went).

What a model said then goes through today's loop: the answer has to end well, within its budget, with
the right cause first, edits that apply, and every sentence that keet doubts in the list of those.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from evals.public_reports import NOT_FOUND, public_report
from tests.conftest import Keet
from tests.test_agent_commands import no_compiler

__all__ = ["no_compiler"]

FOLDER = Path(__file__).parent / "transcripts"
INDEX = FOLDER / "index.toml"
RUNS: dict[str, dict[str, Any]] = tomllib.loads(INDEX.read_text("utf-8")) if INDEX.exists() else {}
EXPLAINED = [name for name, run in RUNS.items() if "question" not in run]
ASKED = [name for name, run in RUNS.items() if "question" in run]


def reports_of(name: str) -> list[Path]:
    paths = [
        public_report(path) if path.startswith("corpus") else Path(path)
        for path in RUNS[name]["reports"]
    ]
    if not all(path.exists() for path in paths):
        pytest.skip(NOT_FOUND)
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pair_reduce", *EXPLAINED[:1]])
def test_the_edit_is_on_the_first_screen(name: str, keet: Keet) -> None:
    """With where it goes and what it does; `pair_reduce` needs none."""
    (report,) = reports_of(name)
    told = keet("explain", report, "--replay", FOLDER / f"{name}.jsonl").out.splitlines()[:24]
    assert any("Edit 1 (model) at" in line for line in told) == ("cause" in RUNS[name])


def test_every_recording_is_in_the_index() -> None:
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == set(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPLAINED)
def test_a_replayed_explanation_is_still_valid(name: str, keet: Keet) -> None:
    (report,) = reports_of(name)
    options = ("--model-launches", 1, "--format", "json")
    result = keet("explain", report, "--replay", FOLDER / f"{name}.jsonl", *options)
    assert result.code == 0, result.err
    told = result.json
    assert told["grounding"]["numbers"] == told["grounding"]["verified"]
    (launch,) = (launch for launch in told["launches"] if launch["model"])
    model = launch["model"]
    assert model["summary"]
    assert model["sent_back"] <= 2
    assert set(model["evidence"]) <= set(launch["evidence"])
    for sentence in model["unchecked"]:
        assert f"[unchecked] {sentence['text']}" in json.dumps(launch, ensure_ascii=False)
    # What was planted leads, and edits apply; or no edit, where nothing is to be changed.
    expected = RUNS[name].get("cause")
    assert not expected or launch["findings"][0]["id"] == expected
    assert all(edit["applies"] and expected for edit in model["edits"])


@pytest.mark.parametrize("name", ASKED)
def test_a_replayed_answer_is_still_valid(name: str, keet: Keet) -> None:
    reports, question = reports_of(name), RUNS[name]["question"]
    options = ("--replay", FOLDER / f"{name}.jsonl", "--format", "json")
    result = keet("ask", *reports, question, *options)
    document = json.loads(result.out)
    assert result.code == 0
    assert document["answer"]
    assert document["grounding"]["numbers"] == document["grounding"]["verified"] > 0
