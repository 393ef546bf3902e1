"""The list of tools: name, description, argument and result types, function.

The MCP server offers all of them, and `list_reports`; keet's own agent those of `registry`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keet.formats.schema import schema_of
from keet_tools import arguments, results
from keet_tools.calls import ToolReply
from keet_tools.comparing import diff, verify
from keet_tools.explain import context, explain
from keet_tools.lines import line, source
from keet_tools.lookups import amounts, cases, metrics, occupancy
from keet_tools.what_if import what_if

_LIMITS = frozenset({"title", "default", "minLength", "maxLength", "minimum", "maximum", "pattern"})
"""What `keet schema` has and clients do not need: they add schemas to their context."""


class Tool(NamedTuple):
    description: str
    arguments: type[arguments.ToolArguments]
    result: type[results.ToolResult]
    call: Callable[..., ToolReply]
    """Its name is that of the tool."""

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
    Tool(
        "Why a kernel is slow: the limiting unit, where its time goes, ranked findings with source "
        "lines, what to change, a forecast of the speed-up and the evidence. Several launches: the "
        "program first, then the launches that matter. The main tool; about 1 s.",
        arguments.ExplainArguments,
        results.ExplainToolResult,
        explain,
    ),
    Tool(
        "One source line: samples, stalls and what they wait for, SASS, address patterns and "
        "strides, bytes, loops. Call it for a line that explain names, before you rewrite it. "
        "Without `line`: the hottest lines, and the bytes read per pointer.",
        arguments.LineArguments,
        results.LineToolResult,
        line,
    ),
    Tool(
        "Numbered source lines with their share of the samples.",
        arguments.SourceArguments,
        results.SourceToolResult,
        source,
    ),
    Tool(
        "How much work a launch does and how much of it is needed: instructions and bytes per "
        "result, how often each array is read, sectors per access, what loops repeat, least times. "
        "Call it before you choose between tuning and a redesign.",
        arguments.AmountsArguments,
        results.AmountsToolResult,
        amounts,
    ),
    Tool(
        "Metrics of a launch with unit and meaning. One that is not listed was not collected: it "
        "is unknown, not zero.",
        arguments.MetricsArguments,
        results.MetricsToolResult,
        metrics,
    ),
    Tool(
        "What limits the warps per SM, what would let more in, and the occupancy with other "
        "registers, shared memory or block size.",
        arguments.OccupancyArguments,
        results.OccupancyToolResult,
        occupancy,
    ),
    Tool(
        "The speed-up if claims about the work of a launch were true, with the next limiter: how "
        "much of a unit's work is needed or goes. keet's own forecast is beside it.",
        arguments.WhatIfArguments,
        results.WhatIfToolResult,
        what_if,
    ),
    Tool(
        "What changed between two reports and why: faster, slower, unchanged or inconclusive, "
        "causes that are gone or new, lines, what to fix next. Call it after each change. Refuses "
        "what can't be compared. Two launches of one report: name it twice, with before_launch and "
        "after_launch.",
        arguments.DiffArguments,
        results.DiffToolResult,
        diff,
    ),
    Tool(
        "One launch explained in at most max_tokens tokens, for a prompt that asks another model "
        "for a faster kernel.",
        arguments.ContextArguments,
        results.ContextToolResult,
        context,
    ),
    Tool(
        "Compares the numbers and comparisons of a text with a report: confirmed, contradicted "
        "(with the right value) or not found. Call it on your own summary before you give it to "
        "the user.",
        arguments.VerifyArguments,
        results.VerifyToolResult,
        verify,
    ),
    Tool(
        "Kernels that had a finding, before and after the fix, with the measured speed-up, also "
        "look-alikes where the fix gained nothing.",
        arguments.CasesArguments,
        results.CasesToolResult,
        cases,
    ),
)
TOOLS = {tool.name: tool for tool in _ALL}
