"""Every JSON that keet prints, by the command that prints it."""

from __future__ import annotations

from typing import Any

from keet.render.ask_documents import AskDocument
from keet.render.cases_documents import CasesDocument
from keet.render.diff_documents import DiffDocument, ExplainAgainstDocument
from keet.render.documents import (
    DoctorDocument,
    Document,
    MetricsDocument,
    RooflineDocument,
    ShowDocument,
)
from keet.render.explain_documents import ExplainDocument
from keet.render.hotspots_documents import HotspotsDocument
from keet.render.insights_documents import InsightsDocument
from keet.render.store_documents import QueryDocument, TopDocument
from keet.render.verify_document import VerifyDocument

DOCUMENTS: dict[str, type[Document]] = {
    "explain": ExplainDocument,
    "explain-against": ExplainAgainstDocument,
    "ask": AskDocument,
    "diff": DiffDocument,
    "show": ShowDocument,
    "metrics": MetricsDocument,
    "hotspots": HotspotsDocument,
    "roofline": RooflineDocument,
    "top": TopDocument,
    "query": QueryDocument,
    "cases": CasesDocument,
    "insights": InsightsDocument,
    "verify": VerifyDocument,
    "doctor": DoctorDocument,
}


def json_schema(name: str) -> dict[str, Any]:
    return DOCUMENTS[name].model_json_schema(mode="serialization")
