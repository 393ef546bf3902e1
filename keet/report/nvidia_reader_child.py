"""The child process that runs NVIDIA's reader: it may leak, hang or crash without harm to keet.

Gets a folder with `report.ncu-rep` and `question.json`, and writes one JSON answer to stdout. Does
not import keet, so that it starts fast. Started only by `disassembler.py`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


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


def action_at(context: Any, number: int) -> Any:
    """A launch by its number in the file. Creates only this one: each takes a millisecond."""
    for part in map(context.range_by_idx, range(context.num_ranges())):
        if number < part.num_actions():
            return part.action_by_idx(number)
        number -= part.num_actions()
    raise IndexError(number)


def answer(path: str, addresses: dict[str, list[int]]) -> dict[str, dict[str, str]]:
    """`addresses`: by the number of the launch, as in the answer."""
    import ncu_report

    context = ncu_report.load_report(path)
    return {
        number: disassemble(action_at(context, int(number)), pcs)
        for number, pcs in addresses.items()
    }


def main(folder: str) -> None:
    # The native library may print: reserve the real stdout for the answer.
    out = os.dup(1)
    os.dup2(2, 1)
    request = json.loads(Path(folder, "question.json").read_bytes())
    limit_time(request["seconds"])
    leave_with_parent(folder)
    limit_memory(request["megabytes"])
    text = json.dumps(answer(str(Path(folder, "report.ncu-rep")), request["addresses"]))
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
    # The library's threads and exit handlers have hung before, so skip them.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
