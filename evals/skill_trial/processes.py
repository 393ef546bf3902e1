"""Programs that are run with a time limit. Needs the standard library only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Done(NamedTuple):
    """How a program ended."""

    code: int | None
    """None: it ran past its limit, or could not be started."""
    out: str
    message: str

    @property
    def ok(self) -> bool:
        return self.code == 0


def call(
    command: Sequence[str], folder: Path, seconds: float, more: Mapping[str, str] | None = None
) -> Done:
    """Run a program; after `seconds` it and all that it started are killed."""
    try:
        return _call(command, folder, seconds, {**os.environ, **(more or {})})
    except OSError as problem:
        return Done(None, "", f"{command[0]}: {problem.strerror or problem}")


def _call(
    command: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str]
) -> Done:
    with subprocess.Popen(
        list(command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Done(None, out, f"{err}{out}\nstopped after {seconds:.0f} s")
    ended = f"\nexit code {process.returncode}" if process.returncode else ""
    return Done(process.returncode, out, f"{err}{out}{ended}".strip())


def say(text: str) -> None:
    """At once: what a machine printed before its time ran out is all that is known of it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
