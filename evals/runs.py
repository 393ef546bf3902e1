"""A run of questions to a model: a folder with one file per stage.

    run.json        what was requested: task, conditions, samples, versions
    prompts.jsonl   the complete prompts
    answers.jsonl   the answers, one line each, appended as they arrive: a run can be interrupted
    scores.jsonl    the score of each answer, with the reason

A stage reads the files of earlier stages and writes its own, so that each can run on another
machine: a laptop makes prompts, another one asks a model.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from keet.errors import UsageError, one_line, reason_of
from keet.files import replacing_text

Condition = Literal["blind", "none", "raw", "keet", "agent"]
CONDITIONS: dict[Condition, str] = {
    "blind": "only the question, without the source",
    "none": "the source alone",
    "raw": "the source and the text of `ncu --page details`",
    "keet": "the source and `keet context`",
    "agent": "the source and `keet explain` with a model",
}
CUT = "cut off at the limit of tokens"
"""Stored in answers.jsonl of earlier runs: do not change."""
EMPTY = "the model said nothing"
OTHER_WORDS = "it answers another text than this run's prompt"


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Run(Record):
    """What the run asks for."""

    schema_version: Literal[1] = 1
    task: Literal["mcq"] = "mcq"
    created: str
    keet: str
    """The version of keet that made the prompts."""
    prompt_version: str
    """A digest of the templates: answers to other templates are not comparable. The inserted texts
    are in each prompt's own digest."""
    conditions: tuple[Condition, ...]
    samples: tuple[str, ...]
    attempts: int = 1
    options: dict[str, Any] = {}
    """The digest of each explanation that the condition agent was given, as in `explanations`."""


class Prompt(Record):
    """One complete question to a model."""

    id: str
    """For example `mcq.unit-matrix_flip.keet.1`: task, question, condition, attempt."""
    sample: str
    condition: Condition
    attempt: int = 1
    question: str | None = None
    """Its id in the key."""
    system: str
    user: str

    @property
    def digest(self) -> str:
        """Of every word that is sent, including contexts."""
        return digest(self.system, self.user)


class Answer(Record):
    """One model's answer to one prompt."""

    id: str
    model: str
    date: str
    """When the model answered, if known; else when the answer was recorded."""
    keet: str
    """The version of keet that made the prompt (Run.keet), because it made the contexts. The
    version that imported the answer does not matter."""
    prompt_version: str
    prompt_digest: str | None = None
    """Digest of the prompt that was answered; for an imported line without one, that of the prompt
    it was imported for. None: recorded before digests existed."""
    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    """None: not stated; never 0 instead."""
    seconds: float | None = None
    error: str | None = None
    """Why there is no text, or only a part: such an answer is unscored, not wrong."""

    @property
    def was_cut(self) -> bool:
        """Truncated at the token limit: the tokens were spent, and a higher limit might have
        helped."""
        return self.error is not None and self.error.startswith(CUT)


_Kind = TypeVar("_Kind", bound=Record)


