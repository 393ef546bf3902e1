"""What a run and its worker processes say to each other, and how it goes through a pipe.

A run sends lists of tasks: one message for several small files, because a message costs more than
a glance at a file. A worker sends its answers one by one, in the order of the tasks, so that the
run knows which file a worker was at when it died.
"""

from __future__ import annotations

import pickle
from typing import IO, Literal

from keet.corpus.store.report_rows import FileRows
from keet.records import NamedTuple

Step = Literal["glance", "hash", "analyse"]


class Task(NamedTuple):
    number: int
    step: Step
    path: str
    size: int = 0
    """Bytes of the file, as it was listed: a large file is a message of its own."""


class FileState(NamedTuple):
    """The file, and the table of its run, before they were read: what changes later shows."""

    size: int
    mtime_ns: int
    run_table_size: int | None = None
    """None: there is no table."""
    run_table_mtime_ns: int | None = None


class ContentSample(NamedTuple):
    """Three places of a file: where these differ, files differ."""

    size: int
    digest: bytes


class Hashed(NamedTuple):
    sha256: str


class Slice(NamedTuple):
    """Rows of some launches of a large report. More follow, and the last ones are `Analysed`."""

    number: int
    """From 0: an attempt that starts again starts with 0."""
    rows: FileRows


class Analysed(NamedTuple):
    """The rows of a report, or the last of them where slices came before."""

    rows: FileRows
    slices: int = 0
    """How many came before."""


class Failed(NamedTuple):
    reason: str
    """One line that ends with what to do next."""


TaskResult = ContentSample | Hashed | Slice | Analysed | Failed


class WorkerAnswer(NamedTuple):
    task: Task
    result: TaskResult
    seen: FileState | None
    seconds: float
    memory: int
    """Bytes that the worker holds now."""

    @property
    def is_last(self) -> bool:
        """Whether the worker is through with the task."""
        return not isinstance(self.result, Slice)


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
