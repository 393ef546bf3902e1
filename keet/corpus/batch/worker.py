"""A worker process of `keet batch`: reads tasks from stdin and writes answers to stdout, in order.

If it crashes, only its current file is affected. It ends when stdin ends or its parent has died, so
that no worker outlives a batch that was killed.

A batch sends lists of tasks: one message for several small files, because a message costs more than
sampling a file. A worker sends its answers one by one, in the order of the tasks, so that the batch
knows which file a worker was reading when it died.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Literal, NamedTuple

from keet.corpus.discovery import status_of, table_file
from keet.corpus.store.report_rows import FileRows, slices_of
from keet.corpus.store.schema import storable
from keet.errors import IngestError, KeetError, one_line
from keet.report.input.files import open_input, unreadable

Step = Literal["sample", "hash", "analyse"]


class Task(NamedTuple):
    number: int
    step: Step
    path: str
    size: int = 0
    """Bytes of the file when it was listed. A large file gets a message of its own."""


class FileState(NamedTuple):
    """Size and time of a file and of its run table before reading, to notice later changes."""

    size: int
    mtime_ns: int
    run_table_size: int | None = None
    """None: the file has no run table."""
    run_table_mtime_ns: int | None = None


class ContentSample(NamedTuple):
    """A digest of three places of a file. Files with different samples are different."""

    size: int
    digest: bytes


class Hashed(NamedTuple):
    sha256: str


class Slice(NamedTuple):
    """Rows of some launches of a large report. The last rows come as `Analysed`."""

    number: int
    """From 0; a new attempt starts with 0 again."""
    rows: FileRows


class Analysed(NamedTuple):
    """The rows of a report, or its last rows if slices came before."""

    rows: FileRows
    slices: int = 0
    """Number of slices that came before."""


class Failed(NamedTuple):
    reason: str
    """One line that ends with what to do."""


TaskResult = ContentSample | Hashed | Slice | Analysed | Failed


class WorkerAnswer(NamedTuple):
    task: Task
    result: TaskResult
    seen: FileState | None
    seconds: float
    memory: int
    """Resident size of the worker, in bytes."""

    @property
    def is_last(self) -> bool:
        """Whether the worker has finished the task."""
        return not isinstance(self.result, Slice)


READY = "ready"
"""The first message of a worker: its imports are done."""


# --- frames: a length, then a pickle; both ends are keet


def write_frame(stream: IO[bytes], message: object) -> None:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> object | None:
    """None at the end of the stream, also in the middle of a frame: the writer died."""
    size = stream.read(8)
    data = stream.read(int.from_bytes(size, "little")) if len(size) == 8 else b""
    if len(size) < 8 or len(data) < int.from_bytes(size, "little"):
        return None
    return pickle.loads(data)  # type: ignore[no-any-return]


# --- the analysis of one file

Analyse = Callable[[str], Iterable[FileRows]]
"""From the path of a file to its rows; a large report comes in several slices."""

_MAX_FINDINGS = 5
"""Findings per launch, as in `keet explain`."""


def analyse(path: str) -> Iterator[FileRows]:
    return _analyse(path, sass=False)


def analyse_with_sass(path: str) -> Iterator[FileRows]:
    """The same with the machine code, as `keet batch --sass` asks for."""
    return _analyse(path, sass=True)


def _analyse(path: str, *, sass: bool) -> Iterator[FileRows]:
    from keet.documents.document import json_line
    from keet.explanation.analyst import explain
    from keet.report import read_profile

    read = read_profile(path)
    # A snapshot names the report that it was made from; the store names the file that was read.
    named = read.provenance._replace(path=storable(path))
    profile = replace(read, provenance=named)
    explanation = explain(profile, profile.launches, _MAX_FINDINGS, sass=sass, keep=False)
    for rows in slices_of(explanation, json_line):
        yield rows._replace(
            table_problem=profile.run_problem,
            notes=named.notes,
            origin_sha256=named.origin.sha256 if named.origin else None,
        )


# --- the process

_CHUNK = 1 << 20
_SAMPLE = 16 << 10
_MAX_GARBAGE = 20_000
"""New objects after which garbage is collected; a file makes some thousands."""
_LONGEST_REASON = 500
_STATM = Path("/proc/self/statm")


def serve(analyse: Analyse) -> None:
    """Perform tasks until stdin ends."""
    # Answers go to a copy of stdout; what libraries print goes to stderr.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    gc.set_threshold(50 * _MAX_GARBAGE)
    write_frame(answers, READY)
    first = True
    while (message := read_frame(sys.stdin.buffer)) is not None:
        assert isinstance(message, list)
        for task in message:
            for answer in perform(task, analyse):
                write_frame(answers, answer)
            _collect_between_files(first=first and task.step == "analyse")
            first = first and task.step != "analyse"


def _collect_between_files(*, first: bool) -> None:
    """Collecting during a file takes 5 % of the time and frees little: the objects are in use.
    What was imported and loaded with the first file stays, and is excluded from later searches."""
    if first or gc.get_count()[0] > _MAX_GARBAGE:
        gc.collect()
    if first:
        gc.freeze()


def _end_with_parent(parent: int) -> None:
    """Also during a file that never ends: no parent is left to enforce the time limit."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def perform(task: Task, analyse: Analyse) -> Iterator[WorkerAnswer]:
    """One answer; for a large report one per slice before it."""
    start = time.perf_counter()
    seen = file_state(task.path)
    for result in _attempt(task, analyse):
        yield WorkerAnswer(task, result, seen, time.perf_counter() - start, memory_held())


