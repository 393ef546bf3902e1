"""A real model over the wire: skipped unless a server of one's own is named.

    KEET_TEST_BASE_URL=http://127.0.0.1:8488/v1 pytest tests/test_local_model.py

Seen with Qwen2.5-Coder-1.5B behind llama.cpp's server on two cores: some minutes each. A small model's
answers are often wrong; what is held here is that they end well, whatever they say.
"""

import json
import os
from pathlib import Path

import pytest

from keet.agent.model.settings import ModelLimits
from tests.conftest import Keet

BASE_URL = os.environ.get("KEET_TEST_BASE_URL")
REPORT = Path("kernels_samples/matrix_flip/slow.ncu-rep")

pytestmark = pytest.mark.skipif(not BASE_URL, reason="KEET_TEST_BASE_URL names no server")


def test_a_small_model_explains(keet: Keet, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    options = ("--base-url", BASE_URL, "--transcript", kept, "--no-cache", "--format", "json")
    result = keet("explain", REPORT, *options)
    document = result.json
    alone = keet("explain", REPORT, "--no-model", "--format", "json").json
    assert result.code in (0, 3)
    assert document["usage"]["calls"] >= 1
    assert document["usage"]["input_tokens"] <= ModelLimits().input_tokens
    for told, by_analyst in zip(document["launches"], alone["launches"]):
        if told["verdict"].get("by", "keet") == "keet":
            assert told["verdict"]["headline"] == by_analyst["verdict"]["headline"]
        text = json.dumps(told, ensure_ascii=False)
        unchecked = told["model"]["unchecked"] if told["model"] else []
        assert all(f"[unchecked] {each['text']}" in text for each in unchecked)
    again = keet("explain", REPORT, "--replay", kept, "--format", "json").json
    assert again["launches"] == document["launches"]


def test_a_small_model_answers(keet: Keet) -> None:
    question = "Which source line wastes the most sectors?"
    result = keet("ask", REPORT, question, "--base-url", BASE_URL, "--no-cache", "--format", "json")
    assert result.code in (0, 3)
    document = result.json
    assert document["author"]
