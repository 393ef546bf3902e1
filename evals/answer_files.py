"""Writes prompts to files and imports answers, as lines of JSON: OpenAI batches and simple lines.

A line of a batch's output has a response or an error. A line from elsewhere may be as short as
{"id": ..., "text": ...}. Further fields of a line are compared with the run: a line that answers
another prompt text, or one made by another version of keet, is refused and reported.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from evals.runs import CUT, EMPTY, OTHER_WORDS, Answer, Prompt, RunFolder, digest, now
from keet.errors import UsageError, one_line, reason_of

ID_LENGTH = 64
"""OpenAI's limit for a custom_id."""
_URL = "/v1/chat/completions"
_QUOTED = 160
_MARK = 8
"""Characters of the prompt's digest after its id: they show which prompt text an answer belongs
to."""
_ENDED_AT_THE_LIMIT = frozenset({"length", "max_tokens"})


def batch_id(prompt: Prompt) -> str:
    """The prompt's id if it is short enough, and the start of its digest."""
    return f"{_shortened(prompt.id, ID_LENGTH - _MARK - 1)}#{prompt.digest[:_MARK]}"


def _shortened(prompt_id: str, length: int) -> str:
    if len(prompt_id) <= length:
        return prompt_id
    mark = digest(prompt_id)
    return f"{prompt_id[: length - len(mark) - 1]}.{mark}"


def _forms(prompt: Prompt) -> Iterator[str]:
    """Ids by which a line may name the prompt: its own, that of a batch, and that of older batches
    without a digest."""
    yield prompt.id
    yield _shortened(prompt.id, ID_LENGTH - _MARK - 1)
    yield _shortened(prompt.id, ID_LENGTH)


def batch_lines(
    prompts: Iterable[Prompt], model: str | None, max_output: int | None
) -> Iterator[str]:
    """One request per prompt; without a model, the lines name none."""
    for prompt in prompts:
        body = {
            **({"model": model} if model else {}),
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
            **({"max_completion_tokens": max_output} if max_output else {}),
        }
        line = {"custom_id": batch_id(prompt), "method": "POST", "url": _URL, "body": body}
        yield json.dumps(line, ensure_ascii=False) + "\n"


class Failure(NamedTuple):
    """A line without an answer."""

    where: str
    why: str


class Imported(NamedTuple):
    added: int
    already_there: int
    failures: list[Failure]


class _Bad(Exception):
    """This line cannot be used."""


class _Reply(NamedTuple):
    """A model's answer, or why there is none."""

    text: str
    error: str | None = None


def import_files(folder: RunFolder, paths: Iterable[Path], model: str | None = None) -> Imported:
    """Add every answer of the files that the run does not have yet. A bad line is reported and does
    not stop the others; existing answers stay."""
    reader = _Reader(folder, model)
    for path, lines in _filled([(path, _lines(path)) for path in paths]):
        if not lines:
            reader.failures.append(Failure(str(path), "it is empty"))
        for number, line in lines:
            reader.take(line, f"{path}:{number}")
    return Imported(reader.added, reader.already_there, reader.failures)


_Lines = list[tuple[int, bytes]]
"""Lines that are not empty, with their numbers."""


def _filled(files: list[tuple[Path, _Lines]]) -> list[tuple[Path, _Lines]]:
    if not any(lines for _, lines in files):
        names = ", ".join(str(path) for path, _ in files)
        raise UsageError(f"nothing was added: {names} is empty; name the file with the answers")
    return files


def _lines(path: Path) -> _Lines:
    try:
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as problem:
        reason = reason_of(problem)
        raise UsageError(f"{path}: the file cannot be read ({reason}); name another file") from None
    lines = [each for each in enumerate(content.splitlines(), 1) if each[1].strip()]
    _refuse_one_document(path, content, len(lines))
    return lines


