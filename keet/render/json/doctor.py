"""`keet doctor --format json`: the types of the document."""

from __future__ import annotations

from typing import Literal

from keet.render.json.encoding.fields import Document, field
from keet.render.json.shared_types import Producer


class CheckDocument(Document):
    name: str
    status: Literal["ok", "missing", "broken"]
    needed: bool = field(description="False if keet works without it, except for some functions.")
    found: str
    remedy: str | None = None


class DoctorDocument(Document):
    """`keet doctor --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    checks: list[CheckDocument]
