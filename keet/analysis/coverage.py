"""Which data a report contains, which it lacks, and the ncu command that captures the rest.

Also what a reader must know before the numbers of a report, and the document of a report that most
results have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from keet.analysis.archetype import Language, language_of
from keet.analysis.library import library_of, library_of_launch
from keet.analysis.parameters import LONGEST_START_NS, SIMILAR
from keet.analysis.recapture import (
    ANY_KERNEL,
    CaptureCommand,
    first_word,
    lacks_users_kernel,
    recapture_command,
    recorded_command,
    setting_of,
)
from keet.catalog import Capability, capabilities, exists_on, metric_with_id
from keet.documents.document import LEFT_OUT, live
from keet.documents.shared_types import OriginDocument, ReportDocument
from keet.documents.show import GapDocument, ShowLaunch
from keet.evidence import Sentence, report_number
from keet.profile import Launch, Profile, Workload
from keet.profile.metric import IMPORT_SOURCE, OF_CODE
from keet.profile.run_link import iterate_launches


class Coverage(NamedTuple):
    """What is in a report, over all its launches."""

    present: tuple[str, ...]
    """Labels of what every launch has."""
    gaps: tuple[GapDocument, ...]
    command: CaptureCommand | None
    """The ncu command that would capture what is missing."""
    build_hint: str | None
    """What to compile with first."""
    obstacle: str | None = None
    """Why there is no such command although something is missing."""
    without_profiling: str | None = None
    """The keet command that has what is missing, where a folder of sources is enough for it."""


_TOO_OLD = Sentence(
    "Nsight Compute profiles GPUs from compute capability {oldest} on since {release}",
    oldest="7.0",
    release="2020.1",
)


_WITH_SOURCES = "keet explain REPORT --source DIR"


def find_coverage(profile: Profile, launches: Sequence[Launch] | None = None) -> Coverage:
    """`launches`: in the order of the report; None: all of them."""
    launches = profile.launches if launches is None else launches
    seen = _Seen(profile)
    for launch in iterate_launches(launches, "looking for missing data"):
        seen.add(launch)
    present, gaps = seen.capabilities()
    source_present, source_gaps = seen.source()
    gaps += source_gaps
    chips = (device.compute_capability or "" for device in profile.devices)
    too_old = any(chip.startswith(("5.", "6.")) for chip in chips)
    possible = not too_old and any(gap.section or gap.ncu_flag for gap in gaps)
    return Coverage(
        present=(*present, *source_present),
        gaps=tuple(gaps),
        command=recapture_command(profile) if possible else None,
        build_hint=next((gap.compile_flag for gap in gaps if gap.compile_flag), None),
        obstacle=_TOO_OLD if too_old and gaps else None,
        without_profiling=_WITH_SOURCES if seen.lacks_only_text(gaps) else None,
    )


_LINE_FLAGS: Mapping[Language, str] = {
    "Numba": "@cuda.jit(lineinfo=True)",
    "OpenACC": "-gpu=lineinfo",
    "Fortran": "-gpu=lineinfo",
    "Julia": "julia -g1",
}
"""What gives kernels source lines; `nvcc -lineinfo` if none of these languages."""


def line_flag(launches: Sequence[Launch]) -> str | None:
    """None for kernels of libraries, which their users do not build."""
    if all(library_of_launch(launch) for launch in launches):
        return None
    languages = {language_of(launch) for launch in launches if _is_kernel(launch)}
    return _LINE_FLAGS.get(languages.pop(), _NVCC) if len(languages) == 1 else _NVCC


_NVCC = "nvcc -lineinfo"
_TEXT, _OF_TEXT = "source_text", "the code of each line, next to its numbers"
_OF_LINES = "which line of the source an instruction belongs to"


def _is_kernel(launch: Launch) -> bool:
    return launch.workload is Workload.KERNEL


class _Seen:
    """Which data launches have and lack, collected in one pass: a report may have 100,000."""

    def __init__(self, profile: Profile) -> None:
        self._asked_for = frozenset(recorded_command(profile).values("--section"))
        """Sections that were named on the command line."""
        self._lacking: dict[str, list[Launch]] = {id_: [] for id_ in capabilities()}
        self._is_collected = dict.fromkeys(capabilities(), True)
        """Whether every launch without the metrics has the section: ncu had no value then."""
        self._has_kernels = False
        self._without_lines: list[Launch] = []
        self._without_text: list[Launch] = []
        self._has_folder = False
        """Whether the sources were looked for in a folder."""

    def add(self, launch: Launch) -> None:
        for capability in capabilities().values():
            if all(launch.find(metric_id) is None for metric_id in capability.metrics):
                self._lacking[capability.id].append(launch)
                if self._is_collected[capability.id]:
                    self._is_collected[capability.id] = capability.section in launch.sections
        if _is_kernel(launch):  # ranges and graphs have no source to give, so they lack none
            self._has_kernels = True
            self._has_folder |= launch.find_source is not None
            if not launch.has_lines:
                self._without_lines.append(launch)
            if not launch.has_source_text:
                self._without_text.append(launch)

    def capabilities(self) -> tuple[list[str], list[GapDocument]]:
        """Labels of what every launch has, and what some lack."""
        present = [c.label for c in capabilities().values() if not self._lacking[c.id]]
        return present, [self._gap(c) for c in capabilities().values() if self._lacking[c.id]]

    def _gap(self, capability: Capability) -> GapDocument:
        """Unavailable where profiling again does not help: the section was collected without a
        value, ncu left it out although it was requested, or workload or GPU have no such data."""
        lacking = self._lacking[capability.id]
        names = [name for metric in capability.metrics for name in metric_with_id(metric).names]
        chips = {launch.device.compute_capability for launch in lacking}
        unavailable = (
            capability.section in self._asked_for
            or self._is_collected[capability.id]
            or (capability.section == OF_CODE and not any(map(_is_kernel, lacking)))
            or all(exists_on(name, chip) is False for chip in chips for name in names)
        )
        return GapDocument(
            id=capability.id,
            label=capability.label,
            gives=capability.gives,
            launches=tuple(launch.id for launch in lacking),
            unavailable=unavailable,
            section=None if unavailable else capability.section,
        )

    def source(self) -> tuple[list[str], list[GapDocument]]:
        """The same for source lines and source text."""
        present, gaps = [], []
        of_lines = {"compile_flag": line_flag(self._without_lines), "section": OF_CODE}
        for id_, gives, lacking, options in (
            ("source_lines", _OF_LINES, self._without_lines, of_lines),
            (_TEXT, _OF_TEXT, self._without_text, {"ncu_flag": IMPORT_SOURCE.text}),
        ):
            label, ids = id_.replace("_", " "), tuple(launch.id for launch in lacking)
            if lacking:
                gaps.append(GapDocument(id=id_, label=label, gives=gives, launches=ids, **options))
            elif self._has_kernels:
                present.append(label)
        return present, gaps

    def lacks_only_text(self, gaps: Iterable[GapDocument]) -> bool:
        """Of what can be had. Every kernel has lines then, so files and lines are known."""
        wanted = [gap.id for gap in gaps if not gap.unavailable]
        return wanted == [_TEXT] and not self._has_folder


# --- one launch

_SHOWN_VALUES = (
    "duration",
    "sm_throughput_pct",
    "memory_throughput_pct",
    "l1tex_throughput_pct",
    "l2_throughput_pct",
    "dram_throughput_pct",
    "achieved_occupancy_pct",
    "theoretical_occupancy_pct",
    "registers_per_thread",
    "shared_memory_static",
    "shared_memory_dynamic",
    "waves_per_sm",
)
"""Catalog ids of the values that `keet show` has for each launch."""


class ShownLaunch(ShowLaunch):
    """A launch in `keet show`."""

    launch: Launch = live()


def shown_launch(profile: Profile, launch: Launch) -> ShownLaunch:
    values = {metric_id: launch.reported(metric_id) for metric_id in _SHOWN_VALUES}
    return ShownLaunch(
        launch=launch,
        id=launch.id,
        kernel=launch.kernel,
        kernel_full=launch.name.full,
        kernel_function=launch.name.function,
        kernel_mangled=launch.name.mangled,
        workload=launch.workload.value,
        device=profile.devices.index(launch.device),
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        process=launch.process,
        stream=launch.stream,
        context=launch.context,
        nvtx=[f"{entry.domain}/{entry.name}" for entry in launch.nvtx],
        metric_count=len(launch.metric_names()),
        rule_results=len(launch.rules),
        sections=list(launch.sections),
        values={key: q for key, q in values.items() if q is not None},
        **_in_run(profile, launch),
    )


def _in_run(profile: Profile, launch: Launch) -> dict[str, Any]:
    positions = profile.in_run
    if positions is None or not positions.table.busy_ns:
        return {}
    position = positions.of(launch.id)
    return {
        "run_share_pct": 100 * position.busy_ns / positions.table.busy_ns if position else None,
        "run_launches": position.launches if position else None,
    }


def profile_notes(profile: Profile) -> list[str]:
    """What is missing from the report, and why its run table is not used."""
    why_unused = profile.run_problem
    if not why_unused and profile.run is not None and not profile.run.busy_ns:
        why_unused = "the run table contains no GPU time, so it is not used"
    return [*profile.provenance.notes, *([why_unused] if why_unused else [])]


def report_cautions(profile: Profile) -> list[Sentence]:
    """Sentences, the most important first."""
    return [
        *_without_the_users_kernel(profile),
        *_without_sections(profile),
        *_debug_folder(profile),
        *_low_clock(profile),
    ]


def _without_the_users_kernel(profile: Profile) -> Iterator[Sentence]:
    """Programs that use a framework begin with such kernels, and ncu may have stopped there."""
    launches = profile.launches
    if not lacks_users_kernel(profile):
        return
    libraries = dict.fromkeys(library_of(launch.name.full) or "" for launch in launches)
    yield Sentence(
        "{every} of this report is a kernel of {libraries} that fills memory or draws random "
        "numbers: the kernel that was meant is probably not in it. Profile that kernel by its "
        "name, with ncu's option -k {kernel} (or skip the launches before it: --launch-skip "
        "{count:.0f}).",
        every="The only launch" if len(launches) == 1 else "Every launch",
        libraries=" or ".join(libraries),
        kernel=ANY_KERNEL,
        count=report_number("launches", len(launches), "launches of the report"),
    )


_OF_SHAPE = r"(?:launch|device|nvlink|c2clink|numa|profiler)__|sms?p?__maximum_warps"


def has_only_shape(launch: Launch) -> bool:
    """Whether ncu collected no section and no counter."""
    if launch.sections or launch.rank_time or launch.rank_cycles:
        return False
    return all(re.match(_OF_SHAPE, name) for name in launch.metric_names())


def _without_sections(profile: Profile) -> Iterator[Sentence]:
    """ncu records the shape of a launch also if it collects nothing else."""
    if not profile.launches or not all(map(has_only_shape, profile.launches)):
        return
    is_old = "default" in recorded_command(profile).values("--set")
    why = ": --set default was asked for, and newer versions of ncu call that set basic"
    yield Sentence(
        "ncu collected no section for any launch of this report, only the launch's shape"
        "{why}. Neither a time nor a cause can be read from it.",
        why=why if is_old else "",
    )


_DEBUG_FOLDER = (
    r"(?i)(?:^|(?<!\btarget)[\\/]|[\"'\s])(?P<folder>(?:cmake-build-|build[-_])?debug)[\\/]"
)
"""Cargo's `target/debug` is the host's profile: it says nothing about kernels."""


def _debug_folder(profile: Profile) -> Iterator[Sentence]:
    """Only where the report does not count opcodes: they show whether the code is that of a debug
    build."""
    first = next(iter(profile.launches), None)
    if first is None or first.find("inst_by_opcode") is not None:
        return
    places = (first.process or "", first_word(recorded_command(profile).program))
    match = next(filter(None, (re.search(_DEBUG_FOLDER, place) for place in places)), None)
    if match is not None:
        yield Sentence(
            "The program is in a folder named {folder}: it may be a debug build. If its "
            "kernels were compiled with -G, build without -G and profile again.",
            folder=match["folder"],
        )


_MOST_CHECKED = 20


def _low_clock(profile: Profile) -> Iterator[Sentence]:
    """Only where ncu left the clock alone: it sets a low one by default. Of a large report, the
    first launches tell it: to read all of them takes long."""
    setting = setting_of(profile, "clock-control")
    if setting is None or setting.value != "none":
        return
    looked_at = profile.launches[:_MOST_CHECKED]
    longest = max(looked_at, key=lambda launch: launch.rank_time, default=None)
    if longest is None:
        return
    names = ("elapsed_cycles", "duration", "device_sm_clock")  # the last in kHz
    cycles, duration, largest = map(longest.number, names)
    if not cycles or not duration or not largest or duration < LONGEST_START_NS:
        return
    measured = longest.number("sm_frequency")
    ghz, most = (measured / 1e9 if measured else cycles / duration), largest / 1e6
    if ghz * SIMILAR < most:
        yield Sentence(
            "Launch {launch} ran at an SM clock of {clock:.2f}; the GPU's "
            "largest is {most:.2f}. ncu did not set it (--clock-control none): the limit may "
            "be power, temperature or a setting of the GPU.",
            launch=f"#{longest.id}",
            clock=report_number("sm_clock", ghz, "SM clock of the longest launch", "GHz"),
            most=report_number("largest_sm_clock", most, "largest SM clock", "GHz"),
        )


def report_document(profile: Profile) -> ReportDocument:
    provenance = profile.provenance._asdict()
    notes = [*report_cautions(profile), *profile_notes(profile)]
    sentences = [note for note in notes if isinstance(note, Sentence)]
    numbers = {key: piece for sentence in sentences for key, piece in sentence.evidence.items()}
    provenance |= {"notes": notes, "evidence": numbers or LEFT_OUT}
    if profile.provenance.origin:
        provenance["origin"] = OriginDocument.taken_from(profile.provenance.origin)
    return ReportDocument(**provenance, launch_count=len(profile.launches))