def _refuse_one_document(path: Path, content: bytes, lines: int) -> None:
    """Without this check, each line of the file would be reported as bad."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return
    kind = "array" if isinstance(document, list) else "object"
    if kind == "array" or lines > 1:
        each = ".[]" if kind == "array" else "."
        raise UsageError(
            f"{path} is one JSON {kind}, but one line per answer is needed; "
            f"convert it: jq -c '{each}' {path}"
        )


class _Reader:
    """Reads lines and counts them."""

    def __init__(self, folder: RunFolder, model: str | None) -> None:
        self._folder = folder
        self._model = model
        self._run = folder.run
        self._prompts = {form: prompt for prompt in folder.prompts for form in _forms(prompt)}
        self._known = {(answer.model, answer.id): answer for answer in folder.answers}
        self.added = self.already_there = 0
        self.failures: list[Failure] = []

    def take(self, line: bytes, where: str) -> None:
        try:
            document = _document(line)
            prompt, mark = self._prompt(document)
            self._check_words(document, prompt, mark)
            self._add(self._answer(document, prompt))
        except _Bad as problem:
            self.failures.append(Failure(where, str(problem)))

    def _prompt(self, document: dict[str, Any]) -> tuple[Prompt, str | None]:
        """The prompt, and the digest that the line gives, if any."""
        given = document.get("custom_id", document.get("id"))
        if not isinstance(given, str):
            raise _Bad("it has neither custom_id nor id")
        if given in self._prompts:
            return self._prompts[given], None
        form, _, mark = given.rpartition("#")
        if form not in self._prompts:
            raise _Bad(f"the run has no prompt {_quote(given)}")
        return self._prompts[form], mark

    def _check_words(self, document: dict[str, Any], prompt: Prompt, mark: str | None) -> None:
        """Contexts change with keet, so its version shows a different prompt text where there is no
        digest."""
        own = document.get("prompt_digest")
        if mark not in (None, prompt.digest[:_MARK]) or own not in (None, prompt.digest):
            raise _Bad(f"{OTHER_WORDS} {prompt.id}; import it into the run that it came from")
        if (version := document.get("prompt_version")) not in (None, self._run.prompt_version):
            raise _Bad(
                f"it answers prompts of version {_quote(version)}, "
                f"but this run has version {self._run.prompt_version}"
            )
        known = mark is not None or own is not None
        if not known and (keet := document.get("keet")) not in (None, self._run.keet):
            raise _Bad(
                f"its prompt was made by keet {_quote(keet)}, those of this run by "
                f"{self._run.keet}; "
                "add a prompt_digest to show that the prompts are the same"
            )

    def _answer(self, document: dict[str, Any], prompt: Prompt) -> Answer:
        body = _body(document)
        said = _said(document, body)
        usage = body.get("usage")
        counts: dict[str, Any] = usage if isinstance(usage, dict) else body
        return Answer(
            id=prompt.id,
            model=self._whose(document, body, said),
            date=_date(body),
            keet=self._run.keet,
            prompt_version=self._run.prompt_version,
            prompt_digest=prompt.digest,
            text=said.text,
            input_tokens=_count(counts, "prompt_tokens", "input_tokens"),
            output_tokens=_count(counts, "completion_tokens", "output_tokens"),
            seconds=_seconds(body),
            error=said.error,
        )

    def _whose(self, document: dict[str, Any], body: dict[str, Any], said: _Reply) -> str:
        """A model named here takes precedence over the server's name for it, but not over what the
        line says."""
        named = _text_or_none(body.get("model"))
        if (whose := self._model or named) is None:
            raise _Bad(said.error or "it names no model; add --model")
        written = body is document and named is not None
        if written and named not in (whose, whose.partition(":")[2]):
            raise _Bad(f"it was answered by {_quote(named)}, but --model is {whose}")
        return whose

    def _add(self, answer: Answer) -> None:
        before = self._known.get((answer.model, answer.id))
        if answer.error is not None:
            self._keep_error(answer, before)
            raise _Bad(answer.error)
        if before is not None and before.error is None:
            if before.text != answer.text:
                raise _Bad(
                    f"{answer.model} already has another answer to {answer.id}, which is kept"
                )
            self.already_there += 1
            return
        self._save(answer)
        self.added += 1

    def _keep_error(self, answer: Answer, before: Answer | None) -> None:
        """A prompt without an answer is counted once, and never replaces an answer."""
        if before is None or (before.error is not None and _essence(before) != _essence(answer)):
            self._save(answer)

    def _save(self, answer: Answer) -> None:
        self._folder.add(answer)
        self._known[answer.model, answer.id] = answer


def _essence(answer: Answer) -> tuple[object, ...]:
    """What stays the same when a file is imported again; the date may be that of the import."""
    return answer.error, answer.text, answer.input_tokens, answer.output_tokens


def _document(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise _Bad("it is not JSON") from None
    if not isinstance(document, dict):
        raise _Bad("it is not a JSON object")
    return document


def _body(document: dict[str, Any]) -> dict[str, Any]:
    """The fields of a batch's response; in the short form, those of the line itself."""
    response = document.get("response")
    body = response.get("body") if isinstance(response, dict) else document
    return body if isinstance(body, dict) else {}


def _said(document: dict[str, Any], body: dict[str, Any]) -> _Reply:
    response = document.get("response")
    in_batch = isinstance(response, dict)
    text, finish = _choice(body) if in_batch else (body.get("text"), body.get("finish_reason"))
    said = harmless(text) if isinstance(text, str) else ""
    if error := document.get("error") or body.get("error"):
        return _Reply(said, _error(error))
    if isinstance(response, dict) and (status := response.get("status_code", 200)) != 200:
        return _Reply("", f"status {_quote(status)}")
    return _Reply(said, _missing(text, said, finish))


def _error(error: object) -> str:
    """A text is taken as the record of a run has it, so that answers can move between runs
    unchanged."""
    return _quote(error) if isinstance(error, str) else f"an error: {_quote(_message(error))}"


def _missing(text: object, said: str, finish: object) -> str | None:
    """An empty answer of a model is not the same as a line without an answer."""
    if finish == "content_filter":
        return "a content filter stopped it"
    if isinstance(finish, str) and finish in _ENDED_AT_THE_LIMIT:
        return CUT
    if said.strip():
        return None
    return EMPTY if isinstance(text, str) or finish is not None else "it holds no text"


def _choice(body: dict[str, Any]) -> tuple[object, object]:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return None, None
    message = first.get("message")
    content = message.get("content") if isinstance(message, dict) else first.get("text")
    return _joined(content), first.get("finish_reason")


def _joined(content: object) -> object:
    """Some servers return a list of parts."""
    if not isinstance(content, list):
        return content
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(part for part in parts if isinstance(part, str))


def harmless(text: str) -> str:
    """JSON can contain half of a surrogate pair, but files cannot."""
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
    """When the model answered, if the line gives a valid date; else now."""
    if isinstance(date := body.get("date"), str) and _is_date(date):
        return date
    try:
        made = datetime.datetime.fromtimestamp(body["created"], datetime.UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return now()
    return made.isoformat(timespec="seconds")


def _is_date(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
