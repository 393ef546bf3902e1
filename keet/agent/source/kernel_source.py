"""The kernel in its files, what it uses, where the host launches it, and what that depends on."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from keet.agent.source.scanner import (
    NAME,
    CodePart,
    SourceStatement,
    after_angles,
    closing_bracket,
    declarators,
    is_python,
    names_of,
    parts_of,
    procedure_of,
    split_commas,
    statements_of,
)
from keet.profile import Launch
from keet.profile.names import KernelName

_MOST_PARTS = 150
_MOST_SITES, _MOST_MENTIONS = 4, 40
_CALLER_LEVELS = 3
"""Levels of callers above the launch that are followed."""
_LONGEST_NAME = 20_000
_LAUNCHER = re.compile(r"\b(?:cuda|cu|hip)Launch\w*")
_ALLOCATES = re.compile(
    r"\b(?:(?:cuda|cu|hip)(?:Malloc|Mem|HostAlloc|HostRegister)\w*|malloc|calloc|new|device_vector"
    r"|host_vector|vector|zeros|ones|empty|rand|randn|randint|full|arange|zeros_like|empty_like)\b"
)
_COPY = re.compile(r"\b(?:cuda|cu|hip)Mem(?:cpy|set)\w*\s*\(([^,]*)")
_ASSIGNS = re.compile(
    r"\s*\*?\s*([^\W\d][\w, ]{0,200}?)\s*(?:(?:\[[^=;]{0,200}?\]|(?:\.|->)\w+)\s*)*"
    r"(?:[-+*/%&|^]|<<|>>)?=(?!=)"
)
_ADDRESS = re.compile(r"[(,)]\s*&\s*([^\W\d]\w*)")
_PLAIN_TYPES = frozenset(("float", "double", "int", "half", "__half", "__nv_bfloat16"))


class LaunchSite(NamedTuple):
    """A statement that launches the kernel, or that calls the function which does."""

    caller: CodePart
    at: int
    """Index of the statement."""
    arguments: Sequence[str] | None = None
    """None if they are not written one by one, as for `cudaLaunchKernel`."""
    instance: Sequence[str] = ()
    """Template arguments that are written out."""

    @property
    def statement(self) -> SourceStatement:
        return statements_of(self.caller)[self.at]


class KernelSource(NamedTuple):
    parts: Sequence[CodePart]
    kernel: CodePart | None
    used: Sequence[CodePart]
    """Parts that it uses; direct uses first."""
    sites: Sequence[LaunchSite]
    path: Sequence[LaunchSite]
    """The launches, and the calls above them."""


_Texts = tuple[tuple[str, str], ...]
_Compiled = Mapping[str, Sequence[int]]
"""By file, the line of each instruction in ascending order."""


def kernel_source(launch: Launch, files: Sequence[str]) -> KernelSource:
    texts = tuple((file, launch.source_files.get(file) or "") for file in files)
    return _kernel_source(launch.name, texts, tuple(sorted(launch.locations.values())))


@lru_cache(maxsize=8)
def _kernel_source(
    name: KernelName, texts: _Texts, locations: Sequence[tuple[str, int]]
) -> KernelSource:
    parts = [part for file, text in texts for part in parts_of(file, text)]
    compiled: dict[str, list[int]] = {}
    for file, line in locations:
        compiled.setdefault(file, []).append(line)
    kernel = _kernel(name, parts, compiled)
    if kernel is None:
        return KernelSource(parts, None, (), (), ())
    used = _used(kernel, parts, compiled)
    sites = _launch_sites(parts, kernel) if kernel.names else []
    sites = [site for site in sites if not _is_other_instance(site, name)]
    return KernelSource(parts, kernel, used, sites, _launch_path(parts, sites))


def _instructions(part: CodePart, compiled: _Compiled) -> int:
    lines = compiled.get(part.file, ())
    return bisect_right(lines, part.last) - bisect_left(lines, part.first)


def _kernel(name: KernelName, parts: Sequence[CodePart], compiled: _Compiled) -> CodePart | None:
    """Found by name; kernels from macros, lambdas and libraries by the function with most of their
    instructions."""
    functions = [part for part in parts if part.kind == "function"]
    named = [p for p in functions if {name.function, procedure_of(name.function)} & {*p.names}]
    named = [part for part in named if part.is_kernel or not part.in_cpp] or named
    candidates = named or [part for part in functions if _instructions(part, compiled)]
    return max(candidates, key=lambda part: _instructions(part, compiled), default=None)


def _used(kernel: CodePart, parts: Sequence[CodePart], compiled: _Compiled) -> list[CodePart]:
    """Parts whose names the kernel uses, directly or indirectly, and functions that it was compiled
    from, whatever their names."""
    by_name = parts_by_name(
        part
        for part in parts
        if part is not kernel
        and part.kind != "module"
        and not part.is_kernel
        and (part.kind != "function" or part.on_device or _instructions(part, compiled))
    )
    found: dict[int, CodePart] = {id(kernel): kernel}
    queue = [kernel]
    for part in queue:
        for name in sorted(names_in(part)):
            for each in by_name.get(name, ()):
                if id(each) not in found and len(found) < _MOST_PARTS:
                    found[id(each)] = each
                    queue.append(each)
    inlined = [part for part in parts if part.kind == "function" and _instructions(part, compiled)]
    # A class or program around the kernel contains all of its instructions, and much else.
    inlined = [part for part in inlined if not encloses(part, kernel)]
    found |= {id(part): part for part in inlined if id(part) not in found}
    return list(found.values())[1:_MOST_PARTS]


def encloses(part: CodePart, other: CodePart) -> bool:
    return part.file == other.file and part.first <= other.first and other.last <= part.last


def parts_by_name(parts: Iterable[CodePart]) -> dict[str, list[CodePart]]:
    found: dict[str, list[CodePart]] = {}
    for part in parts:
        for name in part.names:
            found.setdefault(name, []).append(part)
    return found


def names_in(part: CodePart) -> set[str]:
    text = f"{part.text}\n{part.directives}"
    return names_of(text, members=part.kind == "function") - set(part.names)


# --- launches


def instance_arguments(name: KernelName) -> list[str]:
    """Template arguments of the launched instance, from its demangled name."""
    full = name.full[:_LONGEST_NAME]
    match = re.search(rf"(?<!\w){re.escape(name.function)}\s*(?=<)", full)
    end = after_angles(full, match.end()) if match else 0
    return split_commas(full[match.end() + 1 : end - 1], angles=True) if match and end else []


def _is_other_instance(site: LaunchSite, name: KernelName) -> bool:
    """Whether a launch has template arguments that differ from this instance. Only literals and
    fundamental types can be compared, not names of constants."""
    for ours, theirs in zip(site.instance, instance_arguments(name)):
        given = re.sub(r"^\(\w[\w ]*\)", "", theirs)
        if ours != given and (
            (ours.isdigit() and given.isdigit()) or {ours, given} <= _PLAIN_TYPES
        ):
            return True
    return False


def _host_parts(parts: Sequence[CodePart], name: str) -> list[CodePart]:
    """Parts that run on the host and mention a name in their bodies."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    host = (p for p in parts if p.kind in ("function", "module") and not p.is_kernel)
    return [
        part for part in host if part.names[:1] != (name,) and word.search(part.text, part.body)
    ]


