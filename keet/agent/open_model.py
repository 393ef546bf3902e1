"""Opens what a command needs to ask a model (the model or its recorded replies, cache, transcript),
and closes it with a record of what was spent and what failed.

The cache of replies is an sqlite file of JSON. If it is damaged, locked or not writable, the run
continues without it, and `problem` says why in one line.

A model can answer from a file: `--replay FILE`, and `--model scripted:FILE` for tests. FILE is a
transcript, whose replies are repeated, or JSON lines such as

    {"content": "text of the answer"}
    {"tool_calls": [{"name": "read_source", "arguments": {"line": 3}}]}
    {"content": "...", "usage": {"input": 900, "output": 40}}
    {"fault": "timeout"}
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from keet.agent.model.langchain_chat import accepted, estimated_tokens
from keet.agent.model.messages import (
    LINES,
    UNSENT,
    AskedModel,
    Chat,
    ChatReply,
    ChatRequest,
    ModelFault,
    ModelToolCall,
    TokenCount,
    missing_extra,
    named_fault,
    reply_document,
    reply_from,
    request_document,
)
from keet.agent.model.process import ModelProcess
from keet.agent.model.settings import ModelOptions, ModelSpec, TimeLimit, provider_of
from keet.agent.model.transcript import Transcript, read_lines, replies_of
from keet.agent.prompts import prompt_version
from keet.agent.redaction import Redactor
from keet.agent.session import ModelSession, Progress
from keet.documents.model_explanation import NO_USAGE, Authorship
from keet.errors import UsageError, one_line
from keet.files import cache_folder
from keet.masking.keys import scrub, scrub_document

# --- the cache

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
            name = getattr(error, "sqlite_errorname", "")  # Python's own errors have none
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
        why = f"was damaged and is started anew; the old file is now {broken.name}"
        self._fail(why, retry=True)

    def _fail(self, problem: str, *, retry: bool = False) -> None:
        """`retry`: the cache is used again."""
        self._is_off = not retry
        self.problem = one_line(scrub(f"{self.path}: the cache {problem}"))


class CachedChat:
    """A chat that answers from the cache if it can."""

    def __init__(self, chat: Chat, cache: ReplyCache, *about: object) -> None:
        """`about`: what else than the request a reply depends on."""
        self._chat, self._cache, self._about = chat, cache, about

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


# --- a model that answers from a file

_REMEDY = 'each line is {"content": ..., "tool_calls": ..., "usage": ..., "fault": ...}'
_FAULTS = LINES.keys() | {"interrupt"}
_TIMEOUT_S = 60.0


class ScriptedChat:
    """A Chat that answers from lines (see above) or from replies, in order."""

    def __init__(self, lines: Sequence[Mapping[str, Any] | ChatReply], name: str) -> None:
        self.name = name
        self.asked: list[ChatRequest] = []
        self._script = [_answer(line, number) for number, line in enumerate(lines, 1)]

    def ask(self, request: ChatRequest) -> ChatReply:
        """Raises ModelFault."""
        number = len(self.asked)
        self.asked.append(request)
        if number >= len(self._script):
            line = f"{self.name} is used up after {number} replies; add what the model answers next"
            raise ModelFault("script", line)
        answer = self._script[number]
        asked = AskedModel(ModelSpec(self.name, None, _TIMEOUT_S, None), bool(request.tools))
        if isinstance(answer, ChatReply):
            if answer.spent.estimated:
                answer = answer._replace(spent=estimated_tokens(request, answer))
            return accepted(answer, request, asked)
        raise KeyboardInterrupt if answer == "interrupt" else named_fault(answer, asked)


def open_script(path: Path | str) -> ScriptedChat:
    """Raises ModelFault if the file is not a script."""
    try:
        return ScriptedChat(_read(Path(path)), f"scripted:{path}")
    except UsageError as error:
        raise ModelFault("script", str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFault("script", one_line(f"{path}: not a script ({error}); {_REMEDY}")) from None


def _read(path: Path) -> Sequence[Mapping[str, Any] | ChatReply]:
    parsed: list[Mapping[str, Any]] = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            document = json.loads(line)
        except ValueError:
            document = None
        if isinstance(document, dict) and "event" in document:
            return replies_of(path)
        if not isinstance(document, dict):
            raise ValueError(f"line {number} is not a JSON object")
        parsed.append(document)
    return parsed


def _answer(line: Mapping[str, Any] | ChatReply, number: int) -> ChatReply | str:
    """The reply, or the kind of a fault."""
    if isinstance(line, ChatReply):
        return line
    if fault := line.get("fault"):
        if fault not in _FAULTS:
            raise ValueError(f"unknown fault {fault!r}; known: {', '.join(sorted(_FAULTS))}")
        return str(fault)
    text = line.get("content") or ""
    if isinstance(text, list):
        text = "".join(part["text"] for part in text)
    calls = []
    for index, call in enumerate(line.get("tool_calls") or ()):
        id_ = str(call.get("id") or f"call_{number}_{index}")
        arguments = call.get("arguments", {})
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        is_object = isinstance(arguments, dict)  # or of a model that writes something else
        given = (arguments, "") if is_object else (None, raw)
        calls.append(ModelToolCall(id_, call["name"], *given))
    spent = TokenCount(0, 0, estimated=True)
    if usage := line.get("usage"):
        spent = TokenCount(int(usage.get("input", 0)), int(usage.get("output", 0)))
    return ChatReply(text, tuple(calls), spent, cut=bool(line.get("cut")))


# --- opening and closing


def open_chat(spec: ModelSpec, limit: TimeLimit | None = None) -> Chat:
    """A model that is ready to be asked. `limit`: for all calls together. Raises ModelFault.

    Nothing is sent yet. Exception: if only a server is named, it is asked which models it has.
    """
    if provider_of(spec.name) == "scripted":
        return open_script(spec.name.removeprefix("scripted:"))
    if fault := missing_extra(AskedModel(spec)):  # reported before any work begins
        raise fault
    return ModelProcess.connected(spec, limit)


def open_run_chat(options: ModelOptions) -> Chat:
    """The replayed transcript if there is one, otherwise the model. Raises ModelFault."""
    if options.replay is not None:
        return open_script(options.replay)
    return open_chat(options.spec, options.limit())


def _with_cache(chat: Chat, options: ModelOptions, about: str) -> Chat:
    is_recorded = options.replay is not None or options.spec.name.startswith("scripted:")
    if is_recorded or not options.cache:
        return chat
    cache = ReplyCache(cache_folder() / "answers.sqlite")
    settings = {"base_url": options.spec.base_url}
    return CachedChat(chat, cache, about, prompt_version(), settings)


def ask_model(  # noqa: PLR0913 - the parts of a run
    options: ModelOptions,
    progress: Progress,
    work: Callable[[ModelSession], ModelFault | None],
    *,
    redactor: Redactor,
    name: str,
    about: str,
    **facts: object,
) -> Authorship:
    """Calls `work`, which keeps its results itself, with an open model. Never raises because of the
    model: the author has the problem.

    `name`: of the transcript, if the options name no file. `about`: what the cache identifies the
    data by. `facts`: for the first event of the transcript."""
    session, fault = None, None
    path = options.transcript
    if path is None and options.replay is None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S-%f")
        path = cache_folder() / "transcripts" / f"{now}-{os.getpid()}-{name}.jsonl"
    with closing(Transcript(path)) as transcript:
        limits = options.limits._asdict()
        model, redact = options.spec.name, options.redact
        transcript.event("start", model=model, **facts, limits=limits, redact=redact)
        try:
            session = ModelSession(
                _with_cache(open_run_chat(options), options, about),
                transcript=transcript,
                redactor=redactor,
                progress=progress,
                limits=options.limits,
                price=options.spec.price,
                is_replay=options.replay is not None,
            )
            fault = work(session)
        except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - keet's part is printed
            fault = fault_from(problem)
        usage = session.usage if session else None
        transcript.event("end", outcome=fault.kind if fault else "done", usage=usage)
        is_sent = session is not None and not (fault and fault.kind in UNSENT)
        if not is_sent and options.transcript is None:
            transcript.discard()
    chat = session.chat if session else None
    # A transcript or cache that could not be written does not fail the run.
    cache_problem = chat.problem if isinstance(chat, CachedChat) else None
    for problem_line in filter(None, (transcript.problem, cache_problem)):
        progress(problem_line)
    author = chat.name if chat and not options.replay else options.spec.name
    kept = str(transcript.kept) if transcript.kept else None
    return Authorship(author, usage or NO_USAGE, str(fault) if fault else None, kept)


def fault_from(problem: BaseException) -> ModelFault:
    """An interrupt or an unexpected exception as a fault, so that keet's own part is printed.

    With KEET_DEBUG set, raises the unexpected exception."""
    if isinstance(problem, ModelFault):
        return problem
    if isinstance(problem, KeyboardInterrupt):
        return ModelFault("interrupted", "interrupted")
    if os.environ.get("KEET_DEBUG"):
        raise problem
    words = one_line(f"{type(problem).__name__}: {problem}")
    line = f"this is a bug in keet ({words}); please report it with the transcript"
    return ModelFault("bug", line)
