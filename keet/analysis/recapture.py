"""The command that profiles the same program again and captures what the report lacks.

It is made of how ncu was called, as the report recorded it, and of the recipe of what keet uses. It
is a value that can be changed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple, Self

from keet.analysis.library import fills_or_draws
from keet.catalog import capabilities, collection
from keet.profile import Profile, Workload
from keet.profile.metric import IMPORT_SOURCE, OF_CODE, NcuOption

_BOOST_SINCE = (2026, 1)
"""From NVIDIA's manual: the default of --clock-control is `boost` from 2026.1 on, and `base`
before."""
_DEFAULTS = {"cache-control": "all", "replay-mode": "kernel"}
"""Defaults of all versions; that of clock-control depends on the version."""


class NcuCommandLine(NamedTuple):
    arguments: str | None
    """All that follows the ncu executable; None: not recorded."""
    options: tuple[NcuOption, ...] = ()
    program: str = ""
    """With its arguments."""

    def values(self, name: str) -> list[str]:
        """Of all options of this name."""
        return [option.value for option in self.options if option.name == name]


# Patterns are compiled on use: most commands need none of them.
_SHELL_WORD = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+"""
"""Of a shell. Windows paths contain backslashes."""
_WORD_OR_MORE = rf"{_SHELL_WORD}|\S+"
"""Also where quotes are not closed."""
_OPTION = r"(?s)([^\s=]+)([\s=]*)(.*)"
_NCU = r'(?s)^\s*(?:"[^"]*[\\/]ncu(?:\.exe)?"|\S*ncu(?:\.exe)?)\s+(?P<rest>.+)$'
_SWITCHES = frozenset(
    (
        *("-f", "--force-overwrite", "-q", "--quiet", "--nvtx", "--verbose", "--csv"),
        *("--open-in-ui", "--details-all", "--call-stack", "--print-fp"),
        *("--disable-extra-suffixes", "--disable-profiler-start-stop"),
    )
)
"""Options of ncu without a value."""


def recorded_command(profile: Profile) -> NcuCommandLine:
    return _parsed(profile.provenance.command_line or "")


@lru_cache(maxsize=8)
def _parsed(command: str) -> NcuCommandLine:
    match = re.match(_NCU, command)
    if match is None:
        return NcuCommandLine(None)
    arguments = match["rest"].strip()
    options: list[NcuOption] = []
    words = list(re.finditer(_WORD_OR_MORE, arguments))
    place = 0
    while place < len(words) and words[place][0].startswith("-"):
        word, behind = words[place][0], words[place + 1 : place + 2]
        is_pair = "=" not in word and word not in _SWITCHES
        has_value = is_pair and any(not value[0].startswith("-") for value in behind)
        last = place + 1 if has_value else place
        option = re.match(_OPTION, arguments[words[place].start() : words[last].end()])
        if option is not None:
            name, between, value = option.groups()
            options.append(NcuOption(name, value, between))
        place = last + 1
    program = arguments[words[place].start() :] if place < len(words) else ""
    return NcuCommandLine(arguments, tuple(options), program)


_SAFE_WORD = r"""(?:[\w@%+=:,./-]|\\(?=[\w.])|"(?:[^"$`!\\]|\\(?=[\w .]))*"|'[^']*')+"""
"""Words that need no quoting in a shell. Windows paths contain backslashes."""


def quoted(recorded: str) -> str | None:
    """Quote a recorded command for a shell; None if its quotes are not closed.

    Security: reports come from untrusted sources, and people and agents run the commands that keet
    prints. A recorded word must not be able to end the command and start another one.
    """
    import shlex

    if not recorded.isprintable() or re.sub(_SHELL_WORD, "", recorded).strip():
        return None
    words = re.findall(_SHELL_WORD, recorded)
    is_safe = re.compile(_SAFE_WORD).fullmatch
    return " ".join(word if is_safe(word) else shlex.join(shlex.split(word)) for word in words)


def first_word(text: str) -> str:
    match = re.match(_WORD_OR_MORE, text)
    return match[0] if match else ""


