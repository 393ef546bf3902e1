"""Named constants of a kernel's source whose values can be computed from the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from keet.agent.source.constant_expressions import (
    MacroFunction,
    NotConstantError,
    Number,
    Scope,
    evaluate,
    number_of,
)
from keet.agent.source.fortran import fortran_tokens
from keet.agent.source.kernel_source import kernel_source
from keet.agent.source.source_listing import kernel_files
from keet.agent.source.tokens import Token, c_tokens, is_fortran, is_python, python_tokens, written
from keet.agent.source.value_definitions import ValueDefinition, definitions_of, guarded_macros
from keet.profile import Launch

_MOST_PASSES = 12
"""Names may depend on names that are defined later; longer chains stay unknown."""
_LONGEST = 80


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
    found = definitions_of(kernel_source(launch, files), launch)
    by_name: dict[str, list[ValueDefinition]] = {}
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


def _different(definitions: Sequence[ValueDefinition]) -> Iterable[ValueDefinition]:
    """Without repeated definitions."""
    found: dict[tuple[object, ...], ValueDefinition] = {}
    for each in definitions:
        found.setdefault((each.name, each.number, *(t.text for t in each.value)), each)
    return found.values()


def _tokens(file: str, text: str) -> list[Token]:
    if is_python(file):
        return python_tokens(text)
    return fortran_tokens(text) if is_fortran(file) else c_tokens(text)


def _guarded(launch: Launch, files: Sequence[str]) -> set[str]:
    texts = [launch.source_files.get(file) or "" for file in files if not is_python(file)]
    return {name for text in texts for name in guarded_macros(text)}


def _solve(
    pending: dict[str, list[ValueDefinition]],
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
    definition: ValueDefinition,
    numbers: Mapping[str, Number],
    sizes: Mapping[str, int],
    macros: Mapping[str, MacroFunction],
) -> Number:
    value = evaluate(definition.value, Scope(numbers, sizes, macros, definition.python))
    return definition.number(value) if definition.number else value


def _constant(
    definition: ValueDefinition, value: Number, known: Mapping[str, Constant], guarded: set[str]
) -> Constant:
    """What is built from an assumed value is assumed as well."""
    built_from = [known[token.text] for token in definition.value if token.text in known]
    assumed = next((each.assumed for each in built_from if each.assumed), "")
    if definition.name in guarded:
        assumed = f"the build may define another {definition.name}"
    text = written(definition.value)[:_LONGEST]
    return Constant(value, text, definition.place, assumed)


def _several(definitions: Sequence[ValueDefinition], values: Sequence[Number]) -> str:
    first = {value: each.place for each, value in zip(definitions, values)}
    told = ", ".join(f"{value} at {place}" for value, place in list(first.items())[:4])
    return f"it has several values: {told}"
