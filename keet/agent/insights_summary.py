"""A model's summary of each insight of `keet insights`: one call per insight, none per file.

A model gets keet's text, and the facts with the names by which an answer refers to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.agent import prompts
from keet.agent.answer_schemas import TextAnswer
from keet.agent.model.messages import NEXT_CAN_SUCCEED, ChatMessage, ChatRequest, ModelFault
from keet.agent.model.settings import ModelOptions
from keet.agent.model.transcript import request_text
from keet.agent.open_model import ask_model, fault_from
from keet.agent.redaction import Redactor
from keet.agent.session import ModelSession, Progress, estimate
from keet.documents.insights import InsightDocument
from keet.documents.model_explanation import UsageDocument
from keet.evidence import Evidence, Prose
from keet.evidence.free_numbers import Allowed
from keet.formatting import count_noun
from keet.prose.reading import Names, read_prose

_ANSWER_TOKENS = 250
"""Typical length of an answer of four sentences, for the cost estimate. The hard limit is ten
times that."""
_EMPTY_ANSWERS = "the model's answers are empty; ask again, or try another model"


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
    texts: dict[str, Prose] = {}

    def work(session: ModelSession) -> ModelFault | None:
        first: ModelFault | None = None
        for insight in insights:
            try:
                session.begin(insight.id)
                session.tell("asking the model")
                opening = _opening(insight, options)
                said = session.converse("insights", lambda _: opening, TextAnswer)  # noqa: B023
                names = {hidden: name for name, hidden in _placeholders(insight, options).items()}
                texts[insight.id] = read_summary(insight, _replaced(said.answer, names))
            except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - keet's part is kept
                fault = fault_from(problem)
                first = first or fault  # later faults may be consequences of the first
                if fault.kind not in NEXT_CAN_SUCCEED:
                    break
        is_empty = insights and not first and not any(texts.values())
        return ModelFault("answer", _EMPTY_ANSWERS) if is_empty else first

    # Names are replaced per insight, below.
    author = ask_model(
        options._replace(time_limit=options.limit(len(insights))),
        progress,
        work,
        redactor=Redactor([], None),
        name="insights",
        about="insights",
        command="insights",
    )
    return InsightSummaries(texts, author.model, author.usage, author.problem)


def shown_insight_prompts(insights: Sequence[InsightDocument], options: ModelOptions) -> str:
    """What would be sent, word for word."""
    texts = [request_text(_request(insight, options)) for insight in insights]
    return "\n\n".join([_estimate_line(insights, options), *texts]) + "\n"


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
        kernels |= {kernel.kernel for kernel in insight.cluster.kernels}
    if insight.sweep:
        kernels |= {insight.sweep.kernel.removesuffix("<…>")}
    paths = {fact.path for fact in insight.facts.values() if fact.path}
    if insight.change:
        paths |= {dated.path for dated in insight.change.history}
    return {name for name in kernels | paths if name}


def _placeholders(insight: InsightDocument, options: ModelOptions) -> Mapping[str, str]:
    """By kernel name and path, under `--redact names`; the longest first."""
    hide = options.redact in ("names", "all")
    names = sorted(_names(insight), key=lambda name: (-len(name), name)) if hide else []
    return {name: f"name_{chr(97 + i // 26)}{chr(97 + i % 26)}" for i, name in enumerate(names)}


def _replaced(text: str, names: Mapping[str, str]) -> str:
    pattern = "|".join(map(re.escape, names)) or "(?!)"
    return re.sub(pattern, lambda match: names[match[0]], text)


def _opening(insight: InsightDocument, options: ModelOptions) -> str:
    return prompts.insights(_replaced(insight_text(insight), _placeholders(insight, options)))


def _request(insight: InsightDocument, options: ModelOptions) -> ChatRequest:
    opening = ChatMessage("user", _opening(insight, options))
    return ChatRequest([ChatMessage("system", prompts.rules()), opening])


def _estimate_line(insights: Sequence[InsightDocument], options: ModelOptions) -> str:
    """Tokens and cost, printed before anything is sent."""
    needed = sum(estimate(_request(insight, options)) for insight in insights)
    answers = _ANSWER_TOKENS * len(insights)
    calls = f"{count_noun(len(insights), 'insight')}, one call each"
    tokens = f"{calls}: about {needed:,} tokens in, {answers:,} out"
    if options.spec.price is None:
        return f"{tokens}; give --price IN/OUT to see the cost"
    into, out = options.spec.price
    return f"{tokens}, about US$ {(needed * into + answers * out) / 1e6:.4f}"
