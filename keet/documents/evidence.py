"""Evidence as JSON: the numbers that a text may cite, which make up most of a launch's document."""

from __future__ import annotations

from dataclasses import dataclass

from keet.documents.document import Document
from keet.documents.shared_types import NonFinite
from keet.units import Number


@dataclass(frozen=True, kw_only=True)
class NumberDocument(Document):
    """One number that a text may cite."""

    metric: str
    """ncu's name of the metric; for computed numbers, keet's own name."""
    value: Number | None
    """Null if the number is not finite: see `nonfinite`."""
    unit: str
    line: str | None
    """For example `file.cu:31`, if the number belongs to one source line."""
    derived_from: list[str] | None
    """Ids of the numbers that it was computed from."""
    label: str
    nonfinite: NonFinite | None = None
