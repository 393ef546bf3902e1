"""Coordinates one batch: gives files to workers, takes their rows, and adds them to the store.

Finished files are written as a part every few seconds (`PartQueue`). If the process is killed,
only files since the last part are lost. There is no state but the store: the next batch reads it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from keet.corpus.batch.stored_files import Failure, Owner, StoredContent, failures, is_gone
from keet.corpus.batch.worker import (
    Analysed,
    ContentSample,
    Failed,
    FileState,
    Hashed,
    Slice,
    Step,
    Task,
    WorkerAnswer,
)
from keet.corpus.discovery import NO_TABLE, ReportFile, RunTableFile
from keet.corpus.store.part_writer import FileRecord, LargeReport, PartQueue, bare_record
from keet.corpus.store.report_rows import FileRows, RunTotals
from keet.corpus.store.schema import storable
from keet.errors import one_line
from keet.files import replacing_text

Number = int
"""Position of a file in the batch."""
ContentKey = ContentSample | str
"""What is known about the content of a file: a sample, or its SHA-256."""
QueueKey = int | ContentSample
"""Files of one size, or with one sample, wait in the same queue."""


class NextStep(NamedTuple):
    """Perform this step for the file."""

    number: Number
    step: Step


class Duplicate(NamedTuple):
    number: Number
    sha256: str
    of: Owner


Decision = NextStep | Duplicate


class DuplicateTracker:
    """Decides for each file whether it is analysed or a duplicate, so that each content is analysed
    once.

    Content is the bytes of a file, never what a snapshot states about its report: anybody can write
    that. Equal bytes have equal sizes, so only files that share their size with another one are
    checked: first a sample of three places of each file, then the hash if samples are equal.
    Decisions are made in the order of the files. So the first of several equal files is always the
    one whose rows are stored, however many workers there are and whichever is faster.

    The rows also depend on the run table beside the report. Equal reports count as one report: keet
    uses the run table of the file whose rows are stored, or if it has none, that of the first copy
    that has one.

    Files wait in queues, in their order: one queue per size, and one per sample. The first file of
    a queue is decided when its answer has come; answers for later files wait.
    """

    def __init__(self, files: Sequence[ReportFile], stored: StoredContent) -> None:
        self._files = files
        self.owners = dict(stored.owners)
        """By the hash of their content."""
        counts = Counter(file.size for file in files)
        self._shared = {size for size, count in counts.items() if count > 1} | stored.sizes
        self._by_hash = stored.sizes  # the store has hashes, which can't be compared with samples
        self._queues: defaultdict[QueueKey, deque[Number]] = defaultdict(deque)
        self._queue_of: dict[Number, QueueKey] = {}
        self._answers: dict[Number, ContentKey | None] = {}
        self._samples: set[ContentSample] = set()
        self.hashes: dict[Number, str] = {}
        """Those that were needed."""
        self._waiting: dict[str, deque[Number]] = {}
        """By the hash of content that is being analysed: other files with this content."""

    def first_step(self, number: Number) -> Step:
        size = self._files[number].size
        if size not in self._shared:
            return "analyse"
        self._enqueue(size, number)
        return "hash" if size in self._by_hash else "sample"

    def answered(self, number: Number, answer: ContentKey | None) -> Iterator[Decision]:
        """All decisions that are possible now. `answer` None: the file can't be read."""
        self._answers[number] = answer
        key = self._queue_of[number]
        queue = self._queues[key]
        while queue and queue[0] in self._answers:
            first = queue.popleft()
            del self._queue_of[first]
            known = self._answers.pop(first)
            if known is not None:
                yield from self._decide(first, known)
        if not queue:
            self._queues.pop(key, None)

    def _enqueue(self, key: QueueKey, number: Number) -> None:
        self._queues[key].append(number)
        self._queue_of[number] = key

    def _decide(self, number: Number, known: ContentKey) -> Iterator[Decision]:
        if isinstance(known, ContentSample):
            self._enqueue(known, number)
            yield NextStep(number, "hash" if known in self._samples else "analyse")
            self._samples.add(known)
            return
        self.hashes[number] = known
        owner = self.owners.get(known)
        may_have_run = self._files[number].table != NO_TABLE
        if owner is not None and not self.adds_run(number, owner, has_run=may_have_run):
            yield Duplicate(number, known, owner)
        elif known in self._waiting:
            self._waiting[known].append(number)
        else:
            self._waiting[known] = deque()
            yield NextStep(number, "analyse")

    def adds_run(self, number: Number, owner: Owner, *, has_run: bool) -> bool:
        """Whether its rows replace the stored rows of equal content. `has_run`: it has times of the
        run, or may have them."""
        if self.is_successor(number, owner):
            return self._files[number].table != owner.table
        return owner.run is None and has_run

    def is_successor(self, number: Number, owner: Owner) -> bool:
        """It has the path of the owner, or the owner no longer exists: it may have been moved."""
        return owner.path == storable(self._files[number].path) or is_gone(owner.path)

    def finished(self, number: Number) -> Iterator[Decision]:
        """Decide about files with equal content that waited for this one: they are duplicates, or
        if this one failed, the next one is analysed."""
        if number in self._queue_of:  # the first with its sample, which was not hashed
            yield from self.answered(number, None)
        sha256 = self.hashes.pop(number, "")
        for other in self._waiting.pop(sha256, ()):
            yield from self._decide(other, sha256)


