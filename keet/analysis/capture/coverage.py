"""What a report can tell, what it can't, and the command that would change that."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from keet.analysis.capture.ncu_options import ncu_arguments, split_options
from keet.catalog import Capability, capabilities, exists_on, metric_with_id
from keet.profile import Launch, Profile, Workload
from keet.profile.launch_iteration import iterate_launches
from keet.records import NamedTuple


class Gap(NamedTuple):
    """Something that keet could tell, had it been captured."""

    id: str
    label: str
    gives: str
    launches: tuple[int, ...]
    """Which launches lack it."""
    unavailable: bool = False
    """Asking again is in vain: this GPU or kind of workload has no such numbers."""
    section: str | None = None
    """The ncu section to add."""
    ncu_flag: str | None = None
    """Another flag of ncu's to add."""
    compile_flag: str | None = None
    """What the program must be built with."""

    def is_lacked_by(self, launch: int) -> bool:
        """`launches` is in the order of the report, and may have 100,000 of them."""
        at = bisect_left(self.launches, launch)
        return self.launches[at : at + 1] == (launch,)


class Coverage(NamedTuple):
    """What is in a report, over all its launches."""

    present: tuple[str, ...]
    """Labels of what every launch has."""
    gaps: tuple[Gap, ...]
    command: str | None
    """The ncu command that would capture what is missing."""
    build_hint: str | None
    """What to compile with first."""
    obstacle: str | None = None
    """Why there is no such command, though something is missing."""


_OF_CODE = "SourceCounters"
"""The section of what ncu can't collect for ranges and graphs: numbers of single instructions."""
_TOO_OLD = "Nsight Compute profiles GPUs from compute capability 7.0 on since 2020.1"


def _is_too_old(compute_capability: str | None) -> bool:
    return compute_capability is not None and compute_capability.startswith(("5.", "6."))


def find_coverage(profile: Profile, launches: Sequence[Launch] | None = None) -> Coverage:
    """`launches`: those that are looked at, in the order of the report; None: all."""
    launches = profile.launches if launches is None else launches
    seen = _Seen(profile)
    for launch in iterate_launches(launches, "looking for what is missing"):
        seen.add(launch)
    present, gaps = seen.capabilities()
    source_present, source_gaps = seen.source()
    gaps += source_gaps
    too_old = any(_is_too_old(device.compute_capability) for device in profile.devices)
    possible = not too_old and any(map(_can_be_had, gaps))
    return Coverage(
        present=(*present, *source_present),
        gaps=tuple(gaps),
        command=recapture_command(profile, gaps) if possible else None,
        build_hint=next((gap.compile_flag for gap in gaps if gap.compile_flag), None),
        obstacle=_TOO_OLD if too_old and gaps else None,
    )


def _is_range_of_keet(profile: Profile) -> bool:
    """Made by `keet profile --range`, which asks for all that ncu has for a range."""
    by_keet = re.search(_BY_KEET, profile.provenance.command_line or "")
    return by_keet is not None and bool(re.search(_RANGE_REPLAY, by_keet.string[: by_keet.start()]))


def _is_kernel(launch: Launch) -> bool:
    return launch.workload is Workload.KERNEL


def _has_no_counter(launch: Launch, metric_ids: Iterable[str]) -> bool:
    """The launch's GPU is known to lack every metric that would do."""
    names = [name for metric_id in metric_ids for name in metric_with_id(metric_id).names]
    return all(exists_on(name, launch.device.compute_capability) is False for name in names)


def _can_be_had(gap: Gap) -> bool:
    return bool(gap.section or gap.ncu_flag)


def _has_any(launch: Launch, metric_ids: Iterable[str]) -> bool:
    return any(launch.find(metric_id) is not None for metric_id in metric_ids)


def _ids(launches: Iterable[Launch]) -> tuple[int, ...]:
    return tuple(launch.id for launch in launches)