class RunFolder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, run: Run, prompts: Iterable[Prompt]) -> RunFolder:
        """Refuses the same folders as `check_free`."""
        folder = cls(path)
        folder.check_free()
        with making(path):
            path.mkdir(parents=True, exist_ok=True)
            write_lines(path / "prompts.jsonl", prompts)
            _write(folder._run_file, run.model_dump_json(indent=2) + "\n")
        return folder

    def check_free(self) -> None:
        """Answers in an existing run would belong to other prompts, and other files would be mixed
        with the run."""
        with making(self.path):
            if self.path.is_file():
                raise UsageError(f"{self.path} is a file; name a new folder")
            names = sorted(each.name for each in self.path.iterdir()) if self.path.exists() else []
        if self._run_file.name in names:
            raise UsageError(f"{self.path} already contains a run; name another folder")
        if names:
            told = one_line(", ".join(names[:3])) + (", ..." if len(names) > 3 else "")
            raise UsageError(f"{self.path} contains other files ({told}); name a new folder")

    @property
    def _run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def run(self) -> Run:
        if not self._run_file.is_file():
            raise UsageError(f"{self.path} contains no run; make one: keet eval prompts --help")
        text = self._run_file.read_bytes().decode(errors="replace")
        return _parsed(Run, text, self._run_file)

    @property
    def prompts(self) -> list[Prompt]:
        return list(read_lines(self.path / "prompts.jsonl", Prompt))

    @property
    def answers(self) -> list[Answer]:
        """Each model's last answer with a text to each prompt; else its last error. An answer to
        another prompt text counts as an error."""
        digests = {prompt.id: prompt.digest for prompt in self.prompts}
        kept: dict[tuple[str, str], Answer] = {}
        for recorded in read_lines(self.path / "answers.jsonl", Answer):
            answer = _held_to(recorded, digests.get(recorded.id))
            key = (answer.model, answer.id)
            if key not in kept or answer.error is None or kept[key].error is not None:
                kept[key] = answer
        return list(kept.values())

    @property
    def models(self) -> list[str]:
        return sorted({answer.model for answer in self.answers})

    def unanswered(self, model: str) -> list[Prompt]:
        """Prompts without an answer; an error is not an answer."""
        done = {a.id for a in self.answers if a.model == model and a.error is None}
        return [prompt for prompt in self.prompts if prompt.id not in done]

    def add(self, answer: Answer) -> None:
        """Written at once, so that an interruption loses nothing."""
        path = self.path / "answers.jsonl"
        cut_half_line(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(answer.model_dump_json() + "\n")


def _held_to(answer: Answer, asked: str | None) -> Answer:
    if answer.prompt_digest in (None, asked) or asked is None or answer.error is not None:
        return answer
    return answer.model_copy(update={"error": OTHER_WORDS})


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """Turn an OSError when making a folder into a one-line message."""
    try:
        yield
    except OSError as problem:
        reason = reason_of(problem)
        raise UsageError(f"{folder} cannot be made ({reason}); name another folder") from None


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def write_lines(path: Path, records: Iterable[Record]) -> None:
    """Written completely or not at all: an interruption leaves the old file."""
    _write(path, "".join(record.model_dump_json() + "\n" for record in records))


def _write(path: Path, text: str) -> None:
    with replacing_text(path) as write:
        write(text)


def cut_half_line(path: Path) -> None:
    """Remove a partial last line that an interruption left: it would spoil the next line."""
    if not path.is_file():
        return
    with path.open("r+b") as file:
        content = file.read()
        end = content.rfind(b"\n") + 1
        if end < len(content) and not _is_json(content[end:].decode(errors="replace")):
            file.truncate(end)
        elif end < len(content):
            file.write(b"\n")


def read_lines(path: Path, kind: type[_Kind]) -> Iterator[_Kind]:
    """Skips a partial last line that an interruption left; any other bad line is an error."""
    if not path.is_file():
        return
    lines = path.read_bytes().decode(errors="replace").split("\n")  # half a letter is cut, too
    whole, rest = lines[:-1], lines[-1]
    for number, line in enumerate(whole, 1):
        yield _parsed(kind, line, path, number)
    if rest and _is_json(rest):
        yield _parsed(kind, rest, path, len(lines))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _parsed(kind: type[_Kind], text: str, path: Path, line: int | None = None) -> _Kind:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        where = f"{path}:{line}" if line else str(path)
        raise UsageError(
            f"{where} is not a valid {kind.__name__.lower()}: {_complaint(error)}; "
            "remove it, or make it again"
        ) from error


def _complaint(error: ValidationError) -> str:
    """The first error, with the field that it is about."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "json_invalid":
        return "it is not JSON"
    if not field:
        return first["msg"]
    if first["type"] == "missing":
        return f"field {field!r} is missing"
    if first["type"] == "extra_forbidden":
        return f"field {field!r} is unknown"
    return f"field {field!r}: {first['msg'][:1].lower()}{first['msg'][1:]}"
