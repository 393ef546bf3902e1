"""Options that several commands share: reports, launches, format, output file."""

from __future__ import annotations

import io
import os
import os.path
import re
import sys
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from keet.cli.pager import paged, print_note, print_problem
from keet.errors import UsageError, reason_of
from keet.files import STDIN, replacing_text
from keet.profile import Launch, Profile
from keet.profile.profile import parsed_launches, select_launches

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

    from keet.documents.document import Document
    from keet.pages.blocks import Format, Page, Reader

T = TypeVar("T")

DATA_FORMATS = ("json", "csv", "parquet")
"""Formats for programs: complete unless an option limits them."""


def option(parser: ArgumentParser | _ArgumentGroup, shown: str, about: str, **how: Any) -> None:
    """Adds an option, written as help shows it: `-o, --output FILE`. Without a value and `choices`,
    it is a flag. `how`: as for `add_argument`."""
    words = shown.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    if len(names) < len(words):
        how["metavar"] = words[-1]
    elif not how.keys() & {"action", "choices"}:
        how["action"] = "store_true"
    parser.add_argument(*names, help=about, **how)


def option_type(wanted: str, read: Callable[[str], T | None]) -> Callable[[str], T]:
    """The type of an option: what `read` makes of its text. None, or a ValueError: the text is not
    what is `wanted`."""

    def typed(text: str) -> T:
        try:
            value = read(text)
        except ValueError:
            value = None
        if value is None:
            raise ArgumentTypeError(f"{text!r} must be {wanted}")
        return value

    return typed


def number(wanted: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    """A number for which `fits` is true."""
    return option_type(wanted, lambda text: value if fits(value := float(text)) else None)


positive = option_type(
    "a positive integer",
    lambda text: int(text) if re.fullmatch("[0-9]{1,9}", text) and int(text) else None,
)
"""A count on the command line."""


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
    option(
        parser,
        "--launch N",
        "only these launches, by number: 3, 0,2 or 0-4",
        type=option_type("launch numbers: 3, 0,2 or 0-4", parsed_launches),
    )
    add_kernel(parser)


def add_kernel(parser: ArgumentParser | _ArgumentGroup) -> None:
    option(
        parser,
        "--kernel REGEX",
        "only launches whose kernel name matches (any form of the name)",
        type=pattern,
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
    add = partial(option, parser)
    add(
        "--format",
        f"output format (default: by the ending of FILE, else {formats[0]})",
        choices=formats,
        type=lambda name: name,  # keeps a `_Default`
        default=_Default(formats[0]),
    )
    add("-o, --output FILE", "write the output to FILE", type=Path, action=_OutputFile)
    parser.set_defaults(formats=formats)
    if {"html", "svg"} & {*formats}:
        kind = "HTML page" if "html" in formats else "chart"
        add(
            "--open",
            f"open the {kind} in a browser; without -o, it is a temporary file",
            action=_Open,
            nargs=0,
            default=False,
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


def check_page(args: Namespace) -> None:
    """Refuse to print a page on a terminal, before the report is analysed."""
    if args.format == "html" and args.output is None and sys.stdout.isatty():
        raise UsageError("--format html makes a page for a browser: use --open, or -o page.html")


def add_source(parser: ArgumentParser) -> None:
    option(
        parser,
        "--source DIR",
        "folder with the sources, if the report does not embed them",
        type=Path,
    )


def add_run_table(parser: ArgumentParser) -> None:
    option(
        parser,
        "--run-table FILE",
        "times of all kernels in the whole run: a table of keet profile, or CSV with kernel, "
        "launches and total time (default: the table beside the report)",
        type=Path,
    )


def add_no_sass(parser: ArgumentParser) -> None:
    option(parser, "--no-sass", "do not analyse the machine code (SASS)")


def reports_at(places: Iterable[Path]) -> list[Path]:
    """The files that are named, and the reports in folders that are named and their subfolders."""
    from keet.corpus.discovery import reports_named

    return [path for place in places for path in reports_named(place)]


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
        amount = f"{size / 1000:,.0f} kB" if size >= 1000 else f"{size} bytes"
        print_note(f"wrote {path} ({amount})")


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


# --- a browser


def choose_file(args: Namespace) -> None:
    """For --open: where no file is named, the page goes to a new folder for temporary files."""
    if getattr(args, "show_prompt", False):
        raise UsageError("--open and --show-prompt exclude each other; leave one out")
    if args.format not in ("html", "svg"):
        raise UsageError(f"--open is for a browser, which does not show --format {args.format}")
    if args.output is None:
        import tempfile

        args.output = Path(tempfile.mkdtemp(prefix="keet-")) / f"keet.{args.format}"


def _open_page(page: Path) -> None:
    """A page that can't be opened is no error: it is written, and the message says where."""
    import webbrowser

    # Without a screen, Python would start a text browser in this terminal.
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    has_screen = sys.platform in ("win32", "darwin") or any(map(os.environ.get, screens))
    with suppress(OSError, webbrowser.Error):
        if has_screen and webbrowser.open(page.as_uri()):
            return
    print_problem(f"no browser could be opened; open the page yourself: {page}")


class Destination:
    """Where a result goes: stdout, or a file that is replaced only when the result is complete."""

    def __init__(self, args: Namespace) -> None:
        self._path: Path | None = args.output
        self._is_opened: bool = getattr(args, "open", False)
        self._stdout = sys.stdout
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
            _open_page(self._path.absolute())

    def write_launches(
        self, kind: type[Document], profile: Profile, launches: Iterable[object]
    ) -> None:
        """A JSON document that has the report and its launches, which are made one by one."""
        from keet.analysis.coverage import report_document
        from keet.documents.document import Streamed, json_pieces

        fields = (("report", report_document(profile)), ("launches", launches))
        self.write_pieces(json_pieces(Streamed(kind, fields)))

    def show(
        self, document: Document, make: Callable[[Reader], Page], form: Format | Literal["json"]
    ) -> None:
        """The document as JSON, or its page."""
        if form == "json":
            from keet.documents.document import json_text

            self.write(json_text(document))
        else:
            self.show_page(make, form)

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
        self.write_pieces(terminal.plain_page(make, width))
