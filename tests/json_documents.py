"""Are keet's JSON documents what `keet schema` says? Types are checked as strictly as JSON allows."""

import json
from typing import TypeVar

from keet.documents.document import Document
from keet.formats.schema import DOCUMENTS, adapter

D = TypeVar("D", bound=Document)


def check_document(command: str, document: object) -> None:
    """Of a document that was read from JSON; raises pydantic's ValidationError."""
    check_text(DOCUMENTS[command], json.dumps(document))


def check_text(kind: type[Document], text: str) -> None:
    """Of a text as commands print it."""
    adapter(kind).validate_json(text, strict=True)


def read_document(kind: type[D], text: str) -> D:
    """The document, before it was written."""
    document: D = adapter(kind).validate_json(text, strict=True)
    return document
