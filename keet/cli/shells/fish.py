"""Completion for fish."""

from __future__ import annotations

from collections.abc import Iterator

from keet.cli import COMMANDS, QUIET
from keet.cli.shells.completions import (
    REPORT_SUFFIXES,
    CompletedCommand,
    CompletedOption,
    CompletedValue,
    actions,
    commands,
)
from keet.version import __version__

_SCRIPT = r"""# fish completion for keet @VERSION@.
# Install it: keet completion fish > ~/.config/fish/completions/keet.fish

function __keet_words  # what was typed before the cursor, without the program and --quiet
    set -l words (commandline -opc)
    string match -v -r -- '^(@QUIET@)$' $words[2..-1]
end

function __keet_top
    test (count (__keet_words)) -eq 0
end

function __keet_in  # a command, and an action of it
    set -l words (__keet_words)
    test (count $words) -ge (count $argv); and test "$words[1..$(count $argv)]" = "$argv"
end

function __keet_first  # a command of which the next operand is the first
    set -l words (__keet_words)
    test "$words[1]" = "$argv[1]"; and not string match -q -r -- '^[^-]' $words[2..-1]
end

function __keet_reports
    __fish_complete_suffix @SUFFIXES@
end

complete -c keet -f
complete -c keet -n __keet_top -l help -s h -d 'commands and examples'
complete -c keet -n __keet_top -l version -s V -d 'the version'
complete -c keet -n __keet_top -l quiet -s q -d 'no notes and progress'
@LINES@
"""


def fish_script() -> str:
    lines = [line for command in commands() for line in _lines(command)]
    names = [(name, entry.summary) for name, entry in COMMANDS.items()]
    names.append(("help", "options and examples of a command"))
    top = [_line("__keet_top", f"-a {name} -d {quoted(text)}") for name, text in names]
    top.append(_line("__keet_first help", f"-a {quoted(' '.join(COMMANDS))}"))
    for name, table in actions().items():
        top += [
            _line(f"__keet_first {name}", f"-a {action} -d {quoted(text)}")
            for action, text in table.items()
        ]
    return (
        _SCRIPT.replace("@VERSION@", __version__)
        .replace("@QUIET@", "|".join(QUIET))
        .replace("@SUFFIXES@", " ".join(REPORT_SUFFIXES))
        .replace("@LINES@", "\n".join([*top, *lines]))
    )


def _line(condition: str, rest: str) -> str:
    return f"complete -c keet -n {quoted(condition)} {rest}"


def _lines(command: CompletedCommand) -> Iterator[str]:
    inside = f"__keet_in {command.name}"
    for option in command.options:
        yield _line(inside, f"{_flags(option)} -d {quoted(option.help)}{_value(option.value)}")
    if command.name not in actions():
        yield from _operand_lines(command, inside)
    if command.takes_program:
        yield _line(inside, "-F")


def _operand_lines(command: CompletedCommand, inside: str) -> Iterator[str]:
    """Words are those of the first operand; files may be any operand behind it."""
    first = f"__keet_first {command.name}"
    has_words = any(operand.words for operand in command.operands)
    behind = f"{inside}; and not {first}" if has_words else inside
    for operand in command.operands:
        if operand.words:
            yield _line(first, f"-a {quoted(' '.join(operand.words))}")
        elif operand.kind != "text":
            yield _line(behind, _files(operand))


def _files(value: CompletedValue) -> str:
    if value.kind == "report":
        return "-a '(__keet_reports)'"
    return "-a '(__fish_complete_directories)'" if value.kind == "folder" else "-F"


def _flags(option: CompletedOption) -> str:
    return " ".join(
        f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags
    )


def _value(value: CompletedValue | None) -> str:
    if value is None:
        return ""
    if value.words:
        return f" -x -a {quoted(' '.join(value.words))}"
    if value.kind == "text":
        return " -x"
    return f" -x {_files(value)}" if value.kind == "folder" else f" -r {_files(value)}"


def quoted(text: str) -> str:
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
