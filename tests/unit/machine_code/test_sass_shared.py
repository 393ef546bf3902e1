"""Launches of the same code with the same counts share what follows from them."""

import gc
from weakref import ref

from keet.analysis.machine_code.launch_code import MachineCode, machine_code
from keet.profile import Launch
from keet.report import read_profile
from tests.unit.machine_code.assembled import analysed


def _code(launch: Launch) -> MachineCode:
    found = machine_code(launch)
    assert isinstance(found, MachineCode)
    return found


_COMPARED = ("purposes", "mix", "atomics", "waits", "reuse", "serial_loads", "expansions")


def test_launches_share_results_and_nothing_is_kept_without_one() -> None:
    """Three launches of one kernel with the same counts, and one of another."""
    every = read_profile("tests/data/reports/pipeline_after.ncu-repz").launches
    same = [each for each in every if each.kernel == every[-1].kernel]
    assert len(same) == 3
    gc.freeze()  # what other tests keep is not to be looked through
    fresh = analysed(_code(same[1]))
    results = [repr(getattr(fresh, name)) for name in _COMPARED]
    del fresh
    gc.collect()
    first, second = analysed(_code(same[0])), analysed(_code(same[1]))
    assert second.evaluation is first.evaluation
    assert [repr(getattr(second, name)) for name in _COMPARED] == results
    assert _code(every[0]).program is not first.program
    gc.freeze()
    last = ref(analysed(_code(same[0])))
    gc.collect()
    assert last() is None
