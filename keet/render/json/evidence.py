"""Evidence as JSON: the numbers that a text may cite, which make up most of a launch's document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from keet.evidence import Evidence
from keet.render.json.encoding.fields import Document, field
from keet.render.json.report import finite
from keet.render.json.shared_types import NonFinite
from keet.units import Number


class NumberDocument(Document):
    """One number that a text may cite."""

    metric: str = field(
        description="ncu's name of the metric; for computed numbers, keet's own name."
    )
    value: Number | None = field(description="Null if the number is not finite: see `nonfinite`.")
    unit: str
    line: str | None = field(
        description="For example `file.cu:31`, if the number belongs to one source line."
    )
    derived_from: list[str] | None = field(
        description="Ids of the numbers that it was computed from."
    )
    label: str
    nonfinite: NonFinite | None = None


def number(evidence: Evidence) -> dict[str, Any]:
    """The fields of a `NumberDocument`."""
    value, nonfinite = finite(evidence.value)
    return {
        "metric": evidence.metric,
        "value": value,
        "unit": evidence.unit,
        "line": evidence.line,
        "derived_from": None if evidence.derived_from is None else list(evidence.derived_from),
        "label": evidence.label,
        "nonfinite": nonfinite,
    }


def numbers_by_id(evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Calls of `number` written out for speed: a launch has about 160."""
    found = {
        id_: {
            "metric": metric,
            "value": value,
            "unit": unit,
            "line": line,
            "derived_from": sources,
            "label": label,
            "nonfinite": None,
        }
        for id_, metric, value, unit, label, line, sources in evidence
    }
    return found | {each.id: number(each) for each in evidence if not math.isfinite(each.value)}
