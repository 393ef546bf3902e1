"""`keet query --format json`: the types of the document, which is written row by row while it is
read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from keet.documents.query import QueryColumn, QueryDocument
from keet.documents.shared_types import Producer

Row = Sequence[Any]


def query_json(columns: Sequence[str], types: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """A `QueryDocument` in pieces, one row per line: it may be larger than memory."""
    described = [QueryColumn(name=n, type=t).to_dict() for n, t in zip(columns, types)]
    version = QueryDocument.schema_version
    head = {"schema_version": version, "producer": Producer().to_dict()}
    yield json.dumps({**head, "columns": described})[:-1] + ', "rows": ['
    separator = "\n"
    for row in rows:
        yield separator + json.dumps([_plain(cell) for cell in row], ensure_ascii=False)
        separator = ",\n"
    yield "\n]}\n"


def _plain(value: Any) -> Any:
    """Values that JSON can represent."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(cell) for key, cell in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(cell) for cell in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int) else str(value)
