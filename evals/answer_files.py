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
_ENDED_AT_THE_LIMIT = ("length", "max_tokens")
_NO_JSON = object()
Document = dict[str, Any]


def batch_id(prompt: Prompt) -> str:
    """The prompt's id if it is short enough, and the start of its digest."""
    return f"{_shortened(prompt.id, ID_LENGTH - _MARK - 1)}#{prompt.digest[:_MARK]}"


def _shortened(prompt_id: str, length: int) -> str:
    if len(prompt_id) <= length:
        return prompt_id
    mark = digest(prompt_id)
    return f"{prompt_id[: length - len(mark) - 1]}.{mark}"


def _forms(prompt: Prompt) -> tuple[str, ...]:
    """Ids by which a line may name the prompt: its own, that of a batch, and that of older batches
    without a digest."""
    lengths = (ID_LENGTH - _MARK - 1, ID_LENGTH)
    return (prompt.id, *(_shortened(prompt.id, length) for length in lengths))


def batch_lines(
    prompts: Iterable[Prompt], model: str | None, max_output: int | None
) -> Iterator[str]:
    """One request per prompt; without a model, the lines name none."""
    for prompt in prompts:
        messages = [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user},
        ]
        body: Document = {"model": model} if model else {}
        body["messages"] = messages
        if max_output:
            body["max_completion_tokens"] = max_output
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
    files = [(path, _lines(path)) for path in paths]
    if not any(lines for _, lines in files):
        names = ", ".join(str(path) for path, _ in files)
        raise UsageError(f"nothing was added: {names} is empty; name the file with the answers")
    for path, lines in files:
        if not lines:
            reader.failures.append(Failure(str(path), "it is empty"))
        for number, line in lines:
            try:
                reader.take(line)
            except _Bad as problem:
                reader.failures.append(Failure(f"{path}:{number}", str(problem)))
    return Imported(reader.added, reader.already_there, reader.failures)


def _lines(path: Path) -> list[tuple[int, bytes]]:
    """Lines that are not empty, with their numbers. A file that is one JSON document is refused:
    each of its lines would be reported as bad."""
    try:
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as problem:
        reason = reason_of(problem)
        raise UsageError(f"{path}: the file cannot be read ({reason}); name another file") from None
    lines = [each for each in enumerate(content.splitlines(), 1) if each[1].strip()]
    document = _parsed(content)
    if isinstance(document, list) or (document is not _NO_JSON and len(lines) > 1):
        kind, filtered = ("array", ".[]") if isinstance(document, list) else ("object", ".")
        raise UsageError(
            f"{path} is one JSON {kind}, but one line per answer is needed; "
            f"convert it: jq -c '{filtered}' {path}"
        )
    return lines


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return _NO_JSON


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

    def take(self, line: bytes) -> None:
        """Raises `_Bad`."""
        document = _parsed(line)
        if document is _NO_JSON:
            raise _Bad("it is not JSON")
        if not isinstance(document, dict):
            raise _Bad("it is not a JSON object")
        prompt, mark = self._prompt(document)
        self._check_words(document, prompt, mark)
        self._add(self._answer(document, prompt))

    def _prompt(self, document: Document) -> tuple[Prompt, str | None]:
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

    def _check_words(self, document: Document, prompt: Prompt, mark: str | None) -> None:
        """Contexts change with keet, so its version shows a different prompt text where there is no
        digest."""
        own, run = document.get("prompt_digest"), self._run
        if mark not in (None, prompt.digest[:_MARK]) or own not in (None, prompt.digest):
            raise _Bad(f"{OTHER_WORDS} {prompt.id}; import it into the run that it came from")
        if (version := document.get("prompt_version")) not in (None, run.prompt_version):
            raise _Bad(
                f"it answers prompts of version {_quote(version)}, "
                f"but this run has version {run.prompt_version}"
            )
        if mark is None and own is None and (keet := document.get("keet")) not in (None, run.keet):
            raise _Bad(
                f"its prompt was made by keet {_quote(keet)}, those of this run by {run.keet}; "
                "add a prompt_digest to show that the prompts are the same"
            )

    def _answer(self, document: Document, prompt: Prompt) -> Answer:
        """A model named here takes precedence over the server's name for it, but not over what the
        line says."""
        response = document.get("response")
        body = response.get("body") if isinstance(response, dict) else document
        body = body if isinstance(body, dict) else {}
        reply = _reply(document, body)
        usage = body.get("usage")
        counts = usage if isinstance(usage, dict) else body
        named = body.get("model")
        named = harmless(named) if isinstance(named, str) and named else None
        if (model := self._model or named) is None:
            raise _Bad(reply.error or "it names no model; add --model")
        if body is document and named not in (None, model, model.partition(":")[2]):
            raise _Bad(f"it was answered by {_quote(named)}, but --model is {model}")
        seconds = body.get("seconds")
        return Answer(
            id=prompt.id,
            model=model,
            date=_date(body),
            keet=self._run.keet,
            prompt_version=self._run.prompt_version,
            prompt_digest=prompt.digest,
            text=reply.text,
            input_tokens=_count(counts, "prompt_tokens", "input_tokens"),
            output_tokens=_count(counts, "completion_tokens", "output_tokens"),
            seconds=float(seconds) if isinstance(seconds, int | float) else None,
            error=reply.error,
        )

    def _add(self, answer: Answer) -> None:
        """A prompt without an answer is counted once, and never replaces an answer."""
        before = self._known.get((answer.model, answer.id))
        has_answer = before is not None and before.error is None
        if answer.error is not None:
            if before is None or (not has_answer and _essence(before) != _essence(answer)):
                self._save(answer)
            raise _Bad(answer.error)
        if before is None or not has_answer:
            self._save(answer)
            self.added += 1
        elif before.text != answer.text:
            raise _Bad(f"{answer.model} already has another answer to {answer.id}, which is kept")
        else:
            self.already_there += 1

    def _save(self, answer: Answer) -> None:
        self._folder.add(answer)
        self._known[answer.model, answer.id] = answer


