"""The text of `keet --help`, and the exit codes in the help of commands."""

from __future__ import annotations

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

A REPORT is a .ncu-rep, a .ncu-repz, text or CSV that ncu printed, or a keet
snapshot (.keet.json, .keet.json.zst). Reading one needs no GPU, no CUDA and no
network.

examples:
  keet explain report.ncu-rep
  keet diff before.ncu-rep after.ncu-rep
  keet show report.ncu-rep
  keet hotspots report.ncu-rep --launch 0 --source ./src
  keet metrics report.ncu-rep dram --format csv
  keet batch runs/ -o store && keet insights store
  keet profile -- ./app --size 4096
  keet help COMMAND         options and examples of one command

Every command accepts -q (--quiet): no notes and progress on stderr, only errors
are printed. Commands that read a REPORT accept - for standard input. File names
that begin with a dash go after --.

{exit_codes}
"""


def help_text(summaries: Mapping[str, str]) -> str:
    """`summaries`: what each command does, by its name."""
    width = max(map(len, summaries))
    rows = "\n".join(f"  {name:{width}}  {summary}" for name, summary in summaries.items())
    codes = exit_codes_text({code: code.meaning for code in ExitCode})
    return _HELP.format(version=__version__, commands=rows, exit_codes=codes)


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


def exit_codes_text(meanings: Mapping[ExitCode, str]) -> str:
    """`exit codes: 0 done; 2 wrong usage`, as lines of 80 columns."""
    parts = (f"{int(code)}{_KEEP}{meaning}" for code, meaning in meanings.items())
    return fill(f"exit codes: {'; '.join(parts)}", _WIDTH).replace(_KEEP, " ")
