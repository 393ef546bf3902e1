"""Runs with a capable mind behind the relay, replayed without it (docs/agent.md says how they went).

What a model said then goes through today's loop and checks: the answer has to end well, within its
budget, with every number verified, and beside the analyst's findings.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from keet.agent.transcript import read_transcript
from tests.conftest import CORPUS, Keet

FOLDER = Path(__file__).parent / "transcripts"
RUNS: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "index.toml").read_text("utf-8"))
EXPLAINED = [name for name, run in RUNS.items() if "question" not in run]
ASKED = [name for name, run in RUNS.items() if "question" in run]


def reports_of(name: str) -> list[Path]:
    paths = [
        CORPUS / path.removeprefix("corpus/") if path.startswith("corpus/") else Path(path)
        for path in RUNS[name]["reports"]
    ]
    if not all(path.exists() for path in paths):
        pytest.skip("the corpus is not beside this checkout")
    return paths


def replayed(name: str, keet: Keet) -> tuple[Any, Any]:
    """The explanation with the model's part, and without."""
    (report,) = reports_of(name)
    options = ("--model-launches", 1, "--format", "json")
    told = keet("explain", report, "--replay", FOLDER / f"{name}.jsonl", *options)
    assert told.code == 0, told.err
    alone = keet("explain", report, "--no-model", "--format", "json")
    return json.loads(told.out), json.loads(alone.out)


@pytest.mark.parametrize("name", EXPLAINED)
def test_an_explanation_stands(name: str, keet: Keet) -> None:
    told, alone = replayed(name, keet)
    assert told["grounding"]["numbers"] == told["grounding"]["verified"]
    (launch,) = (launch for launch in told["launches"] if launch["model"])
    assert launch["model"]["summary"]
    for mine, analysts in zip(told["launches"], alone["launches"]):
        assert mine["verdict"] == analysts["verdict"]
        assert [f["forecast"] for f in mine["findings"]] == [
            f["forecast"] for f in analysts["findings"]
        ]
    said = [c["evidence"] for c in launch["model"]["causes"] + launch["hypotheses"]]
    assert {entry for ids in said for entry in ids} <= set(launch["evidence"])
    _check_cause(name, launch["model"])


def _check_cause(name: str, model: Any) -> None:
    """What was planted is among the causes; or no edit, where nothing is to be mended."""
    if expected := RUNS[name].get("cause"):
        assert expected in {cause["finding"] for cause in model["causes"]}
    else:
        assert model["edits"] == []


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_stands(name: str, keet: Keet) -> None:
    reports, question = reports_of(name), RUNS[name]["question"]
    result = keet(
        "ask", *reports, question, "--replay", FOLDER / f"{name}.jsonl", "--format", "json"
    )
    document = json.loads(result.out)
    assert result.code == 0
    assert document["answer"]
    assert document["grounding"]["numbers"] == document["grounding"]["verified"] > 0


@pytest.mark.parametrize("name", RUNS)
def test_it_kept_to_its_budget(name: str) -> None:
    """12,000 input tokens and 6 calls for a kernel, as the server counted them."""
    replies = [e for e in read_transcript(FOLDER / f"{name}.jsonl") if e["event"] == "reply"]
    assert 1 <= len(replies) <= 6
    assert sum(reply["spent"]["input_tokens"] for reply in replies) <= 12_000
