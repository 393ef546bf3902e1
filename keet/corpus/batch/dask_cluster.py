"""`keet batch --dask`: analyses chunks of files on the workers of an existing Dask cluster.

Each chunk is a small batch on a Dask worker, with a worker process that may die. It writes its
parts into the store, which all machines must see. Only counts are sent back.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self

from keet.corpus.batch.coordinator import Batch, BatchProgress, failed_record
from keet.corpus.batch.stored_files import ResumeState, StoredContent, resume_state
from keet.corpus.batch.worker import Analyse
from keet.corpus.batch.worker_pool import Pool, WorkerLimits
from keet.corpus.discovery import ReportFile
from keet.corpus.store.part_writer import PartQueue, write_part
from keet.corpus.store.schema import STORE_FILE
from keet.errors import KeetError, NotAvailable, one_line
from keet.lazy import require

Client = Any
Future = Any
"""Types of dask.distributed, which is not annotated and may not be installed."""
CHUNK_FILES = 64
CHUNK_BYTES = 256 << 20
MOST_EQUAL = 256
"""Files of one size in one chunk at most. Duplicates are recognised within a chunk."""
ATTEMPTS = 3
"""Attempts per chunk. In each, Dask itself retries a chunk whose worker died."""
_CONNECT_SECONDS = 15
_COUNTS = (
    *("failed", "duplicates", "launches", "gpu_seconds", "runs", "timed_runs", "unused_tables"),
    "noted",
)
"""Fields of the progress of a chunk that are added up."""
_WORKER_LOST = ("KilledWorker", "CancelledError", "FutureCancelledError", "CommClosedError")


class Chunk(NamedTuple):
    """Files for one task."""

    files: tuple[ReportFile, ...]
    attempt: int = 0


def chunks(files: Sequence[ReportFile]) -> Iterator[Chunk]:
    """Sorted by size, so that equal files are in one chunk."""
    pending: list[ReportFile] = []
    for _, same in groupby(sorted(files, key=_size), key=_size):
        for file in same:
            pending.append(file)
            if len(pending) >= MOST_EQUAL:
                yield Chunk(tuple(pending))
                pending = []
        if len(pending) >= CHUNK_FILES or sum(map(_size, pending)) >= CHUNK_BYTES:
            yield Chunk(tuple(pending))
            pending = []
    if pending:
        yield Chunk(tuple(pending))


def _size(file: ReportFile) -> int:
    return file.size


# --- on a Dask worker


class ChunkSettings(NamedTuple):
    """Settings for all chunks."""

    out: str
    analyse: Analyse
    seconds: float


_pools = threading.local()
"""One worker process per thread of a Dask worker, kept from chunk to chunk."""


def analyse_chunk(chunk: Chunk, kept: StoredContent, settings: ChunkSettings) -> BatchProgress:
    """Analyse a chunk into the store. Raises `NotAvailable` if the store is not visible here."""
    out = Path(settings.out)
    if not (out / STORE_FILE).exists():
        raise NotAvailable(
            f"a Dask worker does not see {settings.out}; use a folder that the whole cluster shares"
        )
    files = resume_state(out, chunk.files).pending if chunk.attempt else chunk.files
    pool = _pool_of_this_thread(settings)
    try:
        with PartQueue(out) as writer:
            done = Batch(files, kept, pool, writer).run(lambda _: None)
    except BaseException:
        _close_pool()
        raise
    return done._replace(workers=0)


def _pool_of_this_thread(settings: ChunkSettings) -> Pool:
    pool: Pool | None = getattr(_pools, "pool", None)
    if pool is None or _pools.settings != settings:
        _close_pool()
        pool = Pool(settings.analyse, 1, WorkerLimits(seconds=settings.seconds))
        _pools.pool, _pools.settings = pool, settings
    return pool


def _close_pool() -> None:
    pool: Pool | None = getattr(_pools, "pool", None)
    _pools.pool = None
    if pool is not None:
        pool.close()


# --- on the client


class DaskCluster:
    """A connection to a cluster. Raises `NotAvailable` if there is none."""

    def __init__(self, address: str, out: Path, analyse: Analyse, seconds: float) -> None:
        self._client = _connect(address)
        self._address = address
        self._settings = ChunkSettings(str(out.absolute()), analyse, seconds)
        self._finished: SimpleQueue[Future | None] = SimpleQueue()
        self._running: dict[Future, Chunk] = {}
        self._stop = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.cancel(list(self._running))
        self._client.close()

    def stop(self) -> None:
        """Chunks in progress are finished by the cluster and written into the store."""
        self._stop = True
        self._finished.put(None)

    def run(self, state: ResumeState, report: Callable[[BatchProgress], None]) -> BatchProgress:
        start = time.monotonic()
        waiting = deque(chunks(state.pending))
        kept = self._client.scatter(state.stored, broadcast=True, hash=False)
        tally = BatchProgress(len(state.pending))
        while (waiting or self._running) and not self._stop:
            self._feed(waiting, kept)
            for future in self._wait():
                tally = self._handle(future, waiting, tally)
            tally = tally._replace(seconds=time.monotonic() - start)
            report(tally)
        return tally._replace(stopped=self._stop)

    def _feed(self, waiting: deque[Chunk], kept: Any) -> None:
        """A few chunks per thread at a time: the scheduler does not have to hold all."""
        threads = sum(self._client.nthreads().values())
        while waiting and len(self._running) < max(8, 3 * threads):
            chunk = waiting.popleft()
            future = self._client.submit(analyse_chunk, chunk, kept, self._settings, pure=False)
            self._running[future] = chunk
            future.add_done_callback(self._finished.put)

    def _wait(self) -> Iterator[Future]:
        try:
            future = self._finished.get(timeout=1.0)
        except Empty:
            if self._client.status != "running":
                raise NotAvailable(
                    f"the Dask scheduler at {self._address} stopped answering; "
                    "resume with the same command"
                ) from None
            return
        if future is not None and future in self._running:
            yield future

    def _handle(self, future: Future, waiting: deque[Chunk], tally: BatchProgress) -> BatchProgress:
        chunk = self._running.pop(future)
        if future.status == "finished":
            return _added(tally, future.result(), len(chunk.files))
        problem = future.exception() if future.status == "error" else None
        if problem is not None and type(problem).__name__ not in _WORKER_LOST:
            raise _fatal(problem)
        if chunk.attempt + 1 < ATTEMPTS:
            waiting.append(chunk._replace(attempt=chunk.attempt + 1))
            return tally
        return self._give_up(chunk, tally)

    def _give_up(self, chunk: Chunk, tally: BatchProgress) -> BatchProgress:
        out = Path(self._settings.out)
        left = resume_state(out, chunk.files).pending
        reason = f"its Dask workers died {ATTEMPTS} times; see their logs, then try "
        reason += "again with: keet batch --retry-failed"
        write_part(out, [failed_record(file, reason) for file in left], [])
        finished = len(chunk.files) - len(left)
        return tally.plus(done=finished, failed=len(left))


def _added(tally: BatchProgress, chunk: BatchProgress, files: int) -> BatchProgress:
    """Files that an earlier attempt had finished count as done."""
    counts = {name: getattr(chunk, name) for name in _COUNTS}
    total = tally.plus(done=files - chunk.failed - chunk.duplicates, **counts)
    return total._replace(worker_memory=max(tally.worker_memory, chunk.worker_memory))


def _fatal(problem: BaseException) -> KeetError:
    """A problem of every chunk: the store can't be written, or keet is not installed."""
    if isinstance(problem, KeetError):
        return problem
    said = one_line(f"{type(problem).__name__}: {problem}"[:300])
    return NotAvailable(
        f"a Dask worker failed ({said}); install the same keet on the cluster, and check that "
        "it can write to the store"
    )


def _connect(address: str) -> Client:
    dask = require("distributed", "dask")
    try:
        return dask.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as problem:
        raise NotAvailable(
            f"no Dask scheduler answers at {one_line(address)} ({type(problem).__name__}); "
            "check the address: it starts with tcp://"
        ) from None
