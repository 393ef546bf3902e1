"""Findings that were made up."""

from __future__ import annotations

from typing import Any

from keet.diagnosis.finding import Finding
from keet.documents.finding import Forecast
from keet.evidence import Sentence


def finding(id_: str, low: float = 1, likely: float = 1.2, high: float = 2, **more: Any) -> Finding:
    told = {"cause_certainty": "certain", "text": Sentence(), "evidence": (), **more}
    return Finding(id=id_, forecast=Forecast(low, likely, high), **told)
