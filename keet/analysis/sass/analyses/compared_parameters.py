"""Finds the parameters that indices are compared with: the extents of arrays.

`in[y * width + x]` has rows that are `width` apart. If the code compares an index with `width`,
rows do not overlap; if it does not, rows at an unknown distance may overlap.
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
        polynomials = [evaluation.operand(operand, position) for operand in each.sources]
        if not any(polynomial is not None and polynomial.depends for polynomial in polynomials):
            continue  # a comparison of parameters only is not about indices
        for polynomial in polynomials:
            limit = _plain(polynomial) if polynomial is not None else None
            if limit is not None:
                found.add(limit)
    return frozenset(found)


def _plain(polynomial: Polynomial) -> Symbol | None:
    """The unknown number of `n` or `n - 1`; `None` for anything else."""
    products = [product for product in polynomial.terms if product]
    if len(products) != 1 or len(products[0]) != 1 or polynomial.terms[products[0]] != 1:
        return None
    symbol = products[0][0]
    return symbol if symbol.is_uniform else None