def _essence(answer: Answer) -> tuple[object, ...]:
    """What stays the same when a file is imported again; the date may be that of the import."""
    return answer.error, answer.text, answer.input_tokens, answer.output_tokens


def _reply(document: Document, body: Document) -> _Reply:
    """An empty answer of a model is not the same as a line without an answer. An error that is a
    text is taken as the record of a run has it, so that answers can move between runs unchanged."""
    response = document.get("response")
    if isinstance(response, dict):
        text, finish = _choice(body)
    else:
        text, finish = body.get("text"), body.get("finish_reason")
    said = harmless(text) if isinstance(text, str) else ""
    if error := document.get("error") or body.get("error"):
        message = error.get("message") or error if isinstance(error, dict) else error
        told = _quote(message)
        return _Reply(said, told if isinstance(error, str) else f"an error: {told}")
    if isinstance(response, dict) and (status := response.get("status_code", 200)) != 200:
        return _Reply("", f"status {_quote(status)}")
    if finish == "content_filter":
        return _Reply(said, "a content filter stopped it")
    if finish in _ENDED_AT_THE_LIMIT:
        return _Reply(said, CUT)
    if said.strip():
        return _Reply(said)
    is_empty = isinstance(text, str) or finish is not None
    return _Reply(said, EMPTY if is_empty else "it holds no text")


def _choice(body: Document) -> tuple[object, object]:
    """Text and finish reason. Some servers return the text as a list of parts."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return None, None
    message = first.get("message")
    content = message.get("content") if isinstance(message, dict) else first.get("text")
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        content = "".join(text for text in texts if isinstance(text, str))
    return content, first.get("finish_reason")


def harmless(text: str) -> str:
    """JSON can contain half of a surrogate pair, but files cannot."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _quote(value: object) -> str:
    text = one_line(harmless(str(value)))
    return text if len(text) <= _QUOTED else text[:_QUOTED] + " ..."


def _count(counts: Document, *names: str) -> int | None:
    values = (counts.get(name) for name in names)
    return next((value for value in values if type(value) is int and value >= 0), None)


def _date(body: Document) -> str:
    """When the model answered, if the line gives a valid date; else now."""
    try:
        datetime.datetime.fromisoformat(body["date"])
    except (KeyError, TypeError, ValueError):
        pass
    else:
        return str(body["date"])
    try:
        made = datetime.datetime.fromtimestamp(body["created"], datetime.UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return now()
    return made.isoformat(timespec="seconds")
