"""Named constants of a kernel's source whose values can be computed from the text.

First every place in the source that gives a name a value is collected, then the values are
computed. A name with several values, or one that changes, has none.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from keet.profile import Launch
from keet.source_code import scanner
from keet.source_code.kernel_source import (
    KernelSource,
    LaunchSite,
    instance_arguments,
    kernel_files,
    kernel_source,
)
from keet.source_code.scanner import CodePart
from keet.source_code.syntax import (
    QUALIFIER,
    SIZES,
    after_angles,
    closing_bracket,
    split_commas,
    type_size,
)

Number = int | float

_MOST_PASSES = 12
"""Names may depend on names that are defined later; longer chains stay unknown."""
_CHANGED = re.compile(
    r"(?:(?:\+\+|--|>>)\s*|[(,)]\s*&\s*)(?P<a>[^\W\d]\w*)"
    r"|(?<![\w.])(?<!->)(?P<b>[^\W\d]\w*)\s*(?:\+\+|--|(?:[-+*/%&|^@]|<<|>>|//|\*\*)=)"
    r"|\bfor\s+(?P<c>[^\W\d]\w*)\s+in\b"
)
"""What may change a variable: `n /= 2`, `scanf("%d", &n)`, `cin >> n`."""
_ASSIGNED = re.compile(r"(?<![\w.])(?<!->)([^\W\d]\w*)\s*=(?!=)")
_GUARDED = re.compile(r"#\s*ifndef\s+(\w+)\s*\n\s*#\s*define\s+\1\b")
"""A default that a build may set with -D."""
_STATIC_MEMBER = re.compile(r"\bconstexpr\s+[^;{}()]*=[^;{}]*;")


class Constant(NamedTuple):
    """The value that a name of the source has in this launch."""

    value: Number
    assumed: bool = False
    """Whether this build may have another value."""


class _Definition(NamedTuple):
    name: str
    value: str
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
    local = [
        definition
        for part in scopes
        for statement in scanner.statements_of(part)
        if part.kind != "module" or statement.headers  # others of a module are parts themselves
        for definition in _of_text(part, statement.text)
    ]
    pending: dict[str, set[_Definition]] = {}
    outer = [definition for part in source.parts for definition in _of_part(part)]
    fixed = [_Definition(name, value, fixed=True) for name, value in arguments.items()]
    for definition in (*local, *bound, *outer, *fixed):
        pending.setdefault(definition.name, set()).add(definition)
    changed = {m[m.lastgroup or 0] for p in scopes for m in _CHANGED.finditer(p.text, p.body)}
    assigned = Counter(n for p in scopes if p.in_cpp for n in _ASSIGNED.findall(p.text, p.body))
    declared = Counter(definition.name for definition in local)
    changed |= {name for name, times in assigned.items() if times > declared[name]}
    for name, definitions in list(pending.items()):
        may_change = name in changed and not all(each.fixed for each in definitions)
        if name in unbound or may_change:
            del pending[name]
    sizes = {name: size for name, text in arguments.items() if (size := type_size(text, {}))}
    guarded = {name for file in files for name in _GUARDED.findall(launch.source_files[file] or "")}
    return _solve(pending, sizes, guarded)


def source_literals(launch: Launch) -> set[float]:
    """Every integer and decimal literal of the kernel's files, also those inside expressions."""
    texts = [
        scanner.blanked(file, launch.source_files.get(file) or "") for file in kernel_files(launch)
    ]
    values = (number_of(match[0]) for text in texts for match in NUMBER.finditer(text))
    return {float(value) for value in values if value is not None}


def _solve(
    pending: dict[str, set[_Definition]], sizes: Mapping[str, int], guarded: set[str]
) -> dict[str, Constant]:
    """Gives values to the names whose definitions can be computed and agree, until no more can.
    What is built from an assumed value is assumed as well."""
    constants: dict[str, Constant] = {}
    numbers: dict[str, Number] = {}
    for _ in range(_MOST_PASSES):
        before = len(pending)
        for name, definitions in list(pending.items()):
            values = {
                converted(evaluate(each.value, numbers, sizes, python=each.python), each.type)
                for each in definitions
            }
            if None in values:
                continue
            del pending[name]
            if len(values) == 1 and (value := values.pop()) is not None:
                used = set().union(*(scanner.names_of(each.value) for each in definitions))
                known = used & constants.keys()
                assumed = name in guarded or any(constants[n].assumed for n in known)
                numbers[name] = value
                constants[name] = Constant(value, assumed)
        if len(pending) == before:
            break
    return constants


def _scopes(source: KernelSource) -> list[CodePart]:
    """Functions whose variables matter: the kernel, what it calls, and the callers of its launch.
    All host functions if no launch names the kernel."""
    above = [site.caller for site in source.path]
    if not above:
        above = [p for p in source.parts if p.kind in ("function", "module") and not p.is_kernel]
    chosen = [*([source.kernel] if source.kernel else []), *source.used, *above]
    return list({id(part): part for part in chosen if part.body or part.kind == "module"}.values())


# --- definitions


