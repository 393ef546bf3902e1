"""How ncu was called, and the command that profiles the same program again and captures what the
report lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from keet.analysis.kernel.library import fills_or_draws
from keet.catalog import capabilities
from keet.profile import Profile, Workload

_BOOST_SINCE = (2026, 1)
"""From NVIDIA's manual: the default of --clock-control is `boost` from 2026.1 on, and `base`
before."""
_DEFAULTS = {"cache-control": "all", "replay-mode": "kernel"}
"""Defaults of all versions; that of clock-control depends on the version."""


class NcuSetting(NamedTuple):
    """The value of an ncu option."""

    value: str
    is_default: bool
    """It was not on the command line."""


def setting_of(profile: Profile, option: str) -> NcuSetting | None:
    """None where the command line is not recorded, or the default of that ncu is not known."""
    arguments = ncu_arguments(profile)
    if arguments is None:
        return None
    options, _ = split_options(arguments)
    for each in options:
        name, _, value = re.sub(r"[\s=]+", " ", each, count=1).partition(" ")
        if name == f"--{option}" and value:
            return NcuSetting(value.strip("\"'"), is_default=False)
    default = _default(option, profile.provenance.ncu_version)
    return NcuSetting(default, is_default=True) if default else None


def _default(option: str, ncu_version: str | None) -> str | None:
    if option != "clock-control":
        return _DEFAULTS[option]
    known = re.match(r"(\d+)\.(\d+)", ncu_version or "")
    if known is None:
        return None
    return "boost" if (int(known[1]), int(known[2])) >= _BOOST_SINCE else "base"


def ncu_arguments(profile: Profile) -> str | None:
    """The part of the command line after the ncu executable: ncu's options, then the program."""
    match = re.match(_NCU, profile.provenance.command_line or "")
    return match["rest"].strip() if match else None


def split_options(arguments: str) -> tuple[list[str], str]:
    """ncu's options, each with its value, and the program with its arguments."""
    options: list[str] = []
    words = list(re.finditer(_SHELL_WORD, arguments))
    place = 0
    while place < len(words) and words[place][0].startswith("-"):
        word, behind = words[place][0], words[place + 1 : place + 2]
        is_pair = "=" not in word and word not in _SWITCHES
        last = place + (is_pair and any(not value[0].startswith("-") for value in behind))
        options.append(arguments[words[place].start() : words[last].end()])
        place = last + 1
    return options, arguments[words[place].start() :] if place < len(words) else ""


# Patterns are compiled on use: most commands need none of them.
_SHELL_WORD = r"""(?:"[^"]*"|'[^']*'|[^\s"'])+|\S+"""
_SWITCHES = frozenset(
    (
        *("-f", "--force-overwrite", "-q", "--quiet", "--nvtx", "--verbose", "--csv"),
        *("--open-in-ui", "--details-all", "--call-stack", "--print-fp"),
        *("--disable-extra-suffixes", "--disable-profiler-start-stop"),
    )
)
"""Options of ncu without a value."""
_NCU = r'(?s)^\s*(?:"[^"]*[\\/]ncu(?:\.exe)?"|\S*ncu(?:\.exe)?)\s+(?P<rest>.+)$'


def recapture_command(profile: Profile, extra_flags: Iterable[str]) -> str:
    """An ncu command that captures everything keet uses, based on the recorded command if any.

    `--set full` has every section that keet needs, so it replaces the recorded sets, metrics and
    sections of keet; custom sections stay. `extra_flags`: other flags of ncu to add.
    """
    if (command := keet_command(profile)) is not None:
        return command
    flags = ["--set full", *dict.fromkeys(extra_flags)]
    recorded = ncu_arguments(profile)
    rest = None if recorded is None else _rest_of(recorded, replaced=flags)
    if rest is None:
        rest = [f"-k {_kernel_filter(profile)} -o report {_ANY_PROGRAM}"]
    return " ".join(["ncu", *flags, *(part for part in rest if part)])


def kernel_command(profile: Profile) -> str:
    """An ncu command for a kernel of the recorded program that the report does not have."""
    program = keet_program(profile) or split_options(ncu_arguments(profile) or "")[1]
    return f"ncu --set full -k {_ANY_KERNEL} -o report {_quoted(program) or _ANY_PROGRAM}"


def _rest_of(recorded: str, replaced: Iterable[str]) -> list[str] | None:
    """The parts of the recorded command to keep, quoted for a shell; None if one is malformed."""
    options, program = split_options(recorded)
    kept = [_quoted(_kept_option(option, replaced)) for option in options]
    words = [*kept, _quoted(program)]
    safe = [word for word in words if word is not None]
    return safe if len(safe) == len(words) else None


