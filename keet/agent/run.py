"""The agent's door: an explanation goes in, the same with a model's part comes out.

Whatever happens to the model, what the analyst found is not lost.
"""

from __future__ import annotations

import datetime
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from keet_tools.case import Case

from keet.agent import question as asking
from keet.agent.answers import Reading, schema_of
from keet.agent.cache import Cache, CachedChat
from keet.agent.investigation import Investigated, investigate
from keet.agent.prompts import prompt_version
from keet.agent.redacting import Redaction, Redactor
from keet.agent.replaying import check_replay
from keet.agent.session import Limits, Progress, Session, estimate
from keet.agent.settings import ModelSpec
from keet.agent.time_limit import TimeLimit, default_limit
from keet.agent.transcript import Transcript, request_text
from keet.agent.wire import UNSENT, Chat, Fault, Reply, Request, Spent
from keet.errors import one_line
from keet.explanation.answered_question import AnsweredQuestion
from keet.explanation.explained import Explanation, LaunchExplanation
from keet.explanation.model_explanation import Authorship, ModelExplanation, Usage
from keet.files import cache_folder
from keet.prose.text import Prose
from keet.records import NamedTuple

MOST_LAUNCHES = 3
"""That a model explains unless told otherwise: each costs some thousand tokens."""

_LISTENED = "shown"


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
    compile: bool = True
    """Whether edits are compiled, where a compiler is found."""
    include: tuple[str, ...] = ()
    """Folders for headers that the report does not hold."""
    time_limit: TimeLimit | None = None
    """Of the whole command, where it explains several reports; None: one for each report."""

    def limit(self, parts: int | None = None) -> TimeLimit:
        """`parts`: launches or groups that the model is asked about; None: those of one report."""
        if self.time_limit is not None:
            return self.time_limit
        calls = (parts or self.launches) * self.limits.calls
        is_own = self.spec.base_url is not None
        by_default = default_limit(self.spec.timeout_s, calls, is_own=is_own)
        return TimeLimit(self.spec.time_limit_s or by_default)


def explain_with_model(
    explanation: Explanation, plan: Plan, progress: Progress, against: Explanation | None = None
) -> Explanation:
    """`against`: what it was before, for the model to see what changed."""
    every = [explanation] if against is None else [explanation, against]
    plan = _checked(plan, every, None)
    redactor = Redactor(every, plan.redact)
    transcript = _transcript(plan, every)
    with closing(transcript):
        session = _session(plan, every, redactor, transcript, progress)
        if isinstance(session, Fault):
            told = explanation._replace(author=_author(plan, None, transcript, session))
        else:
            told = _explained(every, _chosen(explanation, plan, progress), session, plan)
        _tell_problems(session, transcript, progress)
        return told


def _chosen(explanation: Explanation, plan: Plan, progress: Progress) -> list[int]:
    """Positions of the launches that the model is asked about."""
    chosen = _longest(explanation.launches, plan.launches)
    if len(chosen) < len(explanation.asked):
        progress(
            f"the model explains the {len(chosen)} longest of {len(explanation.asked):,} "
            "launches; choose others with --launch or --kernel, more with --model-launches"
        )
    return chosen


def _explained(
    every: Sequence[Explanation], chosen: Sequence[int], session: Session, plan: Plan
) -> Explanation:
    """The first of them; the others are there to be compared with."""
    explanation = every[0]
    told, fault = list(explanation.launches), None
    for position in chosen:
        case = Case(every, focus=position, show_source=not session.redactor.hides_source)
        told[position], problem = _investigated(session, case, plan)
        if problem and fault is None:  # what went wrong later may come of the first
            of_one = len(chosen) > 1 and problem.kind not in UNSENT
            fault = _named(problem, told[position]) if of_one else problem
        if problem and problem.kind not in ("budget", "calls", "answer"):
            break  # a host that is gone will not be back for the next kernel
    _end(session.transcript, plan, fault, session.usage)
    author = _author(plan, session, session.transcript, fault)
    return explanation._replace(launches=tuple(told), author=author)