class NcuSetting(NamedTuple):
    """The value of an ncu option."""

    value: str
    is_default: bool
    """It was not on the command line."""


def setting_of(profile: Profile, option: str) -> NcuSetting | None:
    """None where the command line is not recorded, or the default of that ncu is not known."""
    command = recorded_command(profile)
    if command.arguments is None:
        return None
    for value in filter(None, command.values(f"--{option}")):
        return NcuSetting(value.strip("\"'"), is_default=False)
    if option != "clock-control":
        return NcuSetting(_DEFAULTS[option], is_default=True)
    version = re.match(r"(\d+)\.(\d+)", profile.provenance.ncu_version or "")
    if version is None:
        return None
    is_new = (int(version[1]), int(version[2])) >= _BOOST_SINCE
    return NcuSetting("boost" if is_new else "base", is_default=True)


PER_INSTRUCTION = "smsp__sass_"
"""Begins the names of metrics that ncu collects by patching the code, which ranges do not allow."""


def recipe_options(
    *, is_complete: bool = False, has_code: bool = True, is_light: bool = False
) -> str:
    """The one recipe that `keet explain`, `keet show`, `keet profile --dry-run` and the docs print.
    It works where keet is not installed.

    `is_complete`: everything that `keet profile` collects. `has_code`: False for ranges and graphs.
    `is_light`: without warp samples and source text.
    """
    recipe = collection()
    sections = recipe.sections if is_complete else recipe.recipe_sections
    metrics = recipe.metrics if is_complete else recipe.recipe_metrics
    if not has_code:
        metrics = tuple(name for name in metrics if not name.startswith(PER_INSTRUCTION))
    is_short = is_light or not has_code
    words = [f"--section {name}" for name in sections if not (is_short and name == OF_CODE)]
    words.append(f"--metrics {','.join(metrics)}")
    return " ".join(words if is_short else [*words, IMPORT_SOURCE.text])


_ANY_PROGRAM = "./your_program"


class CommandParts(NamedTuple):
    """All words are quoted for a shell."""

    program: str | None
    """With its arguments; None: not recorded."""
    options: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    """Options of ncu that collect what the recipe does not."""
    is_of_keet: bool = False
    """`keet profile`, which has the recipe."""
    has_code: bool = True
    """Whether the recipe is that for kernels, and not for ranges and graphs."""
    is_complete: bool = False
    """Whether the recipe collects everything that keet can use."""

    @property
    def text(self) -> str:
        program = _ANY_PROGRAM if self.program is None else self.program
        if self.is_of_keet:
            more = [f"--ncu-options '{' '.join(self.more)}'"] if self.more else []
            return " ".join(["keet profile", *more, *self.options, "--", program])
        recipe = recipe_options(is_complete=self.is_complete, has_code=self.has_code)
        return " ".join(filter(None, ["ncu", *self.more, recipe, *self.options, program]))


class CaptureCommand(str):
    """As a `str` it is the text of its parts."""

    parts: CommandParts

    def __new__(cls, parts: CommandParts) -> Self:
        command = super().__new__(cls, parts.text)
        command.parts = parts
        return command

    def __reduce__(self) -> tuple[Any, ...]:
        return CaptureCommand, (self.parts,)

    @property
    def in_full(self) -> CaptureCommand:
        """The command that collects everything that keet can use."""
        return CaptureCommand(self.parts._replace(is_complete=True))

    def with_options(self, *more: str) -> CaptureCommand:
        return CaptureCommand(self.parts._replace(more=more)) if more else self


NEW_COMMAND = CommandParts(None, ("-o report",))
"""Where nothing is taken from the report."""


KEET_FOLDER = ".keet-profile-"
"""Begins the name of the folder in which `keet profile` has ncu write its report."""
ANY_KERNEL = "regex:YOUR_KERNEL"
_MOST_NAMED = 3
"""Kernels that the filter names; of more, all are taken."""


