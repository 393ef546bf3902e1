"""Uneven L2 slices."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import Candidate
from keet.analysis.decisions.atomics import hot_slice
from keet.analysis.launch_view import LaunchView
from keet.analysis.remedy_conditions import global_memory, on_chip, origin
from keet.analysis.time_model import HOT_LINE_RATE, MOST_REMOVED, SKEW_FROM, TimeModel
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

FINDING = FindingSpec(
    id="l2_partition_imbalance",
    family="memory",
    label="uneven L2 slices",
    meaning="One slice of L2 serves far more requests than the average one, because many threads "
    "access the same few addresses.",
    how="The sectors that the busiest slice of L2 looks up are compared with those of an average "
    "slice, where the requests are plain loads and stores. One line is served by one slice at a "
    "limited rate, whatever the kernel does.",
    rule_titles=("L2 Slices Workload Imbalance",),
    credited_rules=("WorkloadImbalance",),
    parameters=(HOT_LINE_RATE, MOST_REMOVED),
    claims=("bytes",),
    rests_on=("slices",),
    headline="hot line",
    unlike={
        "atomic_contention": "The same skew between slices of L2, caused by atomics.",
        "load_imbalance": "Load imbalance is uneven work of SMs, not of slices of L2.",
    },
    remedies={
        when(origin.library): "Pass {library} arrays whose leading dimension is not a large power "
        "of two, or another layout, so that its accesses spread over all slices of L2.",
        when(global_memory.few_address_stores, name="stores"): "Many threads store to the same "
        "few addresses{here}: combine the values in the block first (__syncthreads_or, a "
        "reduction), and let one thread per block store the result.",
        when(global_memory.few_address_loads, name="loads"): "Many threads read the same few "
        "addresses with volatile or atomic loads, which bypass L1{here}: let one thread per block "
        "read them and share the value through shared memory, and read less often.",
        when(
            on_chip.atomics_global,
            origin.looks_like_histogram,
            name="histogram",
            unless=(on_chip.atomics_shared,),
        ): "Count in a copy in shared memory per block{here}, where atomics are far cheaper, and "
        "add the copies to global memory at the end.",
        when(on_chip.atomics_global, name="atomics"): "Many threads update the same few "
        "addresses{here}: combine the updates per warp or block before they reach L2, or spread "
        "them over several copies.",
        otherwise: "Read or write values that many threads share once per block, by way of shared "
        "memory or registers, or spread them over several cache lines{here}; use a leading "
        "dimension that is not a large power of two.",
    },
    edit=Edit(
        "Take load off the one L2 slice that every block keeps writing to, by fewer such stores",
        usual=24,
    ),
)


def candidates(_: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    hot = hot_slice(model)
    if hot and model.hot_line and not model.hot_line.is_atomic:
        yield hot


def absent(view: LaunchView, model: TimeModel) -> Absence | None:
    most, usual = view.get("l2_slice_sectors_max"), view.get("l2_slice_sectors_avg")
    if model.hot_line is not None or most is None or usual is None:
        return None
    skew = view.ratio("l2_slice_skew", "busiest L2 slice over the average", most, usual)
    if skew is None or skew.value >= SKEW_FROM:
        return None
    text = "The busiest slice of L2 looks up {skew:.2f} times the average."
    return absence(text, skew=skew, most=most, usual=usual)
