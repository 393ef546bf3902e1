"""The errors that keet raises on purpose, and all exit codes of the command line.

Each message is one line: what is wrong, then what to do.

* KeetError
  x UsageError            the command line asks for something that does not exist        exit 2
  x NotAvailable          a program, package, GPU or permission is missing               exit 3
  x IngestError           the file can't be read as a profile                            exit 4
    + UnreadableFile      it can't be opened, or is not a regular file
    + UnknownFormat       it is not in a format that keet reads
    + UnsupportedVersion  it was written by a version that this reader does not know
    + DamagedReport       its structure is broken, or it was cut short
    + EmptyReport         it is complete, but contains no launch
    + ReaderFailed        NVIDIA's reader crashed, hung or ran out of memory on it
  x NotComparable         two sides that differ in more than the program                 exit 6
  x ProgramFailed         the profiled program failed                           exit: its own
  x MetricNotCollected    the report has no value for a metric that is needed            exit 1

Any other exception that reaches `main` is a bug in keet: exit 70.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from keet.safe_text import one_line as one_line  # noqa: PLC0414 - every error's text needs it


class ExitCode(IntEnum):
    """Every exit code of keet. Help, docs/commands.md and commands take them from here."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> ExitCode:
        code = int.__new__(cls, number)
        code._value_ = number
        code.meaning = meaning
        return code

    DONE = 0, "done"
    CHECK_FAILED = 1, "a gate or check failed"
    USAGE = 2, "wrong usage"
    NOT_AVAILABLE = 3, "something that is needed is missing"
    UNREADABLE = 4, "a report can't be read"
    SOME_FAILED = 5, "some of several inputs failed"
    NOT_COMPARABLE = 6, "the two sides can't be compared"
    WAITING = 7, "waiting for a person or another machine"
    BUG = 70, "a bug in keet"
    INTERRUPTED = 130, "interrupted (Ctrl-C)"


class KeetError(Exception):
    """Base of the errors that `main` turns into one line and an exit code."""

    exit_code: int = ExitCode.CHECK_FAILED


class UsageError(KeetError):
    exit_code = ExitCode.USAGE


class NotAvailable(KeetError):
    exit_code = ExitCode.NOT_AVAILABLE


class IngestError(KeetError):
    """Names the file, what is wrong with it and what to do."""

    exit_code = ExitCode.UNREADABLE

    def __init__(self, path: Path | str, problem: str, remedy: str) -> None:
        self.path = str(path)
        self.problem = problem
        self.remedy = remedy
        super().__init__(one_line(f"{self.path}: {problem}; {remedy}"))

    def __reduce__(self) -> tuple[type[IngestError], tuple[str, str, str]]:
        """Errors are pickled: batch workers send theirs to the main process."""
        return type(self), (self.path, self.problem, self.remedy)


class UnreadableFile(IngestError):
    pass


class UnknownFormat(IngestError):
    pass


class UnsupportedVersion(IngestError):
    pass


class DamagedReport(IngestError):
    pass


class EmptyReport(IngestError):
    pass


class ReaderFailed(IngestError):
    pass


class NotComparable(KeetError):
    exit_code = ExitCode.NOT_COMPARABLE


class ProgramFailed(KeetError):
    """Has the program's exit code, so that a script sees the same code as without keet."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class MetricNotCollected(KeetError):
    def __init__(self, name: str, launch: int, section: str | None) -> None:
        self.name = name
        remedy = f"--section {section}" if section else f"--metrics {name}"
        super().__init__(
            f"launch {launch} has no value for {name!r}; profile again with: ncu {remedy} ..."
        )


def reason_of(problem: OSError) -> str:
    """What the system says went wrong, for the middle of a sentence."""
    return (problem.strerror or str(problem)).lower()
