"""JSON Schemas of the documents, for `keet schema` and MCP; checks of written ones.

Needs pydantic: importing it takes longer than explaining a report.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from keet.documents.amounts import AmountsDocument
from keet.documents.charts import MemoryChartDocument, RooflineDocument
from keet.documents.diff import DiffDocument, ExplainAgainstDocument
from keet.documents.doctor import DoctorDocument
from keet.documents.document import COMPUTED, LEFT_OUT, Document
from keet.documents.explain import AskDocument, ExplainDocument
from keet.documents.finding import CasesDocument, FindingsDocument
from keet.documents.hotspots import HotspotsDocument
from keet.documents.insights import InsightsDocument
from keet.documents.optimize import OptimizeDocument
from keet.documents.shared_types import FINDING_IDS
from keet.documents.show import MetricsDocument, ShowDocument
from keet.documents.top import QueryDocument, TopDocument
from keet.documents.verify import VerifyDocument
from keet.findings import findings

DOCUMENTS: dict[str, type[Document]] = {
    "explain": ExplainDocument,
    "explain-against": ExplainAgainstDocument,
    "ask": AskDocument,
    "diff": DiffDocument,
    "show": ShowDocument,
    "metrics": MetricsDocument,
    "hotspots": HotspotsDocument,
    "roofline": RooflineDocument,
    "chart": MemoryChartDocument,
    "amounts": AmountsDocument,
    "top": TopDocument,
    "query": QueryDocument,
    "cases": CasesDocument,
    "finding": FindingsDocument,
    "insights": InsightsDocument,
    "verify": VerifyDocument,
    "doctor": DoctorDocument,
    "profile": ExplainDocument,
    "optimize": OptimizeDocument,
}


class _Generator(GenerateJsonSchema):
    def default_schema(self, schema: Any) -> Any:
        """A field that may be left out has no default."""
        if any(schema.get("default") is unset for unset in (LEFT_OUT, COMPUTED)):
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: FBT001 - pydantic's
        """A computed field is always there."""
        return field["schema"].get("default") is COMPUTED or super().field_is_required(field, total)

    def dataclass_schema(self, schema: Any) -> Any:
        """Pydantic finds the docstrings of a class's own fields only."""
        schema_of_class = super().dataclass_schema(schema)
        kind: type[Document] = schema["cls"]
        bases = [base for base in kind.__mro__[1:-1] if issubclass(base, Document)]
        for name, field in schema_of_class["properties"].items():
            for base in (*bases, kind.described_by.get(name)):
                other: Any = base  # mypy takes the class for one of its instances, which has a hash
                described = {} if other in (None, Document) else _descriptions(other)
                if text := described.get(name):
                    field.setdefault("description", text)
        return schema_of_class


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Checks values, and describes them."""
    return TypeAdapter(kind)


def schema_of(kind: type[Document]) -> dict[str, Any]:
    """The JSON Schema of the written document."""
    described: TypeAdapter[Any] = adapter(kind)  # type: ignore[arg-type]
    schema: dict[str, Any] = _finished(
        described.json_schema(mode="serialization", schema_generator=_Generator)
    )
    return schema


@cache
def _descriptions(kind: Any) -> dict[str, str]:
    """By field. Kept, because many documents have the same bases."""
    fields = schema_of(kind)["properties"].items()
    return {name: field["description"] for name, field in fields if "description" in field}


def _finished(schema: Any) -> Any:
    """With the ids of findings, and with descriptions on one line."""
    if isinstance(schema, list):
        return [_finished(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    finished = {name: _finished(each) for name, each in schema.items()}
    if schema.get("enum") == FINDING_IDS:
        finished["enum"] = list(findings())
    if isinstance(text := schema.get("description"), str):
        finished["description"] = " ".join(text.split())
    return finished