class _Seen:
    """What launches have and lack. Each is looked at once: a report may have 100,000."""

    def __init__(self, profile: Profile) -> None:
        self._arguments = ncu_arguments(profile) or ""
        self._lacking: dict[str, list[Launch]] = {id_: [] for id_ in capabilities()}
        self._is_collected = dict.fromkeys(capabilities(), True)
        """Whether each launch that lacks it has the section: then it has no value to give."""
        self._has_kernels = False
        self._without_lines: list[Launch] = []
        self._without_text: list[Launch] = []

    def add(self, launch: Launch) -> None:
        for capability in capabilities().values():
            if not _has_any(launch, capability.metrics):
                self._lacking[capability.id].append(launch)
                if self._is_collected[capability.id]:
                    self._is_collected[capability.id] = capability.section in launch.sections
        if _is_kernel(launch):  # ranges and graphs have no source to give, so they lack none
            self._has_kernels = True
            if not launch.has_lines:
                self._without_lines.append(launch)
            if not launch.has_source_text:
                self._without_text.append(launch)

    def capabilities(self) -> tuple[list[str], list[Gap]]:
        """Labels of what every launch has, and what some lack."""
        present = [c.label for c in capabilities().values() if not self._lacking[c.id]]
        return present, [self._gap(c) for c in capabilities().values() if self._lacking[c.id]]

    def _gap(self, capability: Capability) -> Gap:
        in_vain = self._is_in_vain(capability)
        return Gap(
            capability.id,
            capability.label,
            capability.gives,
            _ids(self._lacking[capability.id]),
            unavailable=in_vain,
            section=None if in_vain else capability.section,
        )

    def _is_in_vain(self, capability: Capability) -> bool:
        """It was collected without a value, it was named on the command line and left out by ncu
        itself, or the workload or GPU has none."""
        lacking = self._lacking[capability.id]
        named = re.search(rf"--section[\s=]{capability.section}(\s|$)", self._arguments)
        return (
            named is not None
            or self._is_collected[capability.id]
            or (capability.section == _OF_CODE and not any(map(_is_kernel, lacking)))
            or all(_has_no_counter(launch, capability.metrics) for launch in lacking)
        )

    def source(self) -> tuple[list[str], list[Gap]]:
        """Lines and texts of the source."""
        present, gaps = [], []
        if self._without_lines:
            gaps.append(
                Gap(
                    "source_lines",
                    "source lines",
                    "which line of the source an instruction belongs to",
                    _ids(self._without_lines),
                    section="SourceCounters",
                    compile_flag="nvcc -lineinfo",
                )
            )
        elif self._has_kernels:
            present.append("source lines")
        if self._without_text:
            gaps.append(
                Gap(
                    "source_text",
                    "source text",
                    "the code itself, beside its numbers",
                    _ids(self._without_text),
                    ncu_flag="--import-source yes",
                )
            )
        elif self._has_kernels:
            present.append("source text")
        return present, gaps


def recapture_command(profile: Profile, gaps: Iterable[Gap]) -> str:
    """An ncu command for a report that lacks nothing, built on the recorded one if there is one.

    The full set has every section that keet asks for. It takes the place of what the recorded
    command chose to collect; sections of its user's own stay.
    """
    if (command := keet_command(profile)) is not None:
        return command
    flags = ["--set full", *dict.fromkeys(gap.ncu_flag for gap in gaps if gap.ncu_flag)]
    recorded = ncu_arguments(profile)
    rest = None if recorded is None else _rest_of(recorded, replaced=flags)
    if rest is None:
        rest = [f"-k {_kernel_filter(profile)} -o report {_ANY_PROGRAM}"]
    return " ".join(["ncu", *flags, *(part for part in rest if part)])


def _rest_of(recorded: str, replaced: Iterable[str]) -> list[str] | None:
    """What stays of a recorded command, safe for a shell; None: that can't be told."""
    options, program = split_options(recorded)
    kept = [_quoted(_kept_option(option, replaced)) for option in options]
    told = [*kept, _quoted(program)]
    safe = [part for part in told if part is not None]
    return safe if len(safe) == len(told) else None


