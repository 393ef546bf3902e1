"""`--show-prompt`: the requests that would be sent, word for word. Nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence

from keet_tools.answers import ToolInput

from keet.agent.answer_schemas import SourceReading, schema_of
from keet.agent.explain_launch import explain_launch
from keet.agent.model.messages import ChatReply, ChatRequest, ModelFault, TokenCount
from keet.agent.options import ModelOptions
from keet.agent.privacy.redaction import Redactor
from keet.agent.recorded.transcript import Transcript, request_text
from keet.agent.run import answer_or_fault, longest_launches, question_input
from keet.agent.session import ModelSession, estimate
from keet.errors import one_line
from keet.explanation.explanation_types import Explanation

_SHOWN = "shown"
"""Kind of the fault that ends a session with `_PromptCollector`."""


def shown_prompts(
    explanations: Sequence[Explanation], options: ModelOptions, question: str | None = None
) -> str:
    """The requests as text. What depends on a model's replies is in brackets."""
    redactor = Redactor(explanations, options.redact)
    if question is not None:
        shown = _shown(options, redactor, question_input(explanations, redactor), question)
        return "\n\n".join(shown) + "\n"
    cases = [
        ToolInput(explanations, focus=position, show_source=not redactor.hides_source)
        for position in longest_launches(explanations[0].launches, options.launches)
    ]
    shown = [text for tool_input in cases for text in _shown(options, redactor, tool_input, None)]
    return "\n\n".join(shown) + "\n"


def _shown(
    options: ModelOptions, redactor: Redactor, tool_input: ToolInput, question: str | None
) -> list[str]:
    """Runs a real session, so that the text is exactly what would be sent."""
    collector = _PromptCollector(options.spec.name)
    session = ModelSession(
        collector,
        transcript=Transcript(None),
        redactor=redactor,
        progress=lambda _: None,
        limits=options.limits,
    )
    if question is not None:
        end: object = answer_or_fault(session, tool_input, question)
    else:
        end = explain_launch(session, tool_input, compiles=False).fault
    texts = [request_text(request) for request in collector.requests]
    if isinstance(end, ModelFault) and end.kind != _SHOWN:
        texts.append(f"--- nothing more is sent ---\n{one_line(str(end))}\n")
    return texts


class _PromptCollector:
    """A chat that keeps requests and sends nothing. It answers the first step, because the next
    one quotes the answer; everything after that depends on replies."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: list[ChatRequest] = []
        self._is_over = False

    def ask(self, request: ChatRequest) -> ChatReply:
        if not self._is_over:
            self.requests.append(request)
        if request.schema != schema_of(SourceReading):
            self._is_over = True
            raise ModelFault(_SHOWN, "the next request depends on a reply")
        spent = TokenCount(estimate(request), 0, estimated=True)
        return ChatReply('{"purpose": "(its answer to the first)"}', (), spent)
