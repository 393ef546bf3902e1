"""A model's summary of each insight of `keet insights`: one call per insight, none per file.

A model gets keet's text, and the facts with the names by which an answer refers to them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from keet.agent import prompts
from keet.agent.answer_schemas import TextAnswer
from keet.agent.model.messages import NEXT_CAN_SUCCEED, Chat, ChatMessage, ChatRequest, ModelFault
from keet.agent.model.transcript import Transcript, request_text
from keet.agent.open_model import bug_fault, open_run_chat, open_transcript, with_cache
from keet.agent.options import ModelOptions
from keet.agent.redaction import Redactor
from keet.agent.session import ModelSession, Progress, estimate
from keet.documents.insights import InsightDocument
from keet.documents.model_explanation import NO_USAGE, UsageDocument
from keet.evidence import Evidence, Prose
from keet.evidence.free_numbers import Allowed
from keet.formatting import count_noun
from keet.prose.reading import Names, read_prose

_ANSWER_TOKENS = 250
"""Typical length of an answer of four sentences, for the cost estimate. The hard limit is ten
times that."""

_EMPTY_ANSWERS = "the model's answers are empty; ask again, or try another model"

_OPENING = """\
Between the marks stands what a tool found in a set of GPU profiles, and the facts that it rests on.

{evidence}

Write two to four sentences for the engineer who acts on it: what it means for the kernel, what to \
try next, what to measure to be sure. Add what the tool's sentences do not say; do not repeat them.
Numbers only by reference to the facts. How much a change will gain is not yours to say.
Reply with {{"answer": "..."}}."""


class InsightSummaries(NamedTuple):
    """What a model wrote, and whether it failed."""

    texts: Mapping[str, Prose]
    """By the id of the insight; those that the model did not answer are missing."""
    author: str
    usage: UsageDocument
    problem: str | None

    @property
    def has_text(self) -> bool:
        return any(self.texts.values())


def summarise_insights(
    insights: Sequence[InsightDocument], options: ModelOptions, progress: Progress
) -> InsightSummaries:
    """Never raises because of the model: `problem` says what failed."""
    progress(_estimate_line(insights, options))
    transcript = open_transcript(options, "insights")
    with closing(transcript):
        transcript.start(
            model=options.spec.name, command="insights", limits=options.limits._asdict()
        )
        limit = options.limit(len(insights))
        run = _Run(options._replace(time_limit=limit), transcript, progress)
        for insight in insights:
            run.summarise(insight)
        transcript.end(run.fault.kind if run.fault else "done", run.usage)
    problem = str(run.fault) if run.fault else None
    found = InsightSummaries(run.texts, run.name, run.usage, problem)
    if insights and not problem and not found.has_text:
        return found._replace(problem=_EMPTY_ANSWERS)
    return found


def shown_insight_prompts(insights: Sequence[InsightDocument], options: ModelOptions) -> str:
    """What would be sent, word for word."""
    texts = [request_text(_request(_Placeholders(each, options), each)) for each in insights]
    return "\n\n".join([_estimate_line(insights, options), *texts]) + "\n"


class _Run:
    """One model asked about all insights, one after the other."""

    def __init__(self, options: ModelOptions, transcript: Transcript, progress: Progress) -> None:
        self._options = options
        self._transcript = transcript
        self._progress = progress
        self._is_over = False
        self._chat: Chat | None = None
        self.texts: dict[str, Prose] = {}
        self.fault: ModelFault | None = None
        """The first one: later faults may be consequences of it."""
        self.usage = NO_USAGE
        self.name = options.spec.name

    def summarise(self, insight: InsightDocument) -> None:
        if self._is_over:
            return
        try:
            self.texts[insight.id] = self._ask(insight)
        except ModelFault as fault:
            self._note(fault)
        except KeyboardInterrupt:
            self._note(ModelFault("interrupted", "interrupted"))
        except Exception as error:  # noqa: BLE001 - the insights are printed despite a bug here
            self._note(bug_fault(error))

    def _note(self, fault: ModelFault) -> None:
        self.fault = self.fault or fault
        self._is_over = fault.kind not in NEXT_CAN_SUCCEED

    def _ask(self, insight: InsightDocument) -> Prose:
        placeholders = _Placeholders(insight, self._options)
        session = self._session(insight)
        self._progress(f"{insight.id}: asking the model")
        opening = _opening(placeholders, insight)
        try:
            said, _ = session.converse("insights", lambda _: opening, TextAnswer)
        finally:
            self.usage = _sum(self.usage, session.usage)
        return read_summary(insight, placeholders.undo(said.answer))

    def _session(self, insight: InsightDocument) -> ModelSession:
        self._chat = self._chat or open_run_chat(self._options)
        self.name = self._chat.name
        return ModelSession(
            _cached(self._chat, insight, self._options),
            transcript=self._transcript,
            redactor=Redactor([], None),
            progress=self._progress,
            limits=self._options.limits,
            price=self._options.spec.price,
        )


def read_summary(insight: InsightDocument, text: str) -> Prose:
    """With keet's numbers in place of references. Sentences that cannot be checked are marked."""
    facts = ((fact.id, fact) for fact in _named_facts(insight))
    return read_prose(text, Names(facts), Allowed())


