"""The numbers behind a text: what each one is, its value, and its source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from keet.analysis.ledger import OF_RUN
from keet.catalog import metric_named
from keet.evidence import Evidence
from keet.formats.html.markup import Content, Html, element, joined, scrolling
from keet.pages.figures import EvidenceFigure
from keet.safe_text import one_line

_HEADINGS = ("Value", "What it is, and its id", "Metric, or where else it is from")


def draw_evidence(block: EvidenceFigure) -> Html | None:
    """Closed at first; None if nothing is cited."""
    cited = block.cited
    if not cited:
        return None
    rows = with_sources(cited, {piece.id: piece for piece in block.known})
    cited_ids = {piece.id for piece in cited}
    return element(
        "details",
        element("summary", _summary(len(cited_ids), len(rows) - len(cited_ids))),
        _table(rows, cited_ids, block.anchor),
        class_="fold evidence",
        data_print=True,
    )


def _summary(cited: int, sources: int) -> str:
    numbers = "1 number" if cited == 1 else f"{cited} numbers"
    return f"Evidence: {numbers}" + (f", computed from {sources} more" if sources else "")


def _table(rows: Sequence[Evidence], cited: Collection[str], prefix: str) -> Html:
    ids = {piece.id: f"{prefix}-{number}" for number, piece in enumerate(rows, 1)}
    table = element(
        "table",
        element("thead", element("tr", [element("th", name, scope="col") for name in _HEADINGS])),
        element("tbody", [_row(piece, ids, is_source=piece.id not in cited) for piece in rows]),
    )
    return scrolling("Evidence", table)


def with_sources(cited: Sequence[Evidence], known: Mapping[str, Evidence]) -> list[Evidence]:
    """The numbers that a text cites, then all that they were computed from, each once."""
    found = {piece.id: piece for piece in cited}
    queue = list(found.values())
    for piece in queue:
        for name in piece.derived_from or ():
            if name not in found and name in known:
                found[name] = known[name]
                queue.append(known[name])
    return queue


def _row(piece: Evidence, ids: Mapping[str, str], *, is_source: bool) -> Html:
    at = f" at {one_line(piece.line)}" if piece.line else ""
    name = element("code", one_line(piece.id), class_="break muted")
    return element(
        "tr",
        element("td", str(piece), class_="number"),
        element("td", f"{one_line(piece.label)}{at}", element("br"), name),
        element("td", _origin(piece, ids)),
        id=ids[piece.id],
        class_="source" if is_source else None,
    )


def _origin(piece: Evidence, ids: Mapping[str, str]) -> Content:
    """ncu's name of a metric, or what the number was computed from."""
    if piece.derived_from is None and _is_metric(piece.metric):
        return element("code", one_line(piece.metric), class_="break")
    if not piece.derived_from:
        return _without_sources(piece)
    return ["from ", joined(_links(dict.fromkeys(piece.derived_from), ids), ", ")]


def _is_metric(name: str) -> bool:
    """Whether a report may have it: ncu's names have two underscores, or the catalog knows them."""
    return "__" in name or metric_named(name) is not None


def _without_sources(piece: Evidence) -> str:
    if piece.metric == "sm_count":
        return "device attribute"
    if "(assumed)" in piece.label:
        return "assumed by keet: not in the report"
    if piece.id.rpartition("#")[2].rpartition(".")[2] == OF_RUN:
        return "computed by keet over several launches"
    return "computed by keet"


def _links(names: Mapping[str, None], ids: Mapping[str, str]) -> Iterator[Html]:
    for name in names:
        shown = element("code", one_line(name))
        yield element("a", shown, href=f"#{ids[name]}") if name in ids else shown
