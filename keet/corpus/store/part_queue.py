"""Collects finished files and writes them as a part every few seconds, in the background."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from keet.corpus.store.large_report import LargeReport
from keet.corpus.store.part_writer import FileRecord, write_part
from keet.corpus.store.report_rows import FileRows
from keet.errors import KeetError

FIRST_PART_SECONDS, PART_SECONDS = 0.5, 8.0
PART_LAUNCHES = 4_000
"""A part is written after so many seconds or launches, whichever comes first. The interval doubles
from part to part: a short batch that is killed has results, and a long one has few parts."""


class PartQueue:
    """Collects finished files and writes them as parts, one at a time, in a thread."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._records: list[FileRecord] = []
        self._rows: list[FileRows] = []
        self._launches = 0
        self._since = time.monotonic()
        self._interval = FIRST_PART_SECONDS
        self._thread = ThreadPoolExecutor(1, "part-writer")
        self._pending_writes: deque[Future[object]] = deque()
        self._reports: set[LargeReport] = set()

    def add(self, record: FileRecord, rows: FileRows | None = None) -> None:
        if not self._records:
            self._since = time.monotonic()
        self._records.append(record)
        if rows is not None:
            self._rows.append(rows)
            self._launches += len(rows.launches)

    # --- large reports

    def new_large_report(self) -> LargeReport:
        report = LargeReport(self._out)
        self._reports.add(report)
        return report

    def add_slice(self, report: LargeReport, rows: FileRows) -> None:
        report.add(rows)
        overflow = report.overflow()
        if overflow is not None:
            self._submit(report.write, overflow)

    def add_last_slice(self, record: FileRecord, rows: FileRows, report: LargeReport) -> None:
        """A report with slices on disk becomes a part of its own."""
        self._reports.remove(report)
        rest = report.rest(rows)
        if not report.is_on_disk:
            self.add(record, rest)
            return
        self._start()  # keeps the order in which files were finished
        self._submit(write_part, self._out, [record], [rest], report)

    def discard(self, report: LargeReport) -> None:
        self._reports.remove(report)
        self._submit(report.remove)

    # --- parts

    def write_when_due(self) -> None:
        """Raises the error of an earlier part: a full disk ends the batch."""
        while self._pending_writes and self._pending_writes[0].done():
            self._pending_writes.popleft().result()
        waited = time.monotonic() - self._since
        due = waited >= self._interval or self._launches >= PART_LAUNCHES
        if due and not self._pending_writes:
            self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write finished files also if the batch failed, unless writing itself failed."""
        try:
            if kind is None or issubclass(kind, KeetError):
                self.close()
        finally:
            self._thread.shutdown()
            for report in self._reports:
                report.remove()

    def close(self) -> None:
        """Write everything and wait until it is in the store."""
        self._start()
        while self._pending_writes:
            self._pending_writes.popleft().result()

    def _start(self) -> None:
        if not self._records:
            return
        records, rows = self._records, self._rows
        self._records, self._rows, self._launches = [], [], 0
        self._interval = min(2 * self._interval, PART_SECONDS)
        self._submit(write_part, self._out, records, rows)

    def _submit(self, work: Callable[..., object], *arguments: object) -> None:
        self._pending_writes.append(self._thread.submit(work, *arguments))
