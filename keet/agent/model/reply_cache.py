"""Cache of replies: an sqlite file of JSON.

If the file is damaged, locked or not writable, the run continues without it, and `problem` says why
in one line.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from keet.agent.model.messages import (
    Chat,
    ChatReply,
    ChatRequest,
    reply_document,
    reply_from,
    request_document,
)
from keet.errors import one_line
from keet.masking.keys import scrub, scrub_document

_MOST_ENTRIES = 2000
"""Entries: about 10 MB of replies."""
_PATIENCE_S = 2.0
"""Longest wait for another process that writes."""
_PRIVATE = 0o600
_FIND = "SELECT reply FROM replies WHERE key = ?"
_ENTER = "INSERT OR REPLACE INTO replies VALUES (?, ?)"
_TRIM = """
DELETE FROM replies WHERE rowid NOT IN (SELECT rowid FROM replies ORDER BY rowid DESC LIMIT ?)
"""
"""A replaced row gets a new rowid, so the highest rowids are the newest."""


class ReplyCache:
    """Safe for several processes: each read and each write uses its own connection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None
        self._is_off = False
        self._is_read_only = False

    def get(self, key: str) -> ChatReply | None:
        """None also if keet did not write the row."""
        rows = self._run((_FIND, key)) if self.path.exists() else ()
        with suppress(ValueError, RecursionError):
            return reply_from(json.loads(str(rows[0][0]))) if rows else None
        return None

    def put(self, key: str, reply: ChatReply) -> None:
        if not self._is_read_only:
            document = scrub_document(reply_document(reply._replace(cached=False)))
            self._run((_ENTER, key, json.dumps(document)), (_TRIM, _MOST_ENTRIES))

    def _run(self, *statements: tuple[object, ...]) -> list[tuple[str]]:
        """What the last statement gives, each with its values, in one transaction. Empty if the
        file can't be used."""
        try:
            return [] if self._is_off else self._execute(statements)
        except sqlite3.OperationalError as error:  # locked, disk full: not damaged, but not usable
            name = getattr(
                error, "sqlite_errorname", ""
            )  # missing where Python raised it, not sqlite
            self._is_read_only = name.startswith("SQLITE_READONLY")
            why = f"is not used ({error}); set KEET_CACHE to another folder"
            self._fail(why, retry=self._is_read_only)
        except sqlite3.DatabaseError:
            self._set_aside()
        except OSError as error:
            self._fail(f"is not used ({error.strerror}); set KEET_CACHE to another folder")
        return []

    def _execute(self, statements: Iterable[tuple[object, ...]]) -> list[tuple[str]]:
        """The file is created with private permissions before sqlite does, and the table only if it
        is missing: a read-only file can still be read."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE))
        with closing(sqlite3.connect(self.path, timeout=_PATIENCE_S)) as base, base:
            if not base.execute("SELECT 1 FROM sqlite_master WHERE name = 'replies'").fetchone():
                columns = "key TEXT PRIMARY KEY, reply TEXT NOT NULL"
                base.execute(f"CREATE TABLE IF NOT EXISTS replies ({columns})")
            rows: list[tuple[str]] = []
            for statement, *values in statements:
                rows = base.execute(str(statement), values).fetchall()
            return rows

    def _set_aside(self) -> None:
        broken = self.path.with_name(f"{self.path.name}.broken")
        try:
            self.path.replace(broken)
        except OSError as error:
            self._fail(f"is damaged and in the way ({error.strerror}); remove it")
            return
        self._fail(
            f"was damaged and is started anew; the old file is now {broken.name}", retry=True
        )

    def _fail(self, problem: str, *, retry: bool = False) -> None:
        """`retry`: the cache is used again."""
        self._is_off = not retry
        self.problem = one_line(scrub(f"{self.path}: the cache {problem}"))


class CachedChat:
    """A chat that answers from the cache if it can."""

    def __init__(
        self,
        chat: Chat,
        cache: ReplyCache,
        *,
        report_sha256: str,
        prompt_version: str,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._chat = chat
        self._cache = cache
        self._about = [report_sha256, prompt_version, settings or {}]

    @property
    def name(self) -> str:
        return self._chat.name

    @property
    def problem(self) -> str | None:
        return self._cache.problem

    def ask(self, request: ChatRequest) -> ChatReply:
        """Replies that were cut off or are empty are not cached."""
        parts = [*self._about, self.name, request_document(request)]
        text = json.dumps(parts, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()
        if (known := self._cache.get(key)) is not None:
            return known._replace(cached=True)
        reply = self._chat.ask(request)
        if not reply.cut and (reply.text.strip() or reply.calls):
            self._cache.put(key, reply)
        return reply
