"""A run of a task that a model takes part in: a folder of files, one for each stage.

    run.json        what was asked for: task, conditions, samples, versions
    prompts.jsonl   what is sent, word for word
    answers.jsonl   what came back, one line each, appended as it comes: a run can be interrupted
    scores.jsonl    what each answer was worth, and why

A stage reads the files of those before it and writes its own, so that each can run on another
machine: a laptop makes prompts, a model answers, a GPU machine measures.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from keet.errors import UsageError
from keet.version import __version__

Task = Literal["mcq", "optimize"]
Condition = Literal["blind", "none", "raw", "keet", "agent"]
CONDITIONS: dict[Condition, str] = {
    "blind": "the wording alone, without the source",
    "none": "the source alone",
    "raw": "the source and the text of `ncu --page details`",
    "keet": "the source and `keet context`",
    "agent": "the source and `keet explain` with a model",
}


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Run(Record):
    """What was asked for."""

    schema_version: int = 1
    task: Task
    created: str
    keet: str = __version__
    prompt_version: str
    """A digest of the templates: answers to other words are not comparable."""
    conditions: tuple[Condition, ...]
    samples: tuple[str, ...]
    attempts: int = 1
    options: dict[str, Any] = {}


class Prompt(Record):
    """One question to a model, complete."""

    id: str
    """As `optimize.matrix_flip.keet.1`: task, sample or question, condition, attempt."""
    sample: str
    condition: Condition
    attempt: int = 1
    question: str | None = None
    """Of mcq: the id in its key."""
    system: str
    user: str


class Answer(Record):
    """What one model said to one prompt."""

    id: str
    model: str
    date: str
    keet: str = __version__
    prompt_version: str
    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    """None: not said. Never zero instead."""
    seconds: float | None = None
    error: str | None = None
    """Why there is no text: such an answer is unscored, not wrong."""


_Kind = TypeVar("_Kind", bound=Record)


class RunFolder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, run: Run, prompts: Iterable[Prompt]) -> RunFolder:
        """Refuses a folder that already holds a run: its answers would belong to other prompts."""
        folder = cls(path)
        if folder._run_file.exists():
            raise UsageError(f"{path} holds a run already; name another folder")
        path.mkdir(parents=True, exist_ok=True)
        write_lines(path / "prompts.jsonl", prompts)
        folder._run_file.write_text(run.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return folder

    @property
    def _run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def run(self) -> Run:
        if not self._run_file.is_file():
            raise UsageError(f"{self.path} holds no run; make one: keet eval prompts --help")
        return _parsed(Run, self._run_file.read_text(encoding="utf-8"), self._run_file)

    @property
    def prompts(self) -> list[Prompt]:
        return list(read_lines(self.path / "prompts.jsonl", Prompt))

    @property
    def answers(self) -> list[Answer]:
        """The last one of each model to each prompt that has a text; else its last error."""
        kept: dict[tuple[str, str], Answer] = {}
        for answer in read_lines(self.path / "answers.jsonl", Answer):
            key = (answer.model, answer.id)
            if key not in kept or answer.error is None or kept[key].error is not None:
                kept[key] = answer
        return list(kept.values())

    @property
    def models(self) -> list[str]:
        return sorted({answer.model for answer in self.answers})

    def unanswered(self, model: str) -> list[Prompt]:
        """What is left to ask: an error is no answer."""
        done = {a.id for a in self.answers if a.model == model and a.error is None}
        return [prompt for prompt in self.prompts if prompt.id not in done]

    def add(self, answer: Answer) -> None:
        """At once, so that an interruption loses nothing."""
        path = self.path / "answers.jsonl"
        cut_half_line(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(answer.model_dump_json() + "\n")


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def write_lines(path: Path, records: Iterable[Record]) -> None:
    lines = "".join(record.model_dump_json() + "\n" for record in records)
    path.write_text(lines, encoding="utf-8")


def cut_half_line(path: Path) -> None:
    """What an interruption left behind the last whole line would spoil the next one."""
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
    """What an interruption left of a last line is left out; any other bad line is an error."""
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
        first = error.errors()[0]
        raise UsageError(
            f"{where} is no {kind.__name__.lower()} ({first['msg']}); take it out, or make it again"
        ) from error
