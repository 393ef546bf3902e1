"""What can be completed after each command, taken from the parsers."""

from __future__ import annotations

from argparse import SUPPRESS, Action
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from keet.cli import COMMANDS, make_parser
from keet.cli.arguments import report_path
from keet.errors import KeetError

REPORT_SUFFIXES = (".ncu-rep", ".ncu-repz", ".keet.json", ".keet.json.zst", ".csv")

_KINDS = {
    "REPORT": "report",
    "REPORT… QUESTION": "report",
    "BEFORE": "report",
    "AFTER": "report",
    "DIR": "report",
    "OUT": "folder",
    "ROOT": "folder",
    "FILE": "file",
    "TEXT_FILE": "file",
    "PATH": "file",
}
"""By metavar. `keet batch DIR` takes reports, too."""


class CompletedValue(NamedTuple):
    """What an option or an operand takes."""

    kind: str
    """`report`, `file`, `folder`, `words`; `text`: nothing to complete."""
    words: tuple[str, ...] = ()


class CompletedOption(NamedTuple):
    flags: tuple[str, ...]
    help: str
    value: CompletedValue | None
    """None: it takes none."""


class CompletedCommand(NamedTuple):
    """A command, or an action of one: `eval diagnosis`."""

    name: str
    summary: str
    options: tuple[CompletedOption, ...]
    operands: tuple[CompletedValue, ...]
    is_open: bool
    """The last operand may be repeated."""
    takes_program: bool


@cache
def commands() -> tuple[CompletedCommand, ...]:
    return tuple(_commands())


def actions() -> Mapping[str, Mapping[str, str]]:
    """Actions by command, for commands whose next word picks a module: summaries by name."""
    found = {name: getattr(_module(name), "ACTIONS", {}) for name in COMMANDS}
    return {name: table for name, table in found.items() if table}


def _module(name: str) -> ModuleType:
    return import_module(f"keet.cli.{COMMANDS[name].module}")


def _commands() -> Iterator[CompletedCommand]:
    for name, entry in COMMANDS.items():
        module = _module(name)
        if hasattr(module, "find_action"):
            words = tuple(module.ACTIONS)
            yield CompletedCommand(
                name, entry.summary, (), (CompletedValue("words", words),), False, False
            )
            yield from _actions(name, module)
        else:
            yield _command(name, entry.summary, module)


def _actions(name: str, module: ModuleType) -> Iterator[CompletedCommand]:
    for action, summary in module.ACTIONS.items():
        try:
            found = module.find_action([action])
        except KeetError:  # outside of a clone of the repository
            return
        yield _command(f"{name} {action}", summary, found)


def _command(name: str, summary: str, module: ModuleType) -> CompletedCommand:
    shown = [a for a in make_parser(module, f"keet {name}")._actions if a.help != SUPPRESS]
    options = tuple(_option(action) for action in shown if action.option_strings)
    operands = [action for action in shown if not action.option_strings]
    return CompletedCommand(
        name,
        summary,
        options,
        tuple(_value(name, action) for action in operands),
        is_open=bool(operands) and operands[-1].nargs in ("*", "+"),
        takes_program=hasattr(module, "TAKES_PROGRAM"),
    )


def _option(action: Action) -> CompletedOption:
    value = None if action.nargs == 0 else _value("", action)
    return CompletedOption(tuple(action.option_strings), action.help or "", value)


def _value(command: str, action: Action) -> CompletedValue:
    if action.choices:
        return CompletedValue("words", tuple(map(str, action.choices)))
    if action.dest == "finding":
        from keet.findings import findings

        return CompletedValue("words", tuple(findings()))
    if command == "schema":
        from keet.cli.schema import schema_documents

        return CompletedValue("words", tuple(schema_documents()))
    if action.metavar == "DIR" and action.option_strings:
        return CompletedValue("folder")
    is_path = action.type in (Path, report_path)
    return CompletedValue(_KINDS.get(str(action.metavar), "file" if is_path else "text"))
