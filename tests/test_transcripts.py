"""Runs with a capable model, replayed without it (docs/agent.md says how they went).

What a model said then goes through today's loop: the answer has to end well, within its budget, with
the right cause first, edits that apply, and every sentence that keet doubts in the list of those.
"""

import json
import tomllib
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from evals.public_reports import NOT_FOUND, public_report
from keet.agent.model.settings import ModelLimits
from keet.agent.model.transcript import read_transcript
from tests.conftest import Keet
from tests.rows import each_row
from tests.test_agent_commands import no_compiler

__all__ = ["no_compiler"]

FOLDER = Path(__file__).parent / "transcripts"
INDEX = FOLDER / "index.toml"
RUNS: dict[str, dict[str, Any]] = tomllib.loads(INDEX.read_text("utf-8")) if INDEX.exists() else {}
EXPLAINED = [name for name, run in RUNS.items() if "question" not in run]
ASKED = [name for name, run in RUNS.items() if "question" in run]
MOST = ModelLimits()
"""Of one kernel or question."""
MEDIAN_CALLS, MEDIAN_TOKENS = 3, 8_000


def reports_of(name: str) -> list[Path]:
    paths = [
        public_report(path) if path.startswith("corpus") else Path(path)
        for path in RUNS[name]["reports"]
    ]
    if not all(path.exists() for path in paths):
        pytest.skip(NOT_FOUND)
    return paths


def replies(name: str) -> list[dict[str, Any]]:
    return [e for e in read_transcript(FOLDER / f"{name}.jsonl") if e["event"] == "reply"]


def tokens(name: str) -> int:
    return sum(reply["spent"]["input_tokens"] for reply in replies(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pair_reduce", *EXPLAINED[:1]])
def test_the_edit_is_on_the_first_screen(name: str, keet: Keet) -> None:
    """With where it goes and what it does; `pair_reduce` needs none."""
    (report,) = reports_of(name)
    told = keet("explain", report, "--replay", FOLDER / f"{name}.jsonl").out.splitlines()[:24]
    assert any("Edit 1 (model) at" in line for line in told) == ("cause" in RUNS[name])


_REPLAYED: dict[str, Any] = {}


def replayed(name: str, keet: Keet) -> Any:
    if name not in _REPLAYED:
        (report,) = reports_of(name)
        options = ("--model-launches", 1, "--format", "json")
        told = keet("explain", report, "--replay", FOLDER / f"{name}.jsonl", *options)
        assert told.code == 0, told.err
        _REPLAYED[name] = told.json
    return _REPLAYED[name]


def test_every_recording_is_in_the_index() -> None:
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == set(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPLAINED)
def test_a_replayed_explanation_is_still_valid(name: str, keet: Keet) -> None:
    told = replayed(name, keet)
    assert told["grounding"]["numbers"] == told["grounding"]["verified"]
    (launch,) = (launch for launch in told["launches"] if launch["model"])
    model = launch["model"]
    assert model["summary"]
    assert set(model["evidence"]) <= set(launch["evidence"])
    for sentence in model["unchecked"]:
        assert f"[unchecked] {sentence['text']}" in json.dumps(launch, ensure_ascii=False)
    _check_cause(name, launch)


def _check_cause(name: str, launch: Any) -> None:
    """What was planted leads, and edits apply; or no edit, where nothing is to be changed."""
    if expected := RUNS[name].get("cause"):
        assert launch["findings"][0]["id"] == expected
        assert all(edit["applies"] for edit in launch["model"]["edits"])
    else:
        assert launch["model"]["edits"] == []


@pytest.mark.parametrize("name", ASKED)
def test_a_replayed_answer_is_still_valid(name: str, keet: Keet) -> None:
    reports, question = reports_of(name), RUNS[name]["question"]
    options = ("--replay", FOLDER / f"{name}.jsonl", "--format", "json")
    result = keet("ask", *reports, question, *options)
    document = json.loads(result.out)
    assert result.code == 0
    assert document["answer"]
    assert document["grounding"]["numbers"] == document["grounding"]["verified"] > 0


@each_row("name", RUNS)
def test_recorded_runs_stayed_within_the_token_budget(name: str) -> None:
    """As the server counted."""
    assert 1 <= len(replies(name)) <= MOST.calls
    assert tokens(name) <= MOST.input_tokens


@pytest.mark.skipif(len(EXPLAINED) < 3, reason="fewer than three runs are recorded")
@pytest.mark.slow
def test_runs_are_short_in_the_median(keet: Keet) -> None:
    assert median(len(replies(name)) for name in EXPLAINED) <= MEDIAN_CALLS
    assert median(map(tokens, EXPLAINED)) <= MEDIAN_TOKENS
    launches = [launch for name in EXPLAINED for launch in replayed(name, keet)["launches"]]
    sent_back = [launch["model"]["sent_back"] for launch in launches if launch["model"]]
    assert fmean(sent_back) <= 1