def _investigated(session: Session, case: Case, plan: Plan) -> Investigated:
    """A statement that says nothing is none."""
    each = case.launch()
    try:
        found = investigate(session, case, compiles=plan.compile, include=plan.include)
    except KeyboardInterrupt:
        return Investigated(each, Fault("interrupted", "interrupted"))
    except Exception as error:  # noqa: BLE001 - a bug here must not cost the analyst's answer
        return Investigated(each, _bug(error))
    statement = found.each.statement
    if statement is None or _says_something(statement):
        return found
    return Investigated(each, found.fault or Fault("answer", _SAID_NOTHING))


_SAID_NOTHING = "the model's answer is empty; ask again, or try another model"


def _says_something(said: ModelExplanation) -> bool:
    parts = (said.purpose, said.hypotheses, said.summary, said.causes, said.objections, said.edits)
    return any(parts)


def _named(fault: Fault, each: LaunchExplanation) -> Fault:
    return Fault(fault.kind, one_line(f"#{each.launch.id} {each.launch.name.short}: {fault}"))


def ask(
    explanations: Sequence[Explanation], question: str, plan: Plan, progress: Progress
) -> AnsweredQuestion | Authorship:
    """The answer; or, where there is none, who was asked and what went wrong."""
    plan = _checked(plan, explanations, question)
    redactor = Redactor(explanations, plan.redact)
    transcript = _transcript(plan, explanations)
    case = _case(explanations, redactor)
    with closing(transcript):
        session = _session(plan, explanations, redactor, transcript, progress, question)
        if isinstance(session, Fault):
            answer: AnsweredQuestion | Authorship = _author(plan, None, transcript, session)
        else:
            answer = _answer(session, case, question, plan)
        _tell_problems(session, transcript, progress)
        return answer


def _answer(
    session: Session, case: Case, question: str, plan: Plan
) -> AnsweredQuestion | Authorship:
    found = _asked(session, case, question)
    author = _author(plan, session, session.transcript, None)
    told = found if isinstance(found, Fault) else asking.answered(case, question, found, author)
    if isinstance(told, AnsweredQuestion) and not told.text:
        told = Fault("answer", _SAID_NOTHING)
    fault = told if isinstance(told, Fault) else None
    _end(session.transcript, plan, fault, session.usage)
    if isinstance(told, Fault):
        return _author(plan, session, session.transcript, told)
    return told._replace(followups=tuple(_followups(case.explanations)))


def _followups(explanations: Sequence[Explanation]) -> Iterator[str]:
    """Of reports that are at hand: a snapshot names the one that it was made from, and whoever
    wrote it chose that name, which must not become an option or a command."""
    for explanation in explanations:
        path = explanation.profile.provenance.path
        if path.isprintable() and os.path.isfile(path):  # noqa: PTH113 - Path's raises for long names
            yield f"keet explain {shlex.quote(f'./{path}' if path.startswith('-') else path)}"


def _asked(session: Session, case: Case, question: str) -> Prose | Fault:
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
        shown = _shown(plan, redactor, _case(explanations, redactor), question)
        return "\n\n".join(shown) + "\n"
    cases = [
        Case(explanations, focus=position, show_source=not redactor.hides_source)
        for position in _longest(explanations[0].launches, plan.launches)
    ]
    shown = [text for case in cases for text in _shown(plan, redactor, case, None)]
    return "\n\n".join(shown) + "\n"


def _shown(plan: Plan, redactor: Redactor, case: Case, question: str | None) -> list[str]:
    """A real session with a chat that only listens: what is shown is what would be sent."""
    listener = _Listener(plan.spec.name)
    session = Session(
        listener,
        transcript=Transcript(None),
        redactor=redactor,
        progress=lambda _: None,
        limits=plan.limits,
    )
    if question is not None:
        end: object = _asked(session, case, question)
    else:
        end = investigate(session, case, compiles=False).fault
    texts = [request_text(request) for request in listener.heard]
    if isinstance(end, Fault) and end.kind != _LISTENED:
        texts.append(f"--- nothing more is sent ---\n{one_line(str(end))}\n")
    return texts


