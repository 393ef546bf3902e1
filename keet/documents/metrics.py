"""`keet metrics --format json`."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import KEET, NonFinite, Producer, ReportDocument
from keet.units import Number, Quantity


class PointDocument(Document):
    at: int | str
    """What the value belongs to, for example a register count, a number of bytes or an opcode."""
    value: Number | str | None


class MetricDocument(Document):
    name: str
    """ncu's name of the metric."""
    id: str | None
    """Id in keet's catalog."""
    label: str | None
    value: Number | str | None
    """Null if there is no value, or if it is not finite: see `nonfinite`."""
    nonfinite: NonFinite | None = None
    unit: str
    section: str | None = None
    meaning: str | None = None
    instances: int = 0
    """Number of parts of the value (ncu's instances)."""
    points: list[PointDocument] | None = None
    """The parts, if the metric has no other value, such as a what-if curve."""

    @property
    def quantity(self) -> Quantity | None:
        """With a number that is not finite; None for a text, or without a value."""
        value = float(self.nonfinite) if self.nonfinite else self.value
        return None if value is None or isinstance(value, str) else Quantity(value, self.unit)


class MetricsLaunch(Document):
    id: int
    kernel: str
    metrics: list[MetricDocument]


class MetricsDocument(Document):
    """`keet metrics --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = KEET
    report: ReportDocument
    launches: list[MetricsLaunch]
