"""Types of texts that have a form: readers of files on disk check it (`keet.ingest.typed_json`)."""

from __future__ import annotations

from typing import Annotated


def _is_utc_time(text: str) -> bool:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.tzinfo == UTC and moment.isoformat()[:19] == text[:19]


def _is_sha256(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdef")


UtcTime = Annotated[str, _is_utc_time, "a time in UTC like 2026-11-15T08:50:00+00:00"]
"""Such times can be compared with each other."""
Sha256 = Annotated[str, _is_sha256, "a SHA-256 (64 hexadecimal digits)"]