def _of_part(part: CodePart) -> Iterator[_Definition]:
    if part.kind == "macro":
        if macro := scanner.macro_value(part.text):
            yield _Definition(*macro, fixed=True)
    elif part.kind == "value":
        yield from _of_text(part, part.text)
    elif part.kind == "type" and re.match(r"\s*(?:typedef\s+)?enum\b", part.text):
        yield from _enumerators(part)
    elif part.kind == "type":
        for member in _STATIC_MEMBER.findall(part.text):
            yield from _of_text(part, member)


def _enumerators(part: CodePart) -> Iterator[_Definition]:
    opened = part.text.find("{")
    before = "-1"
    for enumerator in split_commas(part.text[opened + 1 : closing_bracket(part.text, opened)]):
        name, _, value = (text.strip() for text in enumerator.partition("="))
        value = value or f"1 + {before}"
        yield _Definition(name, value, "int", fixed=True)
        before = name


def _of_text(part: CodePart, text: str) -> Iterator[_Definition]:
    if not part.in_cpp:
        python = scanner.is_python(part.file)
        pairs = scanner.assigned_values(text) if python else scanner.fortran_values(text)
        yield from (_Definition(*pair, fixed=not python, python=python) for pair in pairs)
        return
    for name, kind, value in scanner.declarators(text):
        if value is not None and converted(0, kind) is not None:
            fixed = bool(scanner.names_of(kind) & {"const", "constexpr", "constinit"})
            yield _Definition(name, value, kind, fixed)


# --- parameters and template arguments


def _parameters(source: KernelSource) -> tuple[list[_Definition], set[str]]:
    """Arguments of the kernel and of the functions that lead to its launch, and the names of
    parameters without one."""
    bound: list[_Definition] = []
    unbound: set[str] = set()
    functions = [source.kernel, *(site.caller for site in source.path)]
    for function in {id(part): part for part in functions if part and part.body}.values():
        sites = source.sites
        if function is not source.kernel:
            calls = [site for site in source.path if site not in sites]
            sites = [s for s in calls if scanner.names_of(s.statement.text) & set(function.names)]
        start = re.search(rf"(?<!\w){re.escape((*function.names, '')[0])}\s*\(", function.head)
        end = closing_bracket(function.head, start.end() - 1) if start else 0
        inside = function.head[start.end() : end] if start else ""
        for index, parameter in enumerate(split_commas(inside, angles=function.in_cpp)):
            name = _parameter_name(parameter)
            if not name or "*" in parameter or "&&" in parameter:
                continue
            values = [_argument(site, index, name) for site in sites]
            unbound |= {name} if not values or None in values else set()
            for value, site in zip(values, sites):
                if value is not None and value != name:
                    python = scanner.is_python(site.caller.file)
                    bound.append(_Definition(name, value, python=python))
    return bound, unbound


def _parameter_name(text: str) -> str:
    names: list[str] = scanner.NAME.findall(re.split(r"[=\[]|(?<!:):(?!:)", text)[0])
    return names[-1] if names else ""


def _argument(site: LaunchSite, index: int, name: str) -> str | None:
    plain: list[str] = []
    for argument in site.arguments or ():
        keyword = re.match(r"(\w+)\s*=(?!=)\s*", argument)
        if keyword and keyword[1] == name:
            return argument[keyword.end() :]
        plain += [] if keyword else [argument]
    return plain[index] if index < len(plain) else None


def _template_arguments(source: KernelSource, launch: Launch) -> dict[str, str]:
    """Parameters of the kernel's template with the arguments of this instance, up to a pack."""
    head = source.kernel.head if source.kernel else ""
    match = re.match(r"\s*template\s*(?=<)", head)
    if match is None:
        return {}
    inside = head[match.end() + 1 : after_angles(head, match.end()) - 1]
    inside = re.split(r",?[^,]*\.\.\.", inside)[0]
    names = [_parameter_name(parameter) for parameter in split_commas(inside, angles=True)]
    return dict(zip(names, instance_arguments(launch.name)))


# --- expressions

