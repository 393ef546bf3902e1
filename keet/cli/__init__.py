"""The command line: one module per command; modules whose names begin with a command's name are
parts of it; the others are shared.

`main` runs a command and turns errors into exit codes. A command is a module with a docstring (its
help), `EXAMPLES`, `configure(parser)` and `run(args)`, and a row in `GROUPS`. A command is imported
when it is called: `keet --help` and each command load only what they need.
"""

from __future__ import annotations

import gc

_COLLECTS = gc.isenabled()
gc.disable()  # imports create no garbage, and collection takes a tenth of the time to load them

# ruff: noqa: E402
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from keet import progress
from keet.cli.pager import quiet_stderr, show_text
from keet.errors import ExitCode, KeetError, UsageError, one_line
from keet.files import REPORT_SUFFIXES, STDIN
from keet.safe_text import visible_output
from keet.version import __version__

if _COLLECTS:
    gc.enable()

QUIET = ("-q", "--quiet")
_ALLOCATIONS = 250_000
"""Allocated containers after which garbage is collected."""


GROUPS = {
    "Explain a report": {
        "explain": "what limits each kernel, where, what to change, expected gain",
        "profile": "profile a program with ncu, then explain the report",
        "show": "what a report contains, what is missing, how to collect it",
        "hotspots": "source lines ranked by samples, with stalls and traffic",
        "roofline": "how close each launch came to each ceiling; chart as svg",
        "chart": "the memory chart: traffic between units, the limit, the waste",
        "amounts": "how much work is done per result, and how much is needed",
        "metrics": "the metric table, with units and meaning",
        "finding": "what a finding means, its remedies and its measured cases",
    },
    "Compare": {
        "diff": "what changed between two profiles, and why; a gate for CI",
        "baseline": "named profiles to compare with, saved in .keet/",
    },
    "Many reports": {
        "batch": "analyse folders of reports into a store",
        "top": "the largest possible savings in a store",
        "query": "SQL on a store: launches, findings, metrics, files",
        "insights": "sweeps, clusters, outliers and changes in a store",
    },
    "Models and agents": {
        "optimize": "make a program faster: propose, build, check, measure; again",
        "ask": "ask a model about reports; its numbers are checked",
        "context": "the explanation as context for a prompt, in at most N tokens",
        "verify": "check the numbers of any text against a report",
        "mcp": "MCP server: read-only tools on reports, for coding agents",
        "skill": "SKILL.md: instructions for coding agents that use keet",
    },
    "More": {
        "doctor": "what is installed and reachable, and how to fix what is not",
        "snapshot": "a report as text that can be read and diffed (.keet.json)",
        "schema": "the JSON Schema of each JSON output",
        "completion": "shell completion for commands and options",
        "eval": "measure how accurate keet is (needs a clone of keet)",
    },
    "": {"cases": "measured cases of findings: now in keet finding"},
}
"""Summaries of the commands, by the headings of `keet --help`. What has none is listed only by
`keet --help-all`."""
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
_OTHER_WORDS = {
    **dict.fromkeys(("compare", "comparison", "regression"), "diff"),
    **dict.fromkeys(("html", "report", "analyze", "analyse", "why", "page"), "explain"),
    **dict.fromkeys(("collect", "capture", "record", "run"), "profile"),
    **dict.fromkeys(("lines", "source"), "hotspots"),
    **dict.fromkeys(("info", "list", "summary"), "show"),
    **dict.fromkeys(("check", "validate"), "verify"),
    **dict.fromkeys(("sql",), "query"),
    **dict.fromkeys(("memory",), "chart"),
}
"""Words that people type for a command."""
_OPTIONS_OF_NCU = {
    **dict.fromkeys(("-k", "--kernel-name", "--kernel-regex"), "--kernel"),
    "-s": "--launch-skip",
    "-c": "--launch-count",
}
"""Those of keet that mean the same."""
_LEAST_SIMILARITY = 0.75
"""Least similarity of a word and an option that was meant."""
_HELP_ALL = "--help-all"


