"""The child process that runs NVIDIA's reader: it may leak, hang or crash without harm to keet.

keet asks it for disassembly. For the test that compares keet's reader with NVIDIA's, it also
answers metrics, rules, NVTX ranges and source locations.

Gets a folder with `report.ncu-rep` and `question.json`, and writes one JSON answer to stdout. Does
not import keet, so that it starts fast. Started only by `nvidia_reader.py`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

_KINDS = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}
_SCOPES = {0: "unknown", 1: "local", 2: "global"}
_SEVERITIES = {0: "default", 1: "low", 2: "high"}
_WORKLOADS = {0: "kernel", 1: "range", 2: "cmdlist", 3: "graph"}


def limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit; the time limit still applies
        return
    size = megabytes << 20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def leave_with_parent(folder: str) -> None:
    """Exit and remove the folder as soon as keet exits: keet holds the other end of stdin."""
    import _thread

    def watch() -> None:
        while os.read(0, 4096):
            pass
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    _thread.start_new_thread(watch, ())


def limit_time(seconds: float) -> None:
    """Set an alarm, which ends the process even if native code hangs and blocks all threads. keet
    handles Ctrl-C for both processes."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "alarm"):
        signal.alarm(int(seconds) + 1)


def disassemble(action: Any, addresses: list[int]) -> dict[str, str]:
    return {str(address): action.sass_by_pc(address) for address in addresses}


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


def action_at(context: Any, number: int) -> Any:
    """A launch by its number in the file. Creates only this one: each takes a millisecond."""
    for part in _ranges(context):
        if number < part.num_actions():
            return part.action_by_idx(number)
        number -= part.num_actions()
    raise IndexError(number)


def _ranges(context: Any) -> list[Any]:
    return [context.range_by_idx(index) for index in range(context.num_ranges())]


def answer(request: dict[str, Any]) -> Any:
    import ncu_report

    context = ncu_report.load_report(request["path"])
    if request["want"] == "count":
        return {"launches": sum(part.num_actions() for part in _ranges(context))}
    if request["want"] == "disassembly":
        wanted = request["addresses"].items()
        return {number: disassemble(action_at(context, int(number)), pcs) for number, pcs in wanted}
    return describe(action_at(context, request["launch"]), request["addresses"])


def main(folder: str) -> None:
    # The native library may print: reserve the real stdout for the answer.
    out = os.dup(1)
    os.dup2(2, 1)
    request = json.loads(Path(folder, "question.json").read_bytes())
    limit_time(request["seconds"])
    leave_with_parent(folder)
    limit_memory(request["megabytes"])
    text = json.dumps(answer({"path": str(Path(folder, "report.ncu-rep")), **request}))
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
    # The library's threads and exit handlers have hung before, so skip them.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
