"""Named constants of a kernel's source whose values can be computed from the text.

First every place in the source that gives a name a value is collected, then the values are
computed. A name with several values, or one that changes, has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.agent.source.constant_expressions import (
    NUMBER,
    Number,
    converted,
    evaluate,
    number_of,
    type_size,
)
from keet.agent.source.kernel_source import (
    KernelSource,
    LaunchSite,
    instance_arguments,
    kernel_source,
)
from keet.agent.source.scanner import (
    DIRECTIVE,
    NAME,
    CodePart,
    after_angles,
    assigned_values,
    blanked,
    closing_bracket,
    declarators,
    fortran_values,
    is_fortran,
    is_python,
    macro_of,
    names_of,
    split_commas,
    statements_of,
)
from keet.agent.source.source_listing import kernel_files
from keet.profile import Launch
from keet.profile.names import file_name

_MOST_PASSES = 12
"""Names may depend on names that are defined later; longer chains stay unknown."""
_LONGEST_TEXT = 80
_PLAIN_ASSIGNMENT = re.compile(r"([^\W\d]\w*)\s*=(?!=)\s*(.*)", re.DOTALL)
_OWN_NAME = r"(?<![\w.])(?<!->)(?<!::)([^\W\d]\w*)"
_CHANGED = re.compile(
    rf"(?:\+\+|--)\s*{_OWN_NAME}|{_OWN_NAME}\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)=)"
    rf"|[(,)]\s*&\s*{_OWN_NAME}"
)
_ASSIGNED = re.compile(rf"{_OWN_NAME}\s*=(?!=)")
_ALIAS = re.compile(r"\s*using\s+(\w+)\s*=\s*([^;{]*);|\s*typedef\s+([^;{]*?)\b(\w+)\s*;")
_STATIC_MEMBER = re.compile(r"\bconstexpr\s+[^;{}()]*=[^;{}]*;")


class Constant(NamedTuple):
    """A name of the source and the value that it has in this launch."""

    value: Number
    text: str
    """The expression as the source writes it: `1 << 24`."""
    place: str
    """`file.cu:12`; `launch name` for a template argument of the launched instance."""
    assumed: str = ""
    """Why this build may have another value; empty if the value is certain."""


class _ValueDefinition(NamedTuple):
    name: str
    value: str
    place: str
    type: str = ""
    """Declared type; empty: no conversion."""
    fixed: bool = False
    """A macro or constant: nothing can change it later."""
    python: bool = False


def source_constants(launch: Launch) -> Mapping[str, Constant]:
    """Names of the kernel's files whose value is known: defines, constants, enumerators, host
    variables that are set once, template arguments of this instance, kernel parameters that every
    launch of the kernel in the source passes the same value for."""
    files = kernel_files(launch)
    source = kernel_source(launch, files)
    scopes = _scopes(source)
    arguments = _template_arguments(source, launch)
    bound, unbound = _parameters(source)
    definitions = [each for part in source.parts for each in _of_part(part)]
    definitions += [each for part in scopes for each in _of_body(part)]
    definitions += [_ValueDefinition(n, v, "launch name", fixed=True) for n, v in arguments.items()]
    pending: dict[str, list[_ValueDefinition]] = {}
    for each in (*definitions, *bound):
        same = [d for d in pending.setdefault(each.name, []) if d[1::3] == each[1::3]]
        pending[each.name] += [] if same else [each]
    changed = {name for part in scopes for name in _changed(part)}
    for name, found in list(pending.items()):
        if name in unbound or (name in changed and not all(each.fixed for each in found)):
            del pending[name]
    return _solve(pending, _sizes(source.parts, arguments), _guarded(launch, files))


def source_literals(launch: Launch) -> set[float]:
    """Every integer and decimal literal of the kernel's files, also those inside expressions."""
    texts = [blanked(file, launch.source_files.get(file) or "") for file in kernel_files(launch)]
    values = (number_of(match[0]) for text in texts for match in NUMBER.finditer(text))
    return {float(value) for value in values if value is not None}


def _solve(
    pending: dict[str, list[_ValueDefinition]], sizes: Mapping[str, int], guarded: set[str]
) -> dict[str, Constant]:
    """Gives values to the names whose definitions can be computed and agree, until no more can."""
    known: dict[str, Constant] = {}
    numbers: dict[str, Number] = {}
    for _ in range(_MOST_PASSES):
        before = len(pending)
        for name in list(pending):
            definitions = pending[name]
            values = {_value(each, numbers, sizes) for each in definitions}
            if None in values:
                continue
            del pending[name]
            if len(values) == 1 and (value := values.pop()) is not None:
                numbers[name] = value
                known[name] = _constant(definitions[0], value, known, guarded)
        if len(pending) == before:
            break
    return known


