"""The tools by name, their descriptions for a model, and `call_tool`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, NamedTuple, get_args, get_type_hints

from keet.errors import one_line
from keet_tools.address_forms import address_forms
from keet_tools.amounts import amounts
from keet_tools.answers import Abstention, Answer, ToolInput, quote
from keet_tools.diff_profiles import diff_profiles
from keet_tools.instruction_mix import instruction_mix
from keet_tools.launch_overview import (
    analyst_findings,
    check_roofline,
    list_launches,
    stall_reasons,
)
from keet_tools.lookup_metric import lookup_metric
from keet_tools.memory_access import memory_access
from keet_tools.occupancy_what_if import occupancy_what_if
from keet_tools.read_code import read_sass, read_source
from keet_tools.source_hotspots import source_hotspots
from keet_tools.what_if import what_if
from keet_tools.why_waiting import why_waiting

_FUNCTIONS: tuple[Callable[..., Answer], ...] = (
    list_launches,
    analyst_findings,
    amounts,
    lookup_metric,
    check_roofline,
    source_hotspots,
    stall_reasons,
    memory_access,
    why_waiting,
    instruction_mix,
    address_forms,
    occupancy_what_if,
    what_if,
    read_source,
    read_sass,
    diff_profiles,
)
_NEEDS_SOURCE = frozenset({"read_source", "read_sass"})
_NEEDS_REPORTS = frozenset({"diff_profiles"})
_NEEDS_LAUNCHES = frozenset(
    {"list_launches", "analyst_findings", "stall_reasons", "check_roofline"}
)
"""Not offered for a single launch: the first prompt has all that they would answer."""
_JSON_TYPES = {int: "integer", str: "string"}
_NOTHING = {"", "none", "null", "default"}
"""What models write for an argument without a value."""
_WHOLE = re.compile(r"[-+]?\d{1,15}(?:\.0*)?")


class Tool(NamedTuple):
    """A tool as a model sees it, and the function behind it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema, as short as it can be: it is sent with each request."""
    call: Callable[..., Answer]


class _Parameter(NamedTuple):
    type: type
    required: bool
    optional: bool
    """None may be given."""


def _parameters(function: Callable[..., Answer]) -> Mapping[str, _Parameter]:
    hints = get_type_hints(function)
    found = list(inspect.signature(function).parameters.values())[1:]
    return {each.name: _parameter(hints[each.name], each) for each in found}


def _parameter(hint: Any, found: inspect.Parameter) -> _Parameter:
    choices = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kind = next(choice for choice in choices if choice is not type(None))
    return _Parameter(kind, found.default is found.empty, type(None) in choices)


def _schema(parameters: Mapping[str, _Parameter]) -> dict[str, Any]:
    properties = {name: {"type": _JSON_TYPES[each.type]} for name, each in parameters.items()}
    required = [name for name, each in parameters.items() if each.required]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _tool(function: Callable[..., Answer]) -> Tool:
    description = inspect.getdoc(function) or ""
    schema = _schema(_parameters(function))
    return Tool(function.__name__, description, schema, function)


TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in map(_tool, _FUNCTIONS)}


def offered_tools(tool_input: ToolInput) -> tuple[Tool, ...]:
    """The useful tools for these reports, without arguments that can have only one value."""
    single = len(tool_input.explanations) < 2
    hidden = (set() if tool_input.show_source else _NEEDS_SOURCE) | (
        _NEEDS_REPORTS if single else set()
    )
    hidden |= _NEEDS_LAUNCHES if _is_one_launch(tool_input) else set()
    useless = ({"report"} if single else set()) | (
        {"launch"} if _is_one_launch(tool_input) else set()
    )
    return tuple(_without(tool, useless) for tool in TOOLS.values() if tool.name not in hidden)


def _is_one_launch(tool_input: ToolInput) -> bool:
    return all(len(explanation.launches) < 2 for explanation in tool_input.explanations)


def _without(tool: Tool, names: set[str]) -> Tool:
    properties = tool.parameters["properties"]
    kept = {name: each for name, each in properties.items() if name not in names}
    return tool._replace(parameters={**tool.parameters, "properties": kept})


# --- calling


def call_tool(tool_input: ToolInput, name: str, arguments: Mapping[str, Any] | None) -> Answer:
    """Run a tool call of a model. A wrong call becomes an answer that says what is wrong."""
    tool = TOOLS.get(name)
    if tool is None:
        return _refusal(f"there is no tool {quote(str(name), 40)}; there are {', '.join(TOOLS)}")
    try:
        return tool.call(tool_input, **_arguments(tool, arguments))
    except Abstention as reason:
        return _refusal(str(reason))


def _refusal(text: str) -> Answer:
    plain = one_line(text)
    return Answer(plain if len(plain) <= 600 else plain[:599] + "…", abstained=True)


def _arguments(tool: Tool, given: Mapping[str, Any] | None) -> dict[str, Any]:
    known = _parameters(tool.call)
    values = given if isinstance(given, Mapping) else {}
    unknown = [quote(str(name), 30) for name in values if name not in known]
    if unknown:
        raise Abstention(f"{tool.name} has no argument {', '.join(unknown[:5])}; {_usage(tool)}")
    read = {name: _value(tool, name, known[name], value) for name, value in values.items()}
    kept = {name: value for name, value in read.items() if value is not None}
    missing = [name for name, each in known.items() if each.required and not kept.get(name)]
    if missing:
        raise Abstention(f"{tool.name} needs {', '.join(missing)}; {_usage(tool)}")
    return kept


def _usage(tool: Tool) -> str:
    known = _parameters(tool.call)
    described = [f"{name}: {_JSON_TYPES[each.type]}" for name, each in known.items()]
    return f"it takes `{', '.join(described)}`"


def _value(tool: Tool, name: str, parameter: _Parameter, value: Any) -> Any:
    """None if the argument counts as not given."""
    read = _whole(value) if parameter.type is int else _text(value)
    if read is None and not _is_nothing(value):
        wanted = _JSON_TYPES[parameter.type]
        raise Abstention(f"{name} of {tool.name} has to be one {wanted}; {_usage(tool)}")
    return read


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        text = value.strip().removeprefix("#")
        return int(float(text)) if _WHOLE.fullmatch(text) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return int(value) if isinstance(value, int) else None


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return None if value.strip().lower() in _NOTHING else value[:400]
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
