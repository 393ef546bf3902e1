"""Finds where the host launches a kernel, and the statements that the launch depends on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from keet.agent.source.code_parts import ASSIGNMENTS, CodePart, SourceStatement, used_names
from keet.agent.source.cpp_statements import declarators
from keet.agent.source.languages import statements_of
from keet.agent.source.tokens import (
    Token,
    after_angles,
    c_tokens,
    closing,
    is_python,
    split_commas,
)
from keet.profile.names import KernelName

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
_HIGHEST = 3
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


def other_instance(site: LaunchSite, name: KernelName) -> bool:
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


def callers_of(parts: Sequence[CodePart], function: CodePart) -> list[LaunchSite]:
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


def launch_path(parts: Sequence[CodePart], sites: Sequence[LaunchSite]) -> list[LaunchSite]:
    """The launches, then the calls of the functions that contain them, up to `main`."""
    path = list(sites)
    level = list(sites)
    seen = {(id(site.caller), site.at) for site in sites}
    for _ in range(_HIGHEST):
        functions = {
            id(s.caller): s.caller for s in level if s.caller.names[:1] not in ((), ("main",))
        }
        above = [site for function in functions.values() for site in callers_of(parts, function)]
        level = [site for site in above if (id(site.caller), site.at) not in seen]
        seen |= {(id(site.caller), site.at) for site in level}
        path += level
    return path[: 2 * _MOST_SITES]


class LaunchDependencies(NamedTuple):
    """Statements before a launch that it depends on."""

    sizes: list[SourceStatement]
    """Grid, block, sizes, arguments, and the loops around the launch."""
    memory: list[SourceStatement]
    """Allocations and copies of what is passed."""


def launch_dependencies(site: LaunchSite) -> LaunchDependencies:
    """Follows the names of the launch backwards through the function that it is in."""
    around = LaunchDependencies([site.statements[i] for i in site.statement.headers], [])
    needed = site.statement.names.union(*(header.names for header in around.sizes))
    defined = _python_defined if is_python(site.caller.file) else _defined
    for statement in reversed(site.statements[: site.at]):
        if not defined(statement) & needed or statement in around.sizes:
            continue
        if _is_memory(statement):
            around.memory.append(statement)
            needed |= _size_names(statement)
        else:
            around.sizes.append(statement)
            needed |= statement.names
    return around


def _is_memory(statement: SourceStatement) -> bool:
    return any(_ALLOCATES.fullmatch(token.text) for token in statement.tokens)


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
