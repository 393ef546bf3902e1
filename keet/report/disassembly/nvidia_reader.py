"""Asks NVIDIA's reader (`ncu-report`) for SASS text, in a child process.

In keet's own process it leaks memory, crashes on damaged code, hangs after a fork and returns
nothing for bad files (docs/decisions/0002). So each request starts a short-lived child with limits
on time and memory, on a private copy of exactly the bytes that keet has checked.

They exchange files in a private folder: keet writes the report's bytes and the question, the child
its answer and its messages. With files instead of pipes the child never waits for keet, which can
do other work until it needs the answer. The only pipe is the child's stdin: when it closes, the
child knows that keet has exited.
"""

from __future__ import annotations

import json
import os
import sys
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keet.errors import ReaderFailed
from keet.evidence import Sentence, constant
from keet.profile import Absent

if TYPE_CHECKING:
    import subprocess


# nvidia_reader_child.py has the first two names, too.
REPORT, QUESTION = "report.ncu-rep", "question.json"
_ANSWER, _MESSAGES = "answer.json", "messages.txt"


class _Resources:
    """What has to be cleaned up, even if `ReaderProcess` is never closed."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.folder: str | None = None
        self.process: subprocess.Popen[bytes] | None = None


class ReaderProcess:
    """A running child. `answer` waits for it.

    The child is ended and its folder removed after `answer`; if `answer` is never called, when the
    object is garbage-collected, at the latest when keet exits.
    """

    def __init__(
        self, script: Path, data: bytes, question: Mapping[str, Any], seconds: float
    ) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._problem: str | None = None
        self._resources = _Resources()
        self._finalizer = weakref.finalize(self, _release, self._resources)
        try:
            self._start(script, data, json.dumps({"seconds": seconds, **question}))
        except OSError as problem:
            self._problem = f"it could not be started ({problem})"
            self.close()
        except BaseException:
            self.close()
            raise

    def _start(self, script: Path, data: bytes, question: str) -> None:
        import subprocess
        import tempfile

        folder = self._resources.folder = tempfile.mkdtemp(prefix="keet-")
        place = Path(folder)
        (place / REPORT).write_bytes(data)
        (place / QUESTION).write_text(question, encoding="utf-8")
        with (place / _ANSWER).open("xb") as answer, (place / _MESSAGES).open("xb") as messages:
            self._resources.process = subprocess.Popen(
                [sys.executable, "-I", str(script), folder],
                stdin=subprocess.PIPE,
                stdout=answer,
                stderr=messages,
            )

    def answer(self) -> Any:
        """Wait for the answer. Raises `ReaderFailed` for any failure. Call it once."""
        try:
            return self._answer()
        finally:
            self.close()

    def _answer(self) -> Any:
        process, folder = self._resources.process, self._resources.folder
        if process is None or folder is None:
            raise failed(self._problem or "it was closed")
        if not self._wait(process):
            limit = constant(self._seconds, "s", "time limit of NVIDIA's reader")
            raise failed(Sentence("it did not answer within {limit:.0f}", limit=limit))
        try:
            if process.returncode != 0:
                messages = (Path(folder) / _MESSAGES).read_text("utf-8", errors="replace")
                raise failed(_exit_reason(process.returncode, messages))
            return json.loads((Path(folder) / _ANSWER).read_bytes())
        except (OSError, ValueError):
            raise failed("its answer could not be parsed") from None

    def _wait(self, process: subprocess.Popen[bytes]) -> bool:
        """False on timeout. `Popen.wait` with a timeout polls every 50 ms only, so a timer thread
        enforces the limit."""
        import threading

        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(max(self._deadline - time.monotonic(), 0.0), expire)
        timer.daemon = True
        timer.start()
        try:
            process.wait()
        finally:
            timer.cancel()
        return not expired.is_set()

    def close(self) -> None:
        """End the child if it still runs, and remove its folder."""
        self._finalizer()


def _release(resources: _Resources) -> None:
    if resources.owner != os.getpid():  # a forked copy of keet must not end its parent's child
        return
    process, folder = resources.process, resources.folder
    resources.process = resources.folder = None
    if process is not None:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    if folder is not None:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _exit_reason(code: int, messages: str) -> Sentence:
    if code < 0:
        return Sentence("it was killed by signal {signal}", signal=str(-code))
    last = messages.strip().splitlines()[-1:]
    if last:
        return Sentence("it failed with {message}", message=repr(last[0]))
    return Sentence("it failed with code {code}", code=str(code))


def failed(problem: str) -> ReaderFailed:
    return ReaderFailed(
        "ncu-report",
        Sentence("NVIDIA's reader gave no answer: {problem}", problem=problem),
        "the values are unaffected; for the code, open the report in Nsight Compute",
    )


PACKAGE = "ncu-report"
SECONDS = 120.0
MEGABYTES = 4096
_WORTH_A_CHILD = 2500
"""Addresses per child. With twice as many, a second child saves about 0.2 s."""
_MOST_CHILDREN = 3
_CHILD = Path(__file__).with_name("nvidia_reader_child.py")
_UNKNOWN_CODE = "???"
"""What NVIDIA's reader returns for code of a GPU that it no longer supports."""


