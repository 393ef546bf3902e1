"""`metrics`: the metric table of one launch."""

from __future__ import annotations

from keet.errors import UsageError
from keet.profile import Launch
from keet.serve.arguments import Metrics
from keet.serve.bounds import page_of
from keet.serve.reply import WIDTH, Reply, page_fields, view_text, with_text
from keet.serve.results import MetricsResult
from keet.serve.roots import quoted
from keet.serve.selection import about_regexes, chosen, longest, matcher
from keet.serve.shelf import Shelf
from keet.serve.work import Work

_PER_PAGE = 40
_EXPLAINED = 20
"""Metrics up to which their meaning is told: it is most of the text."""
_SHORTER = f"For what the metrics mean, name a pattern that {_EXPLAINED} or fewer match."


def metrics(shelf: Shelf, asked: Metrics, work: Work) -> Reply:
    from keet.render.json.metrics import metrics_document
    from keet.render.terminal.metrics import metrics_view

    with shelf.reading(asked.report, work) as report:
        launches = chosen(report.profile, asked.launch, asked.kernel)
        launch = longest(launches, report.profile)
        work.begin(f"reading metrics of {launch.kernel}")
        rows = _rows(launch, asked.pattern)
        here = rows[asked.offset : asked.offset + _PER_PAGE]
        (document,) = metrics_document(report.profile, [(launch, here)]).launches
        explain = len(rows) <= _EXPLAINED
        left_out = {} if explain else {"meaning": None}
        documents = (each.to_dict() | left_out for each in document.metrics)
        page = page_of(documents, len(rows), asked.offset, _PER_PAGE)
        notes = [] if len(launches) == 1 else [f"The longest of {len(launches)} launches."]
        notes += [] if explain else [_SHORTER]

        def text_of(count: int) -> str:
            view = metrics_view([(launch, here[:count])], WIDTH, explain=explain, names=True)
            return "\n".join([*notes, view_text(view)])

        page, text, end = with_text(page, "metric", text_of)
        result = MetricsResult(
            report=report.name,
            launch=launch.id,
            kernel=launch.kernel,
            metrics=page.entries,
            **page_fields(page, notes),
        )
        return Reply(result, text, end)


def _rows(launch: Launch, pattern: str | None) -> list:  # type: ignore[type-arg]
    """As `keet metrics`, whose PATTERN is a regular expression: see `selection.matcher`."""
    from keet.analysis.metric_table import metric_rows
    from keet.render.terminal.metrics import INTERNAL

    if pattern is None:
        return metric_rows(launch)
    matches = matcher(pattern, "pattern")
    rows = [
        (metric, spec)
        for metric, spec in metric_rows(launch, everything=True)
        if any(map(matches, (metric.name, *((spec.id, spec.label) if spec else ()))))
        and not metric.name.startswith(INTERNAL)
    ]
    if not rows:
        raise UsageError(
            f"pattern {quoted(pattern)}: no metric matches; * lists all of them"
            f"{about_regexes(pattern)}"
        )
    return rows