def _value(
    definition: _ValueDefinition, numbers: Mapping[str, Number], sizes: Mapping[str, int]
) -> Number | None:
    value = evaluate(definition.value, numbers, sizes, python=definition.python)
    return converted(value, definition.type) if value is not None and definition.type else value


def _constant(
    definition: _ValueDefinition, value: Number, known: Mapping[str, Constant], guarded: set[str]
) -> Constant:
    """What is built from an assumed value is assumed as well."""
    built_from = (known[name] for name in sorted(names_of(definition.value)) if name in known)
    assumed = next((each.assumed for each in built_from if each.assumed), "")
    if definition.name in guarded:
        assumed = f"the build may define another {definition.name}"
    text = " ".join(definition.value.split())[:_LONGEST_TEXT]
    return Constant(value, text, definition.place, assumed)


def _guarded(launch: Launch, files: Sequence[str]) -> set[str]:
    """Macros defined inside of `#ifndef NAME`: a build may set them with -D."""
    found: set[str] = set()
    for file in files if not all(map(is_python, files)) else ():
        guards: list[str] = []
        for match in DIRECTIVE.finditer(blanked(file, launch.source_files.get(file) or "")):
            words = match[0].replace("#", " ").split() or [""]
            if words[0].startswith("if"):
                guards.append(words[1] if words[0] == "ifndef" and len(words) > 1 else "")
            elif words[0] == "endif":
                guards[-1:] = []
            elif (macro := macro_of(match[0])) and macro.name in guards and macro.body:
                found.add(macro.name)
    return found


def _place(part: CodePart, line: int) -> str:
    return f"{file_name(part.file)}:{line}"


def _scopes(source: KernelSource) -> list[CodePart]:
    """Functions whose variables matter: the kernel, what it calls, and the callers of its launch.
    All host functions if no launch names the kernel."""
    above = [site.caller for site in source.path]
    if not above:
        above = [p for p in source.parts if p.kind in ("function", "module") and not p.is_kernel]
    chosen = [*([source.kernel] if source.kernel else []), *source.used, *above]
    return list({id(part): part for part in chosen if part.body or part.kind == "module"}.values())


# --- definitions


def _of_part(part: CodePart) -> Iterator[_ValueDefinition]:
    if part.kind == "macro":
        macro = macro_of(part.directives)
        if macro and macro.parameters is None and macro.body:
            yield _ValueDefinition(macro.name, macro.body, _place(part, part.first), fixed=True)
    elif part.kind == "value":
        yield from _of_text(part, part.text, part.first)
    elif part.kind == "type" and re.match(r"\s*(?:typedef\s+)?enum\b", part.text):
        yield from _enumerators(part)
    elif part.kind == "type":
        for match in _STATIC_MEMBER.finditer(part.text):
            line = part.first + part.text.count("\n", 0, match.start())
            yield from _of_text(part, match[0], line)


def _enumerators(part: CodePart) -> Iterator[_ValueDefinition]:
    opened = part.text.find("{")
    before = "-1"
    for each in split_commas(part.text[opened + 1 : closing_bracket(part.text, opened)]):
        name, _, value = (text.strip() for text in each.partition("="))
        value = value or f"1 + {before}"
        yield _ValueDefinition(name, value, _place(part, part.first), "int", fixed=True)
        before = name


def _of_text(part: CodePart, text: str, line: int) -> Iterator[_ValueDefinition]:
    place = _place(part, line)
    if is_python(part.file):
        for name, value in assigned_values(text):
            yield _ValueDefinition(name, value, place, python=True)
    elif is_fortran(part.file):
        for name, value in fortran_values(text):
            yield _ValueDefinition(name, value, place, fixed=True)
    else:
        for each in declarators(text):
            if each.value is not None and converted(0, each.type) is not None:
                fixed = bool(names_of(each.type) & {"const", "constexpr", "constinit"})
                yield _ValueDefinition(each.name, each.value, place, each.type, fixed)


def _of_body(part: CodePart) -> Iterator[_ValueDefinition]:
    for each in statements_of(part):
        if part.kind != "module" or each.headers:  # others of a module are parts themselves
            yield from _of_text(part, each.text, each.first)
        assignment = _PLAIN_ASSIGNMENT.match(each.text)
        if assignment and part.in_cpp:
            yield _ValueDefinition(assignment[1], assignment[2], _place(part, each.first))