class _Parser(ArgumentParser):
    """argparse with one-line errors that name the command's help."""

    program_missing = False
    """The command needs a program after `--`, and there is none."""
    given: Sequence[str] = ()
    """The arguments before `--`."""
    is_short = False
    """The help leaves out options that are rarely used."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Python 3.14 would colour the help with escapes, which `visible_output` prints as text.
        self.color = False
        self._positionals.title = "arguments"
        self.register("type", None, str)  # an `_Operand` becomes a plain string

    def _parse_optional(self, arg_string: str) -> Any:
        """Called by argparse; None if the argument is not an option."""
        return None if isinstance(arg_string, _Operand) else super()._parse_optional(arg_string)

    def format_help(self) -> str:
        from keet.cli.help_texts import short_help

        return short_help(self) if self.is_short else super().format_help()

    def print_help(self, file: Any = None) -> None:
        """Called by argparse for --help."""
        del file
        show_text(self.format_help())

    def error(self, message: str) -> NoReturn:
        if not self.program_missing and (dashed := _dashed_file(self.given)):
            option, name = map(one_line, dashed)
            is_value = message.startswith("argument") and option.startswith("--")
            fixed = f"{option}={name}" if is_value else f"{self.prog} -- {name}"
            raise UsageError(
                f"the name of the file {name} begins with a dash, so it was read as an option; "
                f"write: {fixed}"
            )
        hint = self._near_option(message)
        if self.program_missing and not hint:
            hint = "put the program after --, "
        raise UsageError(f"{message}; {hint}see: {self.prog} --help")

    def _near_option(self, message: str) -> str:
        """A known option that is close to the first unknown one; empty if there is none."""
        unknown = message.partition("unrecognized arguments: ")[2].split()[:1]
        if not unknown or not unknown[0].startswith("-"):
            return ""
        import difflib

        name = unknown[0].partition("=")[0]
        known = self._option_string_actions
        if (same := _OPTIONS_OF_NCU.get(name)) in known:
            return f"did you mean {same}? "
        words = [each.removeprefix("--") for each in known if each.startswith("--")]
        near = difflib.get_close_matches(
            name.removeprefix("--"), words, n=1, cutoff=_LEAST_SIMILARITY
        )
        return f"did you mean --{near[0]}? " if near else ""


class _Operand(str):
    """An argument after `--`: never an option, whatever it begins with. `--` itself can't be passed
    to argparse: `parse_intermixed_args` drops it in the first of its two passes."""

    __slots__ = ()


def _dashed_file(arguments: Sequence[str]) -> tuple[str, str] | None:
    """The first argument that begins with a dash and names a file, and the argument before it."""
    for before, argument in zip(["", *arguments], arguments):
        if argument.startswith("-") and argument != "-" and os.path.lexists(argument):
            return before, argument
    return None


def run() -> NoReturn:
    """The `keet` program."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif hasattr(stream, "reconfigure"):
            # A character that the terminal can't show is printed as a question mark.
            stream.reconfigure(errors="replace")
    # Reading and explaining a report creates few reference cycles, and collection takes a tenth of
    # the time, and as long again at exit. Long commands still collect, less often.
    gc.set_threshold(_ALLOCATIONS, 50, 100)
    code = main()
    if "duckdb" not in sys.modules:  # it warns about each object that is left at exit
        gc.freeze()
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    with visible_output(), progress.shown():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(arguments: list[str]) -> int:
    try:
        code = dispatch(arguments)
        sys.stdout.flush()
        return code
    except KeetError as error:
        _complain(one_line(f"keet: {error}"))
        return error.exit_code
    except BrokenPipeError as error:
        _give_up_stdout()  # `keet metrics ... | head` is not a failure
        return getattr(error, "exit_code", 0)
    except OSError as error:
        # Readers raise IngestError instead, so the result can't be written.
        _give_up_stdout()
        _complain(f"keet: the result can't be written ({error.strerror or error}); free disk space")
        return getattr(error, "exit_code", ExitCode.NOT_AVAILABLE)
    except KeyboardInterrupt:
        _complain("keet: interrupted")
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a bug gets its own message
        return _report_bug(error)


def dispatch(arguments: list[str]) -> int:
    """Run one command. Raises its errors."""
    if arguments and arguments[0] in QUIET:
        with quiet_stderr():
            return dispatch(arguments[1:])
    if arguments[:1] == ["help"] and len(arguments) > 1:
        return dispatch([*arguments[1:], "--help"])
    if not arguments or arguments[0] in ("-h", "--help", _HELP_ALL, "help"):
        show_text(help_text(is_complete=arguments[:1] == [_HELP_ALL]))
        return 0
    if arguments[0] in ("-V", "--version"):
        sys.stdout.write(f"keet {__version__}\n")
        return 0
    name, *rest = arguments
    if name not in COMMANDS and _names_report(name):
        name, rest = "explain", arguments
    if name not in COMMANDS:
        raise UsageError(_unknown_command(name))
    return run_command(import_module(f"keet.cli.{name}"), f"keet {name}", rest)


