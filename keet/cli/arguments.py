"""Options that several commands share: reports, launches, format, output file."""

from __future__ import annotations

import io
import os
import os.path
import re
import sys
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from keet.cli.pager import paged
from keet.cli.stderr import print_written
from keet.errors import UsageError, reason_of
from keet.files import STDIN, replacing_text
from keet.profile import Launch, Profile
from keet.profile.profile import parsed_launches, select_launches

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

    from keet.pages.blocks import Format, Page, Reader


DATA_FORMATS = ("json", "csv", "parquet")
"""Formats for programs: complete unless an option limits them."""


def add_report(parser: ArgumentParser) -> None:
    parser.add_argument(
        "report",
        type=report_path,
        metavar="REPORT",
        help="a report, export or snapshot; - reads standard input",
    )


def report_path(name: str) -> Path:
    """`-` is standard input."""
    return STDIN if name == "-" else Path(name)


def add_selection(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--launch",
        type=_launch_numbers,
        metavar="N",
        help="only these launches, by number: 3, 0,2 or 0-4",
    )
    add_kernel(parser)


def add_kernel(parser: ArgumentParser | _ArgumentGroup) -> None:
    parser.add_argument(
        "--kernel",
        type=pattern,
        metavar="REGEX",
        help="only launches whose kernel name matches (any form of the name)",
    )


def add_top(
    parser: ArgumentParser,
    what: str,
    *,
    default: int,
    data: Sequence[str] = ("json",),
    also: Sequence[str] = (),
) -> None:
    """`--top N`, for a command with `--format`; `top_of` gives its value. `data`: formats of the
    command that list everything by default. `also`: other names of the option."""
    parser.add_argument(
        "--top",
        *also,
        dest="top",
        type=positive,
        metavar="N",
        help=f"print at most the N most important {what} (default: {default}; "
        f"{' and '.join(data)}: all)",
    )
    parser.set_defaults(default_top=default)


def top_of(args: Namespace) -> int | None:
    """How many are listed: N of `--top N` in every format; else the default of the command in
    views, and None (all) in data formats."""
    if args.top is None and args.format in DATA_FORMATS:
        return None
    return view_top(args)


def view_top(args: Namespace) -> int:
    """The same for a view: it has a limit always."""
    return int(args.default_top if args.top is None else args.top)


_FORMAT_BY_ENDING = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".json": "json",
    ".svg": "svg",
    ".csv": "csv",
    ".parquet": "parquet",
}
_TEXT_ENDINGS = ("", ".txt", ".log", ".out")
"""Files that get the text of the terminal."""


class _Default(str):
    """A format that nobody asked for."""

    __slots__ = ()


class _OutputFile(Action):
    """The ending of the name decides the format, unless `--format` is given."""

    def __call__(self, _: Any, args: Namespace, value: Any, __: str | None = None) -> None:
        args.output = value
        form = _FORMAT_BY_ENDING.get(value.suffix.lower())
        if form in args.formats and isinstance(args.format, _Default):
            args.format = form


class _Open(Action):
    def __call__(self, _: Any, args: Namespace, __: Any, ___: str | None = None) -> None:
        args.open = True
        if isinstance(args.format, _Default) and args.output is None:
            args.format = _Default("html" if "html" in args.formats else "svg")


def add_output(parser: ArgumentParser, *formats: str) -> None:
    """`--format` and `-o`; `--open` for commands that make pages or charts."""
    parser.add_argument(
        "--format",
        choices=formats,
        type=lambda name: name,  # keeps a `_Default`
        default=_Default(formats[0]),
        help=f"output format (default: by the ending of FILE, else {formats[0]})",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        action=_OutputFile,
        metavar="FILE",
        help="write the output to FILE",
    )
    parser.set_defaults(formats=formats)
    if {"html", "svg"} & {*formats}:
        kind = "HTML page" if "html" in formats else "chart"
        parser.add_argument(
            "--open",
            action=_Open,
            nargs=0,
            default=False,
            help=f"open the {kind} in a browser; without -o, it is a temporary file",
        )


def check_ending(args: Namespace) -> None:
    """Refuse a file whose ending promises a format that the command does not have."""
    is_text = args.output is None or args.output.suffix.lower() in _TEXT_ENDINGS
    if is_text or not isinstance(args.format, _Default):
        return
    check_output(args.output, *named_reports(args))
    known = _FORMAT_BY_ENDING.items()
    endings = [end for end, form in known if form in args.formats and end != ".htm"]
    raise UsageError(
        f"{args.output}: this command can't write {args.output.suffix} files; use the ending "
        f"{', '.join(endings)} or .txt, or name a --format"
    )


def check_page(args: Namespace, stdout: TextIO) -> None:
    """Refuse to print a page on a terminal, before the report is analysed."""
    if args.format == "html" and args.output is None and stdout.isatty():
        raise UsageError("--format html makes a page for a browser: use --open, or -o page.html")


