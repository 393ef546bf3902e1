"""Replies of models are parsed: fenced, with words around them, partly wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product

import pytest

from keet.agent.answer_schemas import (
    Conclusion,
    Corrections,
    NoAnswer,
    RawCause,
    TextAnswer,
    known_finding,
    schema_of,
    understand,
)
from tests.rows import each_row

SAID = {"summary": "s", "purpose": "p", "causes": [{"finding": "f", "text": "t"}]}


def parsed(**parts: object) -> Conclusion:
    return understand(json.dumps({"summary": "", **parts}), Conclusion)


def with_cause(**parts: object) -> RawCause:
    return parsed(causes=[{"finding": "x", "text": "y", **parts}]).causes[0]


@each_row(
    "wrap",
    [
        *("{}", "```json\n{}\n```", "```\n{}\n```", "Here it is:\n{}\nThat is all."),
        *("<think>a {{ b</think> {}", "{} {{}}"),
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
    found = parsed(
        summary=["First", "second."],
        judged="of another version",
        causes=[{"finding": "x", "text": "y", "line": "slow.cu:12", "because": "{a}; b > c"}],
        edits=[{"what": "w", "changes": {"file": "a.cu", "old": ["-a", "b"], "new": None}}],
    )
    assert found.summary == "First\nsecond."
    assert (found.causes[0].because, found.causes[0].line) == (["a", "b > c"], 12)
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
        (["b" * 9000] * 10_000, ["b" * 4000] * 12),
    ],
)
def test_facts_are_parsed_from_several_forms(because: object, read: list[str]) -> None:
    assert with_cause(because=because).because == read


@each_row("claim", [None, "", {}, [], "bytes", {"of": "DRAM"}, {"kind": None}])
def test_an_empty_claim_is_parsed_from_several_forms(claim: object) -> None:
    assert with_cause(claim=claim).claims == []


def test_one_claim_is_parsed_from_several_forms() -> None:
    claim = {"kind": "bytes", "of": "DRAM", "needed": 4096}
    for name, form in product(("claim", "claims"), (claim, [claim])):
        (found,) = with_cause(**{name: form}).claims
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
    found = parsed(edits=[{"what": "w", "changes": changes}]).edits[0].changes
    assert [(change.old, change.new, change.diff) for change in found] == read


@pytest.mark.slow
def test_long_texts_are_cut_and_long_lists_refused() -> None:
    assert len(understand(json.dumps({"answer": "x" * 90_000}), TextAnswer).answer) == 4000
    assert len(parsed(summary=["a" * 3000] * 100_000).summary) == 4000
    for name, count in product(("causes", "objections", "edits"), (99, 1000)):
        with pytest.raises(NoAnswer, match=f"{name}: .* at most"):
            parsed(**{name: [{"finding": "f", "text": "t", "what": "w"}] * count})


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

    def said(changes: object) -> Conclusion:
        return parsed(edits=[{"what": "w", "changes": changes}])

    whole = "x" * 8000
    assert said([{"old": whole}]).edits[0].changes[0].old == whole
    told = r"edits\.0\.changes\.0\.old: .*change fewer lines at a time"
    for old in (whole + "x", ["y"] * 5000, {"a": whole}):
        with pytest.raises(NoAnswer, match=told):
            said([{"old": old}])
    with pytest.raises(NoAnswer, match=r"changes\.0\.diff"):
        said(whole + "x")


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
