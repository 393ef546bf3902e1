"""`keet insights --format html`: what a set of profiles shows together, sweeps as charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.documents.insights import InsightDocument, InsightsDocument, WrittenDocument
from keet.documents.model_explanation import Authorship, UsageDocument
from keet.formats.html.insights_figure import sweep_figure
from keet.formats.html.insights_reports import CitedReports
from keet.formats.html.insights_sweep import left_out_table, points_table
from keet.formats.html.insights_tables import (
    facts_fold,
    history_figure,
    kernels_table,
    outliers_table,
)
from keet.formats.html.markup import Html, element, fragment
from keet.formats.html.page import bar, page
from keet.formats.html.prose import prose
from keet.pages.model_words import usage_text
from keet.render.common.insights import ADDS, HEADINGS, NO_SWEEP, NOTHING, OVERLAP, summary_line
from keet.safe_text import one_line

TITLE = "What these profiles show together"
_FIRST = 6
"""Insights of a kind that are open at first, and answers at the top. A judgement: as many as a
reader scans before searching; each has about ten elements to tab through."""
_SHORT = {"sweep": "Sweeps", "cluster": "Clusters", "change": "Changes", "outliers": "Outliers"}


def insights_page(document: InsightsDocument) -> str:
    """A whole page."""
    reports = CitedReports(document.insights)
    return page(
        f"{_headline(document)} - keet insights",
        _bar(document),
        element("h1", TITLE),
        _set(document),
        _answers(document),
        _missing(document),
        *_kinds(document, reports),
        _notes(document),
        reports.section(),
        footer=list(_footer(document)),
    )


def _headline(document: InsightsDocument) -> str:
    """For the browser's tab: the first insight, which is the most important one."""
    return one_line(document.insights[0].title if document.insights else summary_line(document))


def _bar(document: InsightsDocument) -> Html:
    kinds = _found_kinds(document)
    links = [(f"kind-{kind}", _SHORT[kind]) for kind in kinds]
    return bar(one_line(document.store), [*links, *([("reports", "Reports")] if kinds else [])])


def _set(document: InsightsDocument) -> Html:
    """What was looked at."""
    devices = element("ul", *(element("li", one_line(each)) for each in document.devices))
    many = element("details", element("summary", "All GPUs"), devices, class_="fold")
    return fragment(
        element("p", one_line(summary_line(document)), class_="set"),
        many if len(document.devices) > 3 else None,
    )


def _found_kinds(document: InsightsDocument) -> list[str]:
    found = {each.kind for each in document.insights}
    return [kind for kind in HEADINGS if kind in found]


# --- the answer first


def _answers(document: InsightsDocument) -> Html | None:
    """What each insight adds over single profiles, sweeps first."""
    telling = [each for each in document.insights if each.adds]
    if not telling:
        return None
    first, rest = telling[:_FIRST], telling[_FIRST:]
    return element(
        "section",
        element("h2", ADDS),
        element("ol", *map(_answer, first), class_="answers"),
        _more_answers(rest, start=len(first) + 1) if rest else None,
        class_="panel",
        id="answers",
    )


def _more_answers(rest: Sequence[InsightDocument], start: int) -> Html:
    return element(
        "details",
        element("summary", f"{len(rest):,} more"),
        element("ol", *map(_answer, rest), class_="answers", start=start),
        class_="fold",
        data_print=True,
    )


def _answer(insight: InsightDocument) -> Html:
    link = element("a", prose(insight.title), href=f"#{insight.id}")
    return element("li", element("p", element("b", link)), element("p", prose(insight.adds)))


def _missing(document: InsightsDocument) -> Html | None:
    """If there is no sweep, says what would be needed for one."""
    has_sweep = any(each.sweep for each in document.insights)
    if has_sweep:
        return None
    return element(
        "div",
        element("p", prose(NOTHING)) if not document.insights else None,
        element("p", prose(NO_SWEEP)),
        class_="note",
    )


# --- insights by kind


def _kinds(document: InsightsDocument, reports: CitedReports) -> Iterator[Html]:
    for kind in _found_kinds(document):
        found = [each for each in document.insights if each.kind == kind]
        shown = [_insight(each, reports) for each in found[:_FIRST]]
        folded = [_folded(each, reports) for each in found[_FIRST:]]
        heading = element("h2", HEADINGS[kind], id=f"kind-{kind}")
        about = element("p", OVERLAP, class_="muted") if kind == "cluster" else None
        yield element("section", heading, about, *shown, *folded)


def _insight(insight: InsightDocument, reports: CitedReports) -> Html:
    return element("article", _title(insight), *_body(insight, reports), class_="insight")


def _title(insight: InsightDocument) -> Html:
    """Links lead to the title, because the target of a link is highlighted: one line is enough."""
    number = element("span", insight.id, class_="muted")
    return element("h3", number, " ", prose(insight.title), id=insight.id)


def _folded(insight: InsightDocument, reports: CitedReports) -> Html:
    """One of many: its title, and the rest one click away."""
    title = element("summary", _title(insight))
    body = _body(insight, reports)
    return element("details", title, *body, class_="insight folded", data_print=True)


def _body(insight: InsightDocument, reports: CitedReports) -> Iterator[Html | None]:
    figure, table = _parts(insight, reports)
    yield element("div", figure, _words(insight), class_="insight-grid")
    yield table
    yield facts_fold(insight, reports)


def _parts(insight: InsightDocument, reports: CitedReports) -> tuple[Html | None, Html | None]:
    """The parts beside the text, and those below it."""
    if insight.sweep:
        table = points_table(insight.sweep, reports)
        below = fragment(
            element("h4", "The points of the chart"), table, left_out_table(insight.sweep, reports)
        )
        return sweep_figure(insight.sweep), below
    if insight.cluster:
        return None, kernels_table(insight.cluster, reports)
    if insight.change:
        return None, history_figure(insight.change, reports)
    if insight.outliers:
        return None, outliers_table(insight.outliers, reports)
    return None, None


def _words(insight: InsightDocument) -> Html:
    adds = [element("b", f"{ADDS}: "), prose(insight.adds)] if insight.adds else None
    return element(
        "div",
        element("p", adds, class_="adds") if adds else None,
        element("ul", *(element("li", prose(text)) for text in insight.text)),
        _written(insight.written) if insight.written else None,
        class_="words",
    )


# --- a model's part


def _written(written: WrittenDocument) -> Html:
    unchecked = [
        element("li", f"unchecked: “{one_line(each.text)}” ({one_line(each.reason)})")
        for each in written.unchecked
    ]
    return element(
        "aside",
        element("p", element("b", "Model: "), prose(written.text)) if written.text else None,
        element("ul", *unchecked, class_="muted") if unchecked else None,
        class_="note written",
    )


def _notes(document: InsightsDocument) -> Html | None:
    problem = [f"The model's part is incomplete: {document.problem}"] if document.problem else []
    notes = [*problem, *document.notes]
    if not notes:
        return None
    entries = [element("li", prose(note)) for note in notes]
    heading = element("h2", "What could not be judged, or is not shown")
    return element("section", heading, element("ul", *entries), id="notes")


def _footer(document: InsightsDocument) -> Iterator[Html]:
    if numbers := document.grounding.numbers:
        about = (
            f"All {numbers:,} numbers in keet's texts are printed from the evidence on this page."
        )
        yield element("p", about)
    if document.usage:
        model = document.author.removeprefix("model:")
        usage = UsageDocument(**document.usage.to_dict())
        yield element("p", usage_text(Authorship(model, usage, document.problem, None)))
    version = document.producer.version
    yield element("p", f"Made by keet {version}. This page is one file and loads nothing.")
