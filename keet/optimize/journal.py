"""The state of an optimization on disk: one file per finished step, written atomically.

A step whose file is there is not done again. So a run that was killed at any moment continues with
the first step that has no file, and ends with the same result.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keet.errors import NotAvailable, UsageError, reason_of
from keet.evidence import Reference, Sentence, constant
from keet.files import replacing
from keet.optimize.task import Waiting

Document = dict[str, Any]
_LARGEST = 64 * 2**20


class Journal:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For the time of a run: two runs in one folder would do the same steps. The lock ends with
        the process, however it ends."""
        with _writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / "lock").open("a")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(
                    f"{self.folder}: another keet optimize works in it; wait for it, or name "
                    "another folder with --folder"
                ) from None
            with _writing(self.folder):
                yield

    def step(self, name: str, make: Callable[[], Document]) -> Document:
        """What the step had as its result, or has now. `name` is a path: `rounds/01/proposal`."""
        known = self.read(name)
        if known is not None:
            return known
        began = time.monotonic()
        document = make()
        document.setdefault("seconds", round(time.monotonic() - began, 3))
        self.write(name, document)
        return self.read(name) or document

    def read(self, name: str) -> Document | None:
        """Raises UsageError for a file that is not the journal's."""
        path = self._path(name)
        try:
            if path.stat().st_size > _LARGEST:
                raise ValueError
            found = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise ValueError
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            raise UsageError(
                f"{path}: it is damaged; remove it to repeat this step, then run the command again"
            ) from None
        return found

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        self.write_file(f"{name}.json", json.dumps(document, indent=1) + "\n")

    def write_file(self, name: str, text: str | bytes) -> None:
        """A file for people, or for the next step; it appears when it is complete."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        with replacing(path) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def forget(self, name: str) -> None:
        """The step is done again."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def written_sentence(sentence: Sentence) -> list[Any]:
    """Its parts: words, and numbers with their evidence."""
    return [
        [part.text, *part.evidence[2:5]] if isinstance(part, Reference) and part.evidence else part
        for part in sentence.parts
    ]


def read_sentence(parts: list[Any]) -> Sentence:
    return Sentence.of(
        part if isinstance(part, str) else Reference(part[0], (), evidence=constant(*part[1:4]))
        for part in parts
    )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turns a full disk into one line; nothing that was finished is lost."""
    try:
        yield
    except (Waiting, NotAvailable, UsageError):
        raise
    except OSError as problem:
        reason = reason_of(problem)
        where = problem.filename or folder
        raise NotAvailable(
            f"{where}: it can't be written or read ({reason}); finished steps are kept: remove the "
            "cause, for example by freeing disk space, and run the same command again"
        ) from None
