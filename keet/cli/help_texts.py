"""The text of `keet --help`, and the exit codes in the help of commands."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping
from textwrap import fill

from keet.errors import ExitCode
from keet.version import __version__

_WIDTH = 80
_KEEP = "\N{NO-BREAK SPACE}"
"""Keeps a code and the first word of its meaning on one line."""
_HELP = """\
keet {version}: explains what limits a GPU kernel, from its Nsight Compute report.

usage: keet COMMAND [options]
{commands}

examples:
  keet explain report.ncu-rep
  keet diff before.ncu-rep after.ncu-rep
  keet profile -- ./app --size 4096
  keet help COMMAND      options and examples of one command
  keet --help-all        also: forms of reports, common options, exit codes
"""
_REST = """
A REPORT is a .ncu-rep, a .ncu-repz, text or CSV that ncu printed, or a keet
snapshot (.keet.json, .keet.json.zst). Reading one needs no GPU, no CUDA and no
network.

Every command accepts -q (--quiet): no notes and progress on stderr, only errors
are printed. Commands that read a REPORT accept - for standard input. File names
that begin with a dash go after --. COMMAND --help-all lists the options that
are rarely used, too.

{exit_codes}
"""
RARE_OPTIONS = frozenset(
    (
        *("--price", "--token-budget", "--time-limit", "--transcript", "--replay", "--no-cache"),
        *("--model-launches", "--no-compile"),
        *("--max-passes", "--kernel-timeout", "--no-plain-run", "--check-overhead"),
        *("--clock-control", "--ncu-options", "--function"),
        *("--source-before", "--run-table-before", "--times", "--before-run", "--after-run"),
        *("--shard", "--dask", "--timeout", "--report"),
    )
)
"""Options that only `--help-all` lists; a name means the same in all commands."""


def help_text(groups: Mapping[str, Mapping[str, str]], *, is_complete: bool) -> str:
    """`groups`: what each command does, by its name, by heading."""
    width = max(len(name) for commands in groups.values() for name in commands)
    lines = [
        line
        for heading, commands in groups.items()
        for line in (
            f"\n{heading}:",
            *(f"  {name:{width}}  {summary}" for name, summary in commands.items()),
        )
    ]
    text = _HELP.format(version=__version__, commands="\n".join(lines))
    if not is_complete:
        return text
    codes = exit_codes_text({code: code.meaning for code in ExitCode})
    return text + _REST.format(exit_codes=codes)


def short_usage(parser: ArgumentParser) -> str:
    """The usage line of a command: required options and arguments, and `[options]`."""
    formatter = RawDescriptionHelpFormatter(parser.prog, width=1000)
    needed = [action for action in parser._actions if action.required or not action.option_strings]
    formatter.add_usage(None, needed, [], "")
    usage = formatter.format_help().strip().removeprefix(parser.prog)
    return f"{parser.prog} [options]{usage}".replace("%", "%%")


def short_help(parser: ArgumentParser) -> str:
    """The help of a command without the options that are rarely used."""
    rare = [
        action for action in parser._actions if RARE_OPTIONS.intersection(action.option_strings)
    ]
    for each in rare:
        each.help = SUPPRESS
    text = ArgumentParser.format_help(parser)
    command = f"{parser.prog} --help-all"
    return f"{text}\nall options: {command}\n" if rare else text


def wrapped(text: str) -> str:
    """A help text in lines of 80 columns: prose is filled, and where examples are too long, their
    comments go below the commands. A command is never broken, so that it can be copied."""
    return "\n\n".join(map(_wrapped_part, text.strip("\n").split("\n\n"))) + "\n"


def _wrapped_part(part: str) -> str:
    lines = part.split("\n")
    if all(len(line) <= _WIDTH for line in lines):
        return part
    if not any(line.startswith((" ", "- ")) for line in lines):
        return fill(" ".join(lines), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(each for line in lines for each in _example_lines(line))


def _example_lines(line: str) -> list[str]:
    """`  COMMAND   what it does` as two lines; a line may be only the rest of a comment."""
    command, gap, comment = line[2:].partition("   ")
    if not gap:
        return [line]
    return [*([line[:2] + command] if command else []), f"      {comment.strip()}"]


def epilog(examples: str, meanings: Mapping[ExitCode, str] | None) -> str:
    """`meanings`: of exit codes, where the command gives them special ones."""
    codes = f"\n{exit_codes_text(meanings)}\n" if meanings else ""
    return wrapped(examples) + codes


def exit_codes_text(meanings: Mapping[ExitCode, str]) -> str:
    """`exit codes: 0 done; 2 wrong usage`, as lines of 80 columns."""
    parts = (f"{int(code)}{_KEEP}{meaning}" for code, meaning in meanings.items())
    return fill(f"exit codes: {'; '.join(parts)}", _WIDTH).replace(_KEEP, " ")
