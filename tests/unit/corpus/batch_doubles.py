"""What stands in for the analysis in a worker process: each misbehaves in one way."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from keet.corpus.layout import LAUNCH_COLUMNS
from keet.corpus.rows import FileRows
from keet.errors import DamagedReport

HERE = "tests.unit.corpus.batch_doubles"


def rows(path: str) -> FileRows:
    """One launch, whose content is what the file says."""
    known = {
        "report_sha256": Path(path).read_text(),
        "path": path,
        "launch_id": 0,
        "duration_us": 2.0,
    }
    return FileRows((tuple(known.get(name) for name in LAUNCH_COLUMNS),), ())


def by_content(path: str) -> FileRows:
    """Do what the file says."""
    order = Path(path).read_text()
    if order == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif order == "die once":
        Path(path).write_text("fine")
        os.kill(os.getpid(), signal.SIGKILL)
    elif order == "hang":
        time.sleep(600)
    elif order == "leave":
        sys.stderr.write("first words\nlast words\n")
        os._exit(7)
    elif order == "damaged":
        raise DamagedReport(path, "its bytes\nare wrong", "copy it again")
    elif order == "bug":
        raise KeyError("no such thing")
    elif order == "print":
        print("noise among the answers")  # noqa: T201 - that is the point
        os.write(1, b"more noise")
    return rows(path)


def slowly(path: str) -> FileRows:
    """The real thing with a pause, so that a kill finds something to kill on a machine of any speed."""
    from keet.cli.batch import analyse

    time.sleep(0.03)
    return analyse(path)


_held: list[bytearray] = []


def leak(path: str) -> FileRows:
    _held.append(bytearray(40 << 20))
    return rows(path)


def kill_dask_worker(path: str) -> FileRows:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
    return rows(path)


if __name__ == "__main__":
    import keet.cli.batch
    from keet.cli import main

    keet.cli.batch.ANALYSE = sys.argv.pop(1)
    sys.exit(main(sys.argv[1:]))