def _attempt(task: Task, analyse: Analyse) -> Iterator[TaskResult]:
    try:
        if task.step == "sample":
            yield sample_of(Path(task.path))
        elif task.step == "hash":
            yield Hashed(sha256_of(Path(task.path)))
        else:
            yield from _analysed(analyse(task.path))
    except IngestError as problem:
        yield Failed(_reason(f"{problem.problem}; {problem.remedy}"))
    except KeetError as problem:
        yield Failed(_reason(str(problem)))
    except MemoryError:
        yield Failed("not enough memory for this file; use fewer --jobs")
    except Exception as problem:  # noqa: BLE001 - a bug must fail one file, not the batch
        named = f"{type(problem).__name__}: {problem}"
        yield Failed(_reason(f"this is a bug in keet: {named}; see: keet explain on this file"))


def _analysed(slices: Iterable[FileRows]) -> Iterator[TaskResult]:
    last, before = None, -1
    for rows in slices:
        if last is not None:
            yield Slice(before, last)
        last, before = rows, before + 1
    assert last is not None
    yield Analysed(last, before)


def _reason(text: str) -> str:
    return one_line(text[:_LONGEST_REASON])


def file_state(path: str) -> FileState | None:
    status = status_of(path)
    return FileState(status.st_size, status.st_mtime_ns, *table_file(path)) if status else None


def sample_of(path: Path) -> ContentSample:
    """Raises the error that reading the report would raise."""
    with _opened(path) as (file, size):
        digest = hashlib.sha256()
        for place in (0, size // 2, max(0, size - _SAMPLE)):
            file.seek(place)
            digest.update(file.read(_SAMPLE))
    return ContentSample(size, digest.digest())


def sha256_of(path: Path) -> str:
    """Raises the error that reading the report would raise."""
    digest = hashlib.sha256()
    with _opened(path) as (file, _):
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    known = open_input(path)
    try:
        with known.open() as file:
            yield file, known.size
    except OSError as problem:
        raise unreadable(path, problem) from None


def memory_held() -> int:
    """Resident bytes; the peak on systems that do not report the current value."""
    try:
        with _STATM.open("rb", buffering=0) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return _peak_memory()


def _peak_memory() -> int:
    try:
        import resource
    except ImportError:  # Windows: workers are replaced by the number of files only
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
