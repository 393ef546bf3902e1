"""Writes docs/commands.md and docs/commands/: the list of commands, and one page per command, from
the parsers.

`make docs` writes them: python -m docs_site.commands_page docs
"""

from __future__ import annotations

import re
import sys
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from docs_site.metrics_page import cell, write
from keet.cli import COMMANDS, GROUPS, QUIET, make_parser
from keet.cli.help_texts import exit_codes_text
from keet.errors import ExitCode
from keet.formatting import capitalized

DOCS = Path(__file__).resolve().parents[2] / "docs"
_GENERATED = "<!-- Made by `make docs` from the parsers of the commands: edit those. -->"
_INTRO = f"""\
{_GENERATED}
# Commands

`keet COMMAND --help-all` prints the page of a command on a terminal.
"""
_GUIDES = {
    "explain": "getting_started agent pages",
    "ask": "agent",
    "context": "context",
    "diff": "diff ci",
    "baseline": "ci",
    "show": "reports",
    "hotspots": "machine_code",
    "roofline": "analyst",
    "chart": "analyst",
    "amounts": "amounts",
    "metrics": "metrics metric_traps",
    "batch": "batch scale",
    "top": "store",
    "query": "store",
    "insights": "insights",
    "finding": "findings",
    "cases": "findings",
    "eval": "evals results",
    "verify": "python",
    "profile": "profiling",
    "mcp": "mcp",
    "skill": "skill",
    "snapshot": "reports",
    "doctor": "install",
    "schema": "python",
    "completion": "install",
}
"""Pages that explain what a command prints."""
_MARKS = {
    r"^keet (profile (?!--dry)|optimize )": "needs a GPU",
    r"^keet (explain|insights) .*(--model|--base-url)": "needs a model",
    r"^keet ask (?!.*--show-prompt)": "needs a model",
    r"--dask": "needs a Dask scheduler",
}
_COMMON = """\
## Common options

- `REPORT` is a `.ncu-rep` or `.ncu-repz`, [text or CSV that ncu printed](exports.md), or a keet
  snapshot (`.keet.json`, `.keet.json.zst`). keet detects the format from the content, not from the
  file name.
- Results go to stdout, notes and progress to stderr. `-q` (`--quiet`) drops notes and progress, but
  not errors, and does not change exit codes. It can also come before the command:
  `keet -q explain report.ncu-rep`.
- `-o FILE` writes the result to a file. If the command fails, the file is not changed.
- `--launch N` selects launches by number: `3`, `0,2` or `0-4`. `--kernel REGEX` selects launches
  whose kernel name matches: a Python regular expression that is searched in the short, the full,
  the function and the mangled name. Both together select launches that match both. If nothing
  matches, the command exits with 2. All commands that look at the launches of a report have both
  options. Exceptions: in `keet diff`, `--launch A:B` compares launch A with launch B; `keet top`
  and `keet insights` have `--kernel`, which selects launches of a store; `keet profile --kernel`
  selects what is profiled. `keet snapshot` and `keet batch` always take all launches of a report.
- `--top N` prints at most the N most important entries: findings per launch (`explain`), rows per
  launch (`hotspots`), kernels (`diff`), insights of each kind (`insights`), groups (`top`). Without
  it, views (terminal, Markdown, HTML, SVG) print the default number, and data (JSON, CSV) has all
  entries. With it, all formats are limited. Totals, shares, verdicts and gates do not depend on it.
- `--format json` prints a document that [`keet schema`](commands/schema.md) describes.
- `--` ends the options: `keet show -- -dash.ncu-rep`. For the value of an option, use `=`:
  `--report=-dash.ncu-rep`. In `keet profile`, the program follows `--`.
- On a terminal, a result that is longer than the screen goes through a pager, so that its beginning
  stays in sight: `KEET_PAGER`, else `PAGER`, else `less` (with `LESS=FRX` unless `LESS` is set).
  `KEET_PAGER=` or `KEET_PAGER=cat` switches it off. Exit codes do not depend on it. Pipes and files
  get the plain text, and so does a terminal where the pager is not installed.
- `NO_COLOR` and `COLUMNS` are respected. Without `COLUMNS`, text for a pipe (`keet … | less`) is as
  wide as the terminal; files have 120 columns.

## Standard input

`-` in place of a report reads a report, export or snapshot from standard input. It is read into
memory, with the same limits as files, and shown as `<stdin>`. Standard input must not be a
terminal, and `-` can be used once per command. `keet batch` takes only files and folders, because a
store identifies reports by their paths. Run tables (`--run-table`) must be files, too.

```bash
ssh gpu-host cat report.ncu-rep | keet explain -
ncu --csv --page raw --import report.ncu-rep | keet show -
cat old.ncu-rep | keet baseline save main -
cat new.ncu-rep | keet diff baseline:main -
keet query store - < query.sql
```

`keet snapshot -` writes to stdout unless `-o FILE` is given. keet does not look for a run
table then; name it with `--run-table`.
"""
_ALWAYS = {"-h", *QUIET}
"""Options of every command, described only once."""


def pages() -> dict[str, str]:
    """Texts by path in docs/."""
    codes = "\n".join(f"| {int(code)} | {code.meaning} |" for code in ExitCode)
    exit_codes = f"## Exit codes\n\n| code | means |\n|---:|---|\n{codes}\n"
    return {
        "commands.md": "\n".join([_INTRO, *_tables(), _COMMON, exit_codes]),
        **{
            f"commands/{name}.md": "\n".join(_page(name))
            for name in COMMANDS
            if name not in GROUPS[""]
        },
    }


