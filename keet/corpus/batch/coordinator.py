"""`keet batch`: a tree of reports into a store, resumable at any moment.

What is through is written as a part every few seconds (`part_queue`); whoever kills the run loses
what came after the last one. Nothing is remembered but the store: the next run looks there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from keet.corpus.batch.duplicates import ContentKey, Decision, Duplicate, DuplicateTracker, NextStep
from keet.corpus.batch.messages import (
    Analysed,
    ContentSample,
    Failed,
    Hashed,
    Slice,
    Step,
    Task,
    WorkerAnswer,
)
from keet.corpus.batch.resume import Owner, StoredContent, failures
from keet.corpus.discovery import ReportFile, RunTableFile
from keet.corpus.store.large_report import LargeReport
from keet.corpus.store.part_queue import PartQueue
from keet.corpus.store.part_writer import FileRecord
from keet.corpus.store.report_rows import FileRows, RunTotals
from keet.corpus.store.schema import storable, utc_now
from keet.errors import one_line
from keet.files import replacing_text
from keet.records import NamedTuple
from keet.version import __version__

QUARANTINE = "quarantine.txt"


class BatchProgress(NamedTuple):
    """How far a run is."""

    files: int
    """To be done in this run; `settled` ones are not among them."""
    done: int = 0
    failed: int = 0
    duplicates: int = 0
    launches: int = 0
    gpu_seconds: float = 0.0
    """Of the launches that say how long they took."""
    runs: int = 0
    """Files whose whole run is known."""
    placed: int = 0
    """Of `runs`, those with a launch whose time in the run is known."""
    unused_tables: int = 0
    """Files beside which a table of a run lies that is not theirs, or damaged."""
    noted: int = 0
    """Files with a note: launches may be missing, or values are rounded."""
    seconds: float = 0.0
    workers: int = 0
    """Processes started so far: more than `jobs` where some died or were replaced."""
    worker_memory: int = 0
    """The most bytes that a worker held after a file."""
    stopped: bool = False

    @property
    def through(self) -> int:
        return self.done + self.failed + self.duplicates

    def plus(self, **more: Any) -> BatchProgress:
        """`more`: numbers, by the name of the field that they are added to."""
        return self._replace(**{name: getattr(self, name) + added for name, added in more.items()})

    @property
    def seconds_left(self) -> float | None:
        if not self.through:
            return None
        return self.seconds / self.through * (self.files - self.through)


class Workers(Protocol):
    """What `Pool` does, for this module."""

    started: int
    most_memory: int

    def room(self) -> int: ...
    def submit(self, task: Task) -> None: ...
    def wait(self, seconds: float) -> list[WorkerAnswer]: ...


class Batch:
    """One run: files in, records and rows out."""

    def __init__(
        self,
        files: Sequence[ReportFile],
        kept: StoredContent,
        workers: Workers,
        writer: PartQueue,
    ) -> None:
        self._files, self._workers, self._writer = files, workers, writer
        self._claims = DuplicateTracker(files, kept)
        self._next = 0
        self._ready: deque[NextStep] = deque()
        self._equal: dict[int, Duplicate] = {}
        """Snapshots of reports that are kept: read to see that they are whole, not to be kept."""
        self._pieces: dict[int, LargeReport] = {}
        """Large reports that a worker is at."""
        self._start = time.monotonic()
        self._stop = False
        self.tally = BatchProgress(len(files))

    def stop(self) -> None:
        """What is through is written; what is under way is not waited for."""
        self._stop = True

    def run(self, tell: Callable[[BatchProgress], None]) -> BatchProgress:
        while self.tally.through < len(self._files) and not self._stop:
            self._feed()
            for answer in self._workers.wait(0.5):
                self._take(answer)
            self._writer.write_when_due()
            self._look_around()
            tell(self._with_pieces())
        return self.tally

    def _look_around(self) -> None:
        self.tally = self.tally._replace(
            seconds=time.monotonic() - self._start,
            workers=self._workers.started,
            worker_memory=self._workers.most_memory,
            stopped=self._stop,
        )

    def _with_pieces(self) -> BatchProgress:
        """With launches of reports that are not through."""
        return self.tally.plus(launches=sum(each.launches for each in self._pieces.values()))

    # --- tasks out

    def _feed(self) -> None:
        """Those that were decided come first: others may wait for them."""
        while self._workers.room() > 0:
            if self._ready:
                self._submit(*self._ready.popleft())
            elif self._next < len(self._files):
                self._next += 1
                self._begin(self._next - 1)
            else:
                return

    def _begin(self, number: int) -> None:
        step, behind = self._claims.first_step(number), self._files[number].behind
        if behind is None or step == "analyse":
            self._submit(number, step)
        else:
            self._learned(number, behind.sha256)

    def _submit(self, number: int, step: Step) -> None:
        file = self._files[number]
        self._workers.submit(Task(number, step, file.path, file.size))

    # --- answers in

    def _take(self, answer: WorkerAnswer) -> None:
        match answer.result:
            case ContentSample():
                self._learned(answer.task.number, answer.result)
            case Hashed(sha256):
                self._learned(answer.task.number, sha256)
            case Slice(index, rows):
                self._add_slice(answer.task.number, index, rows)
            case Analysed(rows, slices):
                self._analysed(answer, rows, slices)
            case Failed(reason):
                self._failed(answer, reason)

    def _learned(self, number: int, known: ContentKey | None) -> None:
        for decision in self._claims.answered(number, known):
            self._act(decision)

    def _act(self, decision: Decision) -> None:
        match decision:
            case NextStep():
                self._ready.append(decision)
            case Duplicate(number) if self._files[number].behind is not None:
                self._equal[number] = decision
                self._ready.append(NextStep(number, "analyse"))
            case Duplicate(number):
                self._record_equal(number, decision)

    def _add_slice(self, number: int, index: int, rows: FileRows) -> None:
        if index == 0:
            self._discard(self._pieces.pop(number, None))  # of a worker that died
            self._pieces[number] = self._writer.new_pieces()
        self._writer.add_piece(self._pieces[number], rows)

    def _discard(self, pieces: LargeReport | None) -> None:
        if pieces is not None:
            self._writer.discard(pieces)

    def _analysed(self, answer: WorkerAnswer, rows: FileRows, slices: int) -> None:
        number, sha256 = answer.task.number, rows.sha256
        if not slices:  # a worker may have died over what the file was before
            self._discard(self._pieces.pop(number, None))
        equal, pieces = self._equal.pop(number, None), self._pieces.pop(number, None)
        owner = self._claims.owner(sha256) if sha256 else None
        if equal is None and owner is not None and sha256 is not None:
            equal = Duplicate(number, sha256, owner)
        if equal is not None and not self._claims.adds(number, equal.of, rows.run):
            self._record_equal(number, equal)
            self._discard(pieces)
        else:
            self._record_done(answer, rows, pieces)
        self._finish(number)

    def _record_done(
        self, answer: WorkerAnswer, rows: FileRows, pieces: LargeReport | None
    ) -> None:
        file, count = self._files[answer.task.number], len(rows.launches)
        spent = rows.gpu_us
        if pieces is not None:
            count, spent = count + pieces.launches, spent + pieces.gpu_us
        record = _in_run(_record(file, "done", sha256=rows.sha256, launches=count), rows.run)
        record = _as_seen(record._replace(reason=_reason(rows)), answer)
        if pieces is None:
            self._writer.add(record, rows)
        else:
            self._writer.add_last_piece(record, rows, pieces)
        if rows.sha256:
            table = RunTableFile(record.run_table_size, record.run_table_mtime_ns)
            self._claims.keep(rows.sha256, Owner(record.path, count, table, rows.run))
        self.tally = self.tally.plus(
            done=1,
            launches=count,
            gpu_seconds=spent / 1e6,
            **_run_counts(rows.run),
            unused_tables=rows.table_problem is not None,
            noted=bool(rows.notes),
        )

    def _record_equal(self, number: int, equal: Duplicate) -> None:
        """A file that was merely touched is done as it was, and one that was moved takes over from
        where it was; the rows are there."""
        file, owner = self._files[number], equal.of
        if self._claims.is_successor(number, owner):
            record = _record(file, "done", sha256=equal.sha256, launches=owner.launches)
            self._writer.add(_in_run(record, owner.run))
            self._claims.keep(equal.sha256, owner._replace(path=storable(file.path)))
            self.tally = self.tally.plus(done=1, **_run_counts(owner.run))
            return
        record = _record(file, "duplicate", sha256=equal.sha256, duplicate_of=owner.path)
        self._writer.add(record._replace(reason=f"it is equal to {one_line(owner.path)}"))
        self.tally = self.tally.plus(duplicates=1)

    def _failed(self, answer: WorkerAnswer, reason: str) -> None:
        number = answer.task.number
        self._equal.pop(number, None)
        self._discard(self._pieces.pop(number, None))
        record = failed_record(self._files[number], reason)
        record = record._replace(sha256=self._claims.hash_of(number))
        self._writer.add(_as_seen(record, answer))
        self.tally = self.tally.plus(failed=1)
        if answer.task.step != "analyse":
            self._learned(number, None)
        self._finish(number)

    def _finish(self, number: int) -> None:
        for decision in self._claims.finished(number):
            self._act(decision)


def _reason(rows: FileRows) -> str | None:
    """What to know of a file that is done."""
    return "; ".join([*rows.notes, *([rows.table_problem] if rows.table_problem else [])]) or None


def _run_counts(run: RunTotals | None) -> dict[str, int]:
    """Of one file, for the tally."""
    return {"runs": run is not None, "placed": run is not None and run.has_timed_launch}


def _record(
    file: ReportFile,
    status: str,
    sha256: str | None = None,
    duplicate_of: str | None = None,
    launches: int | None = None,
) -> FileRecord:
    return FileRecord(
        path=storable(file.path),
        size=file.size,
        mtime_ns=file.mtime_ns,
        sha256=sha256,
        status=status,
        reason=None,
        duplicate_of=duplicate_of,
        launches=launches,
        seconds=None,
        keet=__version__,
        recorded=utc_now(),
        run_table_size=file.table.size,
        run_table_mtime_ns=file.table.mtime_ns,
    )


def _in_run(record: FileRecord, run: RunTotals | None) -> FileRecord:
    if run is None:
        return record
    return record._replace(
        run_total_us=run.total_us,
        run_unprofiled_us=run.unprofiled_us,
        run_overlap_known=run.overlap_known,
    )


def failed_record(file: ReportFile, reason: str) -> FileRecord:
    return _record(file, "failed")._replace(reason=reason)


def _as_seen(record: FileRecord, answer: WorkerAnswer) -> FileRecord:
    """The file as the worker found it, which may be newer than when it was listed."""
    seconds = record._replace(seconds=answer.seconds)
    return seconds._replace(**answer.seen._asdict()) if answer.seen else seconds


def write_quarantine(out: Path) -> int:
    """Say in one file which reports of the store failed, and why; how many there are."""
    path, failed = out / QUARANTINE, failures(out)
    if not failed:
        path.unlink(missing_ok=True)
        return 0
    with replacing_text(path) as write:
        for failure in failed:
            write(f"{one_line(failure.path)}\t{failure.reason}\n")
    return len(failed)
