"""The langchain model behind scripted.py. Imports langchain: import it inside functions only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import Field

from keet.agent.model.messages import ModelFault


class ScriptedModel(BaseChatModel):
    """Answers from a list, in order; an exception in the list is raised.

    langchain's own fake models do not support tools. This one accepts tools and a response format,
    and records what it was asked.
    """

    script: list[Any]
    """AIMessage or BaseException. `Any`, because pydantic would convert one to the other."""
    where: str = "the script"
    asked: list[dict[str, Any]] = Field(default_factory=list)
    """Per call: `messages`, and the bound arguments (`tools`, `extra_body`, ...)."""

    @property
    def _llm_type(self) -> str:
        return "keet-scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        choice = {"tool_choice": tool_choice} if tool_choice else {}
        return self.bind(tools=list(tools), **choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager
        number = len(self.asked)
        self.asked.append({"messages": messages, **kwargs})
        if number >= len(self.script):
            raise ModelFault("script", _used_up(self.where, len(self.script)))
        answer = self.script[number]
        if isinstance(answer, BaseException):
            raise answer
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _used_up(where: str, count: int) -> str:
    return f"{where} is used up after {count} replies; add what the model answers next"
