"""Fake analyses for worker processes: each one fails in a certain way."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from keet.corpus.store.report_rows import FileRows
from keet.corpus.store.schema import LAUNCH_COLUMNS
from keet.errors import DamagedReport


def rows(path: str) -> FileRows:
    """One launch, whose content is what the file says."""
    sha256 = Path(path).read_text()
    known = {"report_sha256": sha256, "path": path, "launch_id": 0, "duration_us": 2.0}
    return FileRows((tuple(known.get(name) for name in LAUNCH_COLUMNS),), ())


def by_content(path: str) -> Iterator[FileRows]:
    """Do what the file says."""
    order = Path(path).read_text()
    if order.startswith("die"):
        if order == "die once":
            Path(path).write_text("fine")
        os.kill(os.getpid(), signal.SIGKILL)
    elif order == "hang":
        Path(f"{path}.begun").touch()
        time.sleep(3600)  # longer than any test may take
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
    yield rows(path)


SLICES = 5


def sliced(path: str) -> Iterator[FileRows]:
    """One launch in each slice; the file says what happens after the third."""
    for number in range(SLICES):
        if number == 3:
            list(by_content(path))
        yield launch_rows(path, number)


def sliced_at_first(path: str) -> Iterator[FileRows]:
    """The worker dies over a large report, which is a small one when it is read again."""
    return iter([launch_rows(path, 0)]) if Path(path).read_text() == "fine" else sliced(path)


def launch_rows(path: str, number: int) -> FileRows:
    ((sha256, _, _, *cells),) = rows(path).launches
    finding = (sha256, number, 1, "id", *[None] * 11)
    part = (sha256, number, "part", None, "label", True, 0.5, None)
    return FileRows(((sha256, path, number, *cells),), (finding,), (part,))


TICKETS = "TESTS_TICKETS"
"""Names a folder: each file in it lets one report be analysed."""


def with_a_ticket(path: str) -> Iterator[FileRows]:
    """The real thing, which waits when no ticket is left: a run that has fewer tickets than files
    can't end before it is killed, however late that is."""
    from keet.corpus.batch.worker import analyse

    folder = Path(os.environ[TICKETS])
    while not any(_taken(ticket) for ticket in folder.iterdir()):
        time.sleep(0.02)
    return analyse(path)


def _taken(ticket: Path) -> bool:
    """Another worker may be faster."""
    with suppress(FileNotFoundError):
        ticket.unlink()
        return True
    return False


def hand_out(folder: Path, count: int) -> dict[str, str]:
    """New tickets in place of those that are left; the environment that names them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in range(count):
        (folder / str(number)).touch()
    return {**os.environ, TICKETS: str(folder)}


_held: list[bytearray] = []


def leak(path: str) -> Iterator[FileRows]:
    _held.append(bytearray(40 << 20))
    yield rows(path)


def of_another_version(path: str) -> Iterator[FileRows]:
    """Rows of a class that the run does not know, as after an update of keet while it runs."""
    module = ModuleType("keet_of_tomorrow")
    module.Row = type("Row", (tuple,), {"__module__": module.__name__})  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    yield FileRows((module.Row(),), ())


def kill_dask_worker(path: str) -> Iterator[FileRows]:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
    yield rows(path)


def cannot_be_imported(path: str) -> Iterator[FileRows]:
    """A worker fails at the import of its module."""
    yield rows(path)


cannot_be_imported.__module__ = "no.such.module"


if __name__ == "__main__":
    from keet.cli import main
    from keet.corpus.batch import worker
    from tests.unit.corpus import fake_analyses

    worker.analyse = getattr(fake_analyses, sys.argv.pop(1))
    sys.exit(main(sys.argv[1:]))
