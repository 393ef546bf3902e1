"""Replies of models as they come: fenced, talkative, half right."""

from __future__ import annotations

import json

import pytest

from keet.agent.answers import (
    Conclusion,
    NoAnswer,
    Reading,
    Repair,
    Spoken,
    known_finding,
    schema_of,
    understand,
)

READING = {"purpose": "p", "mapping": "m", "hypotheses": [{"text": "t", "finding": None}]}


@pytest.mark.parametrize(
    "wrap",
    [
        "{}",
        "```json\n{}\n```",
        "```\n{}\n```",
        "Here it is:\n{}\nThat is all.",
        "<think>a {{ b</think> {}",
        "{} {{}}",
    ],
)
def test_the_object_is_found(wrap: str) -> None:
    text = wrap.replace("{{", "\0").replace("{}", json.dumps(READING), 1).replace("\0", "{")
    assert understand(text, Reading).purpose == "p"


@pytest.mark.parametrize("text", ["", "no", "[1, 2]", '{"purpose": ', "{}", "{" * 5000])
def test_what_is_no_answer_says_why(text: str) -> None:
    with pytest.raises(NoAnswer, match=r"\w"):
        understand(text, Reading)


def test_loose_types_are_understood() -> None:
    said = {
        "summary": ["Two", "lines."],
        "judged": [
            {"hypothesis": "H2", "verdict": "refuted", "reason": None, "evidence": "E3, E7"}
        ],
        "causes": [{"finding": "x", "text": "y", "evidence": ["[E3]", ""], "more": 1}],
        "edits": [{"what": "w", "line": "slow.cu:12", "code": ["-a", "+b"]}],
    }
    found = understand(json.dumps(said), Conclusion)
    assert found.summary == "Two\nlines."
    assert (found.judged[0].hypothesis, found.judged[0].evidence) == (2, ["E3", "E7"])
    assert found.causes[0].evidence == ["E3"]
    assert (found.edits[0].line, found.edits[0].code) == (12, "-a\n+b")


def test_endless_lists_are_refused() -> None:
    with pytest.raises(NoAnswer, match="causes"):
        understand(
            json.dumps({"summary": "", "causes": [{"finding": "a", "text": "b"}] * 99}), Conclusion
        )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("shared_bank_conflict", "shared_bank_conflict"),
        (" Shared-Bank Conflict ", "shared_bank_conflict"),
        ("bank conflicts", None),
        ("", None),
    ],
)
def test_a_finding_is_known_by_its_id(said: str, meant: str | None) -> None:
    assert known_finding(said) == meant


@pytest.mark.parametrize("shape", [Reading, Conclusion, Repair, Spoken])
def test_schemas_are_strict(shape: type) -> None:
    """Servers that enforce one want every property required, and nothing beside them."""

    def check(node: object) -> None:
        if isinstance(node, dict):
            if "properties" in node:
                assert node["required"] == list(node["properties"])
                assert node["additionalProperties"] is False
            assert not {"default", "title"} & set(node) or "properties" not in node
            for part in node.values():
                check(part)
        elif isinstance(node, list):
            for part in node:
                check(part)

    check(schema_of(shape))
