"""Folders of parts that are being written, and the removal of those whose writer died."""

from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path

from keet.corpus.store.schema import UNFINISHED, new_part_id

_ABANDONED_SECONDS = 24 * 3600
"""A folder of another host that has not changed for so long is abandoned."""


def unfinished_folder(out: Path) -> Path:
    """A new name for a part that is being written. The name holds host and process, so that
    `remove_abandoned` can tell whether the writer is still alive."""
    return out / f"{UNFINISHED}{socket.gethostname()}-{os.getpid()}-{new_part_id()}"


def remove_abandoned(out: Path) -> int:
    """Delete unfinished parts of processes that died; returns how many there were."""
    folders = [f for f in out.glob(f"{UNFINISHED}*") if f.is_dir() and _is_abandoned(f)]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return len(folders)


def _is_abandoned(folder: Path) -> bool:
    host, pid, *_ = [*folder.name.removeprefix(UNFINISHED).rsplit("-", 4)[:2], "", ""]
    if host == socket.gethostname() and pid.isdecimal() and not _is_alive(int(pid)):
        return True
    try:
        return time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS
    except FileNotFoundError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
