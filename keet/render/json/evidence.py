"""Evidence as JSON: the numbers that a text may cite, which make up most of a launch's document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from keet.evidence import Evidence
from keet.render.json.report import finite


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
