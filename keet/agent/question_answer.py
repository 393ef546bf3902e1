"""Answers one question about one or more reports; numbers in the answer are references."""

from __future__ import annotations

from keet_tools.answers import ToolInput

from keet.agent import prompts
from keet.agent.answer_schemas import TextAnswer
from keet.agent.checked_answer import AnswerTexts
from keet.agent.evidence_summary import overview
from keet.agent.repair import repair
from keet.agent.session import ModelSession
from keet.agent.toolbox import Toolbox
from keet.agent.vocabulary import vocabulary
from keet.evidence import Prose

_WHERE = "answer"


def opening(tool_input: ToolInput, question: str, rounds: int) -> str:
    count = len(tool_input.explanations)
    what = f"{count} profiles of GPU kernels" if count > 1 else "a profile of GPU kernels"
    return prompts.ask(what=what, question=question, evidence=overview(tool_input), rounds=rounds)


def answer_question(session: ModelSession, tool_input: ToolInput, question: str) -> Prose:
    """Raises ModelFault."""
    session.begin("the question")
    session.tell("looking at the evidence")
    said, _ = session.converse(
        "ask", lambda rounds: opening(tool_input, question, rounds), TextAnswer, Toolbox(tool_input)
    )
    texts = AnswerTexts(vocabulary(tool_input))
    texts.put(_WHERE, said.answer)
    repair(session, tool_input, list(texts.faults()))
    return texts[_WHERE]
