"""Selects the source lines that belong to a kernel, the most useful first."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from keet.agent.source.code_parts import CodePart, SourceStatement, member_names, used_names
from keet.agent.source.fortran import procedure_of
from keet.agent.source.languages import parts_of
from keet.agent.source.launch_sites import (
    LaunchSite,
    launch_dependencies,
    launch_path,
    launch_sites,
    other_instance,
)
from keet.agent.source.tokens import Token, c_tokens, macro_of
from keet.profile import Launch
from keet.safe_text import code_lines

Role = Literal["kernel", "launch", "used", "sizes", "memory"]
_MOST_PARTS = 150
_COMMENT_LINES = 4
"""Comment lines directly above a definition that are shown with it."""


class SourceExcerpt(NamedTuple):
    """Lines that are shown together, or not at all."""

    role: Role
    file: str
    lines: Sequence[int]


class KernelSource(NamedTuple):
    """The kernel in its files, what it uses, and where it is launched."""

    parts: Sequence[CodePart]
    kernel: CodePart | None
    used: Sequence[CodePart]
    """Parts that it uses; direct uses first."""
    sites: Sequence[LaunchSite]
    path: Sequence[LaunchSite]
    """The launches, and the calls above them."""


Compiled = Mapping[str, Sequence[int]]
"""By file, the line of each instruction in ascending order."""


def kernel_source(launch: Launch, files: Sequence[str]) -> KernelSource:
    parts = [part for file in files for part in parts_of(file, launch.source_files.get(file) or "")]
    compiled = _compiled_lines(launch)
    kernel = _kernel(launch, parts, compiled)
    if kernel is None:
        return KernelSource(parts, None, (), (), ())
    used = _used(kernel, parts, compiled)
    sites = launch_sites(parts, kernel.names[0]) if kernel.names else []
    sites = [s for s in sites if s.caller is not kernel and not other_instance(s, launch.name)]
    return KernelSource(parts, kernel, used, sites, launch_path(parts, sites))


def _compiled_lines(launch: Launch) -> Compiled:
    found: dict[str, list[int]] = {}
    for file, line in launch.locations.values():
        found.setdefault(file, []).append(line)
    return {file: sorted(lines) for file, lines in found.items()}


def _instructions(part: CodePart, compiled: Compiled) -> int:
    lines = compiled.get(part.file, ())
    return bisect_right(lines, part.last) - bisect_left(lines, part.first)


def _kernel(launch: Launch, parts: Sequence[CodePart], compiled: Compiled) -> CodePart | None:
    """Found by name; kernels from macros, lambdas and libraries by the function with most of their
    instructions."""
    functions = [part for part in parts if part.kind == "function"]
    names = {launch.name.function, procedure_of(launch.name.function)}
    named = [part for part in functions if names & set(part.names)]
    named = [part for part in named if part.is_kernel or not part.in_cpp] or named
    candidates = named or [part for part in functions if _instructions(part, compiled)]
    return max(candidates, key=lambda part: _instructions(part, compiled), default=None)


def _used(kernel: CodePart, parts: Sequence[CodePart], compiled: Compiled) -> list[CodePart]:
    """Parts whose names the kernel uses, directly or indirectly; operators of its types; and
    functions that it was compiled from, whatever their names."""
    by_name = _by_name(
        part for part in parts if part is not kernel and _can_be_used(part, compiled)
    )
    operators = _by_parameter(by_name.pop("operator", []))
    found: dict[int, CodePart] = {id(kernel): kernel}
    queue = [kernel]
    for part in queue:
        names = _names_in(part)
        wanted = [each for name in sorted(names) for each in by_name.get(name, ())]
        if part.kind == "type":
            wanted += [each for name in part.names for each in operators.get(name, ())]
        for each in wanted:
            if id(each) not in found and len(found) < _MOST_PARTS:
                found[id(each)] = each
                queue.append(each)
    inlined = [part for part in parts if part.kind == "function" and _instructions(part, compiled)]
    inlined = [part for part in inlined if not _encloses(part, kernel)]
    found |= {id(part): part for part in inlined if id(part) not in found}
    return list(found.values())[1:_MOST_PARTS]


def _encloses(part: CodePart, kernel: CodePart) -> bool:
    """A class or program around the kernel contains all of its instructions, and much else."""
    return part.file == kernel.file and part.first <= kernel.first and kernel.last <= part.last


def _by_name(parts: Iterable[CodePart]) -> dict[str, list[CodePart]]:
    found: dict[str, list[CodePart]] = {}
    for part in parts:
        for name in part.names:
            found.setdefault(name, []).append(part)
    return found


def _can_be_used(part: CodePart, compiled: Compiled) -> bool:
    if part.kind in ("module", "prototype"):
        return False
    if part.kind != "function":
        return True
    device = part.on_device or not part.in_cpp or bool(_instructions(part, compiled))
    return (device or _has_device_macro(part)) and not part.is_kernel


def _has_device_macro(part: CodePart) -> bool:
    """`HOST_DEVICE float f(...)`: a qualifier in capitals before the type."""
    words = [token.text for token in part.head[:6]]
    return any(word.isupper() and ("DEVICE" in word or "FUNC" in word) for word in words)


def _names_in(part: CodePart) -> set[str]:
    tokens: Sequence[Token] = part.tokens
    macros = [macro for token in tokens if token.kind == "directive" and (macro := macro_of(token))]
    names = used_names(tokens) | member_names(tokens) if part.kind == "function" else set[str]()
    names = names or used_names(tokens)
    return names.union(*(used_names(macro.body) for macro in macros)) - set(part.names)


def _by_parameter(operators: Iterable[CodePart]) -> dict[str, list[CodePart]]:
    """Device operators by the types of their parameters."""
    found: dict[str, list[CodePart]] = {}
    for part in operators:
        for name in used_names(part.head) if part.on_device else ():
            found.setdefault(name, []).append(part)
    return found


# --- excerpts, the most useful first


def excerpts_of(
    source: KernelSource, launch: Launch, hot: Mapping[str, Sequence[int]]
) -> list[SourceExcerpt]:
    """The kernel first, then its launch, then what it uses, then what the launch depends on."""
    if source.kernel is None:
        return []
    used = sorted(source.used, key=lambda part: _far(part, hot))
    launches = [SourceExcerpt("launch", s.caller.file, _lines(s.statement)) for s in source.sites]
    return _distinct(
        [
            _definition("kernel", source.kernel, launch),
            *launches,
            *(_definition("used", part, launch) for part in used),
            *_around(source),
        ]
    )


@lru_cache(maxsize=32)
def source_lines(text: str | None) -> tuple[str, ...]:
    """Lines as a compiler counts them: only a line feed ends a line. Trailing blank lines are
    dropped."""
    return tuple(code_lines((text or "").rstrip()))


def _far(part: CodePart, hot: Mapping[str, Sequence[int]]) -> tuple[bool, bool]:
    """Sort key: parts with sampled lines, then short definitions, then other functions."""
    near = any(part.first <= line <= part.last for line in hot.get(part.file, ()))
    return not near, part.kind == "function"


def _definition(role: Role, part: CodePart, launch: Launch) -> SourceExcerpt:
    first = part.first
    texts = source_lines(launch.source_files.get(part.file))
    while first > 1 and part.first - first < _COMMENT_LINES and _is_comment(texts[first - 2]):
        first -= 1
    return SourceExcerpt(role, part.file, range(first, part.last + 1))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(("//", "/*", "* ", "*/"))


def _lines(statement: SourceStatement) -> range:
    return range(statement.first, statement.last + 1)


def _around(source: KernelSource) -> list[SourceExcerpt]:
    """Heads of the functions that lead to the launch, statements that size it, then allocations."""
    sizes: list[SourceExcerpt] = []
    memory: list[SourceExcerpt] = []
    names: set[str] = set()
    for site in source.path:
        file = site.caller.file
        found = launch_dependencies(site)
        sizes += [SourceExcerpt("sizes", file, _lines(each)) for each in found.sizes]
        sizes += [
            SourceExcerpt("sizes", file, _head(site)),
            SourceExcerpt("sizes", file, _lines(site.statement)),
        ]
        memory += [SourceExcerpt("memory", file, _lines(each)) for each in found.memory]
        statements = [site.statement, *found.sizes, *found.memory]
        names = names.union(*(each.names for each in statements))
    return [*_host_values(source, names), *sizes, *memory]


def _head(site: LaunchSite) -> Sequence[int]:
    head = site.caller.head
    return range(head[0].line, head[-1].last_line + 1) if site.caller.body else ()


def _host_values(source: KernelSource, names: set[str]) -> list[SourceExcerpt]:
    """Constants and macros without parameters that the launch uses, directly or indirectly."""
    by_name = _by_name(part for part in source.parts if part.kind in ("value", "macro"))
    found: dict[int, CodePart] = {}
    queue = sorted(names)
    for name in queue:
        for part in by_name.get(name, ()):
            if id(part) not in found and not _is_check(part) and len(found) < _MOST_PARTS:
                found[id(part)] = part
                queue += sorted(_names_in(part))
    return [SourceExcerpt("sizes", p.file, range(p.first, p.last + 1)) for p in found.values()]


def _is_check(part: CodePart) -> bool:
    """Whether it is a macro around host calls: `CHECK(cudaMalloc(...))`."""
    if part.kind != "macro":
        return False
    macro = macro_of(part.tokens[0])
    words = {token.text for token in (macro.body if macro else c_tokens(""))}
    return part.last - part.first > 1 or bool(words & {"fprintf", "printf", "exit", "cudaSuccess"})


def _distinct(pieces: Sequence[SourceExcerpt]) -> list[SourceExcerpt]:
    """Without lines that an earlier excerpt has."""
    taken: dict[str, set[int]] = {}
    found: list[SourceExcerpt] = []
    for piece in pieces:
        seen = taken.setdefault(piece.file, set())
        lines = [line for line in piece.lines if line not in seen]
        seen.update(lines)
        if lines:
            found.append(SourceExcerpt(piece.role, piece.file, lines))
    return found
