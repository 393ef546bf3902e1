"""Masks secrets in parts that an older keet wrote: parts never change, so it is done when reading.

Newer parts contain only masked texts; their names show it (`columns_mark`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from keet.masking import masked

if TYPE_CHECKING:
    import duckdb

MASKED_CELLS = """
REPLACE (
    keet_masked(command_line) AS command_line,
    keet_masked(nvtx) AS nvtx,
    CASE WHEN command_line IS NULL THEN explanation
        ELSE keet_masked_document(command_line, explanation) END AS explanation
)
"""


def create_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """The SQL functions of `MASKED_CELLS`; they run only for columns that a query uses."""
    connection.create_function("keet_masked", masked, ["VARCHAR"], "VARCHAR")
    connection.create_function(
        "keet_masked_document", _masked_document, ["VARCHAR", "VARCHAR"], "VARCHAR"
    )


def _masked_document(command_line: str, document: str) -> str:
    """An explanation repeats the command line of its report in hints."""
    if masked(command_line) == command_line:
        return document
    try:
        return json.dumps(_masked_texts(json.loads(document)), ensure_ascii=False)
    except ValueError:
        return masked(document)


def _masked_texts(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {name: _masked_texts(part) for name, part in value.items()}
    return [_masked_texts(part) for part in value] if isinstance(value, list) else value
