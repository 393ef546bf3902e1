"""Shared definitions: statuses, and how a candidate or a whole run ends."""

from __future__ import annotations

import sys
from pathlib import Path

SCHEMA_VERSION = 1
HERE = Path(__file__).resolve().parents[1]
"""With harness/ and exploits/."""
PASSED, CHEAT, INCORRECT = "PASSED", "CHEAT", "INCORRECT"
COMPILE_ERROR, RUNTIME_ERROR, TIMEOUT = "COMPILE_ERROR", "RUNTIME_ERROR", "TIMEOUT"
BASELINE, EMPTY = "baseline", "empty"
"""The two own programs of every contest; `empty` only launches a kernel."""
LOG_BYTES = 4000


class NoGpu(Exception):
    """Nothing can be measured on this machine."""


class Refused(Exception):
    """The request cannot be carried out: the reason, and what to do, in one line."""


class Verdict(Exception):
    """The final status of a candidate, with the reason. `by_time`: based only on times."""

    def __init__(
        self, status: str | None, why: str, log: str = "", *, by_time: bool = False
    ) -> None:
        super().__init__(why)
        self.status, self.why, self.log, self.by_time = status, why, log, by_time


class RefereeFailed(Exception):
    """The referee or a checker ended or hung: no candidate is to blame."""


def tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
