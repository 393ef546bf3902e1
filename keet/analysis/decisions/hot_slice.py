"""One slice of L2 that serves most requests: contended atomics, or plain accesses to few lines."""

from __future__ import annotations

import math
from typing import NamedTuple

from keet.analysis.candidate import MEMORY_WAITS, kept_waits
from keet.analysis.memory_work import without_atomic_requests
from keet.analysis.time_model import HOT_LINE, MOST_REMOVED, SHARPNESS, Effect, TimeModel
from keet.evidence import Evidence, Sentence


class HotSlice(NamedTuple):
    is_atomic: bool
    shown: tuple[Sentence, Effect, tuple[Evidence, ...]]
    """Text, effect and evidence of the candidate."""


def hot_slice(model: TimeModel) -> HotSlice | None:
    """Many requests for few addresses, which one slice serves one after the other."""
    hot = model.hot_line
    if hot is None:
        return None
    # What combines within a block first sends one request per block, and a loop over the data
    # needs no more blocks than fit on the GPU at a time.
    blocks, kept = model.view.value("grid_size") or 0.0, 1 - MOST_REMOVED
    if hot.requests and blocks:
        rounds = max(1.0, model.view.value("waves_per_sm") or 1.0)
        kept = min(1.0, blocks / rounds / hot.requests)
    kept = max(kept, hot.left)
    how = "atomics" if hot.is_atomic else "plain loads or stores"
    text = (
        "The busiest slice of L2 looks up {skew:.1f} times the sectors of an average one: "
        "{how} of many threads access the same few addresses."
    )
    if hot.is_in_host:
        text = (
            "One slice of L2 is active {skew:.1f} times as long as an average one: {how} access "
            "the same line of host memory repeatedly, one access after the other."
        )
    if hot.is_counted:
        text = (
            "In each cycle of L2, warps execute {skew:.2f} {how} on one address. One slice of L2 "
            "serves them one after the other."
        )
    # While the line is at its limit, every access queues behind it, up to the LSU pipe; less so if
    # another unit is busier.
    lead = math.pow(hot.load / model.pressure, SHARPNESS)
    blamed = (1 - kept) * hot.load * min(1.0, lead)
    waits = kept_waits(model, (*MEMORY_WAITS, "mio_throttle"), blamed)
    units = {HOT_LINE: kept, "L2": 1 - (1 - kept) * (1 - hot.spread)}
    if hot.is_atomic:
        units["L1"] = without_atomic_requests(model.view)
    effect = Effect(units, waits)
    sentence = Sentence(text, skew=hot.skew, how=how)
    evidence = (hot.skew, hot.most, *(() if hot.is_counted else (hot.usual,)))
    return HotSlice(hot.is_atomic, (sentence, effect, evidence))
