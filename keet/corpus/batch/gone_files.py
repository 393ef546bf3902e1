"""Finds files of the store that no longer exist, and records them as `gone` (--prune).

A file is gone if the system says that it does not exist. A file that can't be reached (no
permission, a server that does not answer) is not gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from keet.corpus.discovery import ReportFile
from keet.corpus.sharding import WHOLE, Shard
from keet.corpus.store.part_writer import FileRecord, write_part
from keet.corpus.store.reader import Store, open_manifest
from keet.corpus.store.schema import STORE_FILE, storable, utc_now
from keet.version import __version__

_BYTE = re.compile(r"\\udc([89a-f][0-9a-f])")
"""How `storable` writes a byte of a file name that is not valid UTF-8."""


class SearchRoot(NamedTuple):
    """A file or folder on the command line."""

    path: str
    """Absolute, as in `discovery`."""

    def relative(self, path: str) -> str | None:
        """None if `path` is not below it."""
        if path == self.path:
            return os.path.basename(path)  # noqa: PTH119 - as in `discovery`
        start = self.path.rstrip(os.sep) + os.sep
        return path.removeprefix(start) if path.startswith(start) else None


def search_root(path: Path) -> SearchRoot:
    return SearchRoot(storable(os.path.abspath(path)))  # noqa: PTH100 - Path.absolute keeps `..`


def is_gone(stored: str) -> bool:
    """`stored`: a path as the store has it, see `storable`."""
    return all(map(_is_absent, {stored, as_named(stored)}))


def as_named(stored: str) -> str:
    """The real path of a file whose name is not valid UTF-8."""
    return _BYTE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), stored)


def _is_absent(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def find_gone(
    out: Path, places: Sequence[Path], present: Sequence[ReportFile], shard: Shard = WHOLE
) -> list[str]:
    """Paths in the store below `places` that no longer exist. `present`: files known to exist."""
    if not (out / STORE_FILE).exists():
        return []
    with open_manifest(out) as store:
        known = _known(store, present) if store.part_count else []
    named = [search_root(place) for place in places]
    return [path for path in known if _is_mine(path, named, shard) and is_gone(path)]


def _known(store: Store, present: Sequence[ReportFile]) -> list[str]:
    there = {storable(file.path) for file in present}
    rows = store.stream("SELECT path FROM files WHERE status <> 'gone' ORDER BY path")
    return [path for (path,) in rows if path not in there]


def _is_mine(path: str, places: Sequence[SearchRoot], shard: Shard) -> bool:
    relatives = (place.relative(path) for place in places)
    return any(each is not None and shard.has(as_named(each)) for each in relatives)


def record_gone(out: Path, paths: Sequence[str]) -> None:
    """From then on the views hide content that only these files had."""
    if paths:
        write_part(out, [_record(path) for path in paths], [])


def _record(path: str) -> FileRecord:
    return FileRecord(
        path=path,
        size=None,
        mtime_ns=None,
        sha256=None,
        status="gone",
        reason="the file no longer exists",
        duplicate_of=None,
        launches=None,
        seconds=None,
        keet=__version__,
        recorded=utc_now(),
    )
