"""Which data a report contains, which it lacks, and the ncu command that captures the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from keet.analysis.capture.capture_command import CaptureCommand
from keet.analysis.capture.ncu_command_line import recorded_command
from keet.analysis.capture.recapture import recapture_command
from keet.analysis.kernel_kind.archetype import Language, language_of
from keet.analysis.kernel_kind.library import library_of_launch
from keet.catalog import Capability, capabilities, exists_on, metric_with_id
from keet.documents.document import live
from keet.documents.show import GapDocument, ShowLaunch
from keet.evidence import Sentence
from keet.profile import Launch, Profile, Workload
from keet.profile.launch_sequences import iterate_launches
from keet.profile.ncu_options import IMPORT_SOURCE, OF_CODE


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
    chips = [device.compute_capability or "" for device in profile.devices]
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
