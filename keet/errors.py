"""Every error keet raises on purpose. Each message is one line that ends with what to do next.

* KeetError
  x UsageError            the command line asks for something that is not there          exit 2
  x NotAvailable          a program, package, GPU or right that is needed is not there   exit 3
  x IngestError           the file can't become a Profile                                exit 4
    + UnreadableFile      it can't be opened, or is no regular file
    + UnknownFormat       it opened, and is nothing that keet reads
    + UnsupportedVersion  it was written by something newer than this reader
    + DamagedReport       its structure is broken, or it was cut short
    + EmptyReport         it is whole, and holds no launch
    + ReaderFailed        NVIDIA's reader crashed, hung or ran out of memory on it
  x NotComparable         two sides that differ in more than the program                 exit 6
  x ProgramFailed         the program to be profiled ended badly                exit: its own
  x MetricNotCollected    the question needs a metric that the report does not hold      exit 1

Anything else that reaches `main` is a bug in keet: exit 70.
"""

from __future__ import annotations

from pathlib import Path

from keet.texts import one_line as one_line  # noqa: PLC0414 - every error's text needs it


class KeetError(Exception):
    """The root of every error that `main` turns into one line and an exit code."""

    exit_code = 1


class UsageError(KeetError):
    exit_code = 2


class NotAvailable(KeetError):
    exit_code = 3


class IngestError(KeetError):
    """Names the file, what is wrong with it and what to do."""

    exit_code = 4

    def __init__(self, path: Path | str, problem: str, remedy: str) -> None:
        self.path = str(path)
        self.problem = problem
        self.remedy = remedy
        super().__init__(one_line(f"{self.path}: {problem}; {remedy}"))

    def __reduce__(self) -> tuple[type[IngestError], tuple[str, str, str]]:
        """Survive the trip between processes: batch workers report their errors."""
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
    exit_code = 6


class ProgramFailed(KeetError):
    """Carries the code of the program on, so that a script sees what it would without keet."""

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
