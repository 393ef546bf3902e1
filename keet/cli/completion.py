"""Print a completion script for your shell: keet's commands, options, reports and findings.

Completing does not start Python. Print the script again after an update of keet."""

from __future__ import annotations

import sys
from argparse import REMAINDER, Action, ArgumentParser, Namespace, _SubParsersAction
from importlib import import_module
from pathlib import Path
from types import ModuleType

from keet.cli import COMMANDS, QUIET
from keet.cli.arguments import report_path
from keet.errors import KeetError, NotAvailable
from keet.version import __version__

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = """\
examples:
  source <(keet completion bash)              now; put the line into ~/.bashrc to keep it
  keet completion zsh > ~/.zfunc/_keet        with fpath+=~/.zfunc before compinit in ~/.zshrc
  keet completion fish > ~/.config/fish/completions/keet.fish
"""

_REPORTS = ("*.ncu-rep", "*.ncu-repz", "*.keet.json", "*.keet.json.zst", "*.csv")
_OF_REPORTS = ("REPORT", "REPORT… QUESTION", "BEFORE", "AFTER", "DIR")
"""Metavars of values that are reports: `keet batch DIR` takes reports, too."""
_OF_FOLDERS = ("OUT", "ROOT")
_OF_FILES = ("FILE", "REPORT… TEXT", "PATH")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="your shell")


def run(args: Namespace) -> None:
    try:
        import shtab
    except ImportError as error:
        raise NotAvailable("shtab is not installed; install it: pip install shtab") from error
    title = f"# {args.shell} completion for keet {__version__}"
    sys.stdout.write(shtab.complete(whole_parser(), args.shell, preamble=title) + "\n")


def whole_parser() -> ArgumentParser:
    """All commands as subparsers of one parser: keet itself makes the parser of one command."""
    parser = ArgumentParser(prog="keet")
    parser.add_argument("-V", "--version", action="version", help="the version")
    parser.add_argument(*QUIET, action="store_true", help="no notes and progress")
    commands = parser.add_subparsers()
    for name, summary in COMMANDS.items():
        module = import_module(f"keet.cli.{name}")
        if not hasattr(module, "find_action"):
            _add_command(commands, name, summary, module)
            continue
        actions = commands.add_parser(name, help=summary).add_subparsers()
        for action, about_action in module.ACTIONS.items():
            try:
                _add_command(actions, action, about_action, module.find_action([action]))
            except KeetError:  # outside of a clone of the repository
                actions.add_parser(action, help=about_action)
    about = commands.add_parser("help", help="options and examples of a command")
    about.add_argument("command", choices=list(COMMANDS))
    return parser


def _add_command(
    commands: _SubParsersAction[ArgumentParser], name: str, summary: str, module: ModuleType
) -> None:
    parser = commands.add_parser(name, help=summary)
    module.configure(parser)
    parser.add_argument(*QUIET, action="store_true", help="no notes and progress, only errors")
    if hasattr(module, "TAKES_PROGRAM"):
        parser.add_argument("program", nargs=REMAINDER, type=Path, help="the program")
    for action in parser._actions:
        _complete_value(name, action)


def _complete_value(command: str, action: Action) -> None:
    """Words become the choices of the action; shtab reads its attribute `complete` for paths."""
    import shtab

    if action.choices or action.nargs == 0:
        return
    if action.dest == "finding" or (command == "finding" and not action.option_strings):
        from keet.findings import findings

        action.choices = tuple(findings())
    elif command == "schema" and not action.option_strings:
        from keet.cli.schema import schema_documents

        action.choices = tuple(schema_documents())
    elif action.metavar in _OF_FOLDERS or (action.metavar == "DIR" and action.option_strings):
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif action.metavar in _OF_REPORTS:
        action.complete = shtab.glob(*_REPORTS)  # type: ignore[attr-defined]
    elif action.metavar in _OF_FILES or action.type in (Path, report_path):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
