"""Are keet's JSON documents what `keet schema` says? Types are checked as strictly as JSON allows."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from keet.render.json.encoding.fields import Document
from keet.render.json.encoding.models import model_of
from keet.render.json.schema import DOCUMENTS

D = TypeVar("D", bound=Document)


def check_document(command: str, document: object) -> None:
    """Of a document that was read from JSON; raises pydantic's ValidationError."""
    model_of(DOCUMENTS[command]).model_validate_json(json.dumps(document), strict=True)


def check_text(kind: type[Document], text: str) -> None:
    """Of a text as commands print it: pydantic reads it, and writes the same bytes."""
    model = model_of(kind).model_validate_json(text, strict=True)
    assert model.model_dump_json(indent=1) + "\n" == text


def read_document(kind: type[D], text: str) -> D:
    """The document, before it was written."""
    model_of(kind).model_validate_json(text, strict=True)
    return kind(**json.loads(text))


def replaced(document: D, **changes: Any) -> D:
    """A copy with other fields."""
    return type(document)(**{**vars(document), **changes})
