"""Replies of models are parsed: fenced, with words around them, partly wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import product

import pytest

from keet.agent.answer_schemas import (
    Conclusion,
    Corrections,
    NoAnswer,
    RawCause,
    TextAnswer,
    expressions_of,
    known_finding,
    schema_of,
    understand,
)
from keet.agent.edits.line_matching import without_figures
from keet.agent.redaction import _CUT
from tests.long_texts import growth
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


def test_facts_are_parsed_from_several_forms() -> None:
    forms: list[tuple[object, list[str]]] = [
        (None, []),
        ("{a}, {b > 2}", ["a", "b > 2"]),
        (["{a}", "", " b "], ["a", "b"]),
        ([1, None], ["1", "None"]),
        (["b" * 9000] * 1000, ["b" * 4000] * 12),
    ]
    assert [with_cause(because=said).because for said, _ in forms] == [read for _, read in forms]


def test_a_claim_is_parsed_from_several_forms() -> None:
    for nothing in (None, "", {}, [], "bytes", {"of": "DRAM"}, {"kind": None}):
        assert with_cause(claim=nothing).claims == []
    claim = {"kind": "bytes", "of": "DRAM", "needed": 4096}
    for name, form in product(("claim", "claims"), (claim, [claim])):
        (found,) = with_cause(**{name: form}).claims
        assert (found.kind, found.needed, found.removed) == ("bytes", "4096", "")


def test_changes_are_parsed_from_several_forms() -> None:
    for changes, read in (
        (None, []),
        ([], []),
        ({"old": "a", "new": "b"}, [("a", "b", "")]),
        ("--- a\n+++ b", [("", "", "--- a\n+++ b")]),
        ([{"old": "a"}, {"diff": "d", "line": "x"}], [("a", "", ""), ("", "", "d")]),
    ):
        found = parsed(edits=[{"what": "w", "changes": changes}]).edits[0].changes
        assert [(change.old, change.new, change.diff) for change in found] == read


def test_long_texts_are_cut_and_long_lists_refused() -> None:
    assert len(understand(json.dumps({"answer": "x" * 90_000}), TextAnswer).answer) == 4000
    assert len(parsed(summary=["a" * 3000] * 1000).summary) == 4000
    for name in ("causes", "objections", "edits"):
        with pytest.raises(NoAnswer, match=f"{name}: .* at most"):
            parsed(**{name: [{"finding": "f", "text": "t", "what": "w"}] * 99})


def test_a_finding_is_known_by_its_id() -> None:
    for said in ("shared_bank_conflict", " Shared-Bank Conflict "):
        assert known_finding(said) == "shared_bank_conflict"
    assert known_finding("bank conflicts") is known_finding("") is None


@each_row("shape", [Conclusion, Corrections, TextAnswer])
def test_schemas_are_strict(shape: type) -> None:
    """Servers that enforce one want every property required, and nothing beside them."""

    def check(node: object) -> None:
        if isinstance(node, dict):
            if "properties" in node:
                assert node["required"] == list(node["properties"])
                assert node["additionalProperties"] is False
                assert not {"default", "title"} & set(node)
            node = [*node.values()]
        for part in node if isinstance(node, list) else ():
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
    def read(text: str) -> None:
        with suppress(NoAnswer):
            understand(text, Conclusion)

    replies = [growth(read, piece, 20_000) for piece in ("```{", "```json ", "{", '{"a": ')]
    facts = growth(lambda text: expressions_of("}" + text), " ", 20_000)
    code = growth(lambda text: without_figures(f"{text}x", ""), " ", 20_000)
    names = growth(lambda text: _CUT.sub("", text), "x", 20_000)
    assert max(*replies, facts, code, names) < 6
