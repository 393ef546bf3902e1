"""A worker process of `keet batch`: tasks come in on stdin, answers go out on stdout, in order.

It may die at any moment, and nobody but its current file suffers: that is what it is for. It ends
when its stdin does or its parent is gone, so that no worker outlives a run that was killed.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Literal, NamedTuple

from keet.corpus.discovery import status_of, table_file
from keet.corpus.rows import FileRows
from keet.errors import IngestError, KeetError, UnreadableFile, one_line
from keet.ingest.files import open_input

_CHUNK = 1 << 20
_GLANCE = 16 << 10
_GARBAGE = 20_000
"""Objects that may be garbage before they are looked through; a file makes some thousands."""
_LONGEST_REASON = 500


Step = Literal["glance", "hash", "analyse"]


class Task(NamedTuple):
    number: int
    step: Step
    path: str


class Seen(NamedTuple):
    """The file, and the table of its run, before they were read: what changes later shows."""

    size: int
    mtime_ns: int
    run_table_size: int | None = None
    """None: there is no table."""
    run_table_mtime_ns: int | None = None


class Look(NamedTuple):
    """Three places of a file: where these differ, files differ."""

    size: int
    digest: bytes


class Hashed(NamedTuple):
    sha256: str


class Analysed(NamedTuple):
    rows: FileRows


class Failed(NamedTuple):
    reason: str
    """One line that ends with what to do next."""


class Answer(NamedTuple):
    task: Task
    result: Look | Hashed | Analysed | Failed
    seen: Seen | None
    seconds: float
    memory: int
    """Bytes that the worker holds now."""


READY = "ready"
"""A worker's first word: what it has to import is there."""


# --- frames: a length, then a pickle; both ends are keet's own


def write_frame(stream: IO[bytes], message: object) -> None:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> object | None:
    """`None` at the end, also in the middle of a frame: its writer is dead."""
    size = stream.read(8)
    data = stream.read(int.from_bytes(size, "little")) if len(size) == 8 else b""
    if len(size) < 8 or len(data) < int.from_bytes(size, "little"):
        return None
    return pickle.loads(data)  # type: ignore[no-any-return]


# --- the process


def serve(analyse: str) -> None:
    """Work until stdin ends. `analyse`: `module:function`, from a path to `FileRows`."""
    tasks, answers = sys.stdin.buffer, _private_stdout()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    module, _, function = analyse.partition(":")
    work = getattr(import_module(module), function)
    gc.set_threshold(50 * _GARBAGE)
    first = True
    write_frame(answers, READY)
    while (task := read_frame(tasks)) is not None:
        assert isinstance(task, Task)
        write_frame(answers, perform(task, work))
        _collect_between_files(first=first and task.step == "analyse")
        first = first and task.step != "analyse"


def _collect_between_files(*, first: bool) -> None:
    """Not while one is worked on, which takes a twentieth of the time and finds what is still in
    use: between files all of it is garbage. What was imported and loaded with the first file stays,
    and is not looked through again."""
    if first or gc.get_count()[0] > _GARBAGE:
        gc.collect()
    if first:
        gc.freeze()


def _end_with_parent(parent: int) -> None:
    """Also in the middle of a file that never ends: nobody is left to set it a limit."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _private_stdout() -> IO[bytes]:
    """Whatever a library prints must not end up among the answers."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def perform(task: Task, analyse: Callable[[str], FileRows]) -> Answer:
    start = time.perf_counter()
    seen = look(task.path)
    result = _attempt(task, analyse)
    return Answer(task, result, seen, time.perf_counter() - start, memory_held())


def _attempt(task: Task, analyse: Callable[[str], FileRows]) -> Look | Hashed | Analysed | Failed:
    try:
        return _do(task, analyse)
    except IngestError as problem:
        return Failed(_reason(f"{problem.problem}; {problem.remedy}"))
    except KeetError as problem:
        return Failed(_reason(str(problem)))
    except MemoryError:
        return Failed("there is not enough memory for it; run with fewer --jobs")
    except Exception as problem:  # noqa: BLE001 - a bug costs the file that shows it, not the run
        named = f"{type(problem).__name__}: {problem}"
        return Failed(_reason(f"this is a bug in keet: {named}; see: keet explain on this file"))


def _do(task: Task, analyse: Callable[[str], FileRows]) -> Look | Hashed | Analysed:
    if task.step == "glance":
        return look_of(Path(task.path))
    if task.step == "hash":
        return Hashed(sha256_of(Path(task.path)))
    return Analysed(analyse(task.path))


def _reason(text: str) -> str:
    return one_line(text[:_LONGEST_REASON])


def look(path: str) -> Seen | None:
    status = status_of(path)
    return Seen(status.st_size, status.st_mtime_ns, *table_file(path)) if status else None


def look_of(path: Path) -> Look:
    """Raises the error that reading the report would raise."""
    with _opened(path) as (file, size):
        places = (0, size // 2, max(0, size - _GLANCE))
        parts = b"".join(_read_at(file, place) for place in places)
    return Look(size, hashlib.sha256(parts).digest())


def _read_at(file: IO[bytes], place: int) -> bytes:
    file.seek(place)
    return file.read(_GLANCE)


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
        reason = (problem.strerror or str(problem)).lower()
        raise UnreadableFile(path, f"it can't be read ({reason})", "check the disk") from None


def memory_held() -> int:
    """Resident bytes; the peak where the system does not tell what is held now."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return _peak_memory()


def _peak_memory() -> int:
    try:
        import resource
    except ImportError:  # Windows: workers are recycled by the number of files alone
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
