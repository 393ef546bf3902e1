"""Which global accesses could be wider, and stores to shared memory that nothing reads."""

from types import SimpleNamespace
from typing import cast

import pytest

from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import LaunchLedger
from keet.analysis.memory_work import access_width, accesses_saved, widened_share
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
