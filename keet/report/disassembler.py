"""Gets the SASS text of a report's launches: from the cache on disk, else from NVIDIA's reader
(`ncu-report`) in a child process.

In keet's own process that reader leaks memory, crashes on damaged code, hangs after a fork and
returns nothing for bad files (docs/decisions/0002). So each request starts a short-lived child with
limits on time and memory, on a private copy of exactly the bytes that keet has checked. Only
`nvidia_reader_child` imports `ncu_report`, and it imports nothing of keet.

They exchange files in a private folder: keet writes the report's bytes and the question, the child
its answer and its messages. With files instead of pipes the child never waits for keet, which can
do other work until it needs the answer. The only pipe is the child's stdin: when it closes, the
child knows that keet has exited.

`prefetch` starts the child process in the background, before the text is needed. Launches that ran
the same code share one text.

The cache is on disk, by the hash of the code: fetching takes a second, reading a few ms. It has one
file per function, in `code/` of keet's cache folder. Branch targets are addresses in the profiled
process; the cache stores them relative to the function's start, so that the entry fits every report
with the same code. If the folder or a file is unusable, the text is fetched again.
`KEET_CODE_CACHE=0` switches the cache off.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import sys
import time
import weakref
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from keet.errors import ReaderFailed
from keet.evidence import Sentence, constant
from keet.files import cache_folder
from keet.profile import Absent
from keet.profile.launch import NO_COUNTS
from keet.report.cubin import Function
from keet.report.input.files import HeldBytes, bytes_of
from keet.report.ncu_rep.report_file import CodeKey, NcuRepFile

if TYPE_CHECKING:
    import subprocess

    from keet.report.ncu_rep.decoded_launch import DecodedLaunch


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


# --- a large report cut down to some launches: NVIDIA's reader loads a report as a whole


class PartialReport(NamedTuple):
    """The bytes of a report, and the number that each launch has in it."""

    data: bytes
    numbers: Mapping[int, int]


def partial_report(
    file: NcuRepFile, launches: Sequence[int], code: Iterable[CodeKey]
) -> PartialReport:
    """A report with these launches, the code that they ran, and what all launches share. A report
    that is in memory is returned as a whole.

    Blocks are copied unchanged: those of the launches and of the code, and those with a part of
    the session or a table of names. Some of these contain other launches, too.
    """
    if isinstance(file.source, HeldBytes):
        return PartialReport(file.source.data, {number: number for number in launches})
    wanted = {file.results[number].start for number in launches}
    wanted |= {entry.start for key in code for entry in file.code_entries.get(key, ())}
    stops = [*(block.start for block in file.blocks[1:]), file.source.size]
    kept = {
        block.start: stop
        for block, stop in zip(file.blocks, stops)
        if block.sessions or block.strings or any(e.start in wanted for e in block.entries)
    }
    spans = [(0, file.blocks[0].start), *kept.items()]
    data = b"".join(bytes_of(file.source, *span) for span in spans)
    # Launches are numbered in the order of the copied blocks.
    present = [n for n, block in enumerate(file.owners) if block.start in kept]
    places = {number: place for place, number in enumerate(present)}
    return PartialReport(data, {number: places[number] for number in launches})


# --- the cache

_CACHE_FORMAT = "1"
"""Part of the key: change it whenever the format of an entry changes."""
_CACHE_LIMIT = 64 << 20
"""Bytes of all entries: some thousand functions. One with 6,700 instructions takes 56 kB."""
_MAX_TEXT = 64 << 20
"""Bytes of one decompressed entry: more is damage."""
_PRIVATE = 0o600
_SUFFIX, _PARTIAL = ".sass", ".partial"
_CACHE_OFF = ("0", "off", "no", "false")

_ADDRESS = re.compile(r"0x([0-9a-f]{9,16})(?![0-9a-f])")
"""Numbers of more than 32 bits: code addresses. Immediates of instructions are shorter."""
_LOWEST_ADDRESS = 1 << 32
_TARGET = re.compile(r"<\+([0-9a-f]+)>")


def open_cache(reader: str) -> SassCache | None:
    """The cache for one version of NVIDIA's reader; None if caching is switched off."""
    if os.environ.get("KEET_CODE_CACHE", "").strip().lower() in _CACHE_OFF:
        return None
    return SassCache(cache_folder() / "code", reader)