QUARANTINE = "quarantine.txt"


class BatchProgress(NamedTuple):
    """The counts of a batch so far."""

    files: int
    """Files to analyse, without those that an earlier batch finished."""
    done: int = 0
    failed: int = 0
    duplicates: int = 0
    launches: int = 0
    gpu_seconds: float = 0.0
    """Of launches with a measured duration."""
    runs: int = 0
    """Files with a run table."""
    timed_runs: int = 0
    """Of `runs`, those with a launch whose time in the run is known."""
    unused_tables: int = 0
    """Files whose run table is damaged or belongs to another report."""
    noted: int = 0
    """Files with a note: launches may be missing, or values are rounded."""
    seconds: float = 0.0
    workers: int = 0
    """Processes started so far: more than `jobs` if some died or were replaced."""
    worker_memory: int = 0
    """Largest resident size of a worker after a file, in bytes."""
    stopped: bool = False

    @property
    def finished(self) -> int:
        return self.done + self.failed + self.duplicates

    def plus(self, **more: Any) -> BatchProgress:
        """`more`: what to add, by field."""
        return self._replace(**{name: getattr(self, name) + added for name, added in more.items()})

    @property
    def seconds_left(self) -> float | None:
        if not self.finished:
            return None
        return self.seconds / self.finished * (self.files - self.finished)


class Workers(Protocol):
    """The part of `worker_pool.Pool` that is used here."""

    started: int
    most_memory: int

    def room(self) -> int: ...
    def submit(self, task: Task) -> None: ...
    def wait(self, seconds: float) -> list[WorkerAnswer]: ...


