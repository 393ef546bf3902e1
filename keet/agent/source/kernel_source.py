"""Selects the source lines that belong to a kernel, the most useful first.

They include where the host launches it, and the statements that the launch depends on.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from keet.agent.source.code_parts import (
    ASSIGNMENTS,
    CodePart,
    SourceStatement,
    Token,
    after_angles,
    c_tokens,
    closing,
    is_python,
    macro_of,
    member_names,
    split_commas,
    used_names,
)
from keet.agent.source.cpp import declarators
from keet.agent.source.languages import parts_of, procedure_of, statements_of
from keet.profile import Launch
from keet.profile.names import KernelName
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
    sites = [s for s in sites if s.caller is not kernel and not _other_instance(s, launch.name)]
    return KernelSource(parts, kernel, used, sites, _launch_path(parts, sites))


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
        found = _launch_dependencies(site)
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


_LAUNCHERS = re.compile(r"(?:cuda|cu|hip)Launch\w*")
_LEADING_ARGUMENTS = {"hipLaunchKernelGGL": 4, "cudaLaunchKernelEx": 0}
"""Number of arguments between the kernel and its own arguments, per launch function."""
_ALLOCATES = re.compile(
    r"(?:cuda|cu|hip)(?:Malloc|Mem|HostAlloc|HostRegister)\w*|malloc|calloc|new|device_vector"
    r"|host_vector|zeros|ones|empty|rand|randn|randint|full|arange|zeros_like|empty_like"
)
_COPIES = re.compile(r"(?:cuda|cu|hip)Mem(?:cpy|set)\w*")
_PLAIN_TYPES = frozenset(("float", "double", "int", "half", "__half", "__nv_bfloat16"))
_LONGEST_NAME = 20_000
_MOST_CALLER_LEVELS = 3
"""Levels of callers above the launch that are followed."""
_MOST_SITES, _MOST_MENTIONS = 4, 40


class LaunchSite(NamedTuple):
    """A statement that launches the kernel, or that calls the function which does."""

    caller: CodePart
    statements: Sequence[SourceStatement]
    at: int
    """Index of the statement."""
    arguments: list[list[Token]] | None
    """None if they are not written one by one, as for `cudaLaunchKernel`."""
    instance: list[list[Token]]
    """Template arguments that are written out."""

    @property
    def statement(self) -> SourceStatement:
        return self.statements[self.at]


def launch_sites(parts: Sequence[CodePart], kernel: str) -> list[LaunchSite]:
    """Every launch of the kernel; without one, every other mention of it in host code."""
    found = list(islice(_sites(parts, kernel), _MOST_MENTIONS))
    launches = [site for site, launched in found if launched]
    return (launches or [site for site, _ in found])[:_MOST_SITES]


def _sites(parts: Sequence[CodePart], kernel: str) -> Iterator[tuple[LaunchSite, bool]]:
    for part in _host_parts(parts):
        if not any(token.text == kernel for token in part.tokens[part.body :]):
            continue
        statements = statements_of(part)
        for index, statement in enumerate(statements):
            for at, token in enumerate(statement.tokens):
                if token.text == kernel and token.kind == "name":
                    instance, arguments, launched = _launch(statement.tokens, at, part.file)
                    yield LaunchSite(part, statements, index, arguments, instance), launched


def instance_arguments(name: KernelName) -> list[list[Token]]:
    """Template arguments of the launched instance, from its demangled name."""
    tokens = c_tokens(name.full[:_LONGEST_NAME])
    for at, token in enumerate(tokens):
        if token.text == name.function and _text(tokens, at + 1) == "<":
            end = after_angles(tokens, at + 1)
            return split_commas(tokens[at + 2 : end - 1], angles=True)
    return []


def _other_instance(site: LaunchSite, name: KernelName) -> bool:
    """Whether a launch has template arguments that differ from this instance."""
    launched = instance_arguments(name)
    return any(_differ(ours, theirs) for ours, theirs in zip(site.instance, launched))


def _differ(ours: Sequence[Token], theirs: Sequence[Token]) -> bool:
    """Only literals and fundamental types can be compared, not names of constants."""
    if len(ours) != 1 or not theirs:
        return False
    written, given = ours[0].text, theirs[-1].text
    comparable = ours[0].kind == theirs[-1].kind == "number" or {written, given} <= _PLAIN_TYPES
    return comparable and written != given


def _host_parts(parts: Sequence[CodePart]) -> Iterator[CodePart]:
    for part in parts:
        in_function = part.kind == "function" and (is_python(part.file) or not part.is_kernel)
        if in_function or part.kind == "module":
            yield part


def _launch(
    tokens: Sequence[Token], at: int, file: str
) -> tuple[list[list[Token]], list[list[Token]] | None, bool]:
    """Template arguments and arguments at `at`, and whether it is a launch."""
    end = after_angles(tokens, at + 1) if _text(tokens, at + 1) == "<" else at + 1
    instance = split_commas(tokens[at + 2 : end - 1], angles=True) if end > at + 1 else []
    if is_python(file):
        opened = closing(tokens, at + 1) + 1 if _text(tokens, at + 1) == "[" else 0
        launched = bool(opened) and _text(tokens, opened) == "("
        return [], _arguments(tokens, opened) if launched else None, launched
    if _text(tokens, end) == "<<<":
        opened = _behind_configuration(tokens, end)
        return instance, _arguments(tokens, opened), True
    launcher = next((t.text for t in tokens[:at] if _LAUNCHERS.fullmatch(t.text)), None)
    return instance, _launcher_arguments(tokens, at, launcher), launcher is not None


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""


def _behind_configuration(tokens: Sequence[Token], at: int) -> int:
    for index in range(at, len(tokens)):
        if tokens[index].text == ">>>":
            return index + 1
    return len(tokens)


def _arguments(tokens: Sequence[Token], opened: int) -> list[list[Token]] | None:
    if _text(tokens, opened) != "(":
        return None
    return split_commas(tokens[opened + 1 : closing(tokens, opened)])


def _launcher_arguments(
    tokens: Sequence[Token], at: int, launcher: str | None
) -> list[list[Token]] | None:
    if launcher not in _LEADING_ARGUMENTS:
        return None
    opened = next((i for i in range(at, -1, -1) if tokens[i].text == "("), 0)
    after = split_commas(tokens[at : closing(tokens, opened)], angles=True)
    return after[1 + _LEADING_ARGUMENTS[launcher] :]


def _callers_of(parts: Sequence[CodePart], function: CodePart) -> list[LaunchSite]:
    """Host statements that call a function by its name."""
    name = function.names[0] if function.names else ""
    found: list[LaunchSite] = []
    for part in _host_parts(parts):
        if len(found) >= _MOST_SITES:
            break
        if part is function or not any(t.text == name for t in part.tokens[part.body :]):
            continue
        statements = statements_of(part)
        found += [s for i in range(len(statements)) if (s := _call(part, statements, i, name))]
    return found[:_MOST_SITES]


def _call(
    part: CodePart, statements: Sequence[SourceStatement], index: int, name: str
) -> LaunchSite | None:
    tokens = statements[index].tokens
    for at, token in enumerate(tokens):
        if token.text == name and _text(tokens, at - 1) not in (".", "->"):
            end = after_angles(tokens, at + 1) if _text(tokens, at + 1) == "<" else at + 1
            return LaunchSite(part, statements, index, _arguments(tokens, end), [])
    return None


def _launch_path(parts: Sequence[CodePart], sites: Sequence[LaunchSite]) -> list[LaunchSite]:
    """The launches, then the calls of the functions that contain them, up to `main`."""
    path = list(sites)
    level = list(sites)
    seen = {(id(site.caller), site.at) for site in sites}
    for _ in range(_MOST_CALLER_LEVELS):
        functions = {
            id(s.caller): s.caller for s in level if s.caller.names[:1] not in ((), ("main",))
        }
        above = [site for function in functions.values() for site in _callers_of(parts, function)]
        level = [site for site in above if (id(site.caller), site.at) not in seen]
        seen |= {(id(site.caller), site.at) for site in level}
        path += level
    return path[: 2 * _MOST_SITES]


class _LaunchDependencies(NamedTuple):
    """Statements before a launch that it depends on."""

    sizes: list[SourceStatement]
    """Grid, block, sizes, arguments, and the loops around the launch."""
    memory: list[SourceStatement]
    """Allocations and copies of what is passed."""


def _launch_dependencies(site: LaunchSite) -> _LaunchDependencies:
    """Follows the names of the launch backwards through the function that it is in."""
    around = _LaunchDependencies([site.statements[i] for i in site.statement.headers], [])
    needed = site.statement.names.union(*(header.names for header in around.sizes))
    defined = _python_defined if is_python(site.caller.file) else _defined
    for statement in reversed(site.statements[: site.at]):
        if not defined(statement) & needed or statement in around.sizes:
            continue
        if any(_ALLOCATES.fullmatch(token.text) for token in statement.tokens):
            around.memory.append(statement)
            needed |= _size_names(statement)
        else:
            around.sizes.append(statement)
            needed |= statement.names
    return around


def _defined(statement: SourceStatement) -> set[str]:
    """Variables that a statement declares, assigns to, or passes by address; for a copy, its
    destination."""
    tokens = statement.tokens
    found = {each.name for each in declarators(tokens)}
    equals = next((at for at, token in enumerate(tokens) if token.text in ASSIGNMENTS), 0)
    found |= used_names(_assigned_variable(tokens[:equals]))
    for at, token in enumerate(tokens):
        if token.text == "&" and _text(tokens, at - 1) in ("(", ",", ")"):
            found |= {_text(tokens, at + 1)}
        elif _COPIES.fullmatch(token.text) and _text(tokens, at + 1) == "(":
            arguments = _arguments(tokens, at + 1) or [[]]
            found |= used_names(arguments[0]) if arguments else set()
    return found


def _python_defined(statement: SourceStatement) -> set[str]:
    tokens = statement.tokens
    equals = next((at for at, token in enumerate(tokens) if token.text in ASSIGNMENTS), 0)
    return used_names(_assigned_variable(tokens[:equals]))


def _assigned_variable(left: Sequence[Token]) -> Sequence[Token]:
    """`p` of `p.n = `, `p[i] = `; of `a, b = ` both."""
    for at, token in enumerate(left):
        if token.text in ("[", ".", "->", ":"):
            return left[:at]
        if token.text == "(":
            return ()
    return left


def _size_names(statement: SourceStatement) -> set[str]:
    """Names in an allocation or copy that give its size."""
    for at, token in enumerate(statement.tokens):
        if _ALLOCATES.fullmatch(token.text):
            arguments = _arguments(statement.tokens, at + 1)
            skipped = 2 if _COPIES.fullmatch(token.text) else 0
            if arguments:
                return {name for part in arguments[skipped:] for name in used_names(part)}
    return statement.names
