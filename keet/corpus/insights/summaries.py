"""A model's words about an insight: what it is told, and its text with numbers by reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keet.corpus.insights.book import pieces_of
from keet.corpus.insights.records import Insight, Unchecked, Written
from keet.evidence import Evidence
from keet.prose.free_numbers import Allowed
from keet.prose.names import Names
from keet.prose.reading import read_prose


def told(insight: Insight) -> str:
    """Given to a model: the analyst's sentences, and the facts behind them with their names."""
    lines = [insight.title, *insight.text, insight.adds, "", "Facts:"]
    facts = (f"{{{piece.id}}} {piece.label} = {piece}" for piece in _pieces(insight))
    return "\n".join([*lines, *facts])


def _pieces(insight: Insight) -> Iterator[Evidence]:
    """A fact of one point of a curve says which: `Duration at BLOCK = 32`."""
    places = _knob_values(insight)
    for piece in pieces_of(insight.facts):
        fact = insight.facts[piece.id]
        where = places.get((fact.path, fact.launch)) if fact.column != "knob" else None
        yield piece._replace(label=f"{fact.label} at {where}") if where else piece


def _knob_values(insight: Insight) -> Mapping[tuple[str | None, int | None], str]:
    sweep = insight.sweep
    points = sweep.points if sweep else ()
    knob = sweep.knob if sweep else ""
    return {(point.path, point.launch): f"{knob} {point.shown}" for point in points}


def read_summary(insight: Insight, text: str) -> Written:
    """With keet's numbers in place of references. Sentences that cannot be checked are marked."""
    names = Names((piece.id, piece) for piece in _pieces(insight))
    prose = read_prose(text, names, Allowed())
    unchecked = tuple(Unchecked(each.text, each.problem or "") for each in prose.problems)
    return Written(str(prose), unchecked)
