"""Entry points of the agent: `explain_with_model` adds a model's part to an explanation, `ask`
answers a question, `shown_prompts` shows what they would send.

If the model fails, the analyst's explanation is still returned.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from keet_tools.answers import ToolInput

from keet.agent.answering import answer_question, explain_launch
from keet.agent.model.messages import (
    NEXT_CAN_SUCCEED,
    UNSENT,
    ChatReply,
    ChatRequest,
    ModelFault,
)
from keet.agent.model.transcript import Transcript, check_replay, request_text
from keet.agent.open_model import ask_model, fault_from
from keet.agent.options import ModelOptions
from keet.agent.prompts import prompt_version
from keet.agent.redaction import Redactor
from keet.agent.session import ModelSession, Progress
from keet.documents.model_explanation import Authorship
from keet.errors import one_line
from keet.evidence import Prose
from keet.explanation.explain_document import AnsweredQuestion, cited_numbers
from keet.explanation.explanation_types import Explanation, LaunchExplanation

EMPTY_ANSWER = "the model's answer is empty; ask again, or try another model"


# --- explain


def explain_with_model(
    explanation: Explanation,
    options: ModelOptions,
    progress: Progress,
    against: Explanation | None = None,
) -> Explanation:
    """`against`: an earlier version of the program, for the model to see what changed."""
    every = [explanation] if against is None else [explanation, against]
    launches = list(explanation.launches)

    def work(session: ModelSession) -> ModelFault | None:
        positions = _typical_launches(explanation, options.launches)
        if len(positions) < len(explanation.asked):
            progress(
                f"the model explains {len(positions)} of {len(explanation.asked):,} launches, one "
                "per kernel and shape; choose others with --launch or --kernel, more kernels with "
                "--model-launches"
            )
        first: ModelFault | None = None
        for position in positions:
            tool_input = _tool_input(every, session.redactor, position)
            launches[position], fault = _launch_result(session, tool_input, options)
            if fault and first is None:  # later faults may be consequences of the first
                name = f"#{launches[position].launch.id} {launches[position].launch.name.short}"
                of_one = len(positions) > 1 and fault.kind not in UNSENT
                first = ModelFault(fault.kind, one_line(f"{name}: {fault}")) if of_one else fault
            if fault and fault.kind not in NEXT_CAN_SUCCEED:
                break  # the server will fail for the next kernel, too
        return first

    author = _ask_about(every, None, options, progress, work)
    return explanation.attributed_to(author, launches)


def _launch_result(
    session: ModelSession, tool_input: ToolInput, options: ModelOptions
) -> tuple[LaunchExplanation, ModelFault | None]:
    """Without the model's part if it is empty, which is a fault."""
    try:
        explained = explain_launch(
            session, tool_input, compiles=options.compile, include=options.include
        )
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - the next launch may succeed
        return tool_input.launch(), fault_from(problem)
    fault = ModelFault("interrupted", "interrupted") if session.interrupted else None
    said = explained.model
    if said and any((said.summary, said.purpose, said.causes, said.objections, said.edits)):
        return explained, fault
    return tool_input.launch(), fault or ModelFault("answer", EMPTY_ANSWER)


# --- ask


def ask(
    explanations: Sequence[Explanation], question: str, options: ModelOptions, progress: Progress
) -> AnsweredQuestion | Authorship:
    """The answer; without one, which model was asked and what went wrong."""
    tool_input = _tool_input(explanations, Redactor(explanations, options.redact))
    answer = Prose()

    def work(session: ModelSession) -> ModelFault | None:
        nonlocal answer
        answer = answer_question(session, tool_input, question)
        return None if answer else ModelFault("answer", EMPTY_ANSWER)

    author = _ask_about(explanations, question, options, progress, work)
    if not answer:
        return author
    pieces = {piece.id: piece for piece in tool_input.evidence()}
    cited = (pieces[found] for found in answer.ids if found in pieces)
    return AnsweredQuestion(
        question=question,
        answer=answer,
        evidence=cited_numbers(cited, explanations),
        followups=list(_followups(explanations)),
        explanations=explanations,
        authorship=author,
    )


