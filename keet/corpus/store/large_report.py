"""Rows of a large report on their way into the store: memory holds a bounded number of them.

A part appears whole, with all rows of its reports. Slices of a report that is not through yet are
held in memory while they are few. When they are many, they are written into a folder of their own,
which nobody reads, and are put together when the last one is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from keet.corpus.store.parquet_tables import TABLES_OF_ROWS, combine_tables, write_tables
from keet.corpus.store.report_rows import FileRows, Row
from keet.corpus.store.unfinished import unfinished_folder

MOST_HELD = 1_024
"""Launches in memory, for each report that a worker is at."""


class LargeReport:
    """Slices of one report, in their order."""

    def __init__(self, out: Path) -> None:
        self._folder = unfinished_folder(out)
        self._written = 0
        self._held: list[FileRows] = []
        self.is_on_disk = False
        """Whether some of it is on disk."""
        self.launches = 0
        self.gpu_us = 0.0

    def add(self, rows: FileRows) -> None:
        self._held.append(rows)
        self.launches += len(rows.launches)
        self.gpu_us += rows.gpu_us

    def overflow(self) -> FileRows | None:
        """What is to be written now, and is no longer held."""
        if sum(len(rows.launches) for rows in self._held) < MOST_HELD:
            return None
        self.is_on_disk = True
        held, self._held = self._held, []
        return joined(held)

    def rest(self, last: FileRows) -> FileRows:
        """What is not on disk, with the slice that ends the report."""
        return joined([*self._held, last])

    # --- on disk

    def write(self, rows: FileRows) -> None:
        """Raises OSError where the disk does not take them."""
        folder = self._folder / f"{self._written:06}"
        folder.mkdir(parents=True)
        write_tables(folder, {name: getattr(rows, name) for name in TABLES_OF_ROWS})
        self._written += 1

    def combine(self, folder: Path) -> None:
        """All that was written, as the tables of a part."""
        combine_tables([self._folder / f"{n:06}" for n in range(self._written)], folder)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def joined(slices: Sequence[FileRows]) -> FileRows:
    """Of one report; what is not rows is as the last slice has it."""
    return slices[-1]._replace(
        launches=_joined(each.launches for each in slices),
        findings=_joined(each.findings for each in slices),
        account=_joined(each.account for each in slices),
    )


def _joined(tables: Iterable[tuple[Row, ...]]) -> tuple[Row, ...]:
    return tuple(chain.from_iterable(tables))
