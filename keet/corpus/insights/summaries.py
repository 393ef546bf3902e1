"""A model's words about an insight: what it is told, and which of its sentences stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from keet.corpus.insights.book import pieces_of
from keet.corpus.insights.records import Dropped, Insight, Written
from keet.evidence import CITED, Evidence
from keet.verification.disguise import Span, disguise, promises_in_words, undisguised
from keet.verification.grounding import check_grounding
from keet.verification.held import paragraphs, whole_sentences
from keet.verification.naming import misnamed
from keet.verification.numbers import find_numbers

_FUTURE = re.compile(
    r"\b(?:would|will|could|can|should|may|might|expect\w*|promis\w+|potential\w*)\b", re.IGNORECASE
)
_GAIN = re.compile(
    r"\b(?:faster|quicker|speed-?\s?ups?|sav\w+|gains?|improve\w*|reduc\w+|shorter|cut\w*)\b",
    re.IGNORECASE,
)
_CEILING = "explanation.ceilings."
_FORECAST = "saved"
"""How the labels of forecasts begin: only these may be said of what is not there yet."""


def told(insight: Insight) -> str:
    """What a model is given: the analyst's sentences and the facts behind them, with their ids."""
    lines = [insight.title, *insight.text, insight.adds, "", "Facts:"]
    return "\n".join([*lines, *_fact_lines(insight)])


def _fact_lines(insight: Insight) -> Iterator[str]:
    """A fact of one point of a curve says which: `BLOCK = 32`."""
    places = _knob_values(insight)
    for piece in pieces_of(insight.facts):
        fact = insight.facts[piece.id]
        where = places.get((fact.path, fact.launch)) if fact.column != "knob" else None
        yield f"{piece.id}: {fact.label}{f' at {where}' if where else ''} = {piece}"


def _knob_values(insight: Insight) -> Mapping[tuple[str | None, int | None], str]:
    sweep = insight.sweep
    points = sweep.points if sweep else ()
    knob = sweep.knob if sweep else ""
    return {(point.path, point.launch): f"{knob} {point.shown}" for point in points}


def hold(insight: Insight, text: str) -> Written:
    """Sentence by sentence: a number that is no fact of the insight takes its sentence with it."""
    pieces = {piece.id: piece for piece in pieces_of(insight.facts)}
    kept: list[str] = []
    dropped: list[Dropped] = []
    for sentence in _sentences(text):
        reason = _objection(sentence, pieces) or _misplaced(sentence, insight)
        if reason:
            dropped.append(Dropped(sentence, reason))
        else:
            kept.append(sentence)
    return Written(" ".join(kept), tuple(dropped))


def _sentences(text: str) -> Iterator[str]:
    for paragraph, end in paragraphs(undisguised(text)):
        for sentence, _ in whole_sentences(re.sub(r"\s+", " ", paragraph), end):
            yield sentence.strip()


def _objection(sentence: str, pieces: Mapping[str, Evidence]) -> str | None:
    cited = CITED.findall(sentence)
    if unknown := [name for name in cited if name not in pieces]:
        return f"there is no fact {unknown[0]}"
    known = [pieces[name] for name in cited]
    if _promises(sentence, known):
        return "how much is gained is keet's to forecast, not a model's"
    plain = sentence.replace("`", "")  # a number in backticks is no code here
    numbers = find_numbers(plain)
    if numbers and not known:
        return f"{numbers[0].text}: no fact is cited for it"
    grounding = check_grounding(plain, known)
    if grounding.stray:
        return f"{grounding.stray[0].text}: {grounding.stray[0].reason}"
    if wrong := misnamed(plain, grounding.verified, pieces):
        return next(iter(wrong.values()))
    shares = [float(piece.value) for piece in known if piece.unit == "%"]
    spans = [Span(number.start, number.end) for number in numbers]
    return disguise(plain, spans, _wholes(known), shares)


def _misplaced(sentence: str, insight: Insight) -> str | None:
    """Facts of one point that are said of another, and of one unit that are said of another."""
    facts = [(name, insight.facts[name]) for name in CITED.findall(sentence)]
    points = {fact.path for _, fact in facts if fact.column == "knob"}
    places = _knob_values(insight)
    for name, fact in facts:
        unit = fact.column.removeprefix(_CEILING)
        if unit != fact.column and not re.search(rf"\b{re.escape(unit)}\b", sentence):
            return f"{name} is the {fact.label}"
        if points and fact.path and fact.path not in points:
            return f"{name} is of {places.get((fact.path, fact.launch), fact.path)}"
    return None


def _promises(sentence: str, known: Sequence[Evidence]) -> bool:
    forecast = any(piece.label.startswith(_FORECAST) for piece in known)
    if forecast:
        return False
    gains = _FUTURE.search(sentence) and _GAIN.search(sentence)
    return promises_in_words(sentence) or bool(gains and find_numbers(CITED.sub("", sentence)))


def _wholes(known: Sequence[Evidence]) -> set[int]:
    return {int(piece.value) for piece in known if float(piece.value).is_integer()}
