"""Prompts out and answers in, as lines of JSON: for batches of OpenAI's kind, and for people.

A line of a batch's output holds a response or an error. A line that a person or another tool wrote
may be as short as {"id": ..., "text": ...}.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from evals.runs import Answer, Prompt, RunFolder, digest, now
from keet.errors import UsageError, one_line

ID_LENGTH = 64
"""The most that OpenAI takes for a custom_id."""
_URL = "/v1/chat/completions"
_QUOTED = 160


def batch_id(prompt_id: str) -> str:
    """The prompt's own id where it is short enough."""
    if len(prompt_id) <= ID_LENGTH:
        return prompt_id
    mark = digest(prompt_id)
    return f"{prompt_id[: ID_LENGTH - len(mark) - 1]}.{mark}"


def batch_lines(
    prompts: Iterable[Prompt], model: str | None, max_output: int | None
) -> Iterator[str]:
    """One request each; a reader who has no model yet gets lines that name none."""
    for prompt in prompts:
        body = {
            **({"model": model} if model else {}),
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
            **({"max_completion_tokens": max_output} if max_output else {}),
        }
        line = {"custom_id": batch_id(prompt.id), "method": "POST", "url": _URL, "body": body}
        yield json.dumps(line, ensure_ascii=False) + "\n"


class Failure(NamedTuple):
    """A line that brought no answer."""

    where: str
    why: str


class Imported(NamedTuple):
    added: int
    already_there: int
    failures: list[Failure]


class _Bad(Exception):
    """This line is of no use."""


class _NoAnswer(_Bad):
    """The model did not answer: that is kept, since what has no answer is counted."""

    def __init__(self, why: str, model: str | None, text: str = "") -> None:
        self.model = model
        self.text = text
        super().__init__(why)


def import_files(folder: RunFolder, paths: Iterable[Path], model: str | None = None) -> Imported:
    """Every answer of the files that the run does not have yet. What is wrong with one line is told
    and stops no other; what is there already is left as it is."""
    reader = _Reader(folder, model)
    for path, lines in [(path, _lines(path)) for path in paths]:
        for number, line in enumerate(lines, 1):
            if line.strip():
                reader.take(line, f"{path}:{number}")
    return Imported(reader.added, reader.already_there, reader.failures)


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UsageError(f"{path}: it can't be read ({reason}); name another file") from None


class _Reader:
    """Takes lines, and keeps count."""

    def __init__(self, folder: RunFolder, model: str | None) -> None:
        self._folder = folder
        self._model = model
        self._version = folder.run.prompt_version
        self._ids = {batch_id(prompt.id): prompt.id for prompt in folder.prompts}
        self._ids |= {prompt_id: prompt_id for prompt_id in self._ids.values()}
        self._known = {(answer.model, answer.id): answer for answer in folder.answers}
        self.added = self.already_there = 0
        self.failures: list[Failure] = []

    def take(self, line: bytes, where: str) -> None:
        try:
            document = _document(line)
            prompt_id = self._prompt_id(document)
            try:
                self._add(_answer_of(document, prompt_id, self._model, self._version))
            except _NoAnswer as problem:
                self._keep_error(problem, prompt_id)
                raise
        except _Bad as problem:
            self.failures.append(Failure(where, str(problem)))

    def _prompt_id(self, document: dict[str, Any]) -> str:
        given = document.get("custom_id", document.get("id"))
        if not isinstance(given, str):
            raise _Bad("it has neither custom_id nor id")
        if given not in self._ids:
            raise _Bad(f"the run has no prompt {_quote(given)}")
        return self._ids[given]

    def _add(self, answer: Answer) -> None:
        before = self._known.get((answer.model, answer.id))
        if before is not None and before.error is None:
            if before.text != answer.text:
                raise _Bad(f"{answer.model} has another answer to {answer.id} already; that stays")
            self.already_there += 1
            return
        self._save(answer)
        self.added += 1

    def _keep_error(self, problem: _NoAnswer, prompt_id: str) -> None:
        """Once, and not in place of an answer."""
        if (model := self._model or problem.model) is None:
            return
        before = self._known.get((model, prompt_id))
        if before is not None and before.error in (None, str(problem)):
            return
        self._save(
            Answer(
                id=prompt_id,
                model=model,
                date=now(),
                prompt_version=self._version,
                text=problem.text,
                error=str(problem),
            )
        )

    def _save(self, answer: Answer) -> None:
        self._folder.add(answer)
        self._known[answer.model, answer.id] = answer