class SassCache:
    """Safe for concurrent processes: entries are created by one rename and never change."""

    def __init__(self, folder: Path, reader: str, *, limit: int = _CACHE_LIMIT) -> None:
        self._folder = folder
        self._reader = reader
        self._limit = limit

    def find(self, function: Function) -> dict[int, str] | None:
        """The text at each of the function's addresses; None if it is missing or damaged."""
        if function.identity is None:
            return None
        path = self._path(function.identity)
        try:
            lines = _unpack(path.read_bytes(), path.stem, function)
        except (OSError, ValueError, KeyError, TypeError, zlib.error, RecursionError):
            return None
        if lines is None:
            return None
        with suppress(OSError):  # the least recently used entries are removed first
            os.utime(path)
        return dict(zip(function.addresses, lines, strict=True))

    def store(self, function: Function, texts: Mapping[int, str]) -> None:
        """Store the text if it covers the whole function."""
        lines = [texts.get(address) for address in function.addresses]
        whole = [line for line in lines if line is not None and "\n" not in line]
        if function.identity is None or len(whole) != len(lines):
            return
        path = self._path(function.identity)
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(path, _pack(path.stem, function, whole))
            self._remove_oldest()

    def _path(self, identity: str) -> Path:
        key = "\0".join([_CACHE_FORMAT, self._reader, identity])
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}{_SUFFIX}"

    def _remove_oldest(self) -> None:
        """Reduce the cache to 90 % of the limit, so that not every new entry has to clean up."""
        files = sorted(self._files())
        held = sum(size for _, size, _ in files)
        allowed = self._limit if held <= self._limit else self._limit - self._limit // 10
        for _, size, path in files:
            if held <= allowed:
                break
            held -= size
            with suppress(OSError):
                path.unlink()

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Time of last use, size and path of each entry, and of files left by killed processes."""
        for entry in os.scandir(self._folder):
            if entry.name.endswith((_SUFFIX, _PARTIAL)):
                with suppress(OSError):
                    known = entry.stat(follow_symlinks=False)
                    yield known.st_mtime, known.st_size, Path(entry.path)


def _write(path: Path, content: bytes) -> None:
    """Readable by its owner only, since it is the user's code. Raises OSError."""
    partial = path.with_name(f"{secrets.token_hex(8)}{_PARTIAL}")
    try:
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE), "wb") as f:
            f.write(content)
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()


def _pack(key: str, function: Function, lines: Sequence[str]) -> bytes:
    text = "\n".join(lines)
    relative = _relative(text, function) if function.movable else None
    document = {
        "key": key,
        # The start address for which the text is valid; null means any.
        "start": None if relative is not None else function.start,
        "text": text if relative is None else relative,
    }
    return zlib.compress(json.dumps(document).encode(), 1)


def _unpack(packed: bytes, key: str, function: Function) -> list[str] | None:
    """None if the entry does not fit the function; raises one of many errors if it is damaged."""
    unpacker = zlib.decompressobj()
    document = json.loads(unpacker.decompress(packed, _MAX_TEXT))
    if not unpacker.eof or document["key"] != key:
        return None
    start, text = document["start"], document["text"]
    if start not in (None, function.start):
        return None
    if start is None:
        text = _TARGET.sub(lambda match: f"0x{function.start + int(match[1], 16):x}", text)
    lines: list[str] = text.split("\n")
    return lines if len(lines) == len(function.addresses) else None


def _relative(text: str, function: Function) -> str | None:
    """The text with the function's addresses relative to its start. None if that is not safe: if a
    large number is not one of them, or if addresses are so low that an immediate could be one."""
    start, last = function.start, function.addresses[-1]
    if start < _LOWEST_ADDRESS or "<+" in text:
        return None
    distances = [int(match[1], 16) - start for match in _ADDRESS.finditer(text)]
    if any(not 0 <= distance <= last - start for distance in distances):
        return None
    return _ADDRESS.sub(lambda match: f"<+{int(match[1], 16) - start:x}>", text)