def add_source(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--source",
        type=Path,
        metavar="DIR",
        help="folder with the sources, if the report does not embed them",
    )


def add_run_table(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--run-table",
        type=Path,
        metavar="FILE",
        help="times of all kernels in the whole run: a table of keet profile, or CSV with kernel, "
        "launches and total time (default: the table beside the report)",
    )


def add_no_sass(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--no-sass", action="store_true", help="do not analyse the machine code (SASS)"
    )


def reports_in(folder: Path) -> list[Path]:
    """The reports in a folder and its subfolders, by path; other files are ignored."""
    from keet.corpus import discovery

    return discovery.reports_in(folder)


def positive(text: str) -> int:
    """A count on the command line."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} must be a positive integer")
    return int(text)


def _launch_numbers(text: str) -> frozenset[int]:
    if (numbers := parsed_launches(text)) is None:
        raise ArgumentTypeError(f"{text!r} must be launch numbers: 3, 0,2 or 0-4")
    return numbers


def pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as problem:
        raise ArgumentTypeError(
            f"{text[:80]!r} is not a valid regular expression ({problem})"
        ) from None


def selected_launches(profile: Profile, args: Namespace) -> tuple[Launch, ...]:
    """The launches that `--launch` and `--kernel` select; raises if there are none."""
    return select_launches(profile, args.launch, args.kernel, names=("--launch", "--kernel"))


def named_reports(args: Namespace) -> list[Path]:
    """The files that the command reads. `words` of `keet ask`: reports, then the question."""
    words = getattr(args, "words", ())[:-1]
    report = getattr(args, "report", None)
    several = [*getattr(args, "reports", ()), *getattr(args, "read", ())]
    against = getattr(args, "against", None)
    table = getattr(args, "run_table", None)
    single = [path for path in (report, against, table) if path is not None]
    return [*map(Path, words), *several, *single]


def same_file(one: Path, other: Path) -> bool:
    """Whether writing to one would overwrite the other; not for devices."""
    if os.path.exists(one) and os.path.exists(other):  # noqa: PTH110 - Path's raise for long names
        return one.is_file() and one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def check_output(path: Path, *reports: Path) -> None:
    """Refuse to write to a folder, or over a report that is being read."""
    with output_errors(path):
        if not path.exists():
            return
        if path.is_dir():
            raise UsageError(f"{path}: this is a folder; name a file in it with -o")
        if any(same_file(path, report) for report in reports):
            raise UsageError(f"{path}: this is the report itself; name another file with -o")


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Turn an OSError on write into a one-line message."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        reason = reason_of(problem)
        raise UsageError(f"{path}: it can't be written ({reason}); name another with -o") from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around the writing of a result: says on stderr what was written, or raises why it was not."""
    with output_errors(path):
        yield
        size = path.stat().st_size if path.is_file() else None
    if size is not None:
        print_written(path, size)


@contextmanager
def exiting_with(code: int) -> Iterator[None]:
    """Around the output of a check: the command exits with `code`, also if the reader of the pipe
    leaves (`| head`) or the disk is full."""
    try:
        yield
        sys.stdout.flush()
    except OSError as problem:
        if code:
            problem.exit_code = code  # type: ignore[attr-defined]
        raise


class Destination:
    """Where a result goes: stdout, or a file that is replaced only when the result is complete."""

    def __init__(self, args: Namespace, stdout: TextIO) -> None:
        self._path: Path | None = args.output
        self._is_opened: bool = getattr(args, "open", False)
        self._stdout = stdout
        if self._path is not None:
            check_output(self._path, *named_reports(args))

    def write(self, text: str) -> None:
        self.write_pieces([text])

    def write_pieces(self, pieces: Iterable[str]) -> None:
        """Write a text that is produced piece by piece, since it may not fit into memory. A file is
        replaced only if all pieces could be produced."""
        if self._path is None:
            with paged(self._stdout) as out:
                out.writelines(pieces)
            return
        with writing(self._path), replacing_text(self._path) as write:
            for piece in pieces:
                write(piece)
        if self._is_opened:
            from keet.cli.browser import open_page

            open_page(self._path)

    def show_page(self, make: Callable[[Reader], Page], form: Format = "terminal") -> None:
        """Print a page. For the terminal it is made for its width."""
        if form != "terminal":
            from keet.formats import page_text

            self.write(page_text(make, form))
            return
        from keet.formats import terminal

        if self._path is None and terminal.is_terminal(self._stdout):
            with paged(self._stdout) as out:
                terminal.print_page(make, out)
            return
        # Files and pipes get no trailing spaces.
        width = terminal.terminal_width(self._stdout if self._path is None else io.StringIO())
        self.write_pieces(terminal.plain_lines(make(terminal.reader(width)).blocks, width))
