"""Options that several commands share: which launches, which format, where to."""

from __future__ import annotations

import io
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from keet.errors import UsageError
from keet.profile import Launch, Profile

if TYPE_CHECKING:
    from rich.console import RenderableType


_MAX_RANGE = 1_000_000
"""Launches in one range: more than any report has."""


def add_report(parser: ArgumentParser) -> None:
    parser.add_argument("report", type=Path, metavar="REPORT", help="a report, export or snapshot")


def add_selection(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--launch",
        type=_launch_numbers,
        metavar="N",
        help="only these launches, by number: 3, 0,2 or 0-4",
    )
    parser.add_argument(
        "--kernel",
        type=_pattern,
        metavar="REGEX",
        help="only launches whose kernel name matches (any of its forms)",
    )


def add_output(parser: ArgumentParser, *formats: str) -> None:
    parser.add_argument(
        "--format",
        choices=formats,
        default=formats[0],
        help=f"how to print it (default: {formats[0]})",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE")


def add_source(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--source",
        type=Path,
        metavar="DIR",
        help="where the sources are, if the report does not embed them",
    )


def positive(text: str) -> int:
    """A count on the command line."""
    if not text.isdigit() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is no positive whole number")
    return int(text)


def _launch_numbers(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        span = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not 0 < len(span) <= _MAX_RANGE:
            raise ArgumentTypeError(f"{text!r} is no launch number, list or range")
        numbers.update(span)
    return frozenset(numbers)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as problem:
        raise ArgumentTypeError(f"{text!r} is no regular expression ({problem})") from None


def selected_launches(profile: Profile, args: Namespace) -> tuple[Launch, ...]:
    """The launches that `--launch` and `--kernel` let through; never none in silence."""
    count = len(profile.launches)
    if args.launch is not None and (beyond := [n for n in sorted(args.launch) if n >= count]):
        raise UsageError(
            f"--launch {beyond[0]}: the report has launches 0 to {count - 1}; "
            f"see: keet show {profile.provenance.path}"
        )
    chosen = tuple(
        launch
        for launch in profile.launches
        if (args.launch is None or launch.id in args.launch)
        and (args.kernel is None or _matches(launch, args.kernel))
    )
    if not chosen:
        raise UsageError(
            f"--kernel {args.kernel.pattern!r} matches no launch; "
            f"see: keet show {profile.provenance.path}"
        )
    return chosen


def _matches(launch: Launch, pattern: re.Pattern[str]) -> bool:
    name = launch.name
    return any(
        pattern.search(form) for form in (name.short, name.full, name.function, name.mangled)
    )


class Destination:
    """Where a result goes: stdout, or a file that appears whole or not at all."""

    def __init__(self, path: Path | None, stdout: TextIO) -> None:
        self._path = path
        self._stdout = stdout

    def write(self, text: str) -> None:
        if self._path is None:
            self._stdout.write(text)
            return
        partial = self._path.with_name(self._path.name + ".partial")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(self._path)
        except OSError as problem:
            reason = (problem.strerror or str(problem)).lower()
            raise UsageError(
                f"{self._path}: it can't be written ({reason}); name another"
            ) from None
        finally:
            with suppress(OSError):
                partial.unlink()

    def show(self, view: Callable[[int], RenderableType]) -> None:
        """Print a view that is laid out for the width it gets."""
        from keet.render.console import console_width, make_console, to_text

        if self._path is not None:
            width = console_width(io.StringIO())
            self.write(to_text(view(width), width))
            return
        console = make_console(self._stdout)
        console.print(view(console.width), crop=False)
