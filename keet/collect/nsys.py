"""A plain run recorded by Nsight Systems, read from its SQLite export."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from keet.collect.recorder import NoRecorder
from keet.profile.timeline import Record

_KERNELS = """
SELECT names.value, readable.value, gridX, gridY, gridZ, blockX, blockY, blockZ, start, end,
    deviceId, globalPid, correlationId
FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel
LEFT JOIN StringIds AS names ON names.id = coalesce(kernel.mangledName, kernel.demangledName)
LEFT JOIN StringIds AS readable ON readable.id = kernel.demangledName
"""


def profile_command(program: Sequence[str], report: Path) -> list[str]:
    """CUDA alone: sampling and other traces would slow the program down."""
    return [
        find_nsys(),
        "profile",
        *("--trace", "cuda", "--sample", "none", "--cpuctxsw", "none"),
        *("--force-overwrite", "true", "--output", str(report)),
        *program,
    ]


def export_command(report: Path, database: Path) -> list[str]:
    options = ("--type", "sqlite", "--force-overwrite", "true", "--output", str(database))
    return [find_nsys(), "export", *options, str(report)]


def find_nsys() -> str:
    found = shutil.which("nsys")
    if found is None:
        raise NoRecorder("nsys is not installed")
    return found


def read_export(database: Path) -> list[Record]:
    """The launches of an export; none where it has no table of kernels."""
    try:
        with closing(
            sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)
        ) as connection:
            rows = connection.execute(_KERNELS).fetchall()
    except sqlite3.Error as problem:
        if "no such table" in str(problem):
            return []
        raise NoRecorder(f"the export of nsys can't be read ({problem})") from None
    return [_record(row) for row in rows]


def _record(row: Sequence[Any]) -> Record:
    name, full, *numbers = row
    gx, gy, gz, bx, by, bz, start, end, device, process, order = map(int, numbers)
    return Record(
        str(name or full or "?"),
        str(full or name or "?"),
        (gx, gy, gz),
        (bx, by, bz),
        start,
        end,
        device,
        process,
        order,
    )
