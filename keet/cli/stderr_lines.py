"""Lines on stderr while a command runs: progress, and problems that do not stop it."""

from __future__ import annotations

import sys
from typing import TextIO

from keet.cli.quiet import loud_stderr
from keet.errors import one_line


def print_progress(line: str) -> None:
    """On stderr: stdout has only the result. Not printed with --quiet."""
    _write(line, sys.stderr)


def print_problem(line: str) -> None:
    """Something failed and the command continues. Printed with --quiet, too."""
    _write(line, loud_stderr())


def _write(line: str, stream: TextIO) -> None:
    from keet.agent.secrets import scrub

    stream.write(f"keet: {one_line(scrub(line))}\n")
    stream.flush()
