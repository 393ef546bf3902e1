"""The rows of arrays in shared memory: padded or not, from the addresses or the source.

Threads that access one column of a row-major array use different banks only if the row's length in
words of four bytes is odd.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import add, floordiv, mul, sub
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.safe_text import code_lines

if TYPE_CHECKING:
    from keet.analysis.sass.polynomials.polynomial import Polynomial

Rows = Literal["padded", "even", "within", "data"]
"""`even`: threads are an even number of words apart. `within`: they are so close that they must be
in one row, which padding does not change. `data`: the index comes from memory."""

BANKS, WORD = 32, 4
"""Banks of shared memory, and bytes of a bank's word."""
_EXCESS = "src_shared_wavefronts_excess"


@cached_per_view
def shared_rows(view: LaunchView) -> Rows | None:
    """Those of the array with most bank conflicts; `None` if neither code nor source shows it."""
    conflicted = _conflicted(view)
    if conflicted:
        rows = _by_form(*conflicted[0]) or ("within" if _takes_pieces(conflicted) else None)
        if rows:
            return rows
    places = view.column_places("excess wavefronts", _EXCESS)
    if not places:
        return None
    accesses = view.accesses("shared", places)
    if any(re.search(r"\bpad\w*\s*\(", access) for access in accesses):
        return "padded"
    names = {re.split(r"\W", access)[0] for access in accesses}
    return declared_rows(view.launch.source_text(places[0].file) or "", places[0].line, names)


# --- from the addresses


class _Conflicted(NamedTuple):
    """One access with bank conflicts."""

    form: Polynomial
    width: int
    """Bytes per thread."""


_LOOKED_AT = 16
"""Accesses with conflicts."""


def _conflicted(view: LaunchView) -> list[_Conflicted]:
    """The accesses that lose most wavefronts to conflicts, with the opcode of the first."""
    code, column = view.code, view.table.column(_EXCESS)
    if code is None or not column:
        return []
    from keet.analysis.sass.analyses.reuse import address_polynomial
    from keet.analysis.sass.instructions.opcodes import SHARED

    program = code.program
    worst = sorted((a for a in column if column[a] > 0), key=lambda address: -column[address])
    known = [program.positions[a] for a in worst[:_LOOKED_AT] if a in program.positions]
    ran = [position for position in known if program.counts[position]]
    opcode = program.code[ran[0]].opcode if ran else ""
    if opcode not in SHARED or opcode in ("LDSM", "STSM"):
        return []  # these use one address per row, not per thread
    return [
        _Conflicted(address_polynomial(program, code.evaluation, each), program.code[each].width)
        for each in ran
        if program.code[each].opcode == opcode
    ]


_CLUSTER = "SR_CgaCtaId"
"""Base of a block's shared memory within its cluster: equal for all threads."""


def _by_form(form: Polynomial, width: int) -> Rows | None:
    from keet.analysis.sass.analyses.widths import lane_stride
    from keet.analysis.sass.polynomials.polynomial import Polynomial as Sum

    own = {p: c for p, c in form.terms.items() if all(s.name != _CLUSTER for s in p)}
    form = Sum(own)
    if "data" in form.depends:
        return "data"
    stride = lane_stride(form)
    if stride is None or stride % WORD:
        return None
    # A wide access is served in groups of threads, so its own width causes no conflict.
    steps = abs(stride) // max(width, WORD)
    if steps % 2:
        return "padded" if steps > 1 else None
    # Another even number may be several padded rows: eight rows of seventeen words.
    if not steps or steps & (steps - 1):
        return None
    return "within" if abs(stride) < BANKS * WORD else "even"


_WIDEST = 16
"""Bytes per thread."""


def _takes_pieces(conflicted: Sequence[_Conflicted]) -> bool:
    """Whether a thread accesses two adjacent pieces of the widest size, so that threads are at
    least two pieces apart."""

    def varying(form: Polynomial) -> tuple[object, ...]:
        return tuple(item for item in form.key if item[0])

    form, width = conflicted[0]
    others = {other.constant for other, _ in conflicted if varying(other) == varying(form)}
    adjacent = {form.constant + width, form.constant - width}
    return width == _WIDEST and not others.isdisjoint(adjacent)


# --- from the source

_WORDS = {"double": 2, "float2": 2, "int2": 2, "long": 2} | dict.fromkeys(
    ("float4", "int4", "uint4", "double2"), 4
)
"""Words per element type; other types count as one word."""
_PARSED_LENGTH = 400
"""Characters of a line that are parsed."""
_CONSTANT = (
    r"#define[ \t]+(\w+)[ \t]+([^\n]+)"
    r"|\bconst(?:expr)?\b[^=\n;]{0,80}?\b(\w+)[ \t]*=[ \t]*([^;,\n{}]+)"
)


def declared_rows(source: str, line: int, names: Collection[str]) -> Rows | None:
    """From the nearest declaration above a line of a shared array with one of these names:
    `__shared__ float tile[32][33];`."""
    for text in reversed(code_lines(source)[:line]):
        _, is_shared, declared = text[:_PARSED_LENGTH].partition("__shared__")
        for name, sizes in re.findall(r"(\w+)\s*((?:\[[^\]]*\])+)", declared) if is_shared else ():
            lengths = re.findall(r"\[([^\]]*)\]", sizes)
            if name in names and len(lengths) > 1:
                element = declared.partition(name)[0].split()[-1:]
                return _row("".join(element), lengths[-1], _constants(source))
    return None


def _row(element: str, row: str, constants: Mapping[str, str]) -> Rows | None:
    is_sum = "+" in constants.get(row.strip(), row)
    length = _integer(row, constants)
    if length is None:
        return "padded" if is_sum else None
    words = length * _WORDS.get(element, 1)
    # Rows that are read four words at a time are padded by four words.
    is_padded = bool(words % 2) or is_sum or (words > BANKS and 0 < words % BANKS <= 4)
    return "padded" if is_padded else "even"


def _constants(source: str) -> Mapping[str, str]:
    """Definitions of integer constants by name."""
    # Few lines define constants, and the pattern is slow on long lines that do not.
    defining = (line for line in source.split("\n") if "const" in line or "#define" in line)
    matches = (m for line in defining for m in re.finditer(_CONSTANT, line[:_PARSED_LENGTH]))
    pairs = ((match[1] or match[3], match[2] or match[4]) for match in matches)
    return {name: re.sub(r"//.*|/\*.*?\*/", "", value).strip() for name, value in pairs}


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.Div: floordiv,
}
_MOST_NESTED = 8
_LARGEST_OPERAND = 2**32


def _integer(text: str, constants: Mapping[str, str], depth: int = 0) -> int | None:
    """The value of an integer constant as source code writes it: `TILE + 1`, `4 * WARP`."""

    def value(node: ast.expr) -> int | None:
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, ast.Name):
            return _integer(constants.get(node.id, ""), constants, depth + 1)
        if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATORS:
            return None
        left, right = value(node.left), value(node.right)
        if left is None or right is None or max(abs(left), abs(right)) > _LARGEST_OPERAND:
            return None
        return _OPERATORS[type(node.op)](left, right)

    if depth > _MOST_NESTED or len(text) > 80:
        return None
    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        return None
