"""Entry points of the agent: `explain_with_model` adds a model's part to an explanation, `ask`
answers a question.

If the model fails, the analyst's explanation is still returned.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from keet_tools.answers import ToolInput

from keet.agent.answer_schemas import SourceReading, schema_of
from keet.agent.answering import ModelLaunchResult, answer_question, explain_launch
from keet.agent.model.cache import CachedChat
from keet.agent.model.messages import (
    NEXT_CAN_SUCCEED,
    UNSENT,
    Chat,
    ChatReply,
    ChatRequest,
    ModelFault,
    TokenCount,
)
from keet.agent.model.transcript import Transcript, check_replay, request_text
from keet.agent.open_model import bug_fault, open_run_chat, open_transcript, with_cache
from keet.agent.options import ModelOptions
from keet.agent.prompts import prompt_version
from keet.agent.redaction import Redactor
from keet.agent.session import ModelSession, Progress, estimate
from keet.documents.model_explanation import NO_USAGE, Authorship, ModelExplanation, UsageDocument
from keet.errors import one_line
from keet.evidence import Prose
from keet.explanation.explain_document import AnsweredQuestion, answered_question
from keet.explanation.explanation_types import Explanation, LaunchExplanation

_EMPTY_ANSWER = "the model's answer is empty; ask again, or try another model"


# --- explain


def explain_with_model(
    explanation: Explanation,
    options: ModelOptions,
    progress: Progress,
    against: Explanation | None = None,
) -> Explanation:
    """`against`: an earlier version of the program, for the model to see what changed."""
    every = [explanation] if against is None else [explanation, against]
    options = _checked_replay(options, every, None)
    redactor = Redactor(every, options.redact)
    transcript = open_transcript(options, _transcript_name(every))
    with closing(transcript):
        session = _session(options, every, redactor, transcript, progress)
        if isinstance(session, ModelFault):
            told = explanation._replace(author=_author(options, None, transcript, session))
        else:
            positions = _asked_launches(explanation, options, progress)
            told = _explained(every, positions, session, options)
        _report_problems(session, transcript, progress)
        return told


def _asked_launches(
    explanation: Explanation, options: ModelOptions, progress: Progress
) -> list[int]:
    """Positions of the launches that the model is asked about."""
    chosen = _longest_launches(explanation.launches, options.launches)
    if len(chosen) < len(explanation.asked):
        progress(
            f"the model explains the {len(chosen)} longest of {len(explanation.asked):,} "
            "launches; choose others with --launch or --kernel, more with --model-launches"
        )
    return chosen


def _explained(
    every: Sequence[Explanation],
    positions: Sequence[int],
    session: ModelSession,
    options: ModelOptions,
) -> Explanation:
    """The first explanation with the model's part; the other one is only compared with."""
    explanation = every[0]
    told, fault = list(explanation.launches), None
    for position in positions:
        tool_input = ToolInput(every, focus=position, show_source=not session.redactor.hides_source)
        told[position], problem = _launch_result(session, tool_input, options)
        if problem and fault is None:  # later faults may be consequences of the first
            of_one = len(positions) > 1 and problem.kind not in UNSENT
            fault = _named(problem, told[position]) if of_one else problem
        if problem and problem.kind not in NEXT_CAN_SUCCEED:
            break  # the server will fail for the next kernel, too
    _end(session.transcript, options, fault, session.usage)
    author = _author(options, session, session.transcript, fault)
    return explanation._replace(launches=tuple(told), author=author)


def _launch_result(
    session: ModelSession, tool_input: ToolInput, options: ModelOptions
) -> ModelLaunchResult:
    """An empty statement is a fault."""
    each = tool_input.launch()
    try:
        found = explain_launch(
            session, tool_input, compiles=options.compile, include=options.include
        )
    except KeyboardInterrupt:
        return ModelLaunchResult(each, ModelFault("interrupted", "interrupted"))
    except Exception as error:  # noqa: BLE001 - the analyst's result is printed despite a bug here
        return ModelLaunchResult(each, bug_fault(error))
    statement = found.each.model_explanation
    if statement is None or _has_content(statement):
        return found
    return ModelLaunchResult(each, found.fault or ModelFault("answer", _EMPTY_ANSWER))