def _document(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise _Bad("it is no JSON") from None
    if not isinstance(document, dict):
        raise _Bad("it is no JSON object")
    return document


def _answer_of(document: dict[str, Any], prompt_id: str, model: str | None, version: str) -> Answer:
    body = _body(document)
    named = _text_or_none(body.get("model"))
    text = _said(document, body, named)
    if (whose := model or named) is None:
        raise _Bad("it names no model; give --model")
    usage = body.get("usage")
    counts: dict[str, Any] = usage if isinstance(usage, dict) else body
    return Answer(
        id=prompt_id,
        model=whose,
        date=_date(body),
        prompt_version=version,
        text=text,
        input_tokens=_count(counts, "prompt_tokens", "input_tokens"),
        output_tokens=_count(counts, "completion_tokens", "output_tokens"),
        seconds=_seconds(body),
    )


def _body(document: dict[str, Any]) -> dict[str, Any]:
    """Of the response, of a batch; the line itself in the short form."""
    response = document.get("response")
    body = response.get("body") if isinstance(response, dict) else document
    return body if isinstance(body, dict) else {}


def _said(document: dict[str, Any], body: dict[str, Any], model: str | None) -> str:
    """The text of the answer, or why there is none."""
    if error := document.get("error") or body.get("error"):
        raise _NoAnswer(f"an error: {_quote(_message(error))}", model)
    response = document.get("response")
    if not isinstance(response, dict):
        text, finish = body.get("text"), body.get("finish_reason")
    elif (status := response.get("status_code", 200)) != 200:
        raise _NoAnswer(f"status {_quote(status)}", model)
    else:
        text, finish = _choice(body)
    return _checked(text, finish, model)


def _choice(body: dict[str, Any]) -> tuple[object, object]:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return None, None
    message = first.get("message")
    content = message.get("content") if isinstance(message, dict) else first.get("text")
    return _joined(content), first.get("finish_reason")


def _joined(content: object) -> object:
    """Some servers give a list of parts."""
    if not isinstance(content, list):
        return content
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(part for part in parts if isinstance(part, str))


def _checked(text: object, finish: object, model: str | None) -> str:
    said = harmless(text) if isinstance(text, str) else ""
    if finish == "content_filter":
        raise _NoAnswer("a content filter stopped it", model, said)
    if finish == "length":
        raise _NoAnswer("it ends at the limit of tokens", model, said)
    if not said.strip():
        raise _NoAnswer("it holds no text", model)
    return said


def harmless(text: str) -> str:
    """Half of a pair of surrogates can be written in JSON, but in no file."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _message(error: object) -> object:
    return error.get("message") or error if isinstance(error, dict) else error


def _quote(value: object) -> str:
    text = one_line(harmless(str(value)))
    return text if len(text) <= _QUOTED else text[:_QUOTED] + " ..."


def _text_or_none(value: object) -> str | None:
    return harmless(value) if isinstance(value, str) and value else None


def _count(counts: dict[str, Any], *names: str) -> int | None:
    values = (counts.get(name) for name in names)
    return next((value for value in values if type(value) is int and value >= 0), None)


def _seconds(body: dict[str, Any]) -> float | None:
    value = body.get("seconds")
    return float(value) if isinstance(value, int | float) else None


def _date(body: dict[str, Any]) -> str:
    """When the model answered, where the line says; else now."""
    if isinstance(date := body.get("date"), str):
        return harmless(date)
    try:
        made = datetime.datetime.fromtimestamp(body["created"], datetime.UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return now()
    return made.isoformat(timespec="seconds")
