"""The agent's door: an explanation goes in, the same with a model's part comes out.

Whatever happens to the model, what the analyst found is not lost.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from keet_tools.case import Case

from keet.agent import question as asking
from keet.agent.cache import Cache, CachedChat
from keet.agent.evidence_ids import recorded_in
from keet.agent.investigation import investigate, shown_requests
from keet.agent.prompts import prompt_version
from keet.agent.redacting import Redaction, Redactor
from keet.agent.session import Limits, Progress, Session
from keet.agent.settings import ModelSpec, cache_folder
from keet.agent.slots import Slots
from keet.agent.transcript import Transcript, request_text
from keet.agent.wire import Chat, Fault, Message, Request
from keet.errors import one_line
from keet.explanation.analyst import Explanation, LaunchExplanation
from keet.explanation.statement import Answered, Authorship, Usage

MOST_LAUNCHES = 3
"""That a model explains unless told otherwise: each costs some thousand tokens."""


class Plan(NamedTuple):
    """How a model is to be asked."""

    spec: ModelSpec
    limits: Limits = Limits()
    redact: Redaction | None = None
    transcript: Path | None = None
    """None: in the cache's folder, by report and time."""
    replay: Path | None = None
    """A transcript whose replies are given again, in place of a model."""
    cache: bool = True
    launches: int = MOST_LAUNCHES


def explain_with_model(explanation: Explanation, plan: Plan, progress: Progress) -> Explanation:
    chosen = _longest(explanation.launches, plan.launches)
    if len(chosen) < len(explanation.launches):
        progress(
            f"the model explains the {len(chosen)} longest of {len(explanation.launches)} "
            "launches; choose others with --launch or --kernel, more with --model-launches"
        )
    redactor = Redactor([explanation], plan.redact)
    transcript = _transcript(plan, [explanation])
    with closing(transcript):
        session = _session(plan, [explanation], redactor, transcript, progress)
        if isinstance(session, Fault):
            return explanation._replace(author=_author(plan, None, transcript, session))
        return _explained(explanation, chosen, session, plan)


def _explained(
    explanation: Explanation, chosen: Sequence[int], session: Session, plan: Plan
) -> Explanation:
    told, fault = list(explanation.launches), None
    try:
        for position in chosen:
            case = Case(
                [explanation], focus=position, show_source=not session.redactor.hides_source
            )
            statement, fault = investigate(session, case)
            told[position] = told[position]._replace(statement=statement)
            if fault and fault.kind not in ("budget", "calls", "answer"):
                break  # a host that is gone will not be back for the next kernel
    except KeyboardInterrupt:
        fault = Fault("interrupted", "interrupted")
    except Exception as error:  # noqa: BLE001 - a bug here must not cost the analyst's answer
        fault = _bug(error)
    session.transcript.end(fault.kind if fault else "done", session.usage)
    author = _author(plan, session, session.transcript, fault)
    return explanation._replace(launches=tuple(told), author=author)


def ask(
    explanations: Sequence[Explanation], question: str, plan: Plan, progress: Progress
) -> Answered | Authorship:
    """The answer; or, where there is none, who was asked and what went wrong."""
    redactor = Redactor(explanations, plan.redact)
    transcript = _transcript(plan, explanations)
    case = _case(explanations, redactor)
    with closing(transcript):
        session = _session(plan, explanations, redactor, transcript, progress)
        if isinstance(session, Fault):
            return _author(plan, None, transcript, session)
        found = _asked(session, case, question)
        transcript.end(found.kind if isinstance(found, Fault) else "done", session.usage)
        author = _author(plan, session, transcript, found if isinstance(found, Fault) else None)
        if isinstance(found, Fault):
            return author
        return asking.answered(case, question, found, author)


def _asked(session: Session, case: Case, question: str) -> Slots | Fault:
    try:
        return asking.answer(session, case, question)
    except Fault as fault:
        return fault
    except KeyboardInterrupt:
        return Fault("interrupted", "interrupted")
    except Exception as error:  # noqa: BLE001 - as above
        return _bug(error)