_ANY_PROGRAM = "./your_program"
_WORD = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+"""
_SAFE_WORD = r"""(?:[\w@%+=:,./-]|\\(?=[\w.])|"(?:[^"$`!\\]|\\(?=[\w .]))*"|'[^']*')+"""
"""What a shell takes as it stands, in quotes or not. Paths of Windows have backslashes."""


def _quoted(recorded: str) -> str | None:
    """Recorded words as a shell takes them. A report may come from anybody, and people and agents
    run the commands that keet prints: nothing recorded may end one and begin another.

    Words that are safe as they stand stay as they are. None: quotes don't close.
    """
    if not recorded.isprintable() or re.sub(_WORD, "", recorded).strip():
        return None
    return " ".join(map(_quoted_word, re.findall(_WORD, recorded)))


def _quoted_word(word: str) -> str:
    import shlex

    return word if re.fullmatch(_SAFE_WORD, word) else shlex.join(shlex.split(word))


def _kept_option(option: str, replaced: Iterable[str]) -> str:
    """The option in the new command; empty: what the new command collects replaces it."""
    name, _, value = re.sub(r"[\s=]+", " ", option, count=1).partition(" ")
    if name == "--metrics" or any(flag.startswith(f"{name} ") for flag in replaced):
        return ""
    if name == "--section" and value in {c.section for c in capabilities().values()}:
        return ""
    return re.sub(_OUTPUT, _under_another_name, option)


# Compiled when they are searched for: a report that lacks nothing needs none of them.
_OUTPUT = r"""(?<!\S)(?P<flag>(?:-o|--export)[\s=]+)(?P<name>"[^"]*"|'[^']*'|\S+)"""


def _under_another_name(match: re.Match[str]) -> str:
    """`-o x` becomes `-o x_more`: the report at hand must not be written over."""
    quote = match["name"][0] if match["name"][0] in "\"'" else ""
    stem, suffix, _ = match["name"].strip("\"'").partition(".ncu-rep")
    return f"{match['flag']}{quote}{stem}_more{suffix}{quote}"


def keet_program(profile: Profile) -> str | None:
    """The program of a report that `keet profile` made: its ncu command is long, and known."""
    match = re.search(_BY_KEET, profile.provenance.command_line or "")
    return match["program"] if match else None


def keet_command(profile: Profile) -> str | None:
    """`keet profile` for the same program again, without what made the report small."""
    program = keet_program(profile)
    if program is None:
        return None
    again = f"keet profile{' --range' if _is_range_of_keet(profile) else ''}"
    return f"{again} -- {_quoted(program) or _ANY_PROGRAM}"


def made_with(profile: Profile) -> str | None:
    """The command of keet's that made the report, as far as ncu's command line shows it."""
    command = keet_command(profile)
    if command is None or _is_range_of_keet(profile) or "SourceCounters" in _asked(profile):
        return command
    return command.replace("keet profile", "keet profile --light", 1)


def _asked(profile: Profile) -> str:
    return profile.provenance.command_line or ""


def profile_notes(profile: Profile) -> list[str]:
    """What a reader of the numbers must know: what is missing, and why a table is not used."""
    notes = list(profile.provenance.notes)
    if profile.run_problem:
        notes.append(profile.run_problem)
    elif profile.run is not None and not profile.run.busy_ns:
        notes.append("the table of the run has no time in it, so it is not used")
    return notes


_RANGE_REPLAY = r"(?<!\S)--replay-mode[\s=]+(?:app-)?range(?!\S)"
_BY_KEET = r"(?s)\s--export\s+\S*\.keet-profile-\w+/\S+\s+(?P<program>.+)$"


def _kernel_filter(profile: Profile) -> str:
    names = dict.fromkeys(
        launch.name.function
        for launch in profile.launches
        if launch.workload is Workload.KERNEL and launch.name.function
    )
    if len(names) > 3:
        return "regex:."
    import shlex

    return shlex.quote("regex:^(" + "|".join(re.escape(name) for name in names) + ")$")
