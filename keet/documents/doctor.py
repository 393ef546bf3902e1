"""`keet doctor --format json`."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import KEET, Producer


class CheckDocument(Document, kw_only=False):
    """The result of one check."""

    name: str
    status: Literal["ok", "missing", "broken"]
    needed: bool
    """False if keet works without it, except for some functions."""
    found: str
    remedy: str | None = None


class DoctorDocument(Document):
    """`keet doctor --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = KEET
    checks: list[CheckDocument]
