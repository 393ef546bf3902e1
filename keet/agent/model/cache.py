"""Cache of replies: an sqlite file of JSON.

If the file is damaged, locked or not writable, the run continues without it, and `problem` says why
in one line.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

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

T = TypeVar("T")


class Cache:
    """Safe for several processes: each read and each write uses its own connection."""

    def __init__(
        self, path: Path, *, most: int = _MOST_ENTRIES, patience_s: float = _PATIENCE_S
    ) -> None:
        self.path = path
        self.problem: str | None = None
        self._most = most
        self._patience_s = patience_s
        self._off = False
        self._read_only = False

    def get(self, key: str) -> ChatReply | None:
        if not self.path.exists():
            return None
        row = self._try(lambda base: _find(base, key))
        return _reply(row[0]) if row else None

    def put(self, key: str, reply: ChatReply) -> None:
        if self._read_only:
            return
        document = json.dumps(scrub_document(reply_document(reply._replace(cached=False))))
        self._try(lambda base: _enter(base, key, document, self._most))

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """None if the file can't be used."""
        if self._off:
            return None
        try:
            return self._work(work)
        except sqlite3.OperationalError as error:  # locked, disk full: not damaged, but not usable
            self._read_only = "readonly" in str(error)
            why = f"is not used ({error}); set KEET_CACHE to another folder"
            self._note(why, off=not self._read_only)
        except sqlite3.DatabaseError:
            self._set_aside()
        except OSError as error:
            self._note(f"is not used ({error.strerror}); set KEET_CACHE to another folder")
        return None

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        _make_private(self.path)
        with closing(sqlite3.connect(self.path, timeout=self._patience_s)) as base, base:
            return work(base)

    def _set_aside(self) -> None:
        broken = self.path.with_name(f"{self.path.name}.broken")
        try:
            self.path.replace(broken)
        except OSError as error:
            self._note(f"is damaged and in the way ({error.strerror}); remove it")
            return
        self._note(f"was damaged and is started anew; the old file is now {broken.name}", off=False)

    def _note(self, problem: str, *, off: bool = True) -> None:
        """`off`: do not try again."""
        self._off = off
        self.problem = one_line(scrub(f"{self.path}: the cache {problem}"))


def key(
    report_sha256: str,
    prompt_version: str,
    model: str,
    settings: Mapping[str, Any],
    request: ChatRequest,
) -> str:
    """Requests that are the same for the model have the same key."""
    parts = [report_sha256, prompt_version, model, settings, request_document(request)]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


class CachedChat:
    """A chat that answers from the cache if it can."""

    def __init__(
        self,
        chat: Chat,
        cache: Cache,
        *,
        report_sha256: str,
        prompt_version: str,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._chat = chat
        self._cache = cache
        self._report = report_sha256
        self._prompt = prompt_version
        self._settings = settings or {}

    @property
    def name(self) -> str:
        return self._chat.name

    @property
    def problem(self) -> str | None:
        return self._cache.problem

    def ask(self, request: ChatRequest) -> ChatReply:
        """Replies that were cut off or are empty are not cached."""
        at = key(self._report, self._prompt, self.name, self._settings, request)
        if (known := self._cache.get(at)) is not None:
            return known._replace(cached=True)
        reply = self._chat.ask(request)
        if not reply.cut and (reply.text.strip() or reply.calls):
            self._cache.put(at, reply)
        return reply


def _make_private(path: Path) -> None:
    """Creates the file with private permissions before sqlite does. Raises OSError."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE))


def _find(base: sqlite3.Connection, key: str) -> tuple[str] | None:
    _make_table(base)
    row: tuple[str] | None = base.execute(
        "SELECT reply FROM replies WHERE key = ?", (key,)
    ).fetchone()
    return row


def _enter(base: sqlite3.Connection, key: str, document: str, most: int) -> None:
    """A replaced row gets a new rowid, so the highest rowids are the newest."""
    _make_table(base)
    base.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, document))
    newest = "SELECT rowid FROM replies ORDER BY rowid DESC LIMIT ?"
    base.execute(f"DELETE FROM replies WHERE rowid NOT IN ({newest})", (most,))


def _make_table(base: sqlite3.Connection) -> None:
    """Only if it is missing: a read-only file can still be read."""
    if not base.execute("SELECT 1 FROM sqlite_master WHERE name = 'replies'").fetchone():
        base.execute(
            "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)"
        )


def _reply(text: object) -> ChatReply | None:
    """None if keet did not write the row."""
    try:
        return reply_from(json.loads(str(text)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
