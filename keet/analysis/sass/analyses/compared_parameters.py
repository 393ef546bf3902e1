"""Parameters that indices are compared with: the extents of arrays.

`in[y * width + x]` has rows that lie `width` apart. Where the code compares an index with `width`,
rows do not overlap; where it does not, windows at an unknown distance may.
"""

from __future__ import annotations

from keet.analysis.sass.polynomials.evaluation import Evaluation
from keet.analysis.sass.polynomials.polynomial import Polynomial, Symbol

_CLAMPS = ("VIMNMX", "IMNMX", "VIADDMNMX", "UIMNMX", "UVIMNMX")


def compared_parameters(evaluation: Evaluation) -> frozenset[Symbol]:
    """Unknown numbers that some index is compared with, or clamped by."""
    found: set[Symbol] = set()
    for position in evaluation.program.ran:
        each = evaluation.program.code[position]
        orders = each.opcode in ("ISETP", "UISETP") and each.has("LT", "LE", "GT", "GE")
        if not orders and each.opcode not in _CLAMPS:
            continue
        forms = [evaluation.operand(operand, position) for operand in each.sources]
        if not any(form is not None and form.depends for form in forms):
            continue  # a test of parameters alone says nothing about indices
        for form in forms:
            limit = _plain(form) if form is not None else None
            if limit is not None:
                found.add(limit)
    return frozenset(found)


def _plain(form: Polynomial) -> Symbol | None:
    """`n`, `n - 1`: one unknown number, and perhaps a constant."""
    products = [product for product in form.terms if product]
    if len(products) != 1 or len(products[0]) != 1 or form.terms[products[0]] != 1:
        return None
    symbol = products[0][0]
    return symbol if symbol.is_uniform else None
