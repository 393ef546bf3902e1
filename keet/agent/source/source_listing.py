"""The source listing for a model, numbered lines within a token budget; and how it was compiled.

Build facts are given as far as the report proves them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from keet.agent.source.kernel_source import (
    KernelSource,
    kernel_source,
    names_in,
    parts_by_name,
    set_up,
)
from keet.agent.source.program_roles import Role, RoleLines, program_roles
from keet.agent.source.scanner import CodePart, macro_of, names_of
from keet.documents.finding import Place
from keet.errors import one_line
from keet.explanation.token_budget import count_tokens
from keet.ingest.cubin import BuildInfo, HasCubins, build_info
from keet.profile import Launch
from keet.profile.names import file_name
from keet.safe_text import code_lines

_LONGEST_LINE = 160
"""Characters of a line: generated code has longer ones."""
_FOREIGN = re.compile(
    r"^/usr/(?!(?:local/)?src/)|^/opt/(?:nvidia|cuda|rocm|conda|intel)[^/]*/"
    r"|(?:^|/)(?:site|dist)-packages/|/include/"
)
"""Paths of compilers and libraries, whose files nobody edits."""

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)

_MOST_PLACES = 20
_HEAD_LINES = 6
"""First lines of a kernel, with its signature, which are always shown."""
_COMMENT_LINES = 4
"""Comment lines directly above a definition that are shown with it."""
_COMMENT = re.compile(r"\s*(?://|/\*|\* |\*/)")
_HOST_CALL = re.compile(r"\b(?:fprintf|printf|exit|cudaSuccess)\b")
_SHORT_GAP, _SHORT_LINE = 2, 2

Lines = Mapping[str, Collection[int]]
Hot = Mapping[str, Sequence[int]]


def kernel_files(launch: Launch) -> list[str]:
    """Files with code of the kernel whose text the report has, the one with most code first, then
    the headers that they include."""
    counts: dict[str, int] = {}
    for location in launch.locations.values():
        if launch.source_files.get(location.file) and not _FOREIGN.search(location.file):
            counts[location.file] = counts.get(location.file, 0) + 1
    own = sorted(counts, key=lambda file: -counts[file])
    return own + [path for path in _headers(launch, own) if path not in counts]


def _headers(launch: Launch, files: Sequence[str]) -> list[str]:
    """Headers that these files include: they define constants and structs."""
    known = _by_name(launch)
    return [known[name] for name in _included(launch, files) if name in known]


def _included(launch: Launch, files: Sequence[str]) -> list[str]:
    texts = [launch.source_files[file] or "" for file in files]
    return sorted({file_name(name) for text in texts for name in _INCLUDE.findall(text)})


def _by_name(launch: Launch) -> dict[str, str]:
    return {file_name(path): path for path, text in launch.source_files.items() if text}


def _absent_headers(launch: Launch, files: Sequence[str]) -> str:
    """Names missing headers, so that a model does not guess their constants."""
    absent = [name for name in _included(launch, files) if name not in _by_name(launch)]
    return f"(not at hand: {', '.join(map(one_line, absent))})" if absent else ""


def shown_source(launch: Launch, budget: int = 3000, places: Iterable[Place] = ()) -> str:
    """Numbered lines of the kernel, its launch site and set-up, the code that makes its data, and
    everything that it uses, within `budget` tokens.

    What does not fit is left out in whole ranges, the least important first (`_excerpts`), then the
    kernel's lines farthest from the `places`. Empty if the report has no text of the kernel's
    files."""
    files = kernel_files(launch)
    hot = _hot_lines(places)
    source = kernel_source(launch, files)
    if source.kernel is not None:
        return _fitting(launch, files, _excerpts(source, launch, hot, budget // 3), hot, budget)
    compiled = {file: _compiled(launch, file) for file in files}
    near = {file: lines for file in files if (lines := hot.get(file, []))}
    return _widest(launch, near or compiled, (40, 20, 12, 6, 3, 1, 0), budget)


class _Excerpt(NamedTuple):
    """Lines that are shown together, or not at all."""

    file: str
    lines: Sequence[int]


def _excerpts(source: KernelSource, launch: Launch, hot: Hot, room: int) -> list[_Excerpt]:
    """The most important first: kernel and functions with hot lines, launches, short definitions
    that the kernel uses, set-up of the launch, data generators in `room` tokens, then other
    functions."""
    assert source.kernel is not None
    hottest = [part for part in source.used if {*part.lines} & {*hot.get(part.file, ())}]
    cold = [part for part in source.used if part not in hottest]
    order: list[tuple[str, Sequence[int]]] = [
        _definition(part, launch) for part in (source.kernel, *hottest)
    ]
    order += [(site.caller.file, site.statement.lines) for site in source.sites]
    order += [_definition(part, launch) for part in cold if part.kind != "function"]
    names: set[str] = set()
    for site in source.path:
        statements = [site.statement, *set_up(site)]
        names = names.union(*(names_of(each.text) for each in statements))
        order += [(site.caller.file, each.lines) for each in statements]
        order.append((site.caller.file, _head(site.caller)))
    order += [_definition(part, launch) for part in _host_values(source, names)]
    for each in _generators(source):
        tokens = count_tokens(numbered(launch, {each.part.file: each.lines}))
        if tokens <= room:
            room -= tokens
            order.append((each.part.file, each.lines))
    order += [_definition(part, launch) for part in cold if part.kind == "function"]
    return _distinct(order)


def _definition(part: CodePart, launch: Launch) -> tuple[str, range]:
    """With the comment above it."""
    first = part.first
    texts = source_lines(launch.source_files.get(part.file))
    while first > 1 and part.first - first < _COMMENT_LINES and _COMMENT.match(texts[first - 2]):
        first -= 1
    return part.file, range(first, part.last + 1)


def _head(part: CodePart) -> Sequence[int]:
    return range(part.first, part.first + part.head.count("\n") + 1) if part.body else ()


def _host_values(source: KernelSource, names: set[str]) -> Iterator[CodePart]:
    """Constants and macros that the launch uses, directly or indirectly; not macros around host
    calls as in `CHECK(cudaMalloc(...))`."""
    by_name = parts_by_name(part for part in source.parts if part.kind in ("value", "macro"))
    seen: set[int] = set()
    queue = sorted(names)
    for name in queue:
        for part in by_name.get(name, ()):
            macro = macro_of(part.directives)
            if id(part) not in seen and not (macro and _HOST_CALL.search(macro.body)):
                seen.add(id(part))
                queue += sorted(names_in(part))
                yield part


def _generators(source: KernelSource) -> Iterator[RoleLines]:
    """What makes the data: all of it if no launch is found, else what the functions that lead to
    the launch contain or call, directly or indirectly."""
    roles = [each for each in program_roles(source) if each.role == "data generator"]
    callers = [site.caller for site in source.path]
    called = set().union(*(names_of(part.text[part.body :]) for part in callers))
    for _ in range(2):
        within = [e for e in roles if e.lines == e.part.lines and called & set(e.part.names)]
        called = called.union(*(names_of(each.part.text) for each in within))
    for each in roles:
        is_function = each.lines == each.part.lines
        if not callers or each.part in callers or (is_function and called & set(each.part.names)):
            yield each


def _distinct(order: Iterable[tuple[str, Sequence[int]]]) -> list[_Excerpt]:
    """Without lines that an earlier excerpt has."""
    taken: dict[str, set[int]] = {}
    found: list[_Excerpt] = []
    for file, numbers in order:
        lines = [line for line in numbers if line not in taken.setdefault(file, set())]
        taken[file].update(lines)
        found += [_Excerpt(file, lines)] if lines else []
    return found


@lru_cache(maxsize=32)
def source_lines(text: str | None) -> tuple[str, ...]:
    """Lines as a compiler counts them: only a line feed ends a line. Trailing blank lines are
    dropped."""
    return tuple(code_lines((text or "").rstrip()))


def generator_or_check(launch: Launch, file: str, line: int) -> Role | None:
    """Whether a line belongs to code that makes the input data ("data generator"), or to a check of
    the results ("check": comparisons, reference implementations); None for all other lines."""
    roles = program_roles(kernel_source(launch, kernel_files(launch)))
    return next(
        (each.role for each in roles if each.part.file == file and line in each.lines), None
    )


def _hot_lines(places: Iterable[Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place in sorted(places, key=lambda place: -place.share)[:_MOST_PLACES]:
        found.setdefault(place.file, []).append(place.line)
    return found


def _fitting(
    launch: Launch, files: Sequence[str], pieces: Sequence[_Excerpt], hot: Hot, budget: int
) -> str:
    """Adds the excerpts in order; one that does not fit is skipped. Of the kernel, the first one,
    as many lines as fit."""
    chosen: dict[str, set[int]] = {file: set() for file in files}
    text = ""
    for piece in pieces:
        lines = chosen[piece.file]
        longer = numbered(launch, {**chosen, piece.file: lines.union(piece.lines)})
        if count_tokens(longer) <= budget:
            text = longer
            lines.update(piece.lines)
        elif piece is pieces[0]:
            text, kept = _nearest(launch, piece, hot.get(piece.file, []), budget)
            lines.update(kept)
    return text


def _nearest(
    launch: Launch, kernel: _Excerpt, hot: Sequence[int], budget: int
) -> tuple[str, Sequence[int]]:
    """As many lines of the kernel as fit: its first lines, then those nearest to hot lines."""
    places = hot or _compiled(launch, kernel.file) or kernel.lines
    head = kernel.lines[:_HEAD_LINES]
    order = [*head, *sorted(kernel.lines[_HEAD_LINES:], key=_distance_to(places))]
    fits, too_many = 0, len(order)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        tokens = count_tokens(numbered(launch, {kernel.file: order[:middle]}))
        fits, too_many = (middle, too_many) if tokens <= budget else (fits, middle)
    return numbered(launch, {kernel.file: order[:fits]}) if fits else "", order[:fits]


def _distance_to(places: Sequence[int]) -> Callable[[int], int]:
    ordered = sorted(places)

    def distance(line: int) -> int:
        at = bisect_left(ordered, line)
        return min(abs(line - near) for near in ordered[max(at - 1, 0) : at + 1])

    return distance


def _widest(launch: Launch, lines: Lines, radii: Sequence[int], budget: int) -> str:
    """With as many lines around them as fit; if none fit, the first lines."""
    for radius in radii:
        # Every line takes at least one token, so only the start of a long list can fit.
        around = {f: _around(list(ns)[:budget], radius)[: 2 * budget] for f, ns in lines.items()}
        text = numbered(launch, around)
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


def _rows(launch: Launch, file: str, numbers: Iterable[int]) -> Iterator[str]:
    texts = source_lines(launch.source_files.get(file))
    wanted = sorted({n for n in numbers if 1 <= n <= len(texts)})
    if not wanted:
        return
    yield f"{one_line(file_name(file))}:"
    before = 0
    for n in wanted:
        yield from _gap(texts, before, n - 1)
        yield _row(texts, n)
        before = n
    yield from _gap(texts, before, len(texts))


def _gap(texts: Sequence[str], before: int, last: int) -> Iterator[str]:
    """Shows a short gap: a blank line or a brace takes fewer tokens than the remark about the
    gap."""
    short = all(len(texts[n].strip()) <= _SHORT_LINE for n in range(before, last)[: _SHORT_GAP + 1])
    if 0 < last - before <= _SHORT_GAP and short:
        yield from (_row(texts, n + 1) for n in range(before, last))
    elif last > before:
        yield f"... ({last - before} lines left out)"


def _row(texts: Sequence[str], n: int) -> str:
    return f"{n}| {one_line(texts[n - 1].expandtabs(4)[:_LONGEST_LINE])}".rstrip()


def _compiled(launch: Launch, file: str) -> list[int]:
    return sorted({place.line for place in launch.locations.values() if place.file == file})


def _around(lines: Iterable[int], radius: int) -> list[int]:
    return [n for line in lines for n in range(line - radius, line + radius + 1)]


_OPTION = re.compile(r"-{1,2}[A-Za-z][\w-]{0,30}(?:[= ]\w[\w.,=-]{0,30})?")
_REPORTED_SEPARATELY = re.compile(r"-{1,2}(?:arch|m|lineinfo|gpu-name|machine)\b.*")


def build_facts(launch: Launch) -> list[str]:
    """Phrases such as "compiled for sm_90 by ptxas 13.0" and "with line information"; empty if the
    report contains no machine code."""
    if not isinstance(launch.data, HasCubins):
        return []
    infos = [build_info(cubin) for cubin in launch.data.cubins()]
    if len(infos) != 1 or infos[0] is None:
        return []  # several modules in a range or graph may be built differently
    by_nvcc = any(file.endswith((".cu", ".cuh")) for file in launch.source_files)
    return [*module_facts(infos[0]), *(_arithmetic(infos[0]) if by_nvcc else ())]


def module_facts(info: BuildInfo) -> Iterator[str]:
    tool = f" by ptxas {info.tool_version}" if info.tool_version else ""
    yield f"compiled for sm_{info.architecture}{tool}"
    if info.debug:
        yield "device debug build (-G): the compiler does not optimise it"
    elif info.line_information:
        yield "with line information"
    options = [match[0].strip() for match in _OPTION.finditer(info.options or "")]
    options = [option for option in options if not _REPORTED_SEPARATELY.fullmatch(option)]
    if options:
        yield f"ptxas options: {' '.join(options)[:120]}"


def _arithmetic(info: BuildInfo) -> Iterator[str]:
    """PTX says it of the whole module, which is compiled with one set of options."""
    if info.flushes:
        yield "all FP32 arithmetic flushes denormals (-ftz=true, part of -use_fast_math)"
    elif info.flushes is False:
        yield "not built with -use_fast_math: FP32 arithmetic keeps denormals"
    if info.divisions == {"full"}:
        yield "approximate FP32 division (-prec-div=false, part of -use_fast_math)"
