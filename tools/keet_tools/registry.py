"""The list of tools: name, description, types of argument and result, function.

The MCP server offers all of them, and `list_reports`. keet's own agent has those with a short
description, with names of evidence in their texts: the reports are open already, so `report` is a
number, and arguments that can have one value only are not offered. `call_tool` calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

from pydantic import ValidationError

from keet.errors import KeetError, one_line
from keet.formats.schema import schema_of
from keet_tools import results
from keet_tools.answers import MAX_CHARACTERS, Answer, ToolInput, quote
from keet_tools.calls import ToolCall, ToolReply, bounded_text
from keet_tools.explain import context, diff, explain, verify, what_if
from keet_tools.launch_overview import (
    address_forms,
    analyst_findings,
    list_launches,
    source_hotspots,
)
from keet_tools.lines import line, source
from keet_tools.lookups import amounts, cases, metrics, occupancy

_LIMITS = frozenset({"title", "default", "minLength", "maxLength", "minimum", "maximum", "pattern"})
"""What `keet schema` has and clients do not need: they add schemas to their context."""


class ServerTool(NamedTuple):
    description: str
    arguments: type[results.ToolArguments]
    result: type[results.ToolResult]
    call: Callable[..., ToolReply]
    """Its name is that of the tool."""
    short: str = ""
    """The description for keet's own agent; empty: it does not have the tool."""

    @property
    def name(self) -> str:
        return self.call.__name__

    @property
    def input_schema(self) -> dict[str, Any]:
        """Types, descriptions, and which arguments are required."""
        whole = self.arguments.model_json_schema()
        own = {name: _brief(part) for name, part in whole["properties"].items()}
        schema = {"type": "object", "properties": own, "additionalProperties": False}
        return {**schema, "required": whole["required"]} if "required" in whole else schema

    @property
    def output_schema(self) -> dict[str, Any]:
        """The fields of the result; `keet schema mcp-TOOL` prints what they consist of."""
        whole = schema_of(self.result)
        own = {name: _kind(part) for name, part in whole["properties"].items()}
        return {"type": "object", "properties": own}


def _brief(schema: dict[str, Any]) -> dict[str, Any]:
    (kind, *_) = schema.get("anyOf", [schema])
    described = {"description": schema["description"]} if "description" in schema else {}
    return {name: kind[name] for name in kind if name not in _LIMITS} | described


