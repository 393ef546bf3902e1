"""The type of each JSON document, by the command that prints it (for `keet schema`)."""

from __future__ import annotations

from keet.render.json.ask import AskDocument
from keet.render.json.cases import CasesDocument
from keet.render.json.diff import DiffDocument, ExplainAgainstDocument
from keet.render.json.doctor import DoctorDocument
from keet.render.json.encoding.fields import Document
from keet.render.json.explain import ExplainDocument
from keet.render.json.finding_reference import FindingsDocument
from keet.render.json.hotspots import HotspotsDocument
from keet.render.json.insights import InsightsDocument
from keet.render.json.metrics import MetricsDocument
from keet.render.json.query import QueryDocument
from keet.render.json.roofline import RooflineDocument
from keet.render.json.show import ShowDocument
from keet.render.json.top import TopDocument
from keet.render.json.verify import VerifyDocument

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
    "finding": FindingsDocument,
    "insights": InsightsDocument,
    "verify": VerifyDocument,
    "doctor": DoctorDocument,
    "profile": ExplainDocument,
}