def _has_content(said: ModelExplanation) -> bool:
    parts = (said.purpose, said.hypotheses, said.summary, said.causes, said.objections, said.edits)
    return any(parts)


def _named(fault: ModelFault, each: LaunchExplanation) -> ModelFault:
    return ModelFault(fault.kind, one_line(f"#{each.launch.id} {each.launch.name.short}: {fault}"))


# --- ask


def ask(
    explanations: Sequence[Explanation], question: str, options: ModelOptions, progress: Progress
) -> AnsweredQuestion | Authorship:
    """The answer; without one, which model was asked and what went wrong."""
    options = _checked_replay(options, explanations, question)
    redactor = Redactor(explanations, options.redact)
    transcript = open_transcript(options, _transcript_name(explanations))
    tool_input = _question_input(explanations, redactor)
    with closing(transcript):
        session = _session(options, explanations, redactor, transcript, progress, question)
        if isinstance(session, ModelFault):
            answer: AnsweredQuestion | Authorship = _author(options, None, transcript, session)
        else:
            answer = _answer(session, tool_input, question, options)
        _report_problems(session, transcript, progress)
        return answer


def _answer(
    session: ModelSession, tool_input: ToolInput, question: str, options: ModelOptions
) -> AnsweredQuestion | Authorship:
    answer = _answer_or_fault(session, tool_input, question) or ModelFault("answer", _EMPTY_ANSWER)
    fault = answer if isinstance(answer, ModelFault) else None
    _end(session.transcript, options, fault, session.usage)
    author = _author(options, session, session.transcript, fault)
    if isinstance(answer, ModelFault):
        return author
    pieces = {piece.id: piece for piece in tool_input.evidence()}
    cited = (pieces[found] for found in answer.ids if found in pieces)
    followups = _followups(tool_input.explanations)
    return answered_question(question, answer, cited, tool_input.explanations, author, followups)


def _followups(explanations: Sequence[Explanation]) -> Iterator[str]:
    """Commands for the reports that exist as files.

    A snapshot contains the path of its report, which its writer could choose freely: the path
    must not be taken for an option or a command."""
    for explanation in explanations:
        path = explanation.profile.provenance.path
        if path.isprintable() and os.path.isfile(path):  # noqa: PTH113 - Path's raises for long names
            yield f"keet explain {shlex.quote(f'./{path}' if path.startswith('-') else path)}"


def _answer_or_fault(
    session: ModelSession, tool_input: ToolInput, question: str
) -> Prose | ModelFault:
    try:
        return answer_question(session, tool_input, question)
    except ModelFault as fault:
        return fault
    except KeyboardInterrupt:
        return ModelFault("interrupted", "interrupted")
    except Exception as error:  # noqa: BLE001 - as above
        return bug_fault(error)


def _question_input(explanations: Sequence[Explanation], redactor: Redactor) -> ToolInput:
    """With the longest launch of the first report in focus."""
    (longest,) = _longest_launches(explanations[0].launches, 1)
    return ToolInput(explanations, focus=longest, show_source=not redactor.hides_source)


def _longest_launches(launches: Sequence[LaunchExplanation], most: int) -> list[int]:
    """Positions of the launches that take the most time, in the order of the report or run."""
    if any(each.in_run for each in launches):  # already sorted by their time in the run
        return list(range(len(launches)))[:most]
    ranked = sorted(range(len(launches)), key=lambda position: -launches[position].launch.rank_time)
    return sorted(ranked[:most])


# --- parts of a run


