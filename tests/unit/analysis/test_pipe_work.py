"""What keeps the LSU pipe busy: stores to shared memory that nothing reads, in made-up code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from keet.analysis.decisions.pipe_work import pipe_work
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import LaunchLedger
from keet.analysis.time_model import TimeModel
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.sass.assembled import program

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
        ledger=LaunchLedger(made_up({})),
    )
    return pipe_work(cast(LaunchView, view), cast(TimeModel, None), "LSU").kind


@each_row("stores, loads, threads, more, kind", [
    (900, 100, 32, "NOP", "unread"),  # all threads clear all slots of a block's sums
    (100, 100, 32, "NOP", "shared"),  # a tile that is read once
    (900, 30, 1, "NOP", "shared"),  # one thread per warp stores its sum, one warp reads all
    (900, 100, 32, "LDSM R8, [R4]", "shared"),  # read as matrices
    (900, 100, 32, "HGMMA R8, gdesc[UR4], R8", "shared"),  # read by the tensor cores
])  # fmt: skip
def test_stores_that_nothing_reads(stores, loads, threads, more, kind) -> None:
    assert work(stores, loads, threads, more) == kind
