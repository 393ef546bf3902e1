"""Whether rows of arrays in shared memory are padded, from the source or the addresses.

Threads that access one column of a row-major array use different banks only if the row's length in
words of four bytes is odd.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from keet.analysis.facts.inputs import SHARED, FactInputs
from keet.records import NamedTuple
from keet.safe_text import code_lines

if TYPE_CHECKING:
    from keet.analysis.sass.polynomials.polynomial import Polynomial

Rows = Literal["padded", "even", "within", "data"]
"""`even`: threads are an even number of words apart. `within`: they are so close that they must be
in one row, which padding does not change. `data`: the index comes from memory."""

BANKS, WORD = 32, 4
"""Banks of shared memory, and bytes of a bank's word."""
_WORDS = {
    "double": 2,
    "float2": 2,
    "int2": 2,
    "long": 2,
    "float4": 4,
    "int4": 4,
    "uint4": 4,
    "double2": 4,
}
"""Words per element type; other types count as one word."""
_LONGEST = 400
"""Characters of a line that are parsed."""
_NAMED = (
    r"#define[ \t]+(\w+)[ \t]+([^\n]+)"
    r"|\bconst(?:expr)?\b[^=\n;]{0,80}?\b(\w+)[ \t]*=[ \t]*([^;,\n{}]+)"
)


def rows_of(inputs: FactInputs) -> Rows | None:
    """State of the array with most bank conflicts; `None` if neither code nor source shows it."""
    found = _conflicted(inputs)
    if not found:
        return _by_source(inputs)
    by_form = _by_form(found[0].form, found[0].width)
    return by_form or ("within" if _takes_pieces(found) else _by_source(inputs))


class _Conflicted(NamedTuple):
    form: Polynomial
    width: int


def _takes_pieces(found: Sequence[_Conflicted]) -> bool:
    """Whether a thread accesses two adjacent pieces of the widest size, so that threads are at
    least two pieces apart."""
    first = found[0]
    places = {each.form.constant for each in found if _varying(each.form) == _varying(first.form)}
    return first.width == _WIDEST and bool(
        places & {first.form.constant + first.width, first.form.constant - first.width}
    )


def _varying(form: Polynomial) -> tuple[object, ...]:
    return tuple(item for item in form.key if item[0])


_WIDEST = 16
_LOOKED_AT = 16
"""Accesses with conflicts."""


def _conflicted(inputs: FactInputs) -> list[_Conflicted]:
    """The shared accesses that lose most wavefronts to conflicts."""
    code, column = inputs.code, inputs.view.table.column("src_shared_wavefronts_excess")
    if code is None or not column:
        return []
    from keet.analysis.sass.analyses.reuse import address_polynomial
    from keet.analysis.sass.instructions.opcodes import SHARED as OPCODES

    worst = sorted((a for a in column if column[a] > 0), key=lambda address: -column[address])
    positions = [code.program.positions.get(address) for address in worst[:_LOOKED_AT]]
    ran = [each for each in positions if each is not None and code.program.counts[each]]
    opcodes = [code.program.code[each].opcode for each in ran]
    if not ran or opcodes[0] not in OPCODES or opcodes[0] in ("LDSM", "STSM"):
        return []  # these use one address per row, not per thread
    return [
        _Conflicted(
            address_polynomial(code.program, code.evaluation, each), code.program.code[each].width
        )
        for each, opcode in zip(ran, opcodes)
        if opcode == opcodes[0]
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


def _by_source(inputs: FactInputs) -> Rows | None:
    """From the declaration of the array that the first place accesses."""
    places = inputs.finding.places
    if not places or not inputs.accesses_of(SHARED):
        return None
    found = inputs.view.accesses("shared", places)
    if any(re.search(r"\bpad\w*\s*\(", access) for access in found):
        return "padded"
    names = {re.split(r"\W", access)[0] for access in found}
    return declared_rows(inputs.text(places[0].file), places[0].line, names)


def declared_rows(source: str, line: int, names: Collection[str]) -> Rows | None:
    """From the nearest declaration above a line of a shared array with one of these names."""
    for text in reversed(code_lines(source)[:line]):
        declared = _declaration(text, names)
        if declared is not None:
            return _row(declared, _constants(source))
    return None


class _Declared(NamedTuple):
    type: str
    row: str


def _declaration(line: str, names: Collection[str]) -> _Declared | None:
    """`__shared__ float tile[32][33];`: its type and the length of a row."""
    match = re.search(r"__shared__\s+(.*)", line[:_LONGEST])
    if match is None:
        return None
    for name, sizes in re.findall(r"(\w+)\s*((?:\[[^\]]*\])+)", match[1]):
        lengths = re.findall(r"\[([^\]]*)\]", sizes)
        if name in names and len(lengths) > 1:
            words = match[1].partition(name)[0].split()
            return _Declared(words[-1] if words else "", lengths[-1])
    return None


def _row(declared: _Declared, constants: Mapping[str, str]) -> Rows | None:
    from keet.analysis.facts.constant_sizes import integer

    text = constants.get(declared.row.strip(), declared.row)
    length = integer(declared.row, constants)
    if length is None:
        return "padded" if "+" in text else None
    words = length * _WORDS.get(declared.type, 1)
    # Rows that are read four words at a time are padded by four words.
    added = words % BANKS
    is_padded = bool(words % 2) or "+" in text or (words > BANKS and 0 < added <= 4)
    return "padded" if is_padded else "even"


def _constants(source: str) -> Mapping[str, str]:
    """Definitions of integer constants by name."""
    # Few lines define constants, and the pattern is slow on long lines that do not.
    defining = (line for line in source.split("\n") if "const" in line or "#define" in line)
    pairs: Iterator[tuple[str, str]] = (
        (match[1] or match[3], match[2] or match[4])
        for line in defining
        for match in re.finditer(_NAMED, line[:_LONGEST])
    )
    return {name: re.sub(r"//.*|/\*.*?\*/", "", value).strip() for name, value in pairs}
