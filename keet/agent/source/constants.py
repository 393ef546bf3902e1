"""Named constants of a kernel's source whose values can be computed from the text.

First every place in the source that gives a name a value is collected, then the values are
computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.agent.source.code_parts import (
    CodePart,
    Token,
    after_angles,
    c_tokens,
    closing,
    is_conditional,
    is_fortran,
    is_python,
    macro_of,
    python_tokens,
    split_commas,
    written,
)
from keet.agent.source.constant_expressions import (
    MacroFunction,
    NotConstantError,
    Number,
    Scope,
    evaluate,
    is_float_type,
    is_integer_type,
    number_of,
    struct_size,
    type_size,
)
from keet.agent.source.cpp import (
    changed_names,
    declarators,
    is_assignment,
)
from keet.agent.source.kernel_source import (
    KernelSource,
    LaunchSite,
    instance_arguments,
    kernel_source,
)
from keet.agent.source.languages import (
    assigned_values,
    fortran_tokens,
    fortran_values,
    python_changes,
    statements_of,
)
from keet.agent.source.source_listing import kernel_files
from keet.profile import Launch
from keet.profile.names import file_name

_MOST_PASSES = 12
"""Names may depend on names that are defined later; longer chains stay unknown."""
_LONGEST_TEXT = 80


class Constant(NamedTuple):
    """A name of the source and the value that it has in this launch."""

    value: int | float
    text: str
    """The expression as the source writes it: `1 << 24`."""
    place: str
    """`file.cu:12`; `launch name` for a template argument of the launched instance."""
    assumed: str = ""
    """Why this build may have another value; empty if the value is certain."""


class SourceConstants(NamedTuple):
    known: Mapping[str, Constant]
    ambiguous: Mapping[str, str]
    """Names without one certain value, and why: `n`: "has several values: ..."."""
    sizes: Mapping[str, int]
    """Bytes of the types that the source gives names to: aliases, and type parameters of the
    launched instance."""


def read_constants(launch: Launch) -> SourceConstants:
    """The constants, the names without a single value, and the sizes of types."""
    files = kernel_files(launch)
    found = _definitions_of(kernel_source(launch, files), launch)
    by_name: dict[str, list[_ValueDefinition]] = {}
    for each in _different(found.values):
        by_name.setdefault(each.name, []).append(each)
    ambiguous = {name: f"{why} with no constant argument" for name, why in found.unbound.items()}
    for name, how in found.changes.items():
        if name not in by_name or not all(each.fixed for each in by_name[name]):
            ambiguous[name] = how
    pending = {name: each for name, each in by_name.items() if name not in ambiguous}
    guarded = _guarded(launch, files)
    known = _solve(pending, ambiguous, found.sizes, found.macros, guarded)
    return SourceConstants(known, ambiguous, found.sizes)


def source_constants(launch: Launch) -> Mapping[str, Constant]:
    """Names of the kernel's files whose value is known: defines, constants, enumerators, host
    variables that are set once, template arguments of this instance, kernel parameters that every
    launch of the kernel in the source passes the same value for."""
    return read_constants(launch).known


def source_literals(launch: Launch) -> set[float]:
    """Every integer and decimal literal of the kernel's files, also those inside expressions."""
    found: set[float] = set()
    for file in kernel_files(launch):
        for token in _tokens(file, launch.source_files.get(file) or ""):
            inner = c_tokens(token.text.lstrip("# \t")) if token.kind == "directive" else [token]
            values = [number_of(each.text) for each in inner if each.kind == "number"]
            found.update(float(value) for value in values if value is not None)
    return found


def _different(definitions: Sequence[_ValueDefinition]) -> Iterable[_ValueDefinition]:
    """Without repeated definitions."""
    found: dict[tuple[object, ...], _ValueDefinition] = {}
    for each in definitions:
        found.setdefault((each.name, each.number, *(t.text for t in each.value)), each)
    return found.values()


def _tokens(file: str, text: str) -> list[Token]:
    if is_python(file):
        return python_tokens(text)
    return fortran_tokens(text) if is_fortran(file) else c_tokens(text)


def _guarded(launch: Launch, files: Sequence[str]) -> set[str]:
    texts = [launch.source_files.get(file) or "" for file in files if not is_python(file)]
    return {name for text in texts for name in _guarded_macros(text)}


