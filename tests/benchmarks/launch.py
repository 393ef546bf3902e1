"""CPU time of one launch in a warm worker of `keet batch`, by part.

    python -m tests.benchmarks.launch [ROUNDS]

It has no budget of its own (`tests.benchmarks.batch` measures whole runs): it shows where the time
of a launch goes. A timer samples which part runs, so that measuring does not slow down the parts.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections import Counter
from types import FrameType

from keet.corpus.batch.worker import analyse
from tests.benchmarks.batch import SAMPLES

PARTS = {
    "read_profile": "reading: container, names, session",
    "_decode": "reading: the index of metrics",
    "metrics": "reading: the index of metrics",
    "instances": "reading: values by instruction",
    "locate": "line tables",
    "leading_rule": "rules",
    "find_coverage": "what is missing",
    "TimeModel.__init__": "time model",
    "_causes": "candidates",
    "ranked_candidates": "candidates",
    "account_of": "account",
    "_finding": "findings: places and advice",
    "launch_json": "JSON",
    "slices_of": "rows",
}
"""Functions, by their name or the end of it, and what runs in them. The innermost one counts."""
SECONDS = 0.001


class Sampler:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, _signal: int, frame: FrameType | None) -> None:
        while frame is not None:
            name = frame.f_code.co_qualname
            part = PARTS.get(name) or PARTS.get(name.rpartition(".")[2])
            if part:
                break
            frame = frame.f_back
        self.counts[part if frame is not None else "other"] += 1


def work() -> int:
    """The number of launches."""
    paths = sorted(SAMPLES.glob("*/*.ncu-rep*"))
    return sum(len(rows.launches) for path in paths for rows in analyse(str(path)))


def measured(rounds: int) -> list[str]:
    launches = work() * rounds  # warm from here on
    gc.set_threshold(1_000_000)  # about as a worker has it
    gc.collect()
    gc.freeze()
    sampler = Sampler()
    signal.signal(signal.SIGPROF, sampler)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
    for _ in range(rounds):
        work()
    signal.setitimer(signal.ITIMER_PROF, 0)
    each = 1e3 * (time.process_time() - start) / launches
    total = sampler.counts.total()
    return [
        f"{each:6.2f} ms of CPU time per launch",
        *(f"{each * n / total:6.2f} ms  {part}" for part, n in sampler.counts.most_common()),
    ]


if __name__ == "__main__":
    sys.stdout.write("\n".join(measured(int(sys.argv[1]) if sys.argv[1:] else 10)) + "\n")