def _launch_sites(parts: Sequence[CodePart], kernel: CodePart) -> list[LaunchSite]:
    """Every launch of the kernel; without one, every other mention of it in host code."""
    word = re.compile(rf"(?<!\w){re.escape(kernel.names[0])}(?!\w)")
    launches: list[LaunchSite] = []
    mentions: list[LaunchSite] = []
    for part in _host_parts(parts, kernel.names[0]):
        for index, statement in enumerate(statements_of(part)):
            for match in word.finditer(statement.text):
                site, is_launch = _launch(part, index, statement.text, match.end())
                (launches if is_launch else mentions).append(site)
                if len(launches) + len(mentions) >= _MOST_MENTIONS:
                    return (launches or mentions)[:_MOST_SITES]
    return (launches or mentions)[:_MOST_SITES]


def _launch(part: CodePart, index: int, text: str, end: int) -> tuple[LaunchSite, bool]:
    """The site of a kernel whose name ends at `end`, and whether it is a launch."""
    at = len(text) - len(text[end:].lstrip())
    if is_python(part.file):
        opened = closing_bracket(text, at) + 1 if text[at : at + 1] == "[" else len(text)
        launched = text[opened : opened + 1] == "("
        return LaunchSite(part, index, _arguments(text, opened)), launched
    has_instance = text[at : at + 1] == "<" and text[at : at + 3] != "<<<"
    after = after_angles(text, at) if has_instance else at
    instance = split_commas(text[at + 1 : after - 1], angles=True) if after > at else []
    if text[after:].lstrip().startswith("<<<"):
        behind = text.find(">>>", after) + 3
        opened = len(text) - len(text[behind:].lstrip()) if behind > 2 else len(text)
        return LaunchSite(part, index, _arguments(text, opened), instance), True
    launcher = _LAUNCHER.search(text, 0, end)
    arguments = None
    if launcher and launcher[0] in ("cudaLaunchKernelEx", "hipLaunchKernelGGL"):
        leading = 4 if launcher[0][0] == "h" else 0
        opened = text.find("(", launcher.end())
        after_kernel = text[after : closing_bracket(text, opened)].lstrip(" ,\n")
        arguments = split_commas(after_kernel)[leading:]
    return LaunchSite(part, index, arguments, instance), launcher is not None


