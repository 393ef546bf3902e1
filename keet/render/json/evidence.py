"""Numbers that a text may cite, as JSON: most of a launch's document."""

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

    metric: str = field(description="ncu's name, or one of keet's own for what is computed")
    value: Number | None = field(description="null: see `nonfinite`")
    unit: str
    line: str | None = field(description="`file.cu:31`, where it is of one source line")
    derived_from: list[str] | None = field(description="ids of what it was computed from")
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
    """`number` of each, written out: a launch has 160."""
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
