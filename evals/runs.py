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
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from keet.errors import UsageError, one_line
from keet.files import replacing_text

Task = Literal["mcq", "optimize"]
Condition = Literal["blind", "none", "raw", "keet", "agent"]
CONDITIONS: dict[Condition, str] = {
    "blind": "the wording alone, without the source",
    "none": "the source alone",
    "raw": "the source and the text of `ncu --page details`",
    "keet": "the source and `keet context`",
    "agent": "the source and `keet explain` with a model",
}
CUT = "cut off at the limit of tokens"
EMPTY = "the model said nothing"
OTHER_WORDS = "it answers other words than this run's prompt"


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Run(Record):
    """What was asked for."""

    schema_version: Literal[1] = 1
    task: Task
    created: str
    keet: str
    """Its version, which made the prompts."""
    prompt_version: str
    """A digest of the templates: answers to other words are not comparable. What stands in them is
    in the digest of each prompt."""
    conditions: tuple[Condition, ...]
    samples: tuple[str, ...]
    attempts: int = 1
    options: dict[str, Any] = {}
    """As `explanations`: the digest of each file that the condition agent was given."""


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

    @property
    def digest(self) -> str:
        """Of every word that is sent, contexts included."""
        return digest(self.system, self.user)


class Answer(Record):
    """What one model said to one prompt."""

    id: str
    model: str
    date: str
    """When the model answered, as far as that is known; else when the answer was recorded."""
    keet: str
    """What made the prompt (Run.keet): the contexts are its work. Who passed the answer on, and
    with which version, changes nothing of it."""
    prompt_version: str
    prompt_digest: str | None = None
    """Of the words that were answered; of an imported line that does not say, those of the prompt
    that it was imported for. None: recorded before there was one."""
    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    """None: not said. Never zero instead."""
    seconds: float | None = None
    error: str | None = None
    """Why there is no text, or no whole one: such an answer is unscored, not wrong."""

    @property
    def was_cut(self) -> bool:
        """It cost what a model was given, and more might have helped."""
        return self.error is not None and self.error.startswith(CUT)


_Kind = TypeVar("_Kind", bound=Record)


class RunFolder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, run: Run, prompts: Iterable[Prompt]) -> RunFolder:
        """Refuses what `check_free` does."""
        folder = cls(path)
        folder.check_free()
        with making(path):
            path.mkdir(parents=True, exist_ok=True)
            write_lines(path / "prompts.jsonl", prompts)
            _write(folder._run_file, run.model_dump_json(indent=2) + "\n")
        return folder

    def check_free(self) -> None:
        """Answers of a run that is there would belong to other prompts, other files to nobody."""
        with making(self.path):
            if self.path.is_file():
                raise UsageError(f"{self.path} is a file; name a folder to make")
            names = sorted(each.name for each in self.path.iterdir()) if self.path.exists() else []
        if self._run_file.name in names:
            raise UsageError(f"{self.path} holds a run already; name another folder")
        if names:
            told = one_line(", ".join(names[:3])) + (", ..." if len(names) > 3 else "")
            raise UsageError(f"{self.path} holds other files ({told}); name a new folder")

    @property
    def _run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def run(self) -> Run:
        if not self._run_file.is_file():
            raise UsageError(f"{self.path} holds no run; make one: keet eval prompts --help")
        text = self._run_file.read_bytes().decode(errors="replace")
        return _parsed(Run, text, self._run_file)

    @property
    def prompts(self) -> list[Prompt]:
        return list(read_lines(self.path / "prompts.jsonl", Prompt))

    @property
    def answers(self) -> list[Answer]:
        """The last one of each model to each prompt that has a text; else its last error.

        What answers other words than the prompt has is no answer to it, and has that error."""
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
        """What is left to ask: an error is no answer."""
        done = {a.id for a in self.answers if a.model == model and a.error is None}
        return [prompt for prompt in self.prompts if prompt.id not in done]

    def add(self, answer: Answer) -> None:
        """At once, so that an interruption loses nothing."""
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
    """Say of a folder that can't be made why, in one line."""
    try:
        yield
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UsageError(f"{folder} can't be made ({reason}); name another folder") from None


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def write_lines(path: Path, records: Iterable[Record]) -> None:
    """Whole or not at all: an interruption leaves what was there before."""
    _write(path, "".join(record.model_dump_json() + "\n" for record in records))


def _write(path: Path, text: str) -> None:
    with replacing_text(path) as write:
        write(text)


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
        raise UsageError(
            f"{where} is no {kind.__name__.lower()}: {_complaint(error)}; "
            "take it out, or make it again"
        ) from error


def _complaint(error: ValidationError) -> str:
    """What is wrong first, with the field that it is about."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "json_invalid":
        return "it is no JSON"
    if not field:
        return first["msg"]
    if first["type"] == "missing":
        return f"field {field!r} is missing"
    if first["type"] == "extra_forbidden":
        return f"field {field!r} is not known"
    return f"field {field!r}: {first['msg'][:1].lower()}{first['msg'][1:]}"
