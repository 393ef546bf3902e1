"""What instructions take with them when they are removed: the waiting that they cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from keet.analysis.candidate import MEMORY_WAITS, kept_waits
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import INDIRECT, TimeModel


def kept_waits_without(
    view: LaunchView, model: TimeModel, positions: Iterable[int], gone: float, removed: float
) -> dict[str, float]:
    """An effect on waiting: the share `gone` of these instructions goes, which is the share
    `removed` of all instructions.

    A sampled wait belongs to the instruction that is waited for (a load, a conversion), or to the
    waiting one if it waits for its own unit or for its constants. Without samples, waiting for
    anything but memory decreases by a part of what is removed.
    """
    if view.code is None or not view.code.stalls:
        states = tuple(state for state in model.waiting if state not in MEMORY_WAITS)
        return kept_waits(model, states, INDIRECT * removed)
    own, going = Counter[str](), set(positions)
    every = Counter[str]()
    for wait in view.code.waits:
        every[wait.reason] += wait.samples
        cause = wait.producers[0] if wait.producers else wait.position
        if cause in going:
            own[wait.reason] += wait.samples
    return {
        state: 1 - gone * own[state] / every[state] for state in model.waiting if every.get(state)
    }
