"""Asks NVIDIA's reader for all it says about launches of a report, in a process of its own.

Reads a question from stdin, with the path of a report and addresses by launch, and writes the
number of launches and each of these launches to stdout. It imports nothing else, so that it starts
fast.
"""

import json
import os
import sys
from typing import Any

import ncu_report

_KINDS = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}
_SCOPES = {0: "unknown", 1: "local", 2: "global"}
_SEVERITIES = {0: "default", 1: "low", 2: "high"}
_WORKLOADS = {0: "kernel", 1: "range", 2: "cmdlist", 3: "graph"}


def describe(action: Any, addresses: list[int]) -> dict[str, Any]:
    """All data of one launch that NVIDIA's reader gives."""
    return {
        "name": {
            "function": action.name(action.NameBase_FUNCTION),
            "demangled": action.name(action.NameBase_DEMANGLED),
            "mangled": action.name(action.NameBase_MANGLED),
        },
        "workload": _WORKLOADS.get(action.workload_type(), "kernel"),
        "metrics": {name: _metric(action, name) for name in action.metric_names()},
        "rules": [_rule(result) for result in action.rule_results() if result.has_rule_message()],
        "markers": [_marker(marker) for marker in action.source_markers()],
        "nvtx": list(_nvtx(action.nvtx_state())),
        "sections": [section.identifier() for section in action.sections()],
        "source_files": dict(action.source_files()),
        "locations": _locations(action, addresses),
    }


def _metric(action: Any, name: str) -> dict[str, Any] | None:
    metric = action.metric_by_name(name)
    if metric is None:
        return None
    count = metric.num_instances()
    answer: dict[str, Any] = {"value": metric.value() if metric.has_value() else None}
    if count:
        answer["values"] = [metric.value(index) for index in range(count)]
        if metric.has_correlation_ids():
            ids = metric.correlation_ids()
            answer["ids"] = [ids.value(index) for index in range(count)]
    return answer


def _rule(result: Any) -> dict[str, Any]:
    message = result.rule_message()
    answer: dict[str, Any] = {
        "rule": result.rule_identifier(),
        "name": result.name(),
        "section": result.section_identifier(),
        "kind": _KINDS.get(message["type"], "none"),
        "title": message["title"],
        "message": message["message"],
        "focus": [
            {**focus, "severity": _SEVERITIES.get(focus["severity"], "default")}
            for focus in result.focus_metrics()
        ],
    }
    if result.has_speedup_estimation():
        estimate = result.speedup_estimation()
        answer["speedup"] = {
            "scope": _SCOPES.get(estimate["type"], "unknown"),
            "percent": estimate["speedup"],
        }
    return answer


def _marker(marker: dict[str, Any]) -> dict[str, Any]:
    location = marker.get("source_location") or {}
    return {
        "rule": marker["rule_identifier"],
        "message": marker["message"],
        "address": marker.get("source_address"),
        "file": location.get("file_name"),
        "line": location.get("line"),
    }


def _nvtx(state: Any) -> Any:
    for number in state or ():
        domain = state[number]
        for kind in ("push_pop", "start_end"):
            for name in getattr(domain, f"{kind}_ranges")():
                yield {"domain": domain.name(), "name": name, "kind": kind}


def _locations(action: Any, addresses: list[int]) -> dict[str, Any]:
    found = {}
    for address in addresses:
        info = action.source_info(address)
        if info is not None:
            found[str(address)] = [info.file_name(), info.line()]
    return found


def told(question: dict[str, Any]) -> dict[str, Any]:
    context = ncu_report.load_report(question["path"])
    parts = map(context.range_by_idx, range(context.num_ranges()))
    actions = [part.action_by_idx(index) for part in parts for index in range(part.num_actions())]
    launches = {n: describe(actions[int(n)], pcs) for n, pcs in question["addresses"].items()}
    return {"count": len(actions), "launches": launches}


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the library may print
    json.dump(told(json.load(sys.stdin)), out)
    out.flush()
    os._exit(0)
