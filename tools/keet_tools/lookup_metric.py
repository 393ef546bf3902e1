"""The tool `lookup_metric`: metrics by a name of ncu, an id or label of the catalog, or words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView
from keet.catalog import MetricSpec, exists_on, metric_named, metrics, stalls
from keet.evidence import Evidence
from keet.profile import Launch, Metric
from keet.verification.metric_names import NCU_NAME, STALL_SHARE, find_terms, words_of
from keet_tools.answers import (
    Abstention,
    Answer,
    AnswerText,
    ToolInput,
    one_page,
    quote,
    quote_prose,
)

_SIZE = 12
_NO_TOTAL = {
    "address": "has a value for each instruction, and no total: see memory_access",
    "curve": "is a what-if curve: see occupancy_what_if",
}


def lookup_metric(
    tool_input: ToolInput, query: str, launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """A metric's value and meaning, by ncu name, id, label or words."""
    view = tool_input.launch(launch, report).view
    found = find_candidates(view.launch, query)
    if not found:
        close = ", ".join(quote(name) for name in close_names(view.launch, query))
        raise Abstention(f"no metric is called {quote(query)}; {_close(close)}")
    known = [candidate for candidate in found if _is_collected(view, candidate)]
    if not known:
        raise Abstention(_not_collected(view, found))
    say = AnswerText()
    if len(known) == 1:
        return say.answer(*_in_full(view, known[0], say))
    shown, more = one_page(known, page, _SIZE)
    return say.answer(*(_row(view, candidate, say) for candidate in shown), more)


def _close(names: str) -> str:
    return f"close: {names}" if names else "ask with other words"


def _metric(view: LaunchView, candidate: Candidate) -> Metric | None:
    if candidate.name is not None:
        return view.launch.metric(candidate.name)
    return view.launch.find(candidate.spec.id) if candidate.spec else None


def _is_collected(view: LaunchView, candidate: Candidate) -> bool:
    if candidate.stall is not None:
        return candidate.stall in view.stalls
    metric = _metric(view, candidate)
    return metric is not None and metric.value is not None


def _evidence(view: LaunchView, candidate: Candidate) -> Evidence | None:
    if candidate.stall is not None:
        return view.stall(candidate.stall)
    if candidate.spec is not None and not candidate.spec.total:
        return None
    if candidate.name is not None:
        label = candidate.spec.label if candidate.spec else candidate.name
        return view.ledger.named(candidate.name, label)
    return view.ledger.measured(candidate.spec.id) if candidate.spec else None


def _label(candidate: Candidate) -> str:
    if candidate.stall is not None:
        return f"stall share of {stalls()[candidate.stall].label}"
    return candidate.spec.label if candidate.spec else ""


def _row(view: LaunchView, candidate: Candidate, say: AnswerText) -> str:
    metric = _metric(view, candidate)
    name = f" {quote(metric.name, 90)}" if metric else ""
    return f"{_label(candidate)} {_value(view, candidate, say)}{name}".strip()


def _value(view: LaunchView, candidate: Candidate, say: AnswerText) -> str:
    evidence = _evidence(view, candidate)
    if evidence is not None:
        return say(evidence)
    spec, metric = candidate.spec, _metric(view, candidate)
    if spec is not None and not spec.total:
        return _NO_TOTAL.get(spec.instances or "", "has parts, and no total")
    if metric is not None and isinstance(metric.value, str):
        return quote(metric.value, 60)
    return "is not a number: ncu divided zero by zero"


def _in_full(view: LaunchView, candidate: Candidate, say: AnswerText) -> list[str]:
    lines = [_row(view, candidate, say)]
    if candidate.stall is not None:
        lines.append(f"Meaning: {quote_prose(stalls()[candidate.stall].meaning, 500)}")
    elif candidate.spec is not None:
        lines.append(f"Meaning: {quote_prose(candidate.spec.meaning, 500)}")
    return lines


def _not_collected(view: LaunchView, found: Sequence[Candidate]) -> str:
    reasons = dict.fromkeys(_absence(view, candidate) for candidate in found)
    return "not collected: " + "; ".join(list(reasons)[:6])


