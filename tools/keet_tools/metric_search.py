"""Finds metrics by a name of ncu, an id or label of the catalog, or words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import NamedTuple

from keet.catalog import MetricSpec, metric_named, metrics, stalls
from keet.profile import Launch
from keet.verification.metric_names import NCU_NAME, STALL_SHARE, find_terms, words_of

_MOST = 60
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
    return list(dict.fromkeys(found))[:_MOST]


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