def _followups(explanations: Sequence[Explanation]) -> Iterator[str]:
    """Commands for the reports that exist as files.

    A snapshot contains the path of its report, which its writer could choose freely: the path
    must not be taken for an option or a command."""
    for explanation in explanations:
        path = explanation.profile.provenance.path
        if path.isprintable() and os.path.isfile(path):  # noqa: PTH113 - Path's raises for long names
            yield f"keet explain {shlex.quote(f'./{path}' if path.startswith('-') else path)}"


# --- both


def _ask_about(
    explanations: Sequence[Explanation],
    question: str | None,
    options: ModelOptions,
    progress: Progress,
    work: Callable[[ModelSession], ModelFault | None],
) -> Authorship:
    """A replayed transcript must be of these reports; the author is the model recorded in it."""
    shas = [told.profile.provenance.sha256 for told in explanations]
    if options.replay is not None:
        model = check_replay(options.replay, shas, question).model
        name = f"{model} (replayed)" if model else options.spec.name
        options = options._replace(spec=options.spec._replace(name=name))
    return ask_model(
        options,
        progress,
        work,
        redactor=Redactor(explanations, options.redact),
        name=re.sub(r"[^\w-]+", "_", Path(explanations[0].profile.provenance.path).stem)[:40],
        about="+".join(shas),
        base_url=options.spec.base_url,
        prompt_version=prompt_version(),
        reports=shas,
        question=question,
    )


def _tool_input(
    explanations: Sequence[Explanation], redactor: Redactor, position: int | None = None
) -> ToolInput:
    """`position`: of the launch in focus; None: the first of those to ask about."""
    if position is None:
        (position,) = _typical_launches(explanations[0], 1)
    return ToolInput(explanations, focus=position, show_source=not redactor.hides_source)


def _typical_launches(explanation: Explanation, most: int) -> list[int]:
    """Positions of the launches to ask about: one per kernel and shape, the representative, of
    those that take the most time. In the order of the report or run."""
    position = {each.launch.id: place for place, each in enumerate(explanation.launches)}
    ranked = explanation.profile.representatives(each.launch for each in explanation.launches)
    return sorted(position[launch.id] for launch in ranked[:most])


# --- what would be sent


def shown_prompts(
    explanations: Sequence[Explanation], options: ModelOptions, question: str | None = None
) -> str:
    """The first request about each launch, or the question; later ones depend on replies."""
    redactor = Redactor(explanations, options.redact)
    shown: list[str] = []
    if question is not None:
        tool_input = _tool_input(explanations, redactor)
        shown += _shown(options, redactor, lambda s: answer_question(s, tool_input, question))
    else:
        for position in _typical_launches(explanations[0], options.launches):
            launch = _tool_input(explanations, redactor, position)
            shown += _shown(options, redactor, lambda s: explain_launch(s, launch, compiles=False))  # noqa: B023
    return "\n\n".join(shown) + "\n"


def _shown(
    options: ModelOptions, redactor: Redactor, work: Callable[[ModelSession], object]
) -> Iterator[str]:
    """Runs a real session, so that the text is exactly what would be sent."""
    collector = _PromptCollector(options.spec.name)
    session = ModelSession(
        collector,
        transcript=Transcript(None),
        redactor=redactor,
        progress=lambda _: None,
        limits=options.limits,
    )
    try:
        work(session)
    except ModelFault as fault:
        if collector.request is None:
            yield f"--- nothing more is sent ---\n{one_line(str(fault))}\n"
        else:
            yield request_text(collector.request)


class _PromptCollector:
    """A chat that keeps the first request and sends nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.request: ChatRequest | None = None

    def ask(self, request: ChatRequest) -> ChatReply:
        self.request = request
        raise ModelFault("shown", "the next request depends on the reply")
