"""Messages between a batch and its worker processes, and how they are sent through pipes.

A batch sends lists of tasks: one message for several small files, because a message costs more than
sampling a file. A worker sends its answers one by one, in the order of the tasks, so that the batch
knows which file a worker was reading when it died.
"""

from __future__ import annotations

import pickle
from typing import IO, Literal, NamedTuple

from keet.corpus.store.report_rows import FileRows

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
