"""`keet query --format json`."""

from __future__ import annotations

from typing import Any, Literal

from keet.documents.document import Document
from keet.documents.shared_types import KEET, Producer


class QueryColumn(Document):
    name: str
    type: str
    """Type of the column, as duckdb names it."""


class QueryDocument(Document):
    """`keet query --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = KEET
    columns: list[QueryColumn]
    rows: list[list[Any]]
    """Cells in the order of `columns`; null for NULL, or for a number that JSON cannot represent.
    """
