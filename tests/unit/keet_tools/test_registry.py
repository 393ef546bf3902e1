"""What a model is told of the tools, and what becomes of calls that are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from keet_tools.answers import Abstention, Answer, ToolInput
from keet_tools.registry import TOOLS, Tool, call_tool, offered_tools

Make = Callable[..., ToolInput]


def told(tools: Any) -> str:
    return json.dumps(
        [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in tools]
    )


def test_the_schemas_are_short() -> None:
    assert len(TOOLS) == 16
    assert len(told(TOOLS.values())) <= 4800


def test_a_schema_says_types_and_what_is_required() -> None:
    assert TOOLS["lookup_metric"].parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "launch": {"type": "integer"},
            "report": {"type": "integer"},
            "page": {"type": "integer"},
        },
        "required": ["query"],
    }
    assert all(tool.description and "\n" not in tool.description for tool in TOOLS.values())


def names(tools: tuple[Tool, ...]) -> set[str]:
    return {tool.name for tool in tools}


TOLD_AHEAD = {"list_launches", "analyst_findings", "stall_reasons", "check_roofline"}
"""Of a single launch, the opening request holds all that these tell."""


def test_one_report_has_nothing_to_compare(tool_input_of: Make) -> None:
    one, two = (
        tool_input_of("tour_full.ncu-rep"),
        tool_input_of("tour_full.ncu-rep", "matrix_flip/fast"),
    )
    assert names(offered_tools(two)) == set(TOOLS)
    assert names(offered_tools(one)) == set(TOOLS) - {"diff_profiles"}


def test_tools_answered_in_the_first_prompt_are_not_offered_but_work(tool_input_of: Make) -> None:
    one, two = (
        tool_input_of("matrix_flip/slow"),
        tool_input_of("matrix_flip/slow", "matrix_flip/fast"),
    )
    assert names(offered_tools(one)) == set(TOOLS) - TOLD_AHEAD - {"diff_profiles"}
    assert names(offered_tools(two)) == set(TOOLS) - TOLD_AHEAD
    assert not any(call_tool(one, name, {}).abstained for name in TOLD_AHEAD)


def test_source_is_not_offered_where_it_is_not_shown(tool_input_of: Make) -> None:
    tool_input = tool_input_of("tour_full.ncu-rep", "matrix_flip/fast", show_source=False)
    assert names(offered_tools(tool_input)) == set(TOOLS) - {"read_source", "read_sass"}
    for name in ("read_source", "read_sass"):
        assert call_tool(tool_input, name, {}).abstained


def test_source_is_in_no_answer_where_it_is_not_shown(tool_input_of: Make) -> None:
    tool_input = tool_input_of("matrix_flip/slow", "matrix_flip/fast", show_source=False)
    answers = [call_tool(tool_input, name, {}) for name in TOOLS]
    for name in ("memory_access", "instruction_mix", "address_forms", "why_waiting"):
        answers.append(call_tool(tool_input, name, {"line": "slow.cu:7"}))
    text = "\n".join(answer.text for answer in answers)
    assert "slow.cu:7" in text
    assert "x * n" not in text
    assert "blockIdx" not in text
    assert "LDG" not in text
    assert "ctaid.x +" not in text
    assert not any(answer.abstained for answer in answers[-3:])


def test_arguments_with_one_value_are_not_offered(tool_input_of: Make) -> None:
    one = offered_tools(tool_input_of("matrix_flip/slow"))
    assert all({"launch", "report"}.isdisjoint(tool.parameters["properties"]) for tool in one)
    several = {tool.name: tool for tool in offered_tools(tool_input_of("tour_full.ncu-rep"))}
    assert set(several["stall_reasons"].parameters["properties"]) == {"launch", "page"}
    assert not call_tool(
        tool_input_of("matrix_flip/slow"), "stall_reasons", {"launch": 0, "report": 0}
    ).abstained


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        ("launch_missiles", {}, "list_launches"),
        ("lookup_metric", {}, "needs query"),
        ("lookup_metric", None, "needs query"),
        ("lookup_metric", {"query": ""}, "needs query"),
        ("lookup_metric", {"query": ["a"]}, "has to be one string"),
        ("lookup_metric", {"query": {"a": 1}}, "has to be one string"),
        ("lookup_metric", {"query": "zebra crossings"}, "no metric is called"),
        ("stall_reasons", {"launch": "first"}, "has to be one integer"),
        ("stall_reasons", {"launch": 1.5}, "has to be one integer"),
        ("stall_reasons", {"launch": float("inf")}, "has to be one integer"),
        ("stall_reasons", {"launch": 99}, "there are launches 0"),
        ("stall_reasons", {"launch": -1}, "there are launches 0"),
        ("stall_reasons", {"report": 7}, "there is no `report=7`"),
        ("stall_reasons", {"page": 0}, "the last is `page=2`"),
        ("stall_reasons", {"page": 10**12}, "the last is `page=2`"),
        ("stall_reasons", {"path": "/etc/passwd"}, "it takes `launch: integer"),
        ("stall_reasons", {"a\x1b[31m\n": 1}, "has no argument"),
        ("memory_access", {"line": "slow.cu"}, "file.cu:31"),
        ("memory_access", {"line": "other.cu:7"}, "no file of that name"),
        ("memory_access", {"line": "slow.cu:12"}, "near it"),
        ("memory_access", {"line": "fn7+0x10"}, "no function"),
        ("read_source", {"file": "/etc/passwd"}, "no file of that name"),
        ("read_source", {"file": "../../slow.cu"}, "no file of that name"),
        ("read_source", {"line": 10000}, "its last is"),
        ("read_source", {"line": 0}, "its last is"),
        ("read_sass", {"at": "0xffff0"}, "no instruction is at"),
        ("read_sass", {"page": 99}, "the last is `page="),
        ("instruction_mix", {"line": "slow.cu"}, "file.cu:31"),
        ("instruction_mix", {"line": "slow.cu:12"}, "near it"),
        ("instruction_mix", {"page": 99}, "the last is `page="),
        ("address_forms", {"line": "other.cu:7"}, "no file of that name"),
        ("address_forms", {"line": "fn7+0x10"}, "no function"),
        ("address_forms", {"page": 99}, "the last is `page="),
        ("why_waiting", {"line": "0xffff0"}, "no instruction is at"),
        ("why_waiting", {"line": "0x0151"}, "no instruction is at"),
        ("why_waiting", {"page": 99}, "the last is `page="),
        ("occupancy_what_if", {"registers": 300}, "`1` to `255`"),
        ("occupancy_what_if", {"block_threads": 2048}, "`1` to `1024`"),
        ("occupancy_what_if", {"shared_bytes": -1}, "`0` to `232448`"),
        ("diff_profiles", {}, "there is no `report=1`"),
    ],
)  # fmt: skip
def test_a_wrong_call_gets_an_answer_with_the_usage(
    tool_input_of: Make, name: str, arguments: Any, hint: str
) -> None:
    answer = call_tool(tool_input_of("matrix_flip/slow"), name, arguments)
    assert answer.abstained
    assert hint in answer.text
    assert not answer.evidence
    assert answer.text.isprintable()
    assert len(answer.text) <= 600


@pytest.mark.parametrize("launch", [0, "0", " 0 ", "#0", 0.0, "0.0", False, None, "", "null"])
def test_unambiguous_arguments_are_accepted(tool_input_of: Make, launch: Any) -> None:
    tool_input = tool_input_of("matrix_flip/slow")
    assert call_tool(tool_input, "stall_reasons", {"launch": launch}) == call_tool(
        tool_input, "stall_reasons", {}
    )


def test_a_number_may_name_a_line(tool_input_of: Make) -> None:
    tool_input = tool_input_of("matrix_flip/slow")
    assert call_tool(tool_input, "memory_access", {"line": 7}) == call_tool(
        tool_input, "memory_access", {"line": "slow.cu:7"}
    )


def test_a_bug_is_not_hidden(tool_input_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tool_input: ToolInput) -> Answer:
        raise ZeroDivisionError

    monkeypatch.setitem(TOOLS, "broken", Tool("broken", "", {}, broken))  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        call_tool(tool_input_of("matrix_flip/slow"), "broken", {})


def test_a_report_without_launches_abstains(tool_input_of: Make) -> None:
    (explanation,) = tool_input_of("matrix_flip/slow").explanations
    with pytest.raises(Abstention):
        ToolInput([explanation._replace(launches=())]).launch()
