"""Replies of models are parsed: fenced, with words around them, partly wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from keet.agent.answer_schemas import (
    Conclusion,
    Corrections,
    NoAnswer,
    TextAnswer,
    known_finding,
    schema_of,
    understand,
)
from tests.rows import each_row

SAID = {"summary": "s", "purpose": "p", "causes": [{"finding": "f", "text": "t"}]}


@each_row(
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
def test_the_json_object_is_found_in_the_reply(wrap: str) -> None:
    text = wrap.replace("{{", "\0").replace("{}", json.dumps(SAID), 1).replace("\0", "{")
    assert understand(text, Conclusion).purpose == "p"


@each_row("text", ["", "no", "[1, 2]", '{"purpose": ', "{}", "{" * 5000])
def test_an_unreadable_answer_says_why(text: str) -> None:
    with pytest.raises(NoAnswer, match=r"\w"):
        understand(text, Conclusion)


def test_loose_types_are_understood() -> None:
    said = {
        "summary": ["First", "second."],
        "judged": "of another version",
        "causes": [
            {
                "finding": "x",
                "text": "y",
                "line": "slow.cu:12",
                "because": "{a}; b > c",
                "claim": {},
            }
        ],
        "edits": [{"what": "w", "changes": {"file": "a.cu", "old": ["-a", "b"], "new": None}}],
    }
    found = understand(json.dumps(said), Conclusion)
    assert found.summary == "First\nsecond."
    assert (found.causes[0].because, found.causes[0].line) == (["a", "b > c"], 12)
    assert found.causes[0].claims == []
    assert (found.edits[0].changes[0].old, found.edits[0].changes[0].new) == ("-a\nb", "")


@each_row(
    ("because", "read"),
    [
        (None, []),
        ("a", ["a"]),
        ("{a}, {b > 2}", ["a", "b > 2"]),
        (["{a}", "", " b "], ["a", "b"]),
        ([1, None], ["1", "None"]),
        (["a"] * 50, ["a"] * 12),
    ],
)
def test_facts_are_parsed_from_several_forms(because: object, read: list[str]) -> None:
    said = {"summary": "", "causes": [{"finding": "x", "text": "y", "because": because}]}
    assert understand(json.dumps(said), Conclusion).causes[0].because == read


@each_row("claim", [None, "", {}, [], "bytes", {"of": "DRAM"}, {"kind": None}])
def test_an_empty_claim_is_parsed_from_several_forms(claim: object) -> None:
    said = {"summary": "", "causes": [{"finding": "x", "text": "y", "claim": claim}]}
    assert understand(json.dumps(said), Conclusion).causes[0].claims == []


@pytest.mark.parametrize("name", ["claim", "claims"])
@pytest.mark.parametrize("is_list", [True, False])
def test_one_claim_is_parsed_from_several_forms(name: str, is_list: bool) -> None:
    claim: object = {"kind": "bytes", "of": "DRAM", "needed": 4096}
    cause = {"finding": "x", "text": "y", name: [claim] if is_list else claim}
    (found,) = (
        understand(json.dumps({"summary": "", "causes": [cause]}), Conclusion).causes[0].claims
    )
    assert (found.kind, found.needed, found.removed) == ("bytes", "4096", "")


@each_row(
    ("changes", "read"),
    [
        (None, []),
        ([], []),
        ({"old": "a", "new": "b"}, [("a", "b", "")]),
        ("--- a\n+++ b", [("", "", "--- a\n+++ b")]),
        ([{"old": "a"}, {"diff": "d", "line": "x"}], [("a", "", ""), ("", "", "d")]),
    ],
)
def test_changes_are_parsed_from_several_forms(
    changes: object, read: list[tuple[str, str, str]]
) -> None:
    said = {"summary": "", "edits": [{"what": "w", "changes": changes}]}
    found = understand(json.dumps(said), Conclusion).edits[0].changes
    assert [(change.old, change.new, change.diff) for change in found] == read


def test_long_texts_are_cut() -> None:
    assert len(understand(json.dumps({"answer": "x" * 90_000}), TextAnswer).answer) == 4000


def test_endless_lists_are_refused() -> None:
    with pytest.raises(NoAnswer, match="causes"):
        understand(
            json.dumps({"summary": "", "causes": [{"finding": "a", "text": "b"}] * 99}), Conclusion
        )


@each_row(
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


@each_row("shape", [Conclusion, Corrections, TextAnswer])
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


def test_code_that_is_too_long_is_refused_and_not_cut() -> None:
    """A part of an edit is another edit."""

    def said(old: object) -> str:
        return json.dumps({"summary": "s", "edits": [{"what": "w", "changes": [{"old": old}]}]})

    whole = "x" * 8000
    assert understand(said(whole), Conclusion).edits[0].changes[0].old == whole
    for old in (whole + "x", ["y"] * 5000, {"a": whole}):
        with pytest.raises(
            NoAnswer, match=r"edits\.0\.changes\.0\.old: .*change fewer lines at a time"
        ):
            understand(said(old), Conclusion)
    with pytest.raises(NoAnswer, match=r"changes\.0\.diff"):
        understand(
            json.dumps({"summary": "s", "edits": [{"what": "w", "changes": whole + "x"}]}),
            Conclusion,
        )


@pytest.mark.slow
def test_lists_have_the_limits_of_texts() -> None:
    said = {
        "summary": ["a" * 3000] * 100_000,
        "causes": [{"finding": "f", "text": "t", "because": ["b" * 9000] * 10_000}],
    }
    found = understand(json.dumps(said), Conclusion)
    assert len(found.summary) == 4000
    assert [len(each) for each in found.causes[0].because] == [4000] * 12
    for name in ("causes", "objections", "edits"):
        with pytest.raises(NoAnswer, match=f"{name}: .* at most"):
            understand(
                json.dumps(
                    {"summary": "s", name: [{"finding": "f", "text": "t", "what": "w"}] * 1000}
                ),
                Conclusion,
            )


@pytest.mark.slow
def test_no_reply_takes_quadratic_time() -> None:
    """By the square, each would take more than an hour."""
    code = """
import json, re
from keet.agent.answer_schemas import Conclusion, NoAnswer, expressions_of, understand
from keet.agent.edits.edit_placer import without_figures
from keet.agent.redaction import _CUT
for text in ("```{" * 250_000, "```json " * 100_000, "{" * 1_000_000, '{"a": ' * 100_000):
    try:
        understand(text, Conclusion)
    except NoAnswer:
        pass
expressions_of("}" + " " * 1_000_000)
without_figures(" " * 1_000_000 + "x", "")
_CUT.sub("", "x" * 1_000_000)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
