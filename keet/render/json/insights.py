"""`keet insights --format json`: the types of the document. Their fields are those of the records
in keet.corpus."""

from __future__ import annotations

from typing import Any

from keet.documents.insights import (
    InsightsDocument,
)


def insights_document(insights: object, store: str, **authorship: Any) -> InsightsDocument:
    """Reads the records of keet.corpus by attribute, because render must not import corpus."""
    fields = ("files", "launches", "devices", "insights", "notes", "grounding")
    given = {name: getattr(insights, name) for name in fields}
    return InsightsDocument(store=store, **given, **authorship)
