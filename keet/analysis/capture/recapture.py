"""How ncu was called, and the command that profiles the same program again and captures what the
report lacks."""

from __future__ import annotations

import re
from typing import NamedTuple

from keet.analysis.kernel.library import fills_or_draws
from keet.catalog import capabilities, collection
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


OF_CODE = "SourceCounters"
"""The section with counters per instruction, which ncu can't collect for ranges and graphs."""
PER_INSTRUCTION = "smsp__sass_"
"""Begins the names of metrics that ncu collects by patching the code, which ranges do not allow."""


def recipe_options(*, is_complete: bool = False, has_code: bool = True) -> str:
    """What to collect, as options of ncu: the one recipe that `keet explain`, `keet show`, `keet
    profile --dry-run` and the docs print. It works where keet is not installed.

    `is_complete`: everything that `keet profile` collects. `has_code`: False for ranges and graphs.
    """
    known = collection()
    sections = known.sections if is_complete else known.recipe_sections
    metrics = known.metrics if is_complete else known.recipe_metrics
    if not has_code:
        sections = tuple(name for name in sections if name != OF_CODE)
        metrics = tuple(name for name in metrics if not name.startswith(PER_INSTRUCTION))
    source = " --import-source yes" if has_code else ""
    names = " ".join(f"--section {name}" for name in sections)
    return f"{names} --metrics {','.join(metrics)}{source}"


def in_full(command: str) -> str:
    """A command with the recipe, as one that collects everything that keet can use."""
    for has_code in (True, False):
        short = recipe_options(has_code=has_code)
        if short in command:
            return command.replace(short, recipe_options(is_complete=True, has_code=has_code))
    return command


def recapture_command(profile: Profile) -> str:
    """An ncu command that captures what keet uses, based on the recorded command if any. The recipe
    replaces the recorded sets, metrics and sections of keet; custom sections stay."""
    if (command := keet_command(profile)) is not None:
        return command
    recorded = ncu_arguments(profile)
    lacks = lacks_users_kernel(profile)
    rest = None if recorded is None else _rest_of(recorded, is_of_another_kernel=lacks)
    if rest is None:
        kernels = f"-k {_kernel_filter(profile)}"
        rest = ["--clock-control none --target-processes all", kernels, f"-o report {_ANY_PROGRAM}"]
    has_code = any(launch.workload is Workload.KERNEL for launch in profile.launches)
    return " ".join(["ncu", recipe_options(has_code=has_code), *(part for part in rest if part)])


def _rest_of(recorded: str, *, is_of_another_kernel: bool) -> list[str] | None:
    """The parts of the recorded command to keep, quoted for a shell; None if one is malformed.
    `is_of_another_kernel`: it did not reach the kernel that was meant."""
    options, program = split_options(recorded)
    words = [_quoted(_kept_option(option)) for option in options]
    if is_of_another_kernel:
        words = [word for word in words if not re.match(_WHICH_LAUNCHES, word or "")]
        words.append(f"-k {ANY_KERNEL}")
    words.append(_quoted(program))
    safe = [word for word in words if word is not None]
    return safe if len(safe) == len(words) else None


_ANY_PROGRAM = "./your_program"
_WHICH_LAUNCHES = r"(?:-k|--kernel-(?:name|id|regex)|-[sc]|--launch-(?:skip|count))\b(?!-)"
ANY_KERNEL = "regex:YOUR_KERNEL"
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


def _kept_option(option: str) -> str:
    """The option in the new command; empty if the recipe replaces it."""
    name, _, value = re.sub(r"[\s=]+", " ", option, count=1).partition(" ")
    if name in ("--set", "--metrics", "--import-source", "-f", "--force-overwrite"):
        return ""
    known = {*collection().recipe_sections, *(c.section for c in capabilities().values())}
    if name == "--section" and value in known:
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


def lacks_users_kernel(profile: Profile) -> bool:
    """Whether every launch is a library's kernel that fills memory or draws random numbers."""
    return bool(profile.launches) and all(
        launch.workload is Workload.KERNEL and fills_or_draws(launch.name.full)
        for launch in profile.launches
    )


def _kernel_filter(profile: Profile) -> str:
    """Without kernels that fill memory for a library: the next report should have the user's."""
    if lacks_users_kernel(profile):
        return ANY_KERNEL
    named = (launch for launch in profile.launches if launch.workload is Workload.KERNEL)
    names = dict.fromkeys(
        launch.name.function for launch in named if not fills_or_draws(launch.name.full)
    )
    names.pop("", None)
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
