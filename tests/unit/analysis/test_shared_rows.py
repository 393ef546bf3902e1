"""Rows of shared arrays: padded or not, by their declaration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.machine_code.polynomials.polynomial import Polynomial, Symbol
from keet.analysis.remedy_conditions.on_chip import (
    _by_form,
    _Conflicted,
    _takes_pieces,
    declared_rows,
)
from tests.rows import each_row

NAMES = {"tile"}


@each_row("declaration, rows", [
    ("__shared__ float tile[32][32];", "even"),
    ("__shared__ float tile[32][33];", "padded"),
    ("__shared__ float tile[32][32 + 1];", "padded"),
    ("__shared__ __align__(16) float tile[2][8][128];", "even"),
    ("__shared__ float tile[8][128 + 4];", "padded"),
    ("__shared__ double tile[16][16];", "even"),
    ("__shared__ float a[32], tile[16][64];", "even"),
    ("__shared__ float tile[kTile][kTile + kPad];", "padded"),
    ("__shared__ float tile[kTile][kPitch];", None),
    ("__shared__ float tile[256];", None),
    ("__shared__ float other[32][32];", None),
    ("float tile[32][32];", None),
    ("__shared__ float tile[", None),
])  # fmt: skip
def test_a_row_is_padded_by_its_declaration(declaration: str, rows: str | None) -> None:
    assert declared_rows(f"{declaration}\nx = tile[i][j];", 2, NAMES, {}) == rows


def test_the_nearest_declaration_counts_and_pieces_are_of_one_thread() -> None:
    known = {"kDepth": 16, "kPitch": 17}
    assert declared_rows("__shared__ float tile[8][kDepth];\n", 1, NAMES, known) == "even"
    assert declared_rows("__shared__ float tile[8][kPitch];\n", 1, NAMES, known) == "padded"
    for defined in ("#define PITCH (64 + 8)", "constexpr int PITCH = 64 + 8;"):
        source = f"{defined}\n__shared__ half tile[16][PITCH];\n"
        assert declared_rows(source, 2, NAMES, {"PITCH": 72}) == "padded"
    # A file may hold several kernels, each with a tile of its own.
    source = "__shared__ float tile[32][32];\n\n__shared__ float tile[32][33];\n\n"
    assert [declared_rows(source, at, NAMES, {}) for at in (2, 4)] == ["even", "padded"]
    assert declared_rows(source, 0, NAMES, {}) is None
    # Whatever the address depends on: the next thread's pieces come after both.
    pieces = [_Conflicted(address(LOST, 32, offset), 16) for offset in (512, 528)]
    assert _takes_pieces(pieces)
    assert not _takes_pieces(pieces[:1])
    assert not _takes_pieces([pieces[0], _Conflicted(address(LOST, 32, 1024), 16)])
    assert not _takes_pieces([each._replace(width=4) for each in pieces])


@given(st.text(st.sampled_from("tile[]()+-*/ 0123456789kx_shared\n"), max_size=80))
@pytest.mark.slow
def test_declarations_in_any_text_do_not_crash(text: str) -> None:
    assert declared_rows(f"__shared__ {text}", 9, NAMES, {}) in (None, "even", "padded")


THREAD = Symbol("tid", "tid.x", depends=frozenset({"tid.x"}))
LOST = Symbol("opaque", "lost", depends=frozenset({"unknown"}))


def address(symbol: Symbol, stride: int, offset: int = 0) -> Polynomial:
    return Polynomial({(symbol,): stride, (): offset})


@each_row(
    ("stride", "width", "rows"),
    [(128, 4, "even"), (132, 4, "padded"), (8, 4, "within"), (32, 16, "within"), (16, 16, None)],
)
def test_adjacent_threads_are_in_one_row(stride: int, width: int, rows: str | None) -> None:
    """Padding moves rows, so that it does not help where a warp stays within one."""
    assert _by_form(address(THREAD, stride), width) == rows
