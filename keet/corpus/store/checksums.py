"""The size and CRC-32 of each table of a part, kept beside the tables: shows damage for certain.

A damaged page may decode to other values without an error. A CRC-32 is seven times as fast as a
SHA-256 here, and who forges a table can forge its checksum too.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from keet.files import replacing
from keet.formatting import count_noun

CHECKSUMS = "checksums.json"
_MOST_BYTES = 10_000
_CHUNK = 1 << 20


class TableChecksum(NamedTuple):
    size: int
    crc32: int


def table_file(part: Path, table: str) -> Path:
    return part / f"{table}.parquet"


def write_checksums(part: Path, tables: Sequence[str]) -> None:
    """Raises OSError."""
    sums = {name: _checksum(table_file(part, name))._asdict() for name in tables}
    with replacing(part / CHECKSUMS) as file:
        file.write(f"{json.dumps(sums)}\n".encode())


def read_checksums(part: Path) -> dict[str, TableChecksum]:
    """By table. Empty if an older keet wrote the part, or if the file is damaged."""
    try:
        found = json.loads(read_regular(part / CHECKSUMS, _MOST_BYTES))
        return {
            name: TableChecksum(int(one["size"]), int(one["crc32"])) for name, one in found.items()
        }
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        OverflowError,
    ):
        return {}


def read_regular(path: Path, most: int) -> bytes:
    """The first bytes of a file. Raises OSError, and ValueError for a pipe or device, which may
    have no end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is not a regular file")
    with path.open("rb") as file:
        return file.read(most)


def file_problem(path: Path, known: TableChecksum | None) -> str | None:
    """What can be seen without reading the file; None: nothing. Raises PermissionError: a file that
    this user may not read is not damaged."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return "is missing"
    except PermissionError:
        raise
    except OSError as problem:
        return f"can't be read ({problem.strerror})"
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"  # duckdb reads no link that leaves the store
    if known is not None and found.st_size != known.size:
        return f"has {count_noun(found.st_size, 'byte')} instead of {known.size:,}"
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return None


def content_problem(path: Path, known: TableChecksum) -> str | None:
    try:
        return None if _checksum(path) == known else "was changed after it was written"
    except OSError as problem:
        return f"can't be read ({problem.strerror})"


def _checksum(path: Path) -> TableChecksum:
    size = crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return TableChecksum(size, crc)