Code = Mapping[int, str] | Absent


# --- the text of launches


class _Fetch:
    """One request to NVIDIA's reader, for one or several launches."""

    def __init__(self, report: PartialReport, missing: Mapping[int, Sequence[Function]]) -> None:
        self._missing = missing
        self._numbers = report.numbers
        questions = {
            report.numbers[number]: [pc for function in functions for pc in function.addresses]
            for number, functions in missing.items()
        }
        self._disassembly = Disassembly(report.data, questions)

    def finish(self, cache: SassCache | None) -> Mapping[int, Code]:
        """Waits for the child."""
        told = self._disassembly.texts()
        code_of = {number: told[self._numbers[number]] for number in self._missing}
        for number, functions in self._missing.items():
            texts = code_of[number]
            if cache is not None and not isinstance(texts, Absent):
                for function in functions:
                    cache.store(function, texts)
        return code_of


class Disassembler:
    """Fetches and remembers the SASS text of launches.

    Without a prefetch, the first request is for one launch and the second for all others: a command
    needs either one launch or all of them, and each child process costs half a second.
    """

    def __init__(self, file: NcuRepFile) -> None:
        self._file = file
        self._known: dict[Hashable, Code] = {}
        self._cached: dict[Hashable, dict[int, str]] = {}
        """The part of a launch's text that was in the cache, while the rest is fetched."""
        self._running: dict[Hashable, tuple[_Fetch, Mapping[Hashable, DecodedLaunch]]] = {}

    @cached_property
    def _reader(self) -> str | None:
        return reader_identity()

    @cached_property
    def _cache(self) -> SassCache | None:
        return open_cache(self._reader) if self._reader else None

    def code_of(self, launch: DecodedLaunch, others: Iterable[DecodedLaunch] = ()) -> Code:
        """`others`: launches that may be asked about next."""
        if not launch.addresses:
            return NO_COUNTS  # nothing is fetched to know it, not even for others
        key = launch.code_key
        if key not in self._known and key not in self._running:
            self.prefetch(chain([launch], others if self._known else ()))
        if key in self._running:
            self._finish(*self._running[key])
        return self._known[key]

    def prefetch(self, launches: Iterable[DecodedLaunch]) -> None:
        """Start to fetch the text of launches in the background, and return at once."""
        missing: dict[int, list[Function]] = {}
        asked: dict[Hashable, DecodedLaunch] = {}
        for launch in launches:
            key = launch.code_key
            if key in self._known or key in self._running or key in asked:
                continue
            if functions := self._look_up(launch):
                missing[launch.number] = functions
                asked[key] = launch
        if asked:
            code = [key for launch in asked.values() for key in launch.code_keys]
            fetch = _Fetch(partial_report(self._file, sorted(missing), code), missing)
            self._running |= dict.fromkeys(asked, (fetch, asked))

    def _look_up(self, launch: DecodedLaunch) -> list[Function]:
        """The functions whose text has to be fetched; empty if the cache has all, or if no text can
        be fetched."""
        key = launch.code_key
        if not launch.addresses:
            self._known[key] = NO_COUNTS
            return []
        if self._reader is None:
            self._known[key] = NOT_INSTALLED
            return []
        texts: dict[int, str] = {}
        missing = []
        for function in launch.functions:
            cached = self._cache.find(function) if self._cache else None
            if cached is None:
                missing.append(function)
            else:
                texts |= cached
        if missing:
            self._cached[key] = texts
        else:
            self._known[key] = _of_launch(launch, texts)
        return missing

    def _finish(self, fetch: _Fetch, launches: Mapping[Hashable, DecodedLaunch]) -> None:
        for key in launches:
            del self._running[key]
        code_of = fetch.finish(self._cache)
        for key, launch in launches.items():
            texts, cached = code_of[launch.number], self._cached.pop(key)
            self._known[key] = (
                texts if isinstance(texts, Absent) else _of_launch(launch, cached | dict(texts))
            )


def _of_launch(launch: DecodedLaunch, texts: Mapping[int, str]) -> Code:
    """The text of the instructions that the launch has values for."""
    return known_code({pc: texts[pc] for pc in launch.addresses if pc in texts})