# --- what would be sent


def shown_prompts(
    explanations: Sequence[Explanation], plan: Plan, question: str | None = None
) -> str:
    """The requests word for word; nothing is sent. What depends on replies is in brackets."""
    redactor = Redactor(explanations, plan.redact)
    if question is not None:
        case = _case(explanations, redactor)
        text = asking.opening(case, question, plan.limits.rounds)
        requests = [Request([Message("user", text)])]
    else:
        requests = [
            request
            for position in _longest(explanations[0].launches, plan.launches)
            for request in shown_requests(
                Case(explanations, focus=position, show_source=not redactor.hides_source),
                plan.limits.rounds,
            )
        ]
    return "\n\n".join(redactor.out(request_text(request)) for request in requests) + "\n"


# --- parts of a run


def _case(explanations: Sequence[Explanation], redactor: Redactor) -> Case:
    (longest,) = _longest(explanations[0].launches, 1)
    return Case(explanations, focus=longest, show_source=not redactor.hides_source)


def _longest(launches: Sequence[LaunchExplanation], most: int) -> list[int]:
    """Positions of those that take the most time, in the order of the report."""
    ranked = sorted(range(len(launches)), key=lambda position: -_time(launches[position]))
    return sorted(ranked[:most])


def _time(each: LaunchExplanation) -> float:
    duration = each.launch.get("duration")
    return float(duration.value) if duration and duration.value > 0 else 0.0


def _transcript(plan: Plan, explanations: Sequence[Explanation]) -> Transcript:
    if plan.transcript is not None or plan.replay is not None:
        return Transcript(plan.transcript)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    stem = re.sub(r"[^\w-]+", "_", Path(explanations[0].profile.provenance.path).stem)[:40]
    return Transcript(cache_folder() / "transcripts" / f"{now}-{stem}.jsonl")


def _session(
    plan: Plan,
    explanations: Sequence[Explanation],
    redactor: Redactor,
    transcript: Transcript,
    progress: Progress,
) -> Session | Fault:
    transcript.start(
        model=plan.spec.name,
        base_url=plan.spec.base_url,
        prompt_version=prompt_version(),
        reports=[told.profile.provenance.sha256 for told in explanations],
        limits=plan.limits._asdict(),
        redact=plan.redact,
    )
    try:
        chat = _chat(plan, explanations)
    except Fault as fault:
        transcript.end(fault.kind, None)
        return fault
    return Session(
        chat,
        transcript=transcript,
        redactor=redactor,
        progress=progress,
        limits=plan.limits,
        price=plan.spec.price,
        translation=recorded_in(plan.replay) if plan.replay else None,
    )


def _chat(plan: Plan, explanations: Sequence[Explanation]) -> Chat:
    if plan.replay is not None:
        from keet.agent.scripted import open_script

        return open_script(plan.replay)
    from keet.agent.providers import open_chat

    chat = open_chat(plan.spec)
    if not plan.cache or plan.spec.name.startswith("scripted:"):
        return chat
    shas = "+".join(told.profile.provenance.sha256 for told in explanations)
    settings = {"base_url": plan.spec.base_url}
    cache = Cache(cache_folder() / "answers.sqlite")
    return CachedChat(
        chat, cache, report_sha256=shas, prompt_version=prompt_version(), settings=settings
    )


def _bug(error: Exception) -> Fault:
    if os.environ.get("KEET_DEBUG"):
        raise error
    told = one_line(f"{type(error).__name__}: {error}")
    return Fault("bug", f"this is a bug in keet ({told}); please report it with the transcript")


def _author(
    plan: Plan, session: Session | None, transcript: Transcript, fault: Fault | None
) -> Authorship:
    usage = session.usage if session else Usage(0, 0, 0, 0, None, 0.0)
    name = session.chat.name if session else plan.spec.name
    path = str(transcript.path) if transcript.path else None
    return Authorship(name, usage, str(fault) if fault else None, path)