_ANY_PROGRAM = "./your_program"
_ANY_KERNEL = "regex:YOUR_KERNEL"
_WORD = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+"""
_SAFE_WORD = r"""(?:[\w@%+=:,./-]|\\(?=[\w.])|"(?:[^"$`!\\]|\\(?=[\w .]))*"|'[^']*')+"""
"""Words that need no quoting in a shell. Windows paths contain backslashes."""


def _quoted(recorded: str) -> str | None:
    """Quote a recorded command for a shell; None if its quotes are not closed.

    Security: reports come from untrusted sources, and people and agents run the commands that keet
    prints. A recorded word must not be able to end the command and start another one.
    """
    if not recorded.isprintable() or re.sub(_WORD, "", recorded).strip():
        return None
    return " ".join(map(_quoted_word, re.findall(_WORD, recorded)))


def _quoted_word(word: str) -> str:
    import shlex

    return word if re.fullmatch(_SAFE_WORD, word) else shlex.join(shlex.split(word))


def _kept_option(option: str, replaced: Iterable[str]) -> str:
    """The option in the new command; empty if a new flag replaces it."""
    name, _, value = re.sub(r"[\s=]+", " ", option, count=1).partition(" ")
    if name == "--metrics" or any(flag.startswith(f"{name} ") for flag in replaced):
        return ""
    if name == "--section" and value in {c.section for c in capabilities().values()}:
        return ""
    return re.sub(_OUTPUT, _under_another_name, option)


# Patterns are compiled on use: a complete report needs none of them.
_OUTPUT = r"""(?<!\S)(?P<flag>(?:-o|--export)[\s=]+)(?P<name>"[^"]*"|'[^']*'|\S+)"""


def _under_another_name(match: re.Match[str]) -> str:
    """`-o x` becomes `-o x_more`, so that the existing report is not overwritten."""
    quote = match["name"][0] if match["name"][0] in "\"'" else ""
    stem, suffix, _ = match["name"].strip("\"'").partition(".ncu-rep")
    return f"{match['flag']}{quote}{stem}_more{suffix}{quote}"


def keet_program(profile: Profile) -> str | None:
    """The profiled program, if `keet profile` made the report; else None."""
    match = re.search(_BY_KEET, _recorded_command(profile))
    return match["program"] if match else None


def keet_command(profile: Profile) -> str | None:
    """`keet profile` for the same program, without options that limited the report."""
    program = keet_program(profile)
    if program is None:
        return None
    again = f"keet profile{' --range' if _is_range_of_keet(profile) else ''}"
    return f"{again} -- {_quoted(program) or _ANY_PROGRAM}"


def _is_range_of_keet(profile: Profile) -> bool:
    """Whether `keet profile --range` made the report: it collects all that ncu has for a range."""
    by_keet = re.search(_BY_KEET, _recorded_command(profile))
    return by_keet is not None and bool(re.search(_RANGE_REPLAY, by_keet.string[: by_keet.start()]))


def made_with(profile: Profile) -> str | None:
    """The keet command that made the report, as far as ncu's command line shows it."""
    command = keet_command(profile)
    if (
        command is None
        or _is_range_of_keet(profile)
        or "SourceCounters" in _recorded_command(profile)
    ):
        return command
    return command.replace("keet profile", "keet profile --light", 1)


def _recorded_command(profile: Profile) -> str:
    return profile.provenance.command_line or ""


_RANGE_REPLAY = r"(?<!\S)--replay-mode[\s=]+(?:app-)?range(?!\S)"
_BY_KEET = r"(?s)\s--export\s+\S*\.keet-profile-\w+/\S+\s+(?P<program>.+)$"


def _kernel_filter(profile: Profile) -> str:
    """Without kernels that fill memory for a library: the next report should have the user's."""
    kernels = [
        launch.name
        for launch in profile.launches
        if launch.workload is Workload.KERNEL and launch.name.function
    ]
    names = dict.fromkeys(name.function for name in kernels if not fills_or_draws(name.full))
    if kernels and not names:
        return _ANY_KERNEL
    if len(names) > 3:
        return "regex:."
    import shlex

    return shlex.quote("regex:^(" + "|".join(dict.fromkeys(map(_name_pattern, names))) + ")$")


def _name_pattern(function: str) -> str:
    """Matches the name of the kernel's function (without template arguments and parameters, which
    is what `-k` of ncu compares) in the next run, too: Julia and Numba number their functions, and
    Numba appends how it compiled them."""
    stem, tag, _ = function.partition("[")
    pattern = re.sub(r"(^julia_.*_|\$)\d+$", r"\1\\d+", re.escape(stem))
    return f"{pattern}.*" if tag and stem else pattern