def recapture_command(profile: Profile) -> CaptureCommand:
    """An ncu command that captures what keet uses, based on the recorded command if any. The recipe
    replaces the recorded sets, metrics and sections of keet; custom sections stay."""
    if (command := keet_command(profile)) is not None:
        return command
    has_code = any(launch.workload is Workload.KERNEL for launch in profile.launches)
    parts = _recorded_parts(profile)
    if parts is None:
        kernels = f"-k {_kernel_filter(profile)}"
        options = ("--clock-control none --target-processes all", kernels, "-o report")
        parts = CommandParts(None, options)
    return CaptureCommand(parts._replace(has_code=has_code))


def _recorded_parts(profile: Profile) -> CommandParts | None:
    """What stays of the recorded command; None if there is none, or one that is malformed."""
    recorded = recorded_command(profile)
    if recorded.arguments is None:
        return None
    # Where it did not reach the kernel that was meant, its choice of launches is not kept.
    lacks_kernel = lacks_users_kernel(profile)
    left_out = _WHICH_LAUNCHES if lacks_kernel else frozenset[str]()
    every = [x for x in recorded.options if not _is_replaced(x) and x.name not in left_out]
    kept = [quoted(_under_another_name(option).text) for option in every]
    program, options = quoted(recorded.program), [option for option in kept if option is not None]
    if program is None or len(options) < len(kept):
        return None
    return CommandParts(program, (*options, *([f"-k {ANY_KERNEL}"] if lacks_kernel else [])))


_WHICH_LAUNCHES = frozenset(
    (
        *("-k", "--kernel-name", "--kernel-id", "--kernel-regex"),
        *("-s", "-c", "--launch-skip", "--launch-count"),
    )
)
_REPLACED_OPTIONS = frozenset(("--set", "--metrics", "--import-source", "-f", "--force-overwrite"))


def _is_replaced(option: NcuOption) -> bool:
    """Whether the recipe, or a report under another name, takes its place."""
    if option.name != "--section":
        return option.name in _REPLACED_OPTIONS
    sections = (*collection().recipe_sections, *(c.section for c in capabilities().values()))
    return option.value in sections


def _under_another_name(option: NcuOption) -> NcuOption:
    """`-o x` becomes `-o x_more`, so that the existing report is not overwritten."""
    if option.name not in ("-o", "--export") or not option.value:
        return option
    quote = option.value[0] if option.value[0] in "\"'" else ""
    stem, suffix, _ = option.value.strip("\"'").partition(".ncu-rep")
    return option._replace(value=f"{quote}{stem}_more{suffix}{quote}")


def keet_program(profile: Profile) -> str | None:
    """The profiled program, if `keet profile` made the report; else None."""
    recorded = recorded_command(profile)
    is_by_keet = any(KEET_FOLDER in path for path in recorded.values("--export"))
    return (is_by_keet and recorded.program) or None


def keet_command(profile: Profile) -> CaptureCommand | None:
    """`keet profile` for the same program, without options that limited the report."""
    return _keet_command(profile, "--range") if _is_range(profile) else _keet_command(profile)


def made_with(profile: Profile) -> CaptureCommand | None:
    """The keet command that made the report, as far as ncu's command line shows it."""
    if _is_range(profile) or OF_CODE in recorded_command(profile).values("--section"):
        return keet_command(profile)
    return _keet_command(profile, "--light")


def _keet_command(profile: Profile, *options: str) -> CaptureCommand | None:
    program = keet_program(profile)
    if program is None:
        return None
    return CaptureCommand(CommandParts(quoted(program) or None, options, is_of_keet=True))


def _is_range(profile: Profile) -> bool:
    """Whether ncu profiled a range: of it, `keet profile --range` collects all that ncu has."""
    setting = setting_of(profile, "replay-mode")
    return setting is not None and setting.value in ("range", "app-range")


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
    named = (launch.name for launch in profile.launches if launch.workload is Workload.KERNEL)
    names = dict.fromkeys(name.function for name in named if not fills_or_draws(name.full))
    names.pop("", None)
    if len(names) > _MOST_NAMED:
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