class _Listener:
    """A chat that sends nothing. It answers the first step, since the next one quotes the answer;
    all that follows depends on replies."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: list[Request] = []
        self._is_over = False

    def ask(self, request: Request) -> Reply:
        if not self._is_over:
            self.heard.append(request)
        if request.schema != schema_of(Reading):
            self._is_over = True
            raise Fault(_LISTENED, "this is as far as it goes without a model")
        spent = Spent(estimate(request), 0, estimated=True)
        return Reply('{"purpose": "(its answer to the first)"}', (), spent)


# --- parts of a run


def _checked(plan: Plan, explanations: Sequence[Explanation], question: str | None) -> Plan:
    """A replay has to be of these reports; its model is the one that was asked then."""
    if plan.replay is None:
        return plan
    shas = [told.profile.provenance.sha256 for told in explanations]
    run = check_replay(plan.replay, shas, question)
    name = f"{run.model} (replayed)" if run.model else plan.spec.name
    return plan._replace(spec=plan.spec._replace(name=name))


def _case(explanations: Sequence[Explanation], redactor: Redactor) -> Case:
    (longest,) = _longest(explanations[0].launches, 1)
    return Case(explanations, focus=longest, show_source=not redactor.hides_source)


def _longest(launches: Sequence[LaunchExplanation], most: int) -> list[int]:
    """Positions of those that take the most time, in the order of the report, or of the run."""
    if any(each.in_run for each in launches):  # they come by what they stand for in the run
        return list(range(len(launches)))[:most]
    ranked = sorted(range(len(launches)), key=lambda position: -launches[position].launch.rank_time)
    return sorted(ranked[:most])


def _transcript(plan: Plan, explanations: Sequence[Explanation]) -> Transcript:
    if plan.transcript is not None or plan.replay is not None:
        return Transcript(plan.transcript)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S-%f")
    stem = re.sub(r"[^\w-]+", "_", Path(explanations[0].profile.provenance.path).stem)[:40]
    return Transcript(cache_folder() / "transcripts" / f"{now}-{os.getpid()}-{stem}.jsonl")


def _session(  # noqa: PLR0913, PLR0917 - what a run is made of
    plan: Plan,
    explanations: Sequence[Explanation],
    redactor: Redactor,
    transcript: Transcript,
    progress: Progress,
    question: str | None = None,
) -> Session | Fault:
    transcript.start(
        model=plan.spec.name,
        base_url=plan.spec.base_url,
        prompt_version=prompt_version(),
        reports=[told.profile.provenance.sha256 for told in explanations],
        question=question,
        limits=plan.limits._asdict(),
        redact=plan.redact,
    )
    chat = _opened(plan, explanations)
    if isinstance(chat, Fault):
        _end(transcript, plan, chat, None)
        return chat
    return Session(
        chat,
        transcript=transcript,
        redactor=redactor,
        progress=progress,
        limits=plan.limits,
        price=plan.spec.price,
        is_replay=plan.replay is not None,
    )


def _end(transcript: Transcript, plan: Plan, fault: Fault | None, usage: Usage | None) -> None:
    """`usage`: None where the model could not even be opened."""
    transcript.end(fault.kind if fault else "done", usage)
    sent = usage is not None and (fault is None or fault.kind not in UNSENT)
    if not sent and plan.transcript is None:
        transcript.discard()


def _opened(plan: Plan, explanations: Sequence[Explanation]) -> Chat | Fault:
    """Where only a server is named, it is asked for its model here, which may take its time."""
    try:
        return _chat(plan, explanations)
    except Fault as fault:
        return fault
    except KeyboardInterrupt:
        return Fault("interrupted", "interrupted")
    except Exception as error:  # noqa: BLE001 - as above
        return _bug(error)


def _chat(plan: Plan, explanations: Sequence[Explanation]) -> Chat:
    if plan.replay is not None:
        from keet.agent.scripted import open_script

        return open_script(plan.replay)
    from keet.agent.providers import open_chat

    chat = open_chat(plan.spec, plan.limit())
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


def _tell_problems(session: Session | Fault, transcript: Transcript, progress: Progress) -> None:
    """Neither costs the run; but who looks for the file later wants to know."""
    chat = session.chat if isinstance(session, Session) else None
    cache = chat.problem if isinstance(chat, CachedChat) else None
    for problem in filter(None, (transcript.problem, cache)):
        progress(problem)


def _author(
    plan: Plan, session: Session | None, transcript: Transcript, fault: Fault | None
) -> Authorship:
    usage = session.usage if session else Usage(0, 0, 0, 0, None, 0.0)
    name = session.chat.name if session and not plan.replay else plan.spec.name
    path = str(transcript.kept) if transcript.kept else None
    return Authorship(name, usage, str(fault) if fault else None, path)
