"""Facts about which threads and warps work or wait: yes/no tests that `remedy_choice` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keet.analysis.facts.fact import Answer, Fact, Test, fact
from keet.analysis.facts.inputs import FactInputs
from keet.analysis.facts.thresholds import MOST
from keet.analysis.kernel.inactive_threads import WARP, Cause, inactive_threads

if TYPE_CHECKING:
    from keet.analysis.sass.analyses.barriers import BarrierWait


def _inactive_by(cause: Cause) -> Test:
    def test(inputs: FactInputs) -> Answer:
        found = inactive_threads(inputs.view)
        return None if found is None else found.cause == cause

    return test


partial_warps = Fact(
    "partial_warps",
    "the block size is not a multiple of the warp size, and most inactive threads come from that",
    _inactive_by("block_size"),
    metrics=("block_size",),
)
threads_outside = Fact(
    "threads_outside",
    "most inactive threads exit at a bounds check before anything is loaded: their index lies "
    "outside of the data",
    _inactive_by("outside"),
    metrics=("active_threads_per_warp",),
)
different_paths = Fact(
    "different_paths",
    "most inactive threads wait for others of their warp that take another path",
    _inactive_by("paths"),
    metrics=("active_threads_per_warp",),
)


@fact(
    "most inactive threads occur in routines that the code calls, such as the slow paths of "
    "division",
    opcodes=("CALL",),
)
def inactive_in_routines(inputs: FactInputs) -> Answer:
    code, found = inputs.code, inactive_threads(inputs.view)
    threads = inputs.view.table.column("thread_inst_executed")
    if code is None or threads is None or found is None:
        return None
    if found.cause != "paths":
        return False
    program = code.program
    inactive = {
        each: WARP * program.counts[each] - threads.get(program.code[each].address, 0)
        for each in program.ran
    }
    called = [each for each in program.ran if each in program.call_sites]
    if sum(inactive[each] for each in called) < MOST * sum(inactive.values()):
        return False
    return [program.code[each].address for each in called]


# --- barriers


def _barrier_waits(inputs: FactInputs) -> list[BarrierWait] | None:
    """Sorted by samples; `None` if there are none."""
    code, block = inputs.code, inputs.launch.block
    if code is None or block is None:
        return None
    from keet.analysis.sass.analyses.barriers import barrier_waits

    warps = -(-block[0] * block[1] * block[2] // WARP)
    return barrier_waits(code.program, code.stalls, warps) or None


@fact(
    "while most warps wait at the barrier, fewer than half of their block's warps work",
    metrics=("stall_barrier",),
)
def few_warps_work(inputs: FactInputs) -> Answer:
    """For most samples at barriers, fewer than half of the block's warps work meanwhile."""
    found = _barrier_waits(inputs)
    if found is None or inputs.code is None:
        return None
    every = sum(each.samples for each in found)
    if sum(each.by_few for each in found) < MOST * every:
        return False
    code = inputs.code.program.code
    return [code[each.position].address for each in found if each.by_few >= MOST * each.samples]


@fact("the warps that work meanwhile repeatedly read what other blocks write (polling)")
def waits_for_other_blocks(inputs: FactInputs) -> Answer:
    """Whether the few warps that work at the barrier with most samples poll what other blocks
    write."""
    found = _barrier_waits(inputs)
    if found is None or inputs.code is None:
        return None
    from keet.analysis.sass.analyses.barriers import polls_memory

    program = inputs.code.program
    return [program.code[each].address for each in polls_memory(program, found[0].alone)]