class Batch:
    """One batch: files in, records and rows out."""

    def __init__(
        self,
        files: Sequence[ReportFile],
        stored: StoredContent,
        workers: Workers,
        writer: PartQueue,
    ) -> None:
        self._files, self._workers, self._writer = files, workers, writer
        self._duplicates = DuplicateTracker(files, stored)
        self._next = 0
        self._ready: deque[NextStep] = deque()
        self._large_reports: dict[int, LargeReport] = {}
        """Reports of which some slices have arrived."""
        self._start = time.monotonic()
        self._stop = False
        self.progress = BatchProgress(len(files))

    def stop(self) -> None:
        """Stop soon: finished files are written, files in progress are dropped."""
        self._stop = True

    def run(self, report: Callable[[BatchProgress], None]) -> BatchProgress:
        while self.progress.finished < len(self._files) and not self._stop:
            self._feed()
            for answer in self._workers.wait(0.5):
                self._handle(answer)
            self._writer.write_when_due()
            self._update_progress()
            # Also launches of reports that are not finished.
            under_way = sum(large.launches for large in self._large_reports.values())
            report(self.progress.plus(launches=under_way))
        return self.progress

    def _update_progress(self) -> None:
        self.progress = self.progress._replace(
            seconds=time.monotonic() - self._start,
            workers=self._workers.started,
            worker_memory=self._workers.most_memory,
            stopped=self._stop,
        )

    # --- sending tasks

    def _feed(self) -> None:
        """Files with a decided next step come first: others may wait for them."""
        while self._workers.room() > 0:
            if self._ready:
                self._submit(*self._ready.popleft())
            elif self._next < len(self._files):
                self._next += 1
                self._submit(self._next - 1, self._duplicates.first_step(self._next - 1))
            else:
                return

    def _submit(self, number: int, step: Step) -> None:
        file = self._files[number]
        self._workers.submit(Task(number, step, file.path, file.size))

    # --- handling answers

    def _handle(self, answer: WorkerAnswer) -> None:
        match answer.result:
            case ContentSample():
                self._act(self._duplicates.answered(answer.task.number, answer.result))
            case Hashed(sha256):
                self._act(self._duplicates.answered(answer.task.number, sha256))
            case Slice(index, rows):
                self._add_slice(answer.task.number, index, rows)
            case Analysed(rows, slices):
                self._analysed(answer, rows, slices)
            case Failed(reason):
                self._failed(answer, reason)

    def _act(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, NextStep):
                self._ready.append(decision)
            else:
                self._record_duplicate(decision)

    def _add_slice(self, number: int, index: int, rows: FileRows) -> None:
        if index == 0:
            self._discard(number)  # slices of a worker that died
            self._large_reports[number] = self._writer.new_large_report()
        self._writer.add_slice(self._large_reports[number], rows)

    def _discard(self, number: int) -> None:
        """Drop the slices that have arrived, if there are any."""
        if large_report := self._large_reports.pop(number, None):
            self._writer.discard(large_report)

    def _analysed(self, answer: WorkerAnswer, rows: FileRows, slices: int) -> None:
        number, sha256 = answer.task.number, rows.sha256
        if not slices:  # an earlier attempt may have left some
            self._discard(number)
        owner = self._duplicates.owners.get(sha256) if sha256 else None
        has_run = rows.run is not None
        if sha256 and owner and not self._duplicates.adds_run(number, owner, has_run=has_run):
            self._record_duplicate(Duplicate(number, sha256, owner))
            self._discard(number)
        else:
            self._record_done(answer, rows, self._large_reports.pop(number, None))
        self._act(self._duplicates.finished(number))

    def _record_done(
        self, answer: WorkerAnswer, rows: FileRows, large_report: LargeReport | None
    ) -> None:
        file, count = self._files[answer.task.number], len(rows.launches)
        spent = rows.gpu_us
        if large_report is not None:
            count, spent = count + large_report.launches, spent + large_report.gpu_us
        reason = "; ".join(filter(None, [*rows.notes, rows.table_problem])) or None
        known: dict[str, Any] = {"sha256": rows.sha256, "origin_sha256": rows.origin_sha256}
        known |= {"reason": reason, "launches": count}
        record = _record(file, "done", rows.run, answer=answer, **known)
        if large_report is None:
            self._writer.add(record, rows)
        else:
            self._writer.add_last_slice(record, rows, large_report)
        if rows.sha256:
            table = RunTableFile(record.run_table_size, record.run_table_mtime_ns)
            owner = Owner(record.path, count, table, rows.run, rows.origin_sha256)
            self._duplicates.owners[rows.sha256] = owner
        self.progress = self.progress.plus(
            done=1,
            launches=count,
            gpu_seconds=spent / 1e6,
            **_run_counts(rows.run),
            unused_tables=rows.table_problem is not None,
            noted=bool(rows.notes),
        )

    def _record_duplicate(self, equal: Duplicate) -> None:
        """A file that was only touched or moved is done: the store has its rows. Other files with
        equal content are duplicates."""
        file, owner = self._files[equal.number], equal.of
        if self._duplicates.is_successor(equal.number, owner):
            known: dict[str, Any] = {"sha256": equal.sha256, "origin_sha256": owner.origin_sha256}
            self._writer.add(_record(file, "done", owner.run, launches=owner.launches, **known))
            self._duplicates.owners[equal.sha256] = owner._replace(path=storable(file.path))
            self.progress = self.progress.plus(done=1, **_run_counts(owner.run))
            return
        reason, of = f"it is equal to {one_line(owner.path)}", owner.path
        record = _record(file, "duplicate", sha256=equal.sha256, duplicate_of=of, reason=reason)
        self._writer.add(record)
        self.progress = self.progress.plus(duplicates=1)

    def _failed(self, answer: WorkerAnswer, reason: str) -> None:
        number = answer.task.number
        self._discard(number)
        sha256 = self._duplicates.hashes.get(number)
        self._writer.add(failed_record(self._files[number], reason, answer, sha256=sha256))
        self.progress = self.progress.plus(failed=1)
        if answer.task.step != "analyse":
            self._act(self._duplicates.answered(number, None))
        self._act(self._duplicates.finished(number))


def _run_counts(run: RunTotals | None) -> dict[str, int]:
    """What one file adds to `BatchProgress`."""
    return {"runs": run is not None, "timed_runs": run is not None and run.has_timed_launch}


def _record(
    file: ReportFile,
    status: str,
    run: RunTotals | None = None,
    *,
    answer: WorkerAnswer | None = None,
    **known: Any,
) -> FileRecord:
    """With the size and time that the worker saw: the file may have changed since it was listed.
    `known`: other fields."""
    seen = answer and answer.seen
    state = seen or FileState(file.size, file.mtime_ns, *file.table)
    of_run = {f"run_{name}": value for name, value in run._asdict().items()} if run else {}
    seconds = answer.seconds if answer else None
    bare = bare_record(storable(file.path), status)
    return bare._replace(seconds=seconds, **state._asdict(), **of_run, **known)


def failed_record(
    file: ReportFile, reason: str, answer: WorkerAnswer | None = None, **known: Any
) -> FileRecord:
    return _record(file, "failed", answer=answer, reason=reason, **known)


def write_quarantine(out: Path) -> list[Failure]:
    """Write all failed files of the store and their reasons into one file."""
    path, failed = out / QUARANTINE, failures(out)
    if not failed:
        path.unlink(missing_ok=True)
        return failed
    with replacing_text(path) as write:
        for failure in failed:
            write(f"{one_line(failure.path)}\t{failure.reason}\n")
    return failed
