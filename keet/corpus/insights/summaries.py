"""One insight as a model gets it: its text, the evidence behind it, and the names to redact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keet.documents.insights import InsightDocument
from keet.evidence import Evidence


def insight_text(insight: InsightDocument) -> str:
    """keet's sentences, then the facts behind them with their names."""
    lines = [insight.title, *insight.text, insight.adds, "", "Facts:"]
    facts = (f"{{{piece.id}}} {piece.label} = {piece}" for piece in insight_evidence(insight))
    return "\n".join([*lines, *facts])


def insight_evidence(insight: InsightDocument) -> Iterator[Evidence]:
    """A fact of one point of a sweep says which point: `Duration at BLOCK = 32`."""
    places = _knob_values(insight)
    for fact in insight.facts.values():
        where = places.get((fact.path, fact.launch)) if fact.metric != "knob" else None
        yield fact._replace(label=f"{fact.label} at {where}") if where else fact


def _knob_values(insight: InsightDocument) -> Mapping[tuple[str | None, int | None], str]:
    sweep = insight.sweep
    points = sweep.points if sweep else ()
    knob = sweep.knob if sweep else ""
    return {(point.path, point.launch): f"{knob} {point.shown}" for point in points}


def insight_names(insight: InsightDocument) -> frozenset[str]:
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
    return frozenset(name for name in kernels | paths if name)
