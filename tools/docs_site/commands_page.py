"""docs/commands.md: every command with its options, from the parsers that read them.

`make docs` writes the page: python -m docs_site.commands_page > docs/commands.md
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from keet.cli import COMMANDS, QUIET, help_text, make_parser

_INTRO = """\
# Commands

Made by `make docs` from the parsers of the commands (`tools/docs_site/commands_page.py`); edit
those, not this page. `keet help COMMAND` prints the same on a terminal.
"""
_COMMON = """\
## What all commands share

- `REPORT` is a `.ncu-rep` or `.ncu-repz`, [what ncu printed](exports.md) (`ncu --csv`, either page,
  or its tables as text) or a keet snapshot (`.keet.json`, `.keet.json.zst`). The content decides,
  not the name.
- Results go to stdout, notes and progress to stderr. `-q` (`--quiet`) drops notes and progress;
  errors are still printed, and exit codes stay. It may also stand before the command:
  `keet -q explain report.ncu-rep`.
- `-o FILE` writes the result to a file that appears whole or not at all.
- `--` ends the options: `keet show -- -dash.ncu-rep`. For the value of an option, use `=`:
  `--report=-dash.ncu-rep`. In `keet profile`, the program follows `--`.
- `NO_COLOR` and `COLUMNS` are respected.

## Standard input

`-` in place of a report reads a report, export or snapshot from standard input. It is read into
memory, with the same limits as files, and shown as `<stdin>`. A terminal is refused. `-` may be
used once in a command. `keet batch` takes files and folders only, because a store finds its reports
again by their paths; tables of the run (`--run-table`) are files, too.

```
ssh gpu-host cat report.ncu-rep | keet explain -
ncu --csv --page raw --import report.ncu-rep | keet show -
cat old.ncu-rep | keet baseline save main -
cat new.ncu-rep | keet diff baseline:main -
keet query store - < query.sql
```

`keet snapshot -` writes to stdout unless `-o FILE` is given. A table of the run is not looked for;
name it with `--run-table`.
"""
_ALWAYS = {"-h", *QUIET}
"""Options of every command, which are described once."""


def page() -> str:
    parts = [_INTRO, *_table(), _COMMON, _exit_codes()]
    for name, command in COMMANDS.items():
        parts += _command(import_module(f"keet.cli.{command.module}"), name, command.summary)
    return "\n".join(parts)


def _table() -> Iterator[str]:
    yield "| command | does |\n|---|---|"
    for name, command in COMMANDS.items():
        yield f"| [`keet {name}`](#keet-{name}) | {_cell(command.summary)} |"
    yield ""


def _exit_codes() -> str:
    """In the words of `keet --help`."""
    text = " ".join(help_text().split("exit codes: ")[1].split())
    rows = [each.strip().partition(" ") for each in text.split(";")]
    body = "\n".join(f"| {code} | {meaning} |" for code, _, meaning in rows)
    return f"## Exit codes\n\n| code | means |\n|---:|---|\n{body}\n"


def _command(module: ModuleType, name: str, summary: str) -> Iterator[str]:
    if not hasattr(module, "find_action"):
        yield from _section(module, f"keet {name}", "##")
        return
    yield f"## keet {name}\n\n{_prose(module.__doc__ or summary)}\n"
    for action in module.ACTIONS:
        yield from _section(module.find_action([action]), f"keet {name} {action}", "###")


def _section(module: ModuleType, prog: str, heading: str) -> Iterator[str]:
    parser = make_parser(module, prog)
    yield f"{heading} {prog}\n\n{_prose(module.__doc__ or '')}\n"
    yield f"```\n{_usage(parser, takes_program=hasattr(module, 'TAKES_PROGRAM'))}\n```\n"
    yield from _options(parser)
    examples, _, notes = module.EXAMPLES.partition("\n\n")
    yield "Examples:\n\n```\n" + _dedented(examples.removeprefix("examples:\n")) + "\n```\n"
    if notes.strip():
        yield _prose(notes) + "\n"


def _usage(parser: ArgumentParser, *, takes_program: bool) -> str:
    """argparse's own depends on the version of Python and names every option again."""
    given = [_positional(each) for each in _actions(parser) if not each.option_strings]
    needed = [
        f"{each.option_strings[-1]} {_value(each)}"
        for each in _actions(parser)
        if each.option_strings and each.required
    ]
    program = ["--", "COMMAND…"] if takes_program else []
    return " ".join([parser.prog, *given, *needed, "[options]", *program])


def _positional(action: Action) -> str:
    name = _value(action)
    if "…" in name:
        return name
    return {"?": f"[{name}]", "*": f"[{name}…]", "+": f"{name}…"}.get(str(action.nargs), name)


def _options(parser: ArgumentParser) -> Iterator[str]:
    """One table of arguments and plain options, and one per group that has a name of its own."""
    plain, *named = _groups(parser)
    for title, actions in (("argument", [*plain[1], *named.pop(0)[1]]), *named):
        rows = [f"| {_name(each)} | {_cell(_help(each))} |" for each in actions]
        if rows:
            yield f"| {title} | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"


def _groups(parser: ArgumentParser) -> list[tuple[str, list[Action]]]:
    """As argparse has them: positional arguments, options, then what a command grouped."""
    return [
        (str(group.title), [each for each in group._group_actions if _is_shown(each)])
        for group in parser._action_groups
    ]


def _is_shown(action: Action) -> bool:
    return action.help != SUPPRESS and not _ALWAYS & set(action.option_strings)


def _actions(parser: ArgumentParser) -> list[Action]:
    return [action for _, actions in _groups(parser) for action in actions]


def _name(action: Action) -> str:
    if not action.option_strings:
        return f"`{_cell(_value(action))}`"
    value = "" if action.nargs == 0 else f" {_metavar(action)}"
    return ", ".join(f"`{_cell(each + value)}`" for each in action.option_strings)


def _value(action: Action) -> str:
    if action.metavar is None and action.choices:
        return "|".join(map(str, action.choices))
    return _metavar(action)


def _metavar(action: Action) -> str:
    name = action.metavar or action.dest.upper()
    return name if isinstance(name, str) else " ".join(name)


def _help(action: Action) -> str:
    words = (action.help or "") % vars(action) if "%(" in (action.help or "") else action.help or ""
    needed = " (required)" if action.option_strings and action.required else ""
    return _choices(action) + words.replace("%%", "%") + needed


def _choices(action: Action) -> str:
    """The values of an option, before its meaning; those of a positional argument are its name."""
    if not action.option_strings or not action.choices or action.metavar is not None:
        return ""
    *others, last = [f"`{each}`" for each in action.choices]
    return f"{', '.join(others)} or {last}: " if others else f"{last}: "


def _cell(text: str) -> str:
    """A table takes a `|` for the end of a cell, also within code."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _prose(text: str) -> str:
    """Plain text of a help as Markdown: no sign in it means a format."""
    lines = (line.strip() for line in text.strip().splitlines())
    return "\n".join(lines).replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in text.rstrip().splitlines())


if __name__ == "__main__":
    sys.stdout.write(page())
