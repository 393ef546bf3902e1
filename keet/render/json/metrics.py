"""`keet metrics --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keet.catalog import MetricSpec
from keet.documents.document import Streamed
from keet.documents.metrics import MetricDocument, MetricsDocument, MetricsLaunch, PointDocument
from keet.documents.shared_types import NonFinite
from keet.profile import Launch, Metric, Profile, Value
from keet.render.json.report import finite, report_document

Row = tuple[Metric, MetricSpec | None]


def metrics_document(
    profile: Profile, tables: Iterable[tuple[Launch, Sequence[Row]]]
) -> MetricsDocument:
    return metrics_stream(profile, tables).document()


def metrics_stream(
    profile: Profile, tables: Iterable[tuple[Launch, Sequence[Row]]]
) -> Streamed[MetricsDocument]:
    """The document, one launch after the other."""
    launches = (_launch_document(launch, rows) for launch, rows in tables)
    fields = (("report", report_document(profile)), ("launches", launches))
    return Streamed(MetricsDocument, fields)


def _launch_document(launch: Launch, rows: Sequence[Row]) -> MetricsLaunch:
    return MetricsLaunch(
        id=launch.id,
        kernel=launch.kernel,
        metrics=[_metric_document(launch, metric, spec) for metric, spec in rows],
    )


def _metric_document(launch: Launch, metric: Metric, spec: MetricSpec | None) -> MetricDocument:
    instances = launch.instances(metric.name)
    points = None
    value: Value = metric.value
    if spec is not None and not spec.total and instances is not None:
        value = None  # a sum of values that cannot be added
        points = [PointDocument(at=at, value=part) for at, part in instances.pairs()]
    nonfinite: NonFinite | None = None
    if isinstance(value, float):
        value, nonfinite = finite(value)
    return MetricDocument(
        name=metric.name,
        id=spec.id if spec else None,
        label=spec.label if spec else None,
        value=value,
        nonfinite=nonfinite,
        unit=metric.unit,
        section=spec.section if spec else None,
        meaning=spec.meaning if spec else None,
        instances=len(instances) if instances else 0,
        points=points,
    )
