"""Which global accesses could be wider, stores to shared memory that nothing reads, and rows of shared
arrays: padded or not, by their declaration."""

from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import LaunchLedger
from keet.analysis.machine_code.polynomials.polynomial import Polynomial, Symbol
from keet.analysis.memory_work import access_width, accesses_saved, widened_share
from keet.analysis.remedy_conditions import on_chip
from keet.analysis.remedy_conditions.on_chip import declared_rows
from keet.analysis.time_model import TimeModel
from keet.findings.pipe_saturated import unit_work
from keet.profile import Instances
from keet.report.snapshot import InMemoryLaunch
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import H200, in_memory, made_up
from tests.unit.machine_code.assembled import program

GLOBAL, COPY_TO_SHARED = 4, 4 | 16
ONE_BYTE, FOUR_BYTES, SIXTEEN_BYTES = 2, 32, 128
"""ncu's codes."""


def with_accesses(*accesses: tuple[int, ...]) -> LaunchView:
    """A made-up launch: memory, size and threads of each access, its executions and sectors."""
    names = ("memory_type", "memory_access_size_type", "thread_inst_executed_true")
    names += ("inst_executed", "memory_l2_theoretical_sectors_global")[: len(accesses[0]) - 3]
    columns, addresses = zip(*accesses, strict=True), tuple(range(len(accesses)))
    stored = {name: Instances(column, addresses) for name, column in zip(names, columns)}
    return LaunchView(in_memory(InMemoryLaunch(H200, {}, stored)))


def test_only_accesses_that_could_be_wider_are_named() -> None:
    view = with_accesses(
        (GLOBAL, ONE_BYTE, 1600),
        (GLOBAL, FOUR_BYTES, 1600),
        (GLOBAL, SIXTEEN_BYTES, 9000),
        (COPY_TO_SHARED, ONE_BYTE, 9000),  # also left out of the average width
    )
    assert accesses_saved(view, 16) == {0: 1500, 1: 1200}
    assert access_width(view) == (1600 + 4 * 1600 + 16 * 9000) / 12200
    # One sector per request. Of single bytes, neighbouring ones fit into one sector too.
    view = with_accesses(
        (GLOBAL, FOUR_BYTES, 3200, 100, 100),
        (GLOBAL, FOUR_BYTES, 3200, 100, 400),
        (GLOBAL, ONE_BYTE, 3200, 100, 100),
    )
    assert accesses_saved(view, 16) == {0: 0, 1: 2400, 2: 3000}
    assert widened_share(view) == pytest.approx(2 / 3)


CODE = "STS [R0], RZ\nBAR.SYNC 0x0\nLDS R2, [R4]\n{more}\nEXIT"


def work(stores: int, loads: int, threads_of_a_store: int = 32, more: str = "NOP") -> str:
    """The kind of work of the LSU pipe. Executions of a store and a load, by warps."""
    code = program(CODE.format(more=more), [stores, 100, loads, 1, 100])
    threads = {0: threads_of_a_store * stores, 32: 32 * loads}
    opcodes = {"STS": stores, "LDS": loads, more.split(maxsplit=1)[0]: 1}
    view = SimpleNamespace(
        code=SimpleNamespace(program=code),
        table=SimpleNamespace(column=lambda _: threads, threads=threads),
        opcodes=opcodes,
        count=lambda *names: sum(opcodes.get(name, 0) for name in names),
        derived=LaunchLedger(made_up({})).derived,
    )
    return unit_work(cast(LaunchView, view), cast(TimeModel, None), "LSU").kind


@each_row("stores, loads, threads, more, kind", [
    (900, 100, 32, "NOP", "unread"),  # all threads clear all slots of a block's sums
    (100, 100, 32, "NOP", "shared"),  # a tile that is read once
    (900, 30, 1, "NOP", "shared"),  # one thread per warp stores its sum, one warp reads all
    (900, 100, 32, "LDSM R8, [R4]", "shared"),  # read as matrices
    (900, 100, 32, "HGMMA R8, gdesc[UR4], R8", "shared"),  # read by the tensor cores
])  # fmt: skip
def test_stores_that_nothing_reads(stores, loads, threads, more, kind) -> None:
    assert work(stores, loads, threads, more) == kind


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
    pieces = [on_chip._Conflicted(address(LOST, 32, offset), 16) for offset in (512, 528)]
    assert on_chip._takes_pieces(pieces)
    assert not on_chip._takes_pieces(pieces[:1])
    assert not on_chip._takes_pieces([pieces[0], on_chip._Conflicted(address(LOST, 32, 1024), 16)])
    assert not on_chip._takes_pieces([each._replace(width=4) for each in pieces])


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
    assert on_chip._by_form(address(THREAD, stride), width) == rows
