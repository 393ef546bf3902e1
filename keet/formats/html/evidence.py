"""The numbers behind a text: what each one is, its value, and its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keet.analysis.ledger import OF_RUN
from keet.catalog import metric_named
from keet.evidence import Evidence
from keet.formats.html.markup import Content, Html, element, joined, scrolling, table
from keet.formatting import count_noun
from keet.pages.figures import EvidenceFigure
from keet.safe_text import one_line

_HEADINGS = ("Value", "What it is, and its id", "Metric, or where else it is from")


def draw_evidence(block: EvidenceFigure) -> Html | None:
    """Closed at first; None if nothing is cited."""
    cited = block.cited
    if not cited:
        return None
    pieces = with_sources(cited, {piece.id: piece for piece in block.known})
    cited_ids = {piece.id for piece in cited}
    sources = len(pieces) - len(cited_ids)
    summary = f"Evidence: {count_noun(len(cited_ids), 'number')}"
    ids = {piece.id: f"{block.anchor}-{number}" for number, piece in enumerate(pieces, 1)}
    rows = [_row(piece, ids, is_source=piece.id not in cited_ids) for piece in pieces]
    return element(
        "details",
        element("summary", summary + (f", computed from {sources} more" if sources else "")),
        scrolling("Evidence", table(dict.fromkeys(_HEADINGS, ""), rows)),
        class_="fold evidence",
        data_print=True,
    )


def with_sources(cited: Sequence[Evidence], known: Mapping[str, Evidence]) -> list[Evidence]:
    """The numbers that a text cites, then all that they were computed from, each once."""
    by_id = {piece.id: piece for piece in cited}
    queue = list(by_id.values())
    for piece in queue:
        for name in piece.derived_from or ():
            if name not in by_id and name in known:
                by_id[name] = known[name]
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
    if piece.derived_from:
        names = {name: element("code", one_line(name)) for name in piece.derived_from}
        links = [
            element("a", shown, href=f"#{ids[name]}") if name in ids else shown
            for name, shown in names.items()
        ]
        return ["from ", joined(links, ", ")]
    # A report may have it: ncu's names have two underscores, or the catalog knows them.
    is_metric = "__" in piece.metric or metric_named(piece.metric) is not None
    if piece.derived_from is None and is_metric:
        return element("code", one_line(piece.metric), class_="break")
    if piece.metric == "sm_count":
        return "device attribute"
    if "(assumed)" in piece.label:
        return "assumed by keet: not in the report"
    if piece.id.rpartition("#")[2].rpartition(".")[2] == OF_RUN:
        return "computed by keet over several launches"
    return "computed by keet"
