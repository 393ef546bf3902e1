"""The source of a launch as a model reads it: numbered lines, within a number of tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from keet.analysis.findings import Place
from keet.errors import one_line
from keet.explanation.budget import count_tokens
from keet.profile import Launch
from keet.profile.names import file_name

_LONGEST = 160
"""Characters of a line: generated code has longer ones."""
_FOREIGN = re.compile(r"(?:^|/)(?:usr|opt|site-packages|dist-packages|cuda[\w.-]*)/|/include/")
"""Where headers of compilers and libraries lie: nobody edits these."""

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)

Lines = Mapping[str, Sequence[int]]


def own_files(launch: Launch) -> list[str]:
    """Files with code of the kernel and their text at hand, the one with most of it first, and
    the headers that these include."""
    counts: dict[str, int] = {}
    for location in launch.locations.values():
        if launch.source_files.get(location.file) and not _FOREIGN.search(location.file):
            counts[location.file] = counts.get(location.file, 0) + 1
    own = sorted(counts, key=lambda file: -counts[file])
    return own + [path for path in _headers(launch, own) if path not in counts]


def _headers(launch: Launch, files: Sequence[str]) -> list[str]:
    """What these files include by name: constants and structures are there."""
    known = _by_name(launch)
    return [known[name] for name in _included(launch, files) if name in known]


def _included(launch: Launch, files: Sequence[str]) -> list[str]:
    texts = [launch.source_files[file] or "" for file in files]
    return sorted({file_name(name) for text in texts for name in _INCLUDE.findall(text)})


def _by_name(launch: Launch) -> dict[str, str]:
    return {file_name(path): path for path, text in launch.source_files.items() if text}


def _absent_headers(launch: Launch, files: Sequence[str]) -> str:
    """A model must not guess at constants that it could have asked for."""
    absent = [name for name in _included(launch, files) if name not in _by_name(launch)]
    return f"(not at hand: {', '.join(map(one_line, absent))})" if absent else ""


def whole_source(launch: Launch, budget: int) -> str:
    """All of the kernel's files, or the lines that it was compiled from, as far as they fit."""
    files = own_files(launch)
    if whole := _everything(launch, files, budget):
        return whole
    compiled = {file: _compiled(launch, file) for file in files}
    return _widest(launch, compiled, (6, 3, 1, 0), budget)


def excerpt(launch: Launch, places: Iterable[Place], budget: int) -> str:
    """Code around the places that matter; all of it where that is no more."""
    files = own_files(launch)
    if whole := _everything(launch, files, budget):
        return whole
    wanted: dict[str, list[int]] = {}
    for place in places:
        if place.file in files:
            wanted.setdefault(place.file, []).append(place.line)
    return _widest(launch, wanted, (12, 8, 5, 3, 1, 0), budget)


def _everything(launch: Launch, files: Sequence[str], budget: int) -> str | None:
    lines = {file: range(1, len(_lines(launch, file)) + 1) for file in files}
    text = numbered(launch, lines)
    return text if count_tokens(text) <= budget else None


def _widest(launch: Launch, lines: Lines, radii: Sequence[int], budget: int) -> str:
    """With as much around the lines as there is room for; else the first of them."""
    for radius in radii:
        text = numbered(launch, {f: _around(ns, radius) for f, ns in lines.items()})
        if count_tokens(text) <= budget:
            return text
    kept: list[str] = []
    for row in text.splitlines():
        if count_tokens("\n".join([*kept, row])) > budget - 12:
            return "\n".join([*kept, "(the rest is left out)"])
        kept.append(row)
    return text


def numbered(launch: Launch, lines: Lines) -> str:
    rows = [row for file, numbers in lines.items() for row in _rows(launch, file, numbers)]
    return "\n".join([*rows, *filter(None, [_absent_headers(launch, list(lines))])])


def _rows(launch: Launch, file: str, numbers: Sequence[int]) -> Iterator[str]:
    texts = _lines(launch, file)
    wanted = sorted({n for n in numbers if 1 <= n <= len(texts)})
    if not wanted:
        return
    yield f"{one_line(file_name(file))}:"
    before = 0
    for n in wanted:
        if n > before + 1:
            yield f"... ({n - before - 1} lines left out)"
        yield f"{n}| {one_line(texts[n - 1].expandtabs(4)[:_LONGEST])}".rstrip()
        before = n
    if before < len(texts):
        yield f"... ({len(texts) - before} lines left out)"


def _lines(launch: Launch, file: str) -> list[str]:
    return (launch.source_files.get(file) or "").splitlines()


def _compiled(launch: Launch, file: str) -> list[int]:
    return sorted({place.line for place in launch.locations.values() if place.file == file})


def _around(lines: Sequence[int], radius: int) -> list[int]:
    return [n for line in lines for n in range(line - radius, line + radius + 1)]
