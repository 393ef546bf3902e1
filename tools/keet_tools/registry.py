"""The tools that keet's own agent may call: descriptions for a model, and `call_tool`.

They are those of `tools`, with names of evidence in their texts. The reports are open already, so
`report` is a number, and arguments that can have one value only are not offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from keet.errors import KeetError, one_line
from keet_tools import tools
from keet_tools.answers import MAX_CHARACTERS, Answer, ToolInput, quote
from keet_tools.calls import ToolCall, bounded_text
from keet_tools.launch_overview import (
    address_forms,
    analyst_findings,
    list_launches,
    source_hotspots,
)

_NOT_OFFERED = frozenset({"source", "kernel", "top", "force"})
"""Arguments that a model of keet does not need; they work."""
_DESCRIPTIONS = {
    "explain": "keet's findings on launches: causes, lines, forecasts, where the time goes.",
    "line": "A source line (`file.cu:31`): stalls and what they wait for, SASS, addresses, bytes, "
    "loops; `0x0130`: SASS from there; without `line`: hottest lines, bytes by pointer.",
    "source": "Source text from a line on, with each line's share of samples.",
    "amounts": "How much work is done and needed: per item, array, access, loop; bounds.",
    "metrics": "Metrics by ncu name, id, label or words; without a pattern: roofline, key metrics.",
    "occupancy": "What limits occupancy; theoretical occupancy if something changed.",
    "what_if": "Gain if claims held: JSON list of {finding, kind, of, needed|removed}; constants: "
    "`N=4`.",
    "diff": "Compare report `before` with `after`, or a launch of each: time, and why.",
}
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


def _tool(name: str) -> Tool:
    whole = tools.TOOLS[name].input_schema
    properties = {
        field: {"type": "integer" if field in _NUMBERS else part["type"]}
        for field, part in whole["properties"].items()
        if field not in _NOT_OFFERED
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [field for field in whole["required"] if field not in _NUMBERS]:
        schema["required"] = required
    return Tool(name, _DESCRIPTIONS[name], schema)


TOOLS: Mapping[str, Tool] = {name: _tool(name) for name in _DESCRIPTIONS}


def offered_tools(tool_input: ToolInput) -> tuple[Tool, ...]:
    """The useful tools for these reports, without arguments that can have only one value."""
    is_one_report = len(tool_input.explanations) < 2
    is_one_launch = all(len(explanation.launches) < 2 for explanation in tool_input.explanations)
    hidden = set() if tool_input.show_source else {"source", "amounts"}
    hidden |= {"diff"} if is_one_report else set()
    hidden |= {"explain"} if is_one_launch else set()  # its answer is in the first prompt
    useless = {"report"} if is_one_report else set()
    useless |= {"launch", "before_launch", "after_launch"} if is_one_launch else set()
    offered = []
    for tool in TOOLS.values():
        properties = tool.parameters["properties"]
        kept = {name: part for name, part in properties.items() if name not in useless}
        if tool.name not in hidden:
            offered.append(tool._replace(parameters={**tool.parameters, "properties": kept}))
    return tuple(offered)


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
        return _called(tool_input, tools.TOOLS[former], given)
    except KeetError as problem:
        return _refusal(str(problem))


def _called(tool_input: ToolInput, tool: tools.Tool, given: Mapping[str, Any]) -> Answer:
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