def run_command(module: ModuleType, prog: str, rest: list[str]) -> int:
    """Parse the arguments after the command's name, and run it."""
    if hasattr(module, "find_action"):  # as `keet eval diagnosis`: the next word picks the module
        return _run_action(module, prog, rest)
    takes_program = hasattr(module, "TAKES_PROGRAM")
    cut = rest.index("--") if "--" in rest else len(rest)
    rest, after_dashes = rest[:cut], rest[cut + 1 :]  # behind it: a program, or names of files
    if _HELP_ALL in rest:
        show_text(make_parser(module, prog).format_help())
        return 0
    parser = make_parser(module, prog, asks_for_help=any(map(_may_ask_for_help, rest)))
    parser.program_missing = takes_program and not after_dashes
    parser.given = rest
    operands = [] if takes_program else [_Operand(dash) for dash in after_dashes]
    parser.is_short = True
    try:
        parsed = parser.parse_intermixed_args([*rest, *operands])
    except SystemExit:  # --help was printed; errors are raised by `_Parser`
        return 0
    parsed.program = after_dashes if takes_program else []
    _check_stdin(parsed)
    if hasattr(parsed, "formats"):
        from keet.cli.arguments import check_ending

        check_ending(parsed)
    if getattr(parsed, "open", False):
        from keet.cli.arguments import choose_file

        choose_file(parsed)
    with quiet_stderr() if parsed.quiet else nullcontext():
        result: int | None = module.run(parsed)
    return result or 0


def _run_action(module: ModuleType, prog: str, rest: list[str]) -> int:
    if rest and rest[0] in QUIET:
        with quiet_stderr():
            return run_command(module, prog, rest[1:])
    action = module.find_action(rest)
    if action is None:
        show_text(module.help_text())
        return 0
    return run_command(action, f"{prog} {rest[0]}", rest[1:])


def make_parser(module: ModuleType, prog: str, *, asks_for_help: bool = True) -> _Parser:
    """The parser of a command, with the options and exit codes of all commands."""
    if asks_for_help:
        from keet.cli.help_texts import epilog, short_usage, wrapped

        parser = _Parser(
            prog=prog,
            description=wrapped(module.__doc__ or ""),
            epilog=epilog(module.EXAMPLES, getattr(module, "EXIT_CODES", None)),
            formatter_class=RawDescriptionHelpFormatter,
        )
    else:
        # argparse formats a usage line before it parses, for messages that `_Parser` replaces. It
        # makes a formatter per option, which looks up the terminal's width unless it is given.
        formatter = partial(RawDescriptionHelpFormatter, width=80)
        parser = _Parser(prog=prog, usage="", formatter_class=formatter)
    module.configure(parser)
    parser.add_argument(
        *QUIET, action="store_true", help="no notes and progress on stderr, only errors"
    )
    if asks_for_help and parser.usage is None:
        parser.usage = short_usage(parser)
    return parser


def _may_ask_for_help(argument: str) -> bool:
    """`--help`, a beginning of it, or `-h` among other letters."""
    return argument.startswith("--h") or (argument[:1] == "-" != argument[1:2] and "h" in argument)


def _check_stdin(parsed: Namespace) -> None:
    """Standard input can be read only once."""
    values = [value for name, value in vars(parsed).items() if name not in ("output", "program")]
    every = [each for value in values for each in (value if isinstance(value, list) else [value])]
    if sum(each is STDIN or (isinstance(each, str) and each == "-") for each in every) > 1:
        raise UsageError("- is standard input, which can be read only once; name a file instead")


def help_text(*, is_complete: bool = False) -> str:
    """`is_complete`: with older names, forms of reports, options of all commands and exit codes."""
    from keet.cli import help_texts

    groups = {heading or "Older names": group for heading, group in GROUPS.items()}
    if not is_complete:
        del groups["Older names"]
    return help_texts.help_text(groups, is_complete=is_complete)


def _names_report(argument: str) -> bool:
    """Whether `keet ARGUMENT` means `keet explain ARGUMENT`."""
    if argument.startswith("-"):
        return argument == "-"
    is_path = "/" in argument or argument.lower().endswith(REPORT_SUFFIXES)
    return is_path or os.path.exists(argument)  # noqa: PTH110 - Path's raise for long names


def _unknown_command(name: str) -> str:
    if name.startswith("-"):
        return f"{one_line(name)} must come after the command; see: keet --help"
    import difflib

    same = _OTHER_WORDS.get(name.casefold())
    close = [same] if same else difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean: keet {close[0]}" if close else "see: keet --help"
    return f"there is no command {one_line(name)!r}; {hint}"


def _give_up_stdout() -> None:
    """Nothing more can be written there; Python would try again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(line: str) -> None:
    with suppress(OSError):  # stderr is closed
        sys.stderr.write(line + "\n")


def _report_bug(error: Exception) -> int:
    if os.environ.get("KEET_DEBUG"):
        import traceback

        traceback.print_exc()
    _complain(
        f"keet: this is a bug in keet: {type(error).__name__}: {one_line(str(error))}; "
        "please report it with the traceback that KEET_DEBUG=1 gives"
    )
    return ExitCode.BUG
