"""The command that profiles the same program again and captures what the report lacks."""

from __future__ import annotations

import re

from keet.analysis.capture.capture_command import CaptureCommand, CommandParts
from keet.analysis.capture.ncu_command_line import quoted, recorded_command, setting_of
from keet.analysis.kernel_kind.library import fills_or_draws
from keet.catalog import capabilities, collection
from keet.profile import Profile, Workload
from keet.profile.ncu_options import OF_CODE, NcuOption

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
    kept = [
        quoted(_under_another_name(option).text)
        for option in recorded.options
        if not _is_replaced(option) and not (lacks_kernel and option.name in _WHICH_LAUNCHES)
    ]
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
    named = (launch for launch in profile.launches if launch.workload is Workload.KERNEL)
    names = dict.fromkeys(
        launch.name.function for launch in named if not fills_or_draws(launch.name.full)
    )
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
