"""Gets the SASS text of a report's launches: from the cache, else from NVIDIA's reader.

`prefetch` starts the child process in the background, before the text is needed. Launches that ran
the same code share one text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Protocol

from keet.ingest.code.functions import Function
from keet.ingest.ncu_rep.report_file import CodeKey, NcuRepFile
from keet.ingest.sass.nvidia_reader import NOT_INSTALLED, Disassembly, known_code, reader_identity
from keet.ingest.sass.partial_report import PartialReport, partial_report
from keet.ingest.sass.sass_cache import SassCache, open_cache
from keet.profile import Absent
from keet.profile.launch import NO_COUNTS

Code = Mapping[int, str] | Absent


class CodeUser(Protocol):
    """The parts of a launch that identify its code."""

    @property
    def number(self) -> int: ...

    @property
    def code_key(self) -> Hashable: ...

    @property
    def code_keys(self) -> Sequence[CodeKey]: ...

    @property
    def functions(self) -> Sequence[Function]: ...

    def addresses(self) -> Sequence[int]: ...


class _Fetch:
    """One request to NVIDIA's reader, for one or several launches."""

    def __init__(self, report: PartialReport, missing: Mapping[int, Sequence[Function]]) -> None:
        self._missing = missing
        self._numbers = report.numbers
        questions = {report.numbers[n]: _addresses(m) for n, m in missing.items()}
        self._disassembly = Disassembly(report.data, questions)

    def finish(self, cache: SassCache | None) -> Mapping[int, Code]:
        """Waits for the child."""
        told = self._disassembly.texts()
        found = {number: told[self._numbers[number]] for number in self._missing}
        for number, functions in self._missing.items():
            texts = found[number]
            if cache is not None and not isinstance(texts, Absent):
                for function in functions:
                    cache.store(function, texts)
        return found


def _addresses(functions: Iterable[Function]) -> list[int]:
    return [address for function in functions for address in function.addresses]


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
        self._running: dict[Hashable, tuple[_Fetch, Mapping[Hashable, CodeUser]]] = {}

    @cached_property
    def _reader(self) -> str | None:
        return reader_identity()

    @cached_property
    def _cache(self) -> SassCache | None:
        return open_cache(self._reader) if self._reader else None

    def prefetch(self, launches: Iterable[CodeUser]) -> None:
        """Start to fetch the text of launches in the background, and return at once."""
        self._begin(launches)

    def code_of(self, launch: CodeUser, others: Iterable[CodeUser] = ()) -> Code:
        """`others`: launches that may be asked about next."""
        if not launch.addresses():
            return NO_COUNTS  # nothing is fetched to know it, not even for others
        key = launch.code_key
        if key not in self._known and key not in self._running:
            self._begin(chain([launch], others if self._known else ()))
        if key in self._running:
            self._finish(*self._running[key])
        return self._known[key]

    def _begin(self, launches: Iterable[CodeUser]) -> None:
        missing: dict[int, list[Function]] = {}
        asked: dict[Hashable, CodeUser] = {}
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

    def _look_up(self, launch: CodeUser) -> list[Function]:
        """The functions whose text has to be fetched; empty if the cache has all, or if no text can
        be fetched."""
        key = launch.code_key
        if not launch.addresses():
            self._known[key] = NO_COUNTS
            return []
        if self._reader is None:
            self._known[key] = NOT_INSTALLED
            return []
        texts: dict[int, str] = {}
        missing = []
        for function in launch.functions:
            found = self._cache.find(function) if self._cache else None
            if found is None:
                missing.append(function)
            else:
                texts |= found
        if missing:
            self._cached[key] = texts
        else:
            self._known[key] = _of_launch(launch, texts)
        return missing

    def _finish(self, fetch: _Fetch, launches: Mapping[Hashable, CodeUser]) -> None:
        for key in launches:
            del self._running[key]
        found = fetch.finish(self._cache)
        for key, launch in launches.items():
            texts, cached = found[launch.number], self._cached.pop(key)
            self._known[key] = (
                texts if isinstance(texts, Absent) else _of_launch(launch, cached | dict(texts))
            )


def _of_launch(launch: CodeUser, texts: Mapping[int, str]) -> Code:
    """The text of the instructions that the launch has values for."""
    return known_code({pc: texts[pc] for pc in launch.addresses() if pc in texts})