def _arguments(text: str, opened: int) -> list[str] | None:
    if text[opened : opened + 1] != "(":
        return None
    return split_commas(text[opened + 1 : closing_bracket(text, opened)])


def _launch_path(parts: Sequence[CodePart], sites: Sequence[LaunchSite]) -> list[LaunchSite]:
    """The launches, then the calls of the functions that contain them, up to `main`."""
    path, level = list(sites), list(sites)
    seen = {(id(site.caller), site.at) for site in sites}
    for _ in range(_CALLER_LEVELS):
        callers = {
            s.caller.names[0] for s in level if s.caller.names and s.caller.names != ("main",)
        }
        above = [site for name in sorted(callers) for site in _calls(parts, name)]
        level = [site for site in above if (id(site.caller), site.at) not in seen]
        seen |= {(id(site.caller), site.at) for site in level}
        path += level
    return path[: 2 * _MOST_SITES]


def _calls(parts: Sequence[CodePart], name: str) -> list[LaunchSite]:
    """Host statements that call a function by its name."""
    word = re.compile(rf"(?<![\w.>]){re.escape(name)}(?!\w)\s*")
    found: list[LaunchSite] = []
    for part in _host_parts(parts, name):
        for index, statement in enumerate(statements_of(part)):
            if len(found) < _MOST_SITES and (match := word.search(statement.text)):
                opened = max(after_angles(statement.text, match.end()), match.end())
                found.append(LaunchSite(part, index, _arguments(statement.text, opened)))
    return found


def set_up(site: LaunchSite) -> list[SourceStatement]:
    """Statements that a launch depends on, found backwards through the names in the function that
    it is in: what gives grid, block, sizes and arguments first, then allocations and copies."""
    statements, own = statements_of(site.caller), site.statement
    sizes = [statements[index] for index in own.headers]
    memory: list[SourceStatement] = []
    needed = names_of(own.text).union(*(names_of(header.text) for header in sizes))
    for statement in reversed(statements[: site.at]):
        if _defined(statement, site.caller) & needed and statement not in sizes:
            (memory if _ALLOCATES.search(statement.text) else sizes).append(statement)
            needed |= names_of(statement.text)
    return [*sizes, *memory]


def _defined(statement: SourceStatement, part: CodePart) -> set[str]:
    """Variables that a statement declares, assigns to, or passes by address; for a copy, its
    destination."""
    text = statement.text
    assigned = _ASSIGNS.match(text)
    left = NAME.findall(assigned[1]) if assigned else []
    if is_python(part.file):
        return set(left)
    copied = [name for copy in _COPY.finditer(text) for name in names_of(copy[1])]
    declared = [each.name for each in declarators(text)]
    return {*left[-1:], *declared, *_ADDRESS.findall(text), *copied}