def _solve(
    pending: dict[str, list[_ValueDefinition]],
    ambiguous: dict[str, str],
    sizes: Mapping[str, int],
    macros: Mapping[str, MacroFunction],
    guarded: set[str],
) -> dict[str, Constant]:
    """Gives values to the names whose definitions can be computed and agree, until no more can."""
    known: dict[str, Constant] = {}
    numbers: dict[str, Number] = {}
    reasons: dict[str, str] = {}
    for _ in range(_MOST_PASSES):
        before = len(pending)
        for name in list(pending):
            try:
                values = [_value(each, numbers, sizes, macros) for each in pending[name]]
            except NotConstantError as problem:
                reasons[name] = f"{problem} ({pending[name][0].place})"
                continue
            definitions = pending.pop(name)
            if len(set(values)) == 1:
                numbers[name] = values[0]
                known[name] = _constant(definitions[0], values[0], known, guarded)
            else:
                ambiguous[name] = _several(definitions, values)
        if len(pending) == before:
            break
    ambiguous.update((name, reasons.get(name, "it is not a constant")) for name in pending)
    return known


def _value(
    definition: _ValueDefinition,
    numbers: Mapping[str, Number],
    sizes: Mapping[str, int],
    macros: Mapping[str, MacroFunction],
) -> Number:
    value = evaluate(definition.value, Scope(numbers, sizes, macros, definition.python))
    return definition.number(value) if definition.number else value


def _constant(
    definition: _ValueDefinition, value: Number, known: Mapping[str, Constant], guarded: set[str]
) -> Constant:
    """What is built from an assumed value is assumed as well."""
    built_from = [known[token.text] for token in definition.value if token.text in known]
    assumed = next((each.assumed for each in built_from if each.assumed), "")
    if definition.name in guarded:
        assumed = f"the build may define another {definition.name}"
    text = written(definition.value)[:_LONGEST_TEXT]
    return Constant(value, text, definition.place, assumed)


def _several(definitions: Sequence[_ValueDefinition], values: Sequence[Number]) -> str:
    first = {value: each.place for each, value in zip(definitions, values)}
    told = ", ".join(f"{value} at {place}" for value, place in list(first.items())[:4])
    return f"it has several values: {told}"


_FIXED = frozenset({"const", "constexpr", "consteval", "constinit"})


class _ValueDefinition(NamedTuple):
    name: str
    value: Sequence[Token]
    place: str
    number: type[int] | type[float] | None = None
    """Conversion by its declared type; None: no conversion."""
    fixed: bool = False
    """A macro or constant: nothing can change it later."""
    python: bool = False


class _ValueDefinitions(NamedTuple):
    values: Sequence[_ValueDefinition]
    changes: Mapping[str, str]
    """Variables that change, and how: they are not constants."""
    unbound: Mapping[str, str]
    """Parameters whose arguments are not in the source, and of what."""
    sizes: Mapping[str, int]
    macros: Mapping[str, MacroFunction]


def _definitions_of(source: KernelSource, launch: Launch) -> _ValueDefinitions:
    scopes = _scopes(source)
    values = [each for part in source.parts for each in _of_part(part)]
    values += [each for part in scopes for each in _of_body(part)]
    arguments = _template_arguments(source, launch)
    bound, unbound = _parameters(source)
    values += [_ValueDefinition(n, v, "launch name", fixed=True) for n, v in arguments.items()]
    return _ValueDefinitions(
        [*values, *bound],
        {name: how for part in scopes for name, how in _changes(part)},
        unbound,
        _sizes(source.parts, arguments),
        _macros(source.parts),
    )


def _place(part: CodePart, tokens: Sequence[Token]) -> str:
    return f"{file_name(part.file)}:{tokens[0].line if tokens else part.first}"


def _scopes(source: KernelSource) -> list[CodePart]:
    """Functions whose variables matter: the kernel, what it calls, and the callers of its launch.
    All host functions if no launch names the kernel."""
    above = [site.caller for site in source.path]
    if not above:
        above = [part for part in source.parts if part.kind in ("function", "module")]
        above = [part for part in above if not part.is_kernel]
    chosen = [*([source.kernel] if source.kernel else []), *source.used, *above]
    return list({id(part): part for part in chosen if part.body or part.kind == "module"}.values())


# --- definitions outside of functions


def _of_part(part: CodePart) -> Iterator[_ValueDefinition]:
    if part.kind == "macro":
        yield from _of_macro(part)
    elif part.kind == "type" and any(token.text == "enum" for token in part.tokens[:3]):
        yield from _enumerators(part)
    elif part.kind == "type":
        yield from _static_members(part)
    elif part.kind == "value":
        yield from _of_statement(part, part.tokens)


def _of_macro(part: CodePart) -> Iterator[_ValueDefinition]:
    macro = macro_of(part.tokens[0])
    if macro and macro.parameters is None and macro.body:
        yield _ValueDefinition(macro.name, macro.body, _place(part, ()), fixed=True)


