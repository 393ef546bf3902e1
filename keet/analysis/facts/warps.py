"""Facts about which threads and warps work or wait."""

from __future__ import annotations

from keet.analysis.facts.fact import Answer, Fact, fact
from keet.analysis.kernel.inactive_threads import WARP, Cause, inactive_threads
from keet.analysis.kernel.lone_thread import few_work, lone_thread, waits_at_barriers
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY


def _inactive(words: str, cause: Cause, metric: str = "active_threads_per_warp") -> Fact:
    def test(view: LaunchView) -> Answer:
        inactive = inactive_threads(view)
        return inactive is not None and inactive.cause == cause

    return Fact(words, test, metrics=(metric,))


IDLE_WARPS = "idle_warps"
without_work = Fact(
    "most warps execute no load and no store",
    of_finding=lambda _, finding: finding.variant == IDLE_WARPS,
)
partial_warps = _inactive(
    "the block size is not a multiple of the warp size, and most inactive threads come from that",
    "block_size",
    "block_size",
)
threads_outside = _inactive(
    "most inactive threads exit at a bounds check before anything is loaded: their index lies "
    "outside of the data",
    "outside",
)
different_paths = _inactive(
    "most inactive threads wait for others of their warp that take another path", "paths"
)


@fact(
    "most inactive threads occur in routines that the code calls, such as the slow paths of "
    "division",
    opcodes=("CALL",),
)
def inactive_in_routines(view: LaunchView) -> Answer:
    code, found = view.code, inactive_threads(view)
    threads = view.table.column("thread_inst_executed")
    if code is None or threads is None or found is None or found.cause != "paths":
        return False
    program = code.program
    inactive = {
        position: WARP * program.counts[position] - threads.get(program.code[position].address, 0)
        for position in program.ran
    }
    called = [position for position in program.ran if position in program.call_sites]
    in_routines = sum(inactive[position] for position in called)
    is_most = in_routines >= MAJORITY * sum(inactive.values())
    return code.addresses(called) if is_most else False


# --- barriers

TREE = "tree"
sums_by_a_tree = Fact(
    "steps of a reduction tree go through shared memory, with a barrier each",
    of_finding=lambda _, finding: finding.variant == TREE,
)


@fact(
    "one thread works while the other warps of its block wait at the barrier",
    metrics=("stall_barrier",),
)
def one_thread_works(view: LaunchView) -> Answer:
    lone = lone_thread(view)
    return view.code.addresses(lone.positions) if view.code and lone else False


@fact(
    "while most warps wait at the barrier, fewer than half of their block's warps work",
    metrics=("stall_barrier",),
)
def few_warps_work(view: LaunchView) -> Answer:
    if view.code is None or not few_work(view):
        return False
    waits = waits_at_barriers(view)
    few = [wait.position for wait in waits if wait.by_few >= MAJORITY * wait.samples]
    return view.code.addresses(few)


@fact("the warps that work meanwhile repeatedly read what other blocks write (polling)")
def waits_for_other_blocks(view: LaunchView) -> Answer:
    """Looks at the few warps that work while others wait at the barrier with most samples."""
    waits = waits_at_barriers(view)
    if not waits or view.code is None:
        return False
    from keet.analysis.sass.analyses.barriers import polls_memory

    return view.code.addresses(polls_memory(view.code.program, waits[0].alone))