# --- what is sent


def insight_text(insight: InsightDocument) -> str:
    """keet's sentences, then the facts behind them with their names."""
    lines = [insight.title, *insight.text, insight.adds, "", "Facts:"]
    facts = (f"{{{fact.id}}} {fact.label} = {fact}" for fact in _named_facts(insight))
    return "\n".join([*lines, *facts])


def _named_facts(insight: InsightDocument) -> Iterator[Evidence]:
    """A fact of one point of a sweep says which point: `Duration at BLOCK 32`."""
    values = insight.knob_values()
    for fact in insight.facts.values():
        where = values.get((fact.path, fact.launch)) if fact.metric != "knob" else None
        yield fact._replace(label=f"{fact.label} at {where}") if where else fact


def _names(insight: InsightDocument) -> set[str]:
    """Kernel names and paths in its text, which `--redact names` replaces."""
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


class _Placeholders:
    """Replaces kernel names and paths under `--redact names`."""

    def __init__(self, insight: InsightDocument, options: ModelOptions) -> None:
        hide = options.redact in ("names", "all")
        names = sorted(_names(insight), key=lambda name: (-len(name), name)) if hide else []
        self._placeholders = {
            name: f"name_{chr(97 + i // 26)}{chr(97 + i % 26)}" for i, name in enumerate(names)
        }

    def apply(self, text: str) -> str:
        return _replaced(text, self._placeholders)

    def undo(self, text: str) -> str:
        return _replaced(text, {hidden: name for name, hidden in self._placeholders.items()})


def _replaced(text: str, names: Mapping[str, str]) -> str:
    if not names:
        return text
    return re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], text)


def _opening(placeholders: _Placeholders, insight: InsightDocument) -> str:
    evidence = prompts.fenced("what the set shows", placeholders.apply(insight_text(insight)))
    return _OPENING.format(evidence=evidence)


def _request(placeholders: _Placeholders, insight: InsightDocument) -> ChatRequest:
    opening = _opening(placeholders, insight)
    return ChatRequest([ChatMessage("system", prompts.rules()), ChatMessage("user", opening)])


def _estimate_line(insights: Sequence[InsightDocument], options: ModelOptions) -> str:
    """Tokens and cost, printed before anything is sent."""
    needed = sum(estimate(_request(_Placeholders(each, options), each)) for each in insights)
    answers = _ANSWER_TOKENS * len(insights)
    calls = f"{count_noun(len(insights), 'insight')}, one call each"
    tokens = f"{calls}: about {needed:,} tokens in, {answers:,} out"
    if options.spec.price is None:
        return f"{tokens}; give --price IN/OUT to see the cost"
    into, out = options.spec.price
    return f"{tokens}, about US$ {(needed * into + answers * out) / 1e6:.4f}"


# --- parts of a run


def _cached(chat: Chat, insight: InsightDocument, options: ModelOptions) -> Chat:
    about = hashlib.sha256(insight_text(insight).encode(errors="backslashreplace")).hexdigest()
    version = hashlib.sha256(_OPENING.encode()).hexdigest()[:12]
    return with_cache(chat, options, about, f"{prompts.prompt_version()}-{version}")


def _sum(one: UsageDocument, other: UsageDocument) -> UsageDocument:
    costs = [usage.cost for usage in (one, other) if usage.cost != "unknown"]
    return UsageDocument(
        calls=one.calls + other.calls,
        cached=one.cached + other.cached,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost=sum(costs) if costs else "unknown",
        seconds=one.seconds + other.seconds,
        estimated=one.estimated or other.estimated,
    )