def _enumerators(part: CodePart) -> Iterator[_ValueDefinition]:
    opened = next((at for at, token in enumerate(part.tokens) if token.text == "{"), None)
    if opened is None:
        return
    before: list[Token] = c_tokens("-1", part.first)
    for each in split_commas(part.tokens[opened + 1 : closing(part.tokens, opened)]):
        value = (
            each[2:]
            if len(each) > 2 and each[1].text == "="
            else c_tokens("1+", each[0].line) + before
        )
        if len(value) > 80:
            return  # too many enumerators without values: each refers to the one before
        yield _ValueDefinition(each[0].text, value, _place(part, each), int, fixed=True)
        before = [Token("name", each[0].text, each[0].line)]


def _static_members(part: CodePart) -> Iterator[_ValueDefinition]:
    """`static constexpr int` inside of a class; other members have a value per object."""
    for at, token in enumerate(part.tokens):
        if token.text == "constexpr":
            end = next((i for i in range(at, len(part.tokens)) if part.tokens[i].text in ";{"), at)
            yield from _of_statement(part, part.tokens[at:end])


def _of_statement(part: CodePart, tokens: Sequence[Token]) -> Iterator[_ValueDefinition]:
    if is_python(part.file):
        for name, value in assigned_values(tokens):
            yield _ValueDefinition(name, value, _place(part, tokens), python=True)
        return
    if is_fortran(part.file):
        for name, value in fortran_values(tokens):
            yield _ValueDefinition(name, value, _place(part, tokens), fixed=True)
        return
    for each in declarators(tokens):
        if each.value is None or not _is_number(each.type):
            continue
        fixed = any(token.text in _FIXED for token in each.type)
        yield _ValueDefinition(
            each.name, each.value, _place(part, tokens), _number(each.type), fixed
        )


def _is_number(kind: Sequence[Token]) -> bool:
    if any(token.text in ("*", "&") for token in kind):
        return False
    return is_integer_type(kind) or is_float_type(kind)


def _number(kind: Sequence[Token]) -> type[int] | type[float] | None:
    if any(token.text == "auto" for token in kind):
        return None
    return float if is_float_type(kind) else int


# --- bodies, parameters, template arguments


def _of_body(part: CodePart) -> Iterator[_ValueDefinition]:
    for token in part.tokens:
        if token.kind == "directive" and (macro := macro_of(token)) and macro.parameters is None:
            yield _ValueDefinition(macro.name, macro.body, _place(part, [token]), fixed=True)
    for statement in statements_of(part):
        if (
            part.kind != "module" or statement.headers
        ):  # other statements of a module are parts themselves
            yield from _of_statement(part, statement.tokens)
        if not is_python(part.file) and is_assignment(statement.tokens):
            value = [token for token in statement.tokens[2:] if token.text != ";"]
            yield _ValueDefinition(statement.tokens[0].text, value, _place(part, statement.tokens))


def _changes(part: CodePart) -> Iterator[tuple[str, str]]:
    changes = python_changes if is_python(part.file) else changed_names
    for statement in statements_of(part):
        for name, how in changes(statement.tokens):
            yield name, f"{how} at {_place(part, statement.tokens)}"


def _parameters_of(part: CodePart) -> list[tuple[str, Sequence[Token]]]:
    """Names and types of a function's parameters, in order."""
    opened = _parameter_list(part)
    if opened is None:
        return []
    inside = part.head[opened + 1 : closing(part.head, opened)]
    return [_parameter(each) for each in split_commas(inside, angles=not is_python(part.file))]


def _parameter_list(part: CodePart) -> int | None:
    head, name = part.head, part.names[0] if part.names else ""
    found = [
        at + 1 for at in range(len(head) - 1) if head[at].text == name and head[at + 1].text == "("
    ]
    return found[-1] if found else None


