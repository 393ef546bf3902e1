"""`keet doctor --format json`."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import Document
from keet.documents.shared_types import CommandResult


class CheckDocument(Document, kw_only=False):
    """The result of one check."""

    name: str
    status: Literal["ok", "missing", "broken"]
    needed: bool
    """False if keet works without it, except for some functions."""
    found: str
    remedy: str | None = None


class DoctorDocument(CommandResult):
    """`keet doctor --format json`"""

    checks: list[CheckDocument]
