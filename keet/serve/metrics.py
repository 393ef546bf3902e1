"""The tool `metrics`: metrics of one launch."""

from __future__ import annotations

from dataclasses import replace

from keet.documents.metrics import MetricsLaunch
from keet.errors import UsageError
from keet.evidence import Sentence, constant
from keet.profile import Launch
from keet.serve.allowed_folders import quoted
from keet.serve.arguments import MetricsArguments
from keet.serve.name_patterns import about_regexes, longest_in, matcher, selected_launches
from keet.serve.report_cache import ReportCache
from keet.serve.results import MetricsToolResult
from keet.serve.size_limits import page_of
from keet.serve.tool_call import ToolCall
from keet.serve.tool_reply import WIDTH, ToolReply, page_fields, with_text

_PER_PAGE = 40
_EXPLAINED = 20
"""With more metrics, their meaning is left out: it is most of the text."""
_SHORTER = Sentence(
    "For what the metrics mean, name a pattern that {most:d} or fewer match.",
    most=constant(_EXPLAINED, "", "metrics that are explained"),
)


def metrics(cache: ReportCache, asked: MetricsArguments, call: ToolCall) -> ToolReply:
    from keet.formats import page_text
    from keet.pages.metrics import metrics_page

    with cache.reading(asked.report, call) as report:
        launches = selected_launches(report.profile, asked.launch, asked.kernel)
        launch = longest_in(report.profile, launches)
        call.begin(f"reading metrics of {launch.kernel}")
        found = _metrics(launch, asked.pattern)
        rows = found.metrics
        here = rows[asked.offset : asked.offset + _PER_PAGE]
        explain = len(rows) <= _EXPLAINED
        left_out = {} if explain else {"meaning": None}
        documents = (each.to_dict() | left_out for each in here)
        page = page_of(documents, len(rows), asked.offset, _PER_PAGE)
        of = constant(len(launches), "", "launches")
        notes = [] if of.value == 1 else [Sentence("The longest of {of:d} launches.", of=of)]
        notes += [] if explain else [_SHORTER]

        def text_of(count: int) -> str:
            shown = [replace(found, metrics=here[:count])]
            text = page_text(
                lambda reader: metrics_page(shown, reader, explain=explain, names=True),
                "terminal",
                WIDTH,
            )
            return "\n".join([*notes, text])

        page, text, end = with_text(page, "metric", text_of)
        result = MetricsToolResult(
            report=report.name,
            launch=launch.id,
            kernel=launch.kernel,
            metrics=page.entries,
            **page_fields(page, notes),
        )
        return ToolReply(result, text, end)


def _metrics(launch: Launch, pattern: str | None) -> MetricsLaunch:
    """As in `keet metrics`, but with a name pattern instead of a regular expression."""
    from keet.analysis.metric_table import launch_metrics
    from keet.pages.metrics import INTERNAL

    if pattern is None:
        return launch_metrics(launch)
    found = launch_metrics(launch, matcher(pattern, "pattern"))
    rows = [metric for metric in found.metrics if not metric.name.startswith(INTERNAL)]
    if not rows:
        raise UsageError(
            f"pattern {quoted(pattern)}: no metric matches; * lists all of them"
            f"{about_regexes(pattern)}"
        )
    return replace(found, metrics=rows)
