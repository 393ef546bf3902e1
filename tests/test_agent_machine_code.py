"""A scripted model that asks for machine code: what it may refer to, and what is not sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from keet.agent.model.transcript import read_transcript
from tests.conftest import Keet
from tests.test_agent_commands import SAMPLES, Script, document_of, no_compiler, script, sent

__all__ = ["no_compiler", "script"]
STENCIL = SAMPLES / "stencil_march" / "slow.ncu-repz"
CALLS = [
    {"name": "instruction_mix", "arguments": {}},
    {"name": "address_forms", "arguments": {}},
    {"name": "why_waiting", "arguments": {"line": "slow.cu:19"}},
    {"name": "read_sass", "arguments": {"at": "slow.cu:29"}},
]


def concluding(*sentences: str) -> dict[str, Any]:
    return {
        "summary": " ".join(sentences) or "Addresses take the instructions.",
        "causes": [],
        "edits": [],
    }


def answers(kept: Path) -> dict[str, Any]:
    events = read_transcript(kept)
    return {event["call"]["name"]: event for event in events if event["event"] == "tool"}


def cited(answer: Any, pattern: str) -> str:
    """The name behind a number of an answer."""
    found = re.search(pattern + r" \{(\S+)\}", answer["answer"])
    assert found, (pattern, answer["answer"])
    return found[1]


@pytest.mark.slow
def test_numbers_of_the_machine_code_can_be_cited(
    keet: Keet, script: Script, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    calls = {"content": "", "tool_calls": CALLS}
    options = ("--transcript", kept, "--token-budget", 60_000)
    model = script(calls, concluding())
    assert keet("explain", STENCIL, "--model", model, *options).code == 0
    told = answers(kept)
    share = cited(told["instruction_mix"], r"are for: addresses and indices 77%")
    times = cited(told["address_forms"], r"each byte about 25x")
    waits = cited(told["why_waiting"], r"slow\.cu:29 103")
    right = [
        f"Addresses take {{{share}}} of the executed instructions.",
        f"Each byte is requested again: {{{times}}}.",
        f"Waiting for the loads of slow.cu:19: {{{waits}}}.",
    ]
    wrong = f"Addresses take 91 % of the executed instructions {{{share}}}."
    model = script(calls, concluding(*right, wrong), {"corrections": []})
    result = keet("explain", STENCIL, "--model", model, "--format", "json", *options[2:])
    summary = document_of(result)["launches"][0]["model"]["summary"]
    for printed in ("77.1%", "24.6", "103"):
        assert printed in summary.partition("[unchecked]")[0]
    assert "[unchecked] Addresses take 91 %" in summary


@pytest.mark.parametrize("mode", ["source", "all"])
@pytest.mark.slow
def test_redact_source_also_hides_what_machine_code_shows(
    mode: str, keet: Keet, script: Script, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    model = script({"content": "", "tool_calls": CALLS}, concluding())
    options = ("--redact", mode, "--transcript", kept, "--token-budget", 60_000)
    assert keet("explain", STENCIL, "--model", model, *options).code == 0
    text = sent(kept)
    assert "threads request" in text
    for secret in ("courant", "previous", "LDG", "FADD", "tid.x +", "index_of"):
        assert secret not in text, secret