def _parameter(tokens: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    ends = [at for at, token in enumerate(tokens) if token.text in ("=", "[", ":")]
    before = tokens[: ends[0]] if ends and tokens[ends[0]].text != "::" else tokens
    names = [token.text for token in before if token.kind == "name"]
    return (names[-1] if names else ""), tokens


def _parameters(source: KernelSource) -> tuple[list[_ValueDefinition], dict[str, str]]:
    """Arguments of the kernel and of the functions that lead to its launch."""
    bound: list[_ValueDefinition] = []
    unbound: dict[str, str] = {}
    functions = [source.kernel, *(site.caller for site in source.path)]
    for function in {id(part): part for part in functions if part and part.body}.values():
        sites = _sites_of(function, source)
        for index, (name, kind) in enumerate(_parameters_of(function)):
            if not name or any(token.text in ("*", "&&") for token in kind):
                continue
            values = [_argument(site, index, name) for site in sites]
            if not values or any(value is None for value in values):
                unbound[name] = f"parameter of {function.names[0]}"
            bound += [_binding(name, value, site) for value, site in zip(values, sites) if value]
    return [each for each in bound if [t.text for t in each.value] != [each.name]], unbound


def _sites_of(function: CodePart, source: KernelSource) -> list[LaunchSite]:
    if function is source.kernel:
        return list(source.sites)
    calls = [site for site in source.path if site not in source.sites]
    return [s for s in calls if any(t.text in function.names for t in s.statement.tokens)]


def _argument(site: LaunchSite, index: int, name: str) -> list[Token] | None:
    arguments = site.arguments or []
    for each in arguments:
        if len(each) > 2 and each[0].text == name and each[1].text == "=":
            return each[2:]
    plain = [each for each in arguments if len(each) < 2 or each[1].text != "="]
    return plain[index] if index < len(plain) else None


def _binding(name: str, value: Sequence[Token], site: LaunchSite) -> _ValueDefinition:
    python = is_python(site.caller.file)
    return _ValueDefinition(name, value, _place(site.caller, site.statement.tokens), python=python)


def _template_arguments(source: KernelSource, launch: Launch) -> dict[str, list[Token]]:
    """Parameters of the kernel's template with the arguments of this instance."""
    if source.kernel is None:
        return {}
    return dict(zip(_template_parameters(source.kernel.head), instance_arguments(launch.name)))


def _template_parameters(head: Sequence[Token]) -> list[str]:
    """In order, up to a parameter pack."""
    if not head or head[0].text != "template":
        return []
    names: list[str] = []
    for each in split_commas(head[2 : after_angles(head, 1) - 1], angles=True):
        if any(token.text == "..." for token in each):
            break
        names.append(_parameter(each)[0])
    return names


def _sizes(parts: Sequence[CodePart], arguments: Mapping[str, Sequence[Token]]) -> dict[str, int]:
    """Bytes of aliases and of the kernel's type parameters; none where two definitions differ."""
    found: dict[str, int] = {}
    for name, tokens in arguments.items():
        size = type_size(tokens, {})
        found |= {name: size} if size else {}
    differing: set[str] = set()
    for part in parts:
        words = [token.text for token in part.tokens[:3]]
        if part.kind != "type" or not part.names or words[0] not in ("using", "typedef"):
            continue
        kind = part.tokens[3:-1] if words[0] == "using" else part.tokens[1:-2]
        size, name = type_size(kind, found) if kind else None, part.names[-1]
        if size is None or found.get(name, size) != size:
            differing.add(name)
        else:
            found[name] = size
    found = {name: size for name, size in found.items() if name not in differing}
    return found | _struct_sizes(parts, found)


def _struct_sizes(parts: Sequence[CodePart], sizes: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        size = struct_size(part.tokens, {**sizes, **found}) if part.kind == "type" else None
        if size and len(part.names) == 1 and found.get(part.names[0], size) == size:
            found[part.names[0]] = size
    return found


def _macros(parts: Sequence[CodePart]) -> dict[str, MacroFunction]:
    """Macros with parameters, and functions that only return an expression."""
    found: dict[str, MacroFunction] = {}
    for part in parts:
        macro = macro_of(part.tokens[0]) if part.kind == "macro" else None
        if macro and macro.parameters is not None:
            found[macro.name] = MacroFunction(macro.parameters, macro.body)
        elif part.kind == "function" and part.body and part.in_cpp:
            body = part.tokens[part.body + 1 : -1]
            if len(body) > 2 and body[0].text == "return" and _only(body):
                names = [name for name, _ in _parameters_of(part)]
                found[part.names[0] if part.names else ""] = MacroFunction(names, body[1:-1])
    return found


def _only(body: Sequence[Token]) -> bool:
    return body[-1].text == ";" and sum(token.text == ";" for token in body) == 1


def _guarded_macros(text: str) -> set[str]:
    """Macros defined inside of `#ifndef NAME`: a build may set them with -D."""
    found: set[str] = set()
    guards: list[str] = []
    for token in c_tokens(text):
        if token.kind != "directive":
            continue
        words = token.text.lstrip("# \t").split()
        if is_conditional(token, "if"):
            guards.append(words[1] if words[:1] == ["ifndef"] and len(words) > 1 else "")
        elif is_conditional(token, "endif") and guards:
            guards.pop()
        elif (macro := macro_of(token)) and macro.name in guards and macro.body:
            found.add(macro.name)
    return found