def _changed(part: CodePart) -> Iterator[str]:
    """Names that change other than by one plain assignment: `n /= 2`, `scanf("%d", &n)`."""
    for each in statements_of(part):
        if part.in_cpp:
            plain = _PLAIN_ASSIGNMENT.match(each.text)
            own = {plain[1]} if plain else {declared.name for declared in declarators(each.text)}
            yield from (
                name for match in _CHANGED.finditer(each.text) for name in match.groups() if name
            )
            yield from set(_ASSIGNED.findall(each.text)) - own
            yield from names_of(each.text) if re.search(r"\bcin\b", each.text) else ()
        elif match := re.match(r"(\w+)\s*(?:[-+*/%&|^@]|//|\*\*|<<|>>)=", each.text):
            yield match[1]
        elif match := re.match(r"for\s+([^:]*?)\s+in\b", each.text):
            yield from NAME.findall(match[1])


# --- parameters and template arguments


def _parameters(source: KernelSource) -> tuple[list[_ValueDefinition], set[str]]:
    """Arguments of the kernel and of the functions that lead to its launch, and the names of
    parameters without one."""
    bound: list[_ValueDefinition] = []
    unbound: set[str] = set()
    functions = [source.kernel, *(site.caller for site in source.path)]
    for function in {id(part): part for part in functions if part and part.body}.values():
        sites = _sites_of(function, source)
        for index, parameter in enumerate(_parameters_of(function)):
            name = _parameter_name(parameter)
            if not name or "*" in parameter or "&&" in parameter:
                continue
            values = [_argument(site, index, name) for site in sites]
            if not values or None in values:
                unbound.add(name)
            for value, site in zip(values, sites):
                if value is not None and value != name:
                    place = _place(site.caller, site.statement.first)
                    python = is_python(site.caller.file)
                    bound.append(_ValueDefinition(name, value, place, python=python))
    return bound, unbound


def _parameters_of(part: CodePart) -> list[str]:
    name = part.names[0] if part.names else ""
    found = list(re.finditer(rf"(?<!\w){re.escape(name)}\s*(?=\()", part.head))
    if not name or not found:
        return []
    at = found[-1].end()
    inside = part.head[at + 1 : closing_bracket(part.head, at)]
    return split_commas(inside, angles=part.in_cpp)


def _parameter_name(text: str) -> str:
    names = NAME.findall(re.split(r"[=\[]|(?<!:):(?!:)", text)[0])
    return names[-1] if names else ""


def _sites_of(function: CodePart, source: KernelSource) -> list[LaunchSite]:
    if function is source.kernel:
        return list(source.sites)
    calls = [site for site in source.path if site not in source.sites]
    return [site for site in calls if names_of(site.statement.text) & set(function.names)]


def _argument(site: LaunchSite, index: int, name: str) -> str | None:
    keyword = re.compile(r"(\w+)\s*=(?!=)\s*")
    plain: list[str] = []
    for each in site.arguments or ():
        match = keyword.match(each)
        if match and match[1] == name:
            return each[match.end() :]
        plain += [] if match else [each]
    return plain[index] if index < len(plain) else None


def _template_arguments(source: KernelSource, launch: Launch) -> dict[str, str]:
    """Parameters of the kernel's template with the arguments of this instance, up to a pack."""
    head = source.kernel.head if source.kernel else ""
    match = re.match(r"\s*template\s*(?=<)", head)
    if match is None:
        return {}
    inside = head[match.end() + 1 : after_angles(head, match.end()) - 1]
    names: list[str] = []
    for each in split_commas(inside, angles=True):
        if "..." in each:
            break
        names.append(_parameter_name(each))
    return dict(zip(names, instance_arguments(launch.name)))


def _sizes(parts: Sequence[CodePart], arguments: Mapping[str, str]) -> dict[str, int]:
    """Bytes of aliases and of the kernel's type parameters; none where two definitions differ."""
    found = {name: size for name, text in arguments.items() if (size := type_size(text, {}))}
    differing: set[str] = set()
    for part in parts:
        alias = _ALIAS.match(part.text) if part.kind == "type" else None
        if alias:
            name, kind = alias[1] or alias[4], alias[2] or alias[3]
            size = type_size(kind, found)
            if size is None or found.get(name, size) != size:
                differing.add(name)
            else:
                found[name] = size
    return {name: size for name, size in found.items() if name not in differing}
