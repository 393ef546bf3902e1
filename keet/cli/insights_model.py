"""A model's summary of each insight: one conversation a group, never one a file."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from keet.agent import prompts
from keet.agent.answers import Spoken
from keet.agent.cache import Cache, CachedChat
from keet.agent.redacting import Redactor
from keet.agent.run import Plan
from keet.agent.session import Session, estimate
from keet.agent.transcript import Transcript, request_text
from keet.agent.wire import Chat, Fault, Message, Request
from keet.corpus.insights.summaries import read_summary, told
from keet.errors import one_line
from keet.explanation.model_explanation import Usage
from keet.files import cache_folder
from keet.records import NamedTuple

if TYPE_CHECKING:
    from keet.corpus.insights.records import Insight, Insights, Written

_ANSWER_TOKENS = 250
"""About what four sentences take; an answer may be longer, and is cut off at ten times that."""
_ONE_GROUP = ("budget", "calls", "answer")
"""Faults of one group: the next may do better. A host that is gone will not be back."""

_SAID_NOTHING = "the model's answers are empty; ask again, or try another model"

_OPENING = """\
Between the marks stands what a tool found in a set of GPU profiles, and the facts that it rests on.

{evidence}

Write two to four sentences for the engineer who acts on it: what it means for the kernel, what to \
try next, what to measure to be sure. Add what the tool's sentences do not say; do not repeat them.
Numbers only by reference to the facts. How much a change will gain is not yours to say.
Reply with {{"answer": "..."}}."""


class Summed(NamedTuple):
    """The insights with what a model wrote, and how far it came."""

    insights: Insights
    author: str
    usage: Usage
    problem: str | None

    @property
    def said_something(self) -> bool:
        return any(each.written and each.written.text for each in self.insights.insights)


def sum_up(insights: Insights, plan: Plan, progress: Callable[[str], None]) -> Summed:
    """Whatever becomes of the model, what the analyst found is not lost."""
    progress(_estimate_line(insights.insights, plan))
    transcript = _transcript(plan)
    with closing(transcript):
        transcript.start(model=plan.spec.name, command="insights", limits=plan.limits._asdict())
        limit = plan.limit(len(insights.insights))
        run = _Run(plan._replace(time_limit=limit), transcript, progress)
        told_of = [run.written(insight) for insight in insights.insights]
        transcript.end(run.fault.kind if run.fault else "done", run.usage)
    problem = str(run.fault) if run.fault else None
    summed = Summed(insights._replace(insights=tuple(told_of)), run.name, run.usage, problem)
    if told_of and not problem and not summed.said_something:
        return summed._replace(problem=_SAID_NOTHING)
    return summed


def shown_prompts(insights: Insights, plan: Plan) -> str:
    """What would be sent, word for word."""
    texts = [request_text(_request(_Names(each, plan), each)) for each in insights.insights]
    return "\n\n".join([_estimate_line(insights.insights, plan), *texts]) + "\n"


class _Run:
    """One model over all groups."""

    def __init__(self, plan: Plan, transcript: Transcript, progress: Callable[[str], None]) -> None:
        self._plan = plan
        self._transcript = transcript
        self._progress = progress
        self._is_over = False
        self._chat: Chat | None = None
        self.fault: Fault | None = None
        self.usage = Usage(0, 0, 0, 0, None, 0.0)
        self.name = plan.spec.name

    def written(self, insight: Insight) -> Insight:
        if self._is_over:
            return insight
        try:
            return insight._replace(written=self._ask(insight))
        except Fault as fault:
            self._note(fault)
        except KeyboardInterrupt:
            self._note(Fault("interrupted", "interrupted"))
        except Exception as error:  # a bug here must not cost the analyst's answer
            if os.environ.get("KEET_DEBUG"):
                raise
            words = one_line(f"{type(error).__name__}: {error}")
            self._note(Fault("bug", f"this is a bug in keet ({words}); please report it"))
        return insight

    def _note(self, fault: Fault) -> None:
        self.fault = self.fault or fault  # what went wrong later may come of the first
        self._is_over = fault.kind not in _ONE_GROUP

    def _ask(self, insight: Insight) -> Written:
        names = _Names(insight, self._plan)
        session = self._session(insight)
        self._progress(f"{insight.id}: asking the model")
        opening = _opening(names, insight)
        try:
            said, _ = session.converse("insights", lambda _: opening, Spoken)
        finally:
            self.usage = _sum(self.usage, session.usage)
        return read_summary(insight, names.back(said.answer))

    def _session(self, insight: Insight) -> Session:
        self._chat = self._chat or _chat(self._plan)
        self.name = self._chat.name
        chat = self._chat if self._plan.replay else _cached(self._chat, insight, self._plan)
        return Session(
            chat,
            transcript=self._transcript,
            redactor=Redactor([], None),
            progress=self._progress,
            limits=self._plan.limits,
            price=self._plan.spec.price,
        )


# --- what is sent


class _Names:
    """Kernel names and paths, which `--redact names` keeps at home."""

    def __init__(self, insight: Insight, plan: Plan) -> None:
        hide = plan.redact in ("names", "all")
        names = sorted(_names(insight), key=lambda name: (-len(name), name)) if hide else []
        self._out = {
            name: f"name_{chr(97 + i // 26)}{chr(97 + i % 26)}" for i, name in enumerate(names)
        }

    def out(self, text: str) -> str:
        return _replaced(text, self._out)

    def back(self, text: str) -> str:
        return _replaced(text, {hidden: name for name, hidden in self._out.items()})


def _replaced(text: str, names: dict[str, str]) -> str:
    if not names:
        return text
    return re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], text)


def _names(insight: Insight) -> set[str]:
    parts = (insight.sweep, insight.outliers, insight.change)
    kernels = {part.kernel for part in parts if part}
    if insight.cluster:
        kernels |= {each.kernel for each in insight.cluster.kernels}
    if insight.sweep:
        kernels |= {insight.sweep.kernel.removesuffix("<…>")}
    paths = {fact.path for fact in insight.facts.values() if fact.path}
    if insight.change:
        paths |= {dated.path for dated in insight.change.history}
    return {name for name in kernels | paths if name}


def _opening(names: _Names, insight: Insight) -> str:
    evidence = prompts.fenced("what the set shows", names.out(told(insight)))
    return _OPENING.format(evidence=evidence)


def _request(names: _Names, insight: Insight) -> Request:
    return Request([Message("system", prompts.rules()), Message("user", _opening(names, insight))])


def _estimate_line(insights: Sequence[Insight], plan: Plan) -> str:
    """What it will take, before anything is sent."""
    needed = sum(estimate(_request(_Names(each, plan), each)) for each in insights)
    answers = _ANSWER_TOKENS * len(insights)
    groups = f"{len(insights)} group{'' if len(insights) == 1 else 's'}, one call each"
    said = f"{groups}: about {needed:,} tokens in, {answers:,} out"
    if plan.spec.price is None:
        return f"{said}; give --price IN/OUT to see the cost"
    into, out = plan.spec.price
    return f"{said}, about US$ {(needed * into + answers * out) / 1e6:.4f}"


# --- parts of a run


def _transcript(plan: Plan) -> Transcript:
    if plan.transcript is not None or plan.replay is not None:
        return Transcript(plan.transcript)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S-%f")
    return Transcript(cache_folder() / "transcripts" / f"{now}-{os.getpid()}-insights.jsonl")


def _chat(plan: Plan) -> Chat:
    if plan.replay is not None:
        from keet.agent.scripted import open_script

        return open_script(plan.replay)
    from keet.agent.providers import open_chat

    return open_chat(plan.spec, plan.limit())


def _cached(chat: Chat, insight: Insight, plan: Plan) -> Chat:
    if not plan.cache or plan.spec.name.startswith("scripted:"):
        return chat
    about = hashlib.sha256(told(insight).encode(errors="backslashreplace")).hexdigest()
    version = hashlib.sha256(_OPENING.encode()).hexdigest()[:12]
    return CachedChat(
        chat,
        Cache(cache_folder() / "answers.sqlite"),
        report_sha256=about,
        prompt_version=f"{prompts.prompt_version()}-{version}",
        settings={"base_url": plan.spec.base_url},
    )


def _sum(one: Usage, other: Usage) -> Usage:
    costs = [usage.cost for usage in (one, other) if usage.cost is not None]
    return Usage(
        one.calls + other.calls,
        one.cached + other.cached,
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        sum(costs) if costs else None,
        one.seconds + other.seconds,
        one.estimated or other.estimated,
    )
