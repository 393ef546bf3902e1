"""Asks NVIDIA's reader for all it says about launches of reports, in a process of its own.

Reads questions from stdin, each a report's path and addresses by launch, and writes to stdout the
number of launches of each report and what is said of these launches, in the order of keet's types.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import ncu_report

_KINDS = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}
_SCOPES = {0: "unknown", 1: "local", 2: "global"}
_SEVERITIES = {0: "default", 1: "low", 2: "high"}
_WORKLOADS = {0: "kernel", 1: "range", 2: "cmdlist", 3: "graph"}


def describe(action: Any, addresses: list[int]) -> dict[str, Any]:
    """All data of one launch that NVIDIA's reader gives."""
    names = (action.NameBase_FUNCTION, action.NameBase_DEMANGLED, action.NameBase_MANGLED)
    metrics = {name: action.metric_by_name(name) for name in action.metric_names()}
    metrics = {name: metric for name, metric in metrics.items() if metric is not None}
    places = {address: action.source_info(address) for address in addresses}
    return {
        "name": [action.name(each) or "" for each in names],
        "workload": _WORKLOADS.get(action.workload_type(), "kernel"),
        "metrics": {name: x.value() if x.has_value() else None for name, x in metrics.items()},
        "instances": {n: _instances(x) for n, x in metrics.items() if x.num_instances()},
        "rules": [_rule(result) for result in action.rule_results() if result.has_rule_message()],
        "markers": sorted(map(_marker, action.source_markers()), key=repr),
        "nvtx": list(_nvtx(action.nvtx_state())),
        "sections": sorted(section.identifier() for section in action.sections()),
        "source_files": {path: text for path, text in action.source_files().items() if text},
        "locations": {pc: [x.file_name(), x.line()] for pc, x in places.items() if x is not None},
    }


def _instances(metric: Any) -> list[Any]:
    every = range(metric.num_instances())
    ids = metric.correlation_ids() if metric.has_correlation_ids() else None
    return [list(map(metric.value, every)), None if ids is None else list(map(ids.value, every))]


def _rule(result: Any) -> list[Any]:
    message, speedup = result.rule_message(), None
    if result.has_speedup_estimation():
        estimate = result.speedup_estimation()
        speedup = [_SCOPES.get(estimate["type"], "unknown"), estimate["speedup"]]
    return [
        *(result.rule_identifier(), result.name(), result.section_identifier()),
        *(_KINDS.get(message["type"], "none"), message["title"], message["message"], speedup),
        [
            [
                each["name"],
                each["value"],
                _SEVERITIES.get(each["severity"], "default"),
                each["info"],
            ]
            for each in result.focus_metrics()
        ],
    ]


def _marker(marker: dict[str, Any]) -> list[Any]:
    place = marker.get("source_location") or {}
    where = (marker.get("source_address"), place.get("file_name"), place.get("line"))
    return [marker["rule_identifier"], marker["message"], *where]


def _nvtx(state: Any) -> Iterator[list[str]]:
    for number in state or ():
        domain = state[number]
        for kind in ("push_pop", "start_end"):
            for name in getattr(domain, f"{kind}_ranges")():
                yield [domain.name(), name, kind]


def told(path: str, addresses: dict[str, list[int]]) -> list[Any]:
    context = ncu_report.load_report(path)
    parts = map(context.range_by_idx, range(context.num_ranges()))
    actions = [part.action_by_idx(index) for part in parts for index in range(part.num_actions())]
    return [len(actions), [describe(actions[int(n)], pcs) for n, pcs in addresses.items()]]


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the library may print
    json.dump([told(*question) for question in json.load(sys.stdin)], out)
    out.flush()
    os._exit(0)
