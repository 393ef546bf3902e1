"""`keet doctor --format json`: its types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from keet.render.json.documents import Document, Producer


class CheckDocument(Document):
    name: str
    status: Literal["ok", "missing", "broken"]
    needed: bool = Field(description="false: only a part of keet does without it")
    found: str
    remedy: str | None = None


class DoctorDocument(Document):
    """`keet doctor --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    checks: list[CheckDocument]
