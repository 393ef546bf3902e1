"""The reports that a page of insights names: listed once, and linked from every row and back.

Paths may be long and similar: tables show as much of each as is needed to tell them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from keet.documents.insights import InsightDocument
from keet.formats.html.data_table import scrolling
from keet.formats.html.markup import Html, element, joined
from keet.render.common.insights import shown_history
from keet.safe_text import one_line

_MOST_LINKS = 12
"""Insights that one row links to; a report of a large set may be in all of them."""


class CitedReports:
    """Reports by path, in the order in which the page names them."""

    def __init__(self, insights: Sequence[InsightDocument]) -> None:
        self._cited: dict[str, list[str]] = {}
        for insight in insights:
            for path in dict.fromkeys(_paths(insight)):
                self._cited.setdefault(path, []).append(insight.id)
        self._names = distinct_names(list(self._cited))
        self._ids = {path: f"report-{number}" for number, path in enumerate(self._cited, 1)}

    def name(self, path: str) -> str:
        return one_line(self._names.get(path, path))

    def link(self, path: str, launch: int | None = None) -> Html:
        """The report, and which of its launches."""
        shown = element("a", self.name(path), href=f"#{self._ids[path]}", class_="break")
        which = None if launch is None else f" #{launch}"
        return element("span", shown, which, class_="report-link")

    def section(self) -> Html | None:
        if not self._cited:
            return None
        rows = [self._row(path, ids) for path, ids in self._cited.items()]
        header = element("tr", *(element("th", name, scope="col") for name in _HEADER))
        table = element(
            "table",
            element("thead", header),
            element("tbody", *rows),
            data_sortable=True,
            data_filter=True,
        )
        return element(
            "section",
            element("h2", f"Reports named on this page ({len(rows):,})", id="reports"),
            element("p", "To see one of them in full: ", element("code", _EXPLAIN)),
            scrolling("Reports named on this page", table),
            class_="cited-reports",
        )

    def _row(self, path: str, ids: Sequence[str]) -> Html:
        links = [element("a", name, href=f"#{name}") for name in ids[:_MOST_LINKS]]
        more = f" and {len(ids) - _MOST_LINKS:,} more" if len(ids) > _MOST_LINKS else None
        return element(
            "tr",
            element("th", element("code", one_line(path), class_="break"), scope="row"),
            element("td", joined(links, ", "), more),
            id=self._ids[path],
        )


_HEADER = ("report", "named in")
_EXPLAIN = "keet explain REPORT --format html -o page.html"


def _paths(insight: InsightDocument) -> Iterator[str]:
    """All that rows and facts of an insight name."""
    if insight.sweep:
        yield from (point.path for point in insight.sweep.points)
        yield from (each.path for each in insight.sweep.left_out)
    if insight.cluster:
        yield from (each.path for each in insight.cluster.kernels)
    if insight.outliers:
        yield from (each.path for each in insight.outliers.launches)
    if insight.change:
        change = insight.change
        yield from (change.history[i].path for i in shown_history(change))
    yield from (fact.path for fact in insight.facts.values() if fact.path)


def distinct_names(paths: Sequence[str]) -> Mapping[str, str]:
    """The last part of each path, with as many folders before it as it needs to be the only one."""
    names: dict[str, str] = {}
    left, depth = list(dict.fromkeys(paths)), 1
    while left:
        ends = {path: "/".join(path.split("/")[-depth:]) for path in left}
        counts = Counter(ends.values())
        names |= {path: end for path, end in ends.items() if counts[end] == 1 or end == path}
        left = [path for path in left if path not in names]
        depth += 1
    return names