def installed_version() -> str | None:
    """The version of NVIDIA's reader, without loading it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def reader_identity() -> str | None:
    """The version of the installed reader, for the key of the SASS cache; None if there is none.

    Taken from the name of the package's metadata folder, because `importlib.metadata` takes 30 ms.
    A reader without such a folder (of an Nsight Compute installation) is identified by the size and
    time of its file.
    """
    spec = find_spec("ncu_report")
    if spec is None or spec.origin is None:
        return None
    try:
        module = Path(spec.origin)
        known = module.stat()
        names = [path.name for path in module.parent.parent.iterdir()]
    except OSError:
        return None
    start, end = "ncu_report-", ".dist-info"
    folders = [n for n in names if n.startswith(start) and n.endswith(end)]
    return folders[0][len(start) : -len(end)] if folders else f"{known.st_size}-{known.st_mtime_ns}"


class Disassembly:
    """A request for SASS text that runs in the background.

    A child takes up to 0.7 s for its first instruction (it builds tables of the instruction set)
    and 70 us for each further one, so a large request is split over several children.
    """

    def __init__(self, data: bytes, questions: Mapping[int, Sequence[int]]) -> None:
        """`questions`: the addresses to disassemble, by launch number."""
        self._launches = tuple(questions)
        self._running = [
            (tuple(part), _start(data, {"addresses": {str(n): pcs for n, pcs in part.items()}}))
            for part in _parts(questions)
        ]

    def texts(self) -> dict[int, Mapping[int, str] | Absent]:
        """Wait for the answer. A failure of the reader gives `Absent` and raises nothing."""
        texts_of: dict[int, dict[int, str]] = {launch: {} for launch in self._launches}
        failures: dict[int, Absent] = {}
        for launches, process in self._running:
            try:
                for launch, texts in _by_address(process.answer(), launches).items():
                    texts_of[launch] |= texts
            except ReaderFailed as failure:
                failures |= dict.fromkeys(launches, Absent(failure.problem, failure.remedy))
        return {**texts_of, **failures}


def _parts(questions: Mapping[int, Sequence[int]]) -> list[dict[int, list[int]]]:
    """Split the questions into parts with about the same number of addresses, one per child."""
    pairs = [(launch, pc) for launch, pcs in questions.items() for pc in pcs]
    count = max(1, min(len(pairs) // _WORTH_A_CHILD, _processors(), _MOST_CHILDREN))
    parts: list[dict[int, list[int]]] = [{} for _ in range(count)]
    for at, (launch, pc) in enumerate(pairs):
        parts[at * count // len(pairs)].setdefault(launch, []).append(pc)
    return parts


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):  # those that this process may use: fewer in a container
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _by_address(answer: Any, launches: Iterable[int]) -> dict[int, dict[int, str]]:
    try:
        return {
            launch: {int(key): text.strip() for key, text in answer[str(launch)].items()}
            for launch in launches
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise failed("its answer could not be parsed") from None


NOT_INSTALLED = Absent("NVIDIA's reader is not installed", f"pip install {PACKAGE}")


def known_code(texts: Mapping[int, str]) -> Mapping[int, str] | Absent:
    """The texts without the instructions that the reader can't disassemble."""
    known = {pc: text for pc, text in texts.items() if text != _UNKNOWN_CODE}
    if known:
        return known
    words = "{package} {version} can't disassemble code of this GPU"
    install = "install {package} {version}, which can disassemble Volta code"
    return Absent(
        Sentence(words, package=PACKAGE, version=str(installed_version())),
        Sentence(install, package=PACKAGE, version="2025.3.1"),
    )


def _start(data: bytes, question: Mapping[str, Any]) -> ReaderProcess:
    return ReaderProcess(_CHILD, data, {"megabytes": MEGABYTES, **question}, SECONDS)