def _absence(view: LaunchView, candidate: Candidate) -> str:
    spec = candidate.spec
    if spec is None:
        wanted = "--section WarpStateStats" if candidate.stall else f"--metrics {candidate.name}"
        return f"{_label(candidate)} needs {quote(wanted, 120)}".strip()
    capability = view.launch.device.compute_capability
    if all(exists_on(name, capability) is False for name in spec.names):
        return f"{spec.label}, this GPU has no such counter"
    wanted = f"--section {spec.section}" if spec.section else f"--metrics {spec.names[0]}"
    return f"{spec.label} needs {quote(wanted, 120)}"


_MOST_CANDIDATES = 60
_FILLER = {"the", "a", "an", "of", "is", "what", "how", "many", "much", "per", "for", "in", "on"}


class Candidate(NamedTuple):
    """A metric that a query may mean."""

    name: str | None = None
    """ncu's own, where the query gave it or the catalog knows none."""
    spec: MetricSpec | None = None
    stall: str | None = None
    """A stall reason, whose share is meant."""


def find_candidates(launch: Launch, query: str) -> list[Candidate]:
    """The likeliest first; one where the query is exact."""
    query = query.strip()
    exact = _exact(launch, query)
    if exact:
        return exact
    found = [*_by_meaning(launch, query), *_by_words(launch, query)]
    return list(dict.fromkeys(found))[:_MOST_CANDIDATES]


def close_names(launch: Launch, query: str) -> list[str]:
    """Ids for words, ncu's names for what looks like one: there are thousands of those."""
    names = launch.metric_names() if "__" in query else tuple(metrics())
    return get_close_matches(query, names, n=5, cutoff=0.5)


def _exact(launch: Launch, query: str) -> list[Candidate]:
    known = metrics().get(query.lower())
    if known:
        return [Candidate(spec=known)]
    spec = metric_named(query)
    if launch.metric(query) is not None or spec is not None:
        return [Candidate(query, spec)]
    labelled = (s for s in metrics().values() if s.label.casefold() == query.casefold())
    return [Candidate(spec=spec) for spec in labelled]


def _by_meaning(launch: Launch, query: str) -> Iterator[Candidate]:
    for term in find_terms(query):
        for reading in term.metric_ids:
            yield from _reading(launch, reading)


def _reading(launch: Launch, reading: str) -> Iterator[Candidate]:
    if reading.startswith(STALL_SHARE):
        reason = reading.removeprefix(STALL_SHARE)
        if reason in stalls():
            yield Candidate(stall=reason)
    elif reading.startswith(NCU_NAME):
        stem = reading.removeprefix(NCU_NAME)
        names = (name for name in launch.metric_names() if name.startswith(stem))
        yield from (Candidate(name, metric_named(name)) for name in names)
    elif reading in metrics():
        yield Candidate(spec=metrics()[reading])


def _by_words(launch: Launch, query: str) -> Iterator[Candidate]:
    """Whatever has all the words: in its names first, then in its meaning."""
    wanted = _words(query) - _FILLER
    if not wanted:
        return
    named = [spec for spec, titles, _ in _catalog_words() if wanted <= titles]
    meant = [spec for spec, _, every in _catalog_words() if wanted <= every]
    yield from (Candidate(spec=spec) for spec in named)
    yield from _unknown_to_catalog(launch, wanted)
    yield from (Candidate(spec=spec) for spec in meant)


@cache
def _catalog_words() -> tuple[tuple[MetricSpec, frozenset[str], frozenset[str]], ...]:
    """Each metric with the words of its names, and of its meaning too."""
    return tuple(
        (
            spec,
            titles := frozenset(_words(f"{spec.label} {spec.id}")),
            titles | _words(spec.meaning),
        )
        for spec in metrics().values()
    )


def _unknown_to_catalog(launch: Launch, wanted: frozenset[str]) -> Iterator[Candidate]:
    for name in launch.metric_names():
        if metric_named(name) is None and wanted <= _words(name):
            yield Candidate(name)


@lru_cache(maxsize=8192)
def _words(text: str) -> frozenset[str]:
    return frozenset(words_of(re.sub(r"[^A-Za-z0-9]+", " ", text)))