def _checked_replay(
    options: ModelOptions, explanations: Sequence[Explanation], question: str | None
) -> ModelOptions:
    """A replayed transcript must be of these reports; the author is the model recorded in it."""
    if options.replay is None:
        return options
    shas = [told.profile.provenance.sha256 for told in explanations]
    run = check_replay(options.replay, shas, question)
    name = f"{run.model} (replayed)" if run.model else options.spec.name
    return options._replace(spec=options.spec._replace(name=name))


def _transcript_name(explanations: Sequence[Explanation]) -> str:
    return re.sub(r"[^\w-]+", "_", Path(explanations[0].profile.provenance.path).stem)[:40]


def _session(  # noqa: PLR0913, PLR0917 - the parts of a run
    options: ModelOptions,
    explanations: Sequence[Explanation],
    redactor: Redactor,
    transcript: Transcript,
    progress: Progress,
    question: str | None = None,
) -> ModelSession | ModelFault:
    transcript.start(
        model=options.spec.name,
        base_url=options.spec.base_url,
        prompt_version=prompt_version(),
        reports=[told.profile.provenance.sha256 for told in explanations],
        question=question,
        limits=options.limits._asdict(),
        redact=options.redact,
    )
    chat = _opened(options, explanations)
    if isinstance(chat, ModelFault):
        _end(transcript, options, chat, None)
        return chat
    return ModelSession(
        chat,
        transcript=transcript,
        redactor=redactor,
        progress=progress,
        limits=options.limits,
        price=options.spec.price,
        is_replay=options.replay is not None,
    )


def _end(
    transcript: Transcript,
    options: ModelOptions,
    fault: ModelFault | None,
    usage: UsageDocument | None,
) -> None:
    """`usage`: None if the model could not be opened."""
    transcript.end(fault.kind if fault else "done", usage)
    sent = usage is not None and (fault is None or fault.kind not in UNSENT)
    if not sent and options.transcript is None:
        transcript.discard()


def _opened(options: ModelOptions, explanations: Sequence[Explanation]) -> Chat | ModelFault:
    """May take a while: if only a server is named, it is asked which models it has."""
    try:
        chat = open_run_chat(options)
    except ModelFault as fault:
        return fault
    except KeyboardInterrupt:
        return ModelFault("interrupted", "interrupted")
    except Exception as error:  # noqa: BLE001 - as above
        return bug_fault(error)
    shas = "+".join(told.profile.provenance.sha256 for told in explanations)
    return with_cache(chat, options, shas, prompt_version())


def _report_problems(
    session: ModelSession | ModelFault, transcript: Transcript, progress: Progress
) -> None:
    """A transcript or cache that could not be written does not fail the run."""
    chat = session.chat if isinstance(session, ModelSession) else None
    cache = chat.problem if isinstance(chat, CachedChat) else None
    for problem in filter(None, (transcript.problem, cache)):
        progress(problem)


def _author(
    options: ModelOptions,
    session: ModelSession | None,
    transcript: Transcript,
    fault: ModelFault | None,
) -> Authorship:
    usage = session.usage if session else NO_USAGE
    name = session.chat.name if session and not options.replay else options.spec.name
    path = str(transcript.kept) if transcript.kept else None
    return Authorship(name, usage, str(fault) if fault else None, path)


_SHOWN = "shown"
"""Kind of the fault that ends a session with `_PromptCollector`."""


def shown_prompts(
    explanations: Sequence[Explanation], options: ModelOptions, question: str | None = None
) -> str:
    """The requests as text. What depends on a model's replies is in brackets."""
    redactor = Redactor(explanations, options.redact)
    if question is not None:
        shown = _shown(options, redactor, _question_input(explanations, redactor), question)
        return "\n\n".join(shown) + "\n"
    cases = [
        ToolInput(explanations, focus=position, show_source=not redactor.hides_source)
        for position in _longest_launches(explanations[0].launches, options.launches)
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
        end: object = _answer_or_fault(session, tool_input, question)
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
