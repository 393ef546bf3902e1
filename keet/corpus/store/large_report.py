"""Collects the slices of a large report until it is finished, with bounded memory.

A part contains all rows of its reports. While a report has few slices, they are kept in memory.
Many slices are written into a temporary folder, and combined when the last one has arrived.
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
"""Launches in memory per unfinished report."""


class LargeReport:
    """The slices of one report, in order."""

    def __init__(self, out: Path) -> None:
        self._folder = unfinished_folder(out)
        self._written = 0
        self._held: list[FileRows] = []
        self.is_on_disk = False
        """Whether some slices are on disk."""
        self.launches = 0
        self.gpu_us = 0.0

    def add(self, rows: FileRows) -> None:
        self._held.append(rows)
        self.launches += len(rows.launches)
        self.gpu_us += rows.gpu_us

    def overflow(self) -> FileRows | None:
        """Slices to write to disk now, which are dropped from memory; None: there is still room."""
        if sum(len(rows.launches) for rows in self._held) < MOST_HELD:
            return None
        self.is_on_disk = True
        held, self._held = self._held, []
        return joined(held)

    def rest(self, last: FileRows) -> FileRows:
        """The slices that are not on disk, joined with the last one."""
        return joined([*self._held, last])

    # --- on disk

    def write(self, rows: FileRows) -> None:
        """Raises OSError if the disk is full or can't be written."""
        folder = self._folder / f"{self._written:06}"
        folder.mkdir(parents=True)
        write_tables(folder, {name: getattr(rows, name) for name in TABLES_OF_ROWS})
        self._written += 1

    def combine(self, folder: Path) -> None:
        """Combine all written slices into the tables of a part."""
        combine_tables([self._folder / f"{n:06}" for n in range(self._written)], folder)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def joined(slices: Sequence[FileRows]) -> FileRows:
    """Slices of one report as one. Other fields are those of the last slice."""
    return slices[-1]._replace(
        launches=_joined(each.launches for each in slices),
        findings=_joined(each.findings for each in slices),
        account=_joined(each.account for each in slices),
    )


def _joined(tables: Iterable[tuple[Row, ...]]) -> tuple[Row, ...]:
    return tuple(chain.from_iterable(tables))