_LARGEST_NUMBER = 2**64
_LONGEST_EXPRESSION = 400
"""Characters of an expression."""
NUMBER = re.compile(
    r"(?<![\w.])(?:0[xX][0-9a-fA-F'_]+|0[bB][01'_]+|(?:\d[\d'_]*\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?)"
    r"(?:[uUlLzZfF]{0,3}|_\w+)(?![\w.])"
)
_FLOATS = frozenset({"float", "double", "half", "__half", "__nv_bfloat16", "nv_bfloat16"})
_SCALARS = frozenset(n for n in SIZES if not re.search(r"[a-z0-9][234]$", n)) | {"long", "signed"}
_SCALAR = "|".join(sorted(_SCALARS))
_SIZEOF = re.compile(r"\bsizeof\s*\(([^()]*)\)")
_STATIC_CAST = re.compile(r"\bstatic_cast\s*<([^<>]*)>\s*(?=\()")
_BRACED = re.compile(rf"\b({_SCALAR})\s*\{{([^{{}}]*)\}}")
_C_CAST = re.compile(rf"\(\s*((?:(?:{_SCALAR})\s*)+)\)\s*(?:(?=\()|([\w.]+)(?!\s*[(<]))")
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Pow: operator.pow,
    ast.USub: lambda _, a: -a,
    ast.UAdd: lambda _, a: a,
    ast.Invert: lambda _, a: ~a,
}
_CALLS: dict[str, Callable[..., Number]] = {
    "min": min,
    "max": max,
    "cdiv": lambda a, b: -(-a // b),
    "next_power_of_2": lambda n: 1 << max(int(n) - 1, 0).bit_length(),
    **{name: float if name in _FLOATS else int for name in _SCALARS},
}


def number_of(text: str) -> Number | None:
    """The value of a literal; None for one that keet does not read."""
    plain = re.sub(r"(?<=[\d.])_[a-zA-Z]\w*$|['_]", "", text).lower()
    try:
        if plain.startswith(("0x", "0b")):
            value: Number = int(plain.rstrip("ulz"), 0)
        elif whole := re.fullmatch(r"(\d{1,20})[ulz]*", plain):
            value = int(whole[1], 8 if whole[1].startswith("0") else 10)
        else:
            value = float(re.sub(r"[fl]$", "", plain.replace("d", "e")))
    except ValueError:
        return None
    return value if value < _LARGEST_NUMBER else None


def evaluate(
    text: str, names: Mapping[str, Number], sizes: Mapping[str, int], *, python: bool = False
) -> Number | None:
    """None if the text alone does not determine the value. `sizes`: bytes of types by name, besides
    those that are the same on every CUDA platform."""
    if len(text) > _LONGEST_EXPRESSION or (not python and re.search(r"\*\s*\*|//", text)):
        return None
    try:
        tree = ast.parse(text.strip() if python else _as_python(text, sizes), mode="eval")
        value = _value(tree.body, names, python=python)
    except (SyntaxError, ValueError, TypeError, LookupError, ArithmeticError):
        return None
    except (RecursionError, MemoryError):
        return None
    # Unsigned arithmetic of C++ wraps around; this one does not.
    wraps = not python and value < 0 and re.search(r"\b\d[\w.']*[uU]|\bu\w*|\bsize", text)
    return None if wraps else value


def _as_python(text: str, sizes: Mapping[str, int]) -> str:
    """An expression of C++ or Fortran, with sizes, casts and literals as Python writes them."""
    text = _SIZEOF.sub(lambda match: str(type_size(match[1], sizes)), re.sub(r"\w+\s*::", "", text))
    text = _BRACED.sub(r"\1(\2)", _STATIC_CAST.sub(lambda match: _cast(match[1]), text))
    text = _C_CAST.sub(lambda m: _cast(m[1]) + (f"({m[2]})" if m[2] else ""), text)
    text = text.replace("true", "1").replace("false", "0")
    return NUMBER.sub(lambda match: str(number_of(match[0])), text)


def _cast(kind: str) -> str:
    words = set(QUALIFIER.sub(" ", kind).split())
    return "float" if words & _FLOATS else "int" if words <= _SCALARS else "unknown"


def _value(node: ast.expr, names: Mapping[str, Number], *, python: bool) -> Number:
    """Raises an error if it is not constant."""
    result: Number
    match node:
        case ast.Constant(value=int() | float() as number):
            result = number + 0
        case ast.Name(id=name):
            result = names[name]
        case ast.UnaryOp(op=sign, operand=operand):
            result = _OPERATORS[type(sign)](0, _value(operand, names, python=python))
        case ast.BinOp(left=left, op=sign, right=right):
            a, b = (_value(side, names, python=python) for side in (left, right))
            result = _binary(sign, a, b, python=python)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args, keywords=[]):
            result = _CALLS[name](*(_value(argument, names, python=python) for argument in args))
        case _:
            raise ValueError
    if not -_LARGEST_NUMBER < result < _LARGEST_NUMBER:
        raise OverflowError
    return result


def _binary(sign: ast.operator, a: Number, b: Number, *, python: bool) -> Number:
    if isinstance(sign, ast.LShift | ast.RShift | ast.Pow) and not 0 <= b <= 64:
        raise OverflowError
    if not isinstance(sign, ast.Div | ast.Mod):
        return _OPERATORS[type(sign)](a, b)
    if python or isinstance(a, float) or isinstance(b, float):
        return a / b if isinstance(sign, ast.Div) else a % b
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # C rounds towards zero
    return quotient if isinstance(sign, ast.Div) else a - quotient * b


def converted(value: Number | None, kind: str) -> Number | None:
    """The value in a variable of a type; None if it does not fit, or the type is not a number."""
    words = QUALIFIER.sub(" ", kind).split()
    if value is None or words == ["auto"] or not kind:
        return value
    if not words or not _SCALARS.issuperset(words):
        return None
    if _FLOATS.intersection(words):
        return float(value)
    if words == ["bool"]:
        return int(bool(value))
    size = 8 if "long" in words else type_size(kind, {}) or 4
    is_unsigned = any(word.startswith(("u", "size")) for word in words)
    lowest = 0 if is_unsigned else -(2 ** (8 * size - 1))
    return int(value) if lowest <= value < lowest + 2 ** (8 * size) else None
