"""The tools that a model may call: keet_tools, and `compile_edit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keet_tools.answers import Answer, ToolInput
from keet_tools.registry import call_tool, offered_tools
from pydantic import ValidationError

from keet.agent.answer_schemas import RawEdit
from keet.agent.edits.edit_placer import EditPlacer
from keet.agent.model.messages import ToolSpec

_COMPILE = ToolSpec(
    "compile_edit",
    "Whether an edit applies and compiles; registers, spills and shared memory before and after.",
    {
        "type": "object",
        "properties": {
            "changes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "string"},
                        "line": {"type": "integer"},
                        "old": {"type": "string"},
                        "new": {"type": "string"},
                    },
                },
            }
        },
        "required": ["changes"],
    },
)


class Toolbox:
    """Offers and runs the tools on one `ToolInput`."""

    def __init__(self, tool_input: ToolInput, placer: EditPlacer | None = None) -> None:
        """`placer`: for the launch in focus; None if no edits are asked for."""
        self._tool_input = tool_input
        self._placer = placer if placer and placer.can_compile else None

    @property
    def specs(self) -> list[ToolSpec]:
        own = [_COMPILE] if self._placer else []
        tools = offered_tools(self._tool_input)
        return [*(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools), *own]

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> Answer:
        if name == _COMPILE.name and self._placer:
            return self._compile(self._placer, arguments)
        answer = call_tool(self._tool_input, name, arguments)
        return answer._replace(text=self._tool_input.with_short_names(answer.text))

    def _compile(self, placer: EditPlacer, arguments: Mapping[str, Any] | None) -> Answer:
        try:
            edit = RawEdit.model_validate({"what": "", **(arguments or {})})
        except ValidationError as error:
            return Answer(f"changes: {error.errors()[0]['msg']}", abstained=True)
        placed = placer.place(edit.changes)
        if placed.fault:
            return Answer(placed.fault, abstained=True)
        return Answer(f"applies; {placed.build.message}")