def _kind(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = [_kind(each) for each in schema.get("anyOf", [])]
    if kinds:
        names = list(dict.fromkeys(kind["type"] for kind in kinds))
        return {"type": names if len(names) > 1 else names[0]}
    return {"type": schema.get("type", "object")}


_ALL = (
    ServerTool(
        "Why a kernel is slow: the limiting unit, where its time goes, ranked findings with source "
        "lines, what to change, a forecast of the speed-up and the evidence. Several launches: the "
        "program first, then the launches that matter. The main tool; about 1 s.",
        results.ExplainArguments,
        results.ExplainToolResult,
        explain,
        "keet's findings on launches: causes, lines, forecasts, where the time goes.",
    ),
    ServerTool(
        "One source line: samples, stalls and what they wait for, SASS, address patterns and "
        "strides, bytes, loops. Call it for a line that explain names, before you rewrite it. "
        "Without `line`: the hottest lines, and the bytes read per pointer.",
        results.LineArguments,
        results.LineToolResult,
        line,
        "A source line (`file.cu:31`): stalls and what they wait for, SASS, addresses, bytes, "
        "loops; `0x0130`: SASS from there; without `line`: hottest lines, bytes by pointer.",
    ),
    ServerTool(
        "Numbered source lines with their share of the samples.",
        results.SourceArguments,
        results.SourceToolResult,
        source,
        "Source text from a line on, with each line's share of samples.",
    ),
    ServerTool(
        "How much work a launch does and how much of it is needed: instructions and bytes per "
        "result, how often each array is read, sectors per access, what loops repeat, least times. "
        "Call it before you choose between tuning and a redesign.",
        results.AmountsArguments,
        results.AmountsToolResult,
        amounts,
        "How much work is done and needed: per item, array, access, loop; bounds.",
    ),
    ServerTool(
        "Metrics of a launch with unit and meaning. One that is not listed was not collected: it "
        "is unknown, not zero.",
        results.MetricsArguments,
        results.MetricsToolResult,
        metrics,
        "Metrics by ncu name, id, label or words; without a pattern: roofline, key metrics.",
    ),
    ServerTool(
        "What limits the warps per SM, what would let more in, and the occupancy with other "
        "registers, shared memory or block size.",
        results.OccupancyArguments,
        results.OccupancyToolResult,
        occupancy,
        "What limits occupancy; theoretical occupancy if something changed.",
    ),
    ServerTool(
        "The speed-up if claims about the work of a launch were true, with the next limiter: how "
        "much of a unit's work is needed or goes. keet's own forecast is beside it.",
        results.WhatIfArguments,
        results.WhatIfToolResult,
        what_if,
        "Gain if claims held: JSON list of {finding, kind, of, needed|removed}; constants: `N=4`.",
    ),
    ServerTool(
        "What changed between two reports and why: faster, slower, unchanged or inconclusive, "
        "causes that are gone or new, lines, what to fix next. Call it after each change. Refuses "
        "what can't be compared. Two launches of one report: name it twice, with before_launch and "
        "after_launch.",
        results.DiffArguments,
        results.DiffToolResult,
        diff,
        "Compare report `before` with `after`, or a launch of each: time, and why.",
    ),
    ServerTool(
        "One launch explained in at most max_tokens tokens, for a prompt that asks another model "
        "for a faster kernel.",
        results.ContextArguments,
        results.ContextToolResult,
        context,
    ),
    ServerTool(
        "Compares the numbers and comparisons of a text with a report: confirmed, contradicted "
        "(with the right value) or not found. Call it on your own summary before you give it to "
        "the user.",
        results.VerifyArguments,
        results.VerifyToolResult,
        verify,
    ),
    ServerTool(
        "Kernels that had a finding, before and after the fix, with the measured speed-up, also "
        "look-alikes where the fix gained nothing.",
        results.CasesArguments,
        results.CasesToolResult,
        cases,
    ),
)
SERVER_TOOLS = {tool.name: tool for tool in _ALL}


_NOT_OFFERED = frozenset({"source", "kernel", "top", "force"})
"""Arguments that a model of keet does not need; they work."""
_SUMMARIES: Mapping[str, Callable[..., Answer]] = {
    each.__name__: each
    for each in (list_launches, analyst_findings, source_hotspots, address_forms)
}
"""Short texts of the first prompt, by the names of tools of older transcripts."""
_FORMER = {
    "lookup_metric": ("metrics", {"query": "pattern"}),
    "check_roofline": ("metrics", {}),
    "stall_reasons": ("line", {}),
    "memory_access": ("line", {}),
    "why_waiting": ("line", {}),
    "instruction_mix": ("line", {}),
    "read_sass": ("line", {"at": "line"}),
    "read_source": ("source", {}),
    "occupancy_what_if": ("occupancy", {}),
    "diff_profiles": ("diff", {}),
}
"""Names and arguments of tools in older transcripts."""
_NOTHING = {"", "none", "null", "default"}
"""What models write for an argument without a value."""
_WHOLE = re.compile(r"[-+]?\d{1,15}(?:\.0*)?")
_NUMBERS = {"report", "before", "after"}
"""Numbers of reports; tools of the MCP server take names."""


class Tool(NamedTuple):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema, as short as it can be: it is sent with each request."""


def _offered(tool: ServerTool, useless: Set[str] = frozenset()) -> Tool:
    whole = tool.input_schema
    properties = {
        field: {"type": "integer" if field in _NUMBERS else part["type"]}
        for field, part in whole["properties"].items()
        if field not in _NOT_OFFERED | useless
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [field for field in whole["required"] if field not in _NUMBERS]:
        schema["required"] = required
    return Tool(tool.name, tool.short, schema)


TOOLS: Mapping[str, Tool] = {tool.name: _offered(tool) for tool in _ALL if tool.short}


def offered_tools(tool_input: ToolInput) -> tuple[Tool, ...]:
    """The useful tools for these reports, without arguments that can have only one value."""
    is_one_report = len(tool_input.explanations) < 2
    is_one_launch = all(len(explanation.launches) < 2 for explanation in tool_input.explanations)
    hidden = set() if tool_input.show_source else {"source", "amounts"}
    hidden |= {"diff"} if is_one_report else set()
    hidden |= {"explain"} if is_one_launch else set()  # its answer is in the first prompt
    useless = {"report"} if is_one_report else set()
    useless |= {"launch", "before_launch", "after_launch"} if is_one_launch else set()
    return tuple(_offered(SERVER_TOOLS[name], useless) for name in TOOLS if name not in hidden)


# --- calling


def call_tool(tool_input: ToolInput, name: str, arguments: Mapping[str, Any] | None) -> Answer:
    """Run a tool call of a model. A wrong call becomes an answer that says what is wrong."""
    given = dict(arguments) if isinstance(arguments, Mapping) else {}
    try:
        if name in _SUMMARIES and not given.keys() - {"launch", "report", "page"}:
            whole = {key: _whole(value) for key, value in given.items() if key != "page"}
            chosen = {key: value for key, value in whole.items() if value is not None}
            return _SUMMARIES[name](tool_input, **chosen)
        if name in _SUMMARIES:
            name = "line"
        former, renamed = _FORMER.get(name, (name, {}))
        if former != name:
            given.pop("page", None)
            given = {renamed.get(key, key): value for key, value in given.items()}
        if former not in TOOLS:
            known = ", ".join(TOOLS)
            return _refusal(f"there is no tool {quote(str(name), 40)}; there are {known}")
        return _called(tool_input, SERVER_TOOLS[former], given)
    except KeetError as problem:
        return _refusal(str(problem))


def _called(tool_input: ToolInput, tool: ServerTool, given: Mapping[str, Any]) -> Answer:
    fields = tool.arguments.model_fields
    unknown = [quote(str(name), 30) for name in given if name not in fields]
    if unknown:
        usage = ", ".join(TOOLS[tool.name].parameters["properties"])
        return _refusal(f"{tool.name} has no argument {', '.join(unknown[:5])}; it takes {usage}")
    reports = {"before": "0", "after": "1"} if tool.name == "diff" else {"report": "0"}
    read = {name: _value(name, value) for name, value in given.items()}
    kept = {name: value for name, value in read.items() if value is not None}
    try:
        asked = tool.arguments.model_validate({**reports, **kept})
    except ValidationError as wrong:
        problem = wrong.errors(include_url=False, include_input=False)[0]
        where = ".".join(quote(str(part), 30) for part in problem["loc"])
        return _refusal(f"{where} of {tool.name}: {problem['msg']}")
    names = tool_input.names
    names.cited.clear()
    reply = tool.call(tool_input, asked, ToolCall(most=MAX_CHARACTERS, names=names))
    text = bounded_text(reply.text, reply.end, MAX_CHARACTERS)
    return Answer(text.rstrip("\n"), tuple(names.cited.values()))


def _refusal(text: str) -> Answer:
    plain = one_line(text)
    return Answer(plain if len(plain) <= 600 else plain[:599] + "…", abstained=True)


def _value(name: str, value: Any) -> Any:
    """None if the argument counts as not given; numbers may be texts."""
    if isinstance(value, str) and value.strip().lower() in _NOTHING:
        return None
    whole = _whole(value)
    if name in _NUMBERS or (name == "line" and isinstance(value, int | float)):
        return None if value is None else str(value if whole is None else whole)
    if whole is not None and name != "file":
        return whole if not isinstance(value, str) or name not in ("line", "pattern") else value
    return value[: MAX_CHARACTERS if name == "claims" else 400] if isinstance(value, str) else value


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        text = value.strip().removeprefix("#")
        return int(float(text)) if _WHOLE.fullmatch(text) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None