def _tables() -> Iterator[str]:
    for group, summaries in GROUPS.items():
        yield f"## {group or 'Older names'}\n\n| command | does |\n|---|---|"
        for name, summary in summaries.items():
            command = f"[`keet {name}`](commands/{name}.md)" if group else f"`keet {name}`"
            yield f"| {command} | {cell(summary)} |"
        yield ""


def _page(name: str) -> Iterator[str]:
    module = import_module(f"keet.cli.{name}")
    yield _GENERATED
    if hasattr(module, "find_action"):
        yield f"# keet {name}\n\n{_prose(module.ABOUT)}\n"
        for action in module.ACTIONS:
            yield from _section(module.find_action([action]), f"keet {name} {action}", "##")
    else:
        yield from _section(module, f"keet {name}", "#")
    guides = ", ".join(f"[{_title(page)}](../{page}.md)" for page in _GUIDES.get(name, "").split())
    common = "[Common options, standard input and exit codes](../commands.md#common-options)"
    yield f"More: {guides}{', ' if guides else ''}{common}.\n"


def _title(page: str) -> str:
    lines = (DOCS / f"{page}.md").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("# ")).removeprefix("# ")


def _section(module: ModuleType, prog: str, heading: str) -> Iterator[str]:
    parser = make_parser(module, prog)
    yield f"{heading} {prog}\n\n{_prose(module.__doc__ or '')}\n"
    yield f"```text\n{_usage(parser, takes_program=hasattr(module, 'TAKES_PROGRAM'))}\n```\n"
    picture = f"pictures/terminal_{prog.removeprefix('keet ')}.svg"
    if (DOCS / picture).exists():
        yield f"![What {prog} prints on a terminal](../{picture})\n"
    yield from _options(parser)
    examples, _, notes = module.EXAMPLES.partition("\n\n")
    shown = "\n".join(_examples(examples.removeprefix("examples:\n")))
    marked = "# takes minutes; some steps need a model or a GPU\n" if " eval " in prog else ""
    yield f"Examples:\n\n```bash\n{marked}{shown}\n```\n"
    if notes.strip():
        yield _prose(notes) + "\n"
    if meanings := getattr(module, "EXIT_CODES", None):
        yield capitalized(_prose(exit_codes_text(meanings))) + "\n"


def _usage(parser: ArgumentParser, *, takes_program: bool) -> str:
    """argparse's usage line depends on the Python version and repeats every option."""
    given = [_positional(action) for action in _actions(parser) if not action.option_strings]
    needed = [
        f"{action.option_strings[-1]} {_value(action)}"
        for action in _actions(parser)
        if action.option_strings and action.required
    ]
    program = ["--", "COMMAND…"] if takes_program else []
    return " ".join([parser.prog, *given, *needed, "[options]", *program])


def _positional(action: Action) -> str:
    name = _value(action)
    if "…" in name:
        return name
    return {"?": f"[{name}]", "*": f"[{name}…]", "+": f"{name}…"}.get(str(action.nargs), name)


def _options(parser: ArgumentParser) -> Iterator[str]:
    """One table of arguments and options, and one per named group."""
    plain, *named = _groups(parser)
    for title, actions in (("argument", [*plain[1], *named.pop(0)[1]]), *named):
        rows = [f"| {_name(action)} | {cell(_help(action))} |" for action in actions]
        if rows:
            yield f"| {title} | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"


def _groups(parser: ArgumentParser) -> list[tuple[str, list[Action]]]:
    """The groups of argparse: positional arguments, options, then named groups of the command."""
    return [
        (
            str(group.title),
            [
                action
                for action in group._group_actions
                if action.help != SUPPRESS and _ALWAYS.isdisjoint(action.option_strings)
            ],
        )
        for group in parser._action_groups
    ]


def _actions(parser: ArgumentParser) -> list[Action]:
    return [action for _, actions in _groups(parser) for action in actions]


def _name(action: Action) -> str:
    if not action.option_strings:
        return f"`{cell(_value(action))}`"
    value = "" if action.nargs == 0 else f" {_metavar(action)}"
    return ", ".join(f"`{cell(string + value)}`" for string in action.option_strings)


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
    *others, last = [f"`{choice}`" for choice in action.choices]
    return f"{', '.join(others)} or {last}: " if others else f"{last}: "


def _prose(text: str) -> str:
    """Help text as Markdown, with special characters escaped."""
    lines = (line.strip() for line in text.strip().splitlines())
    return "\n".join(lines).replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def _examples(text: str) -> Iterator[str]:
    """Explanations become comments, and commands that need more than keet get a mark."""
    quotes = 0
    for line in text.rstrip().splitlines():
        parts = re.split(r"(  +)(?=\S)", line.removeprefix("  "), maxsplit=1)
        words, blanks, comment = (*parts, "", "")[:3]
        if quotes % 2:  # SQL on several lines
            yield line.removeprefix("  ")
        else:
            marks = [mark for pattern, mark in _MARKS.items() if re.search(pattern, words)]
            comments = "; ".join([*filter(None, [comment]), *marks])
            yield f"{words}{blanks or '  '}# {comments}" if comments else words
        quotes += line.count('"')


if __name__ == "__main__":
    write(Path(sys.argv[1]), "commands", pages())
