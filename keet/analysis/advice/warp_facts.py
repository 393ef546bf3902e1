"""Facts about which threads and warps work or wait: yes/no tests that `remedy_choice` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keet.analysis.advice.fact_inputs import FactInputs
from keet.analysis.advice.fact_tests import TESTS, Answer, Test, fact
from keet.analysis.advice.thresholds import MOST
from keet.analysis.kernel.inactive_threads import WARP, Cause, inactive_threads

if TYPE_CHECKING:
    from keet.analysis.sass.analyses.barriers import BarrierWait


def _inactive_by(cause: Cause) -> Test:
    def test(inputs: FactInputs) -> Answer:
        found = inactive_threads(inputs.view)
        return None if found is None else found.cause == cause

    return test


TESTS["partial_warps"] = _inactive_by("block_size")
TESTS["threads_outside"] = _inactive_by("outside")
TESTS["different_paths"] = _inactive_by("paths")


@fact
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


@fact
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


@fact
def waits_for_other_blocks(inputs: FactInputs) -> Answer:
    """Whether the few warps that work at the barrier with most samples poll what other blocks
    write."""
    found = _barrier_waits(inputs)
    if found is None or inputs.code is None:
        return None
    from keet.analysis.sass.analyses.barriers import polls_memory

    program = inputs.code.program
    return [program.code[each].address for each in polls_memory(program, found[0].alone)]
