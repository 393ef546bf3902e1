"""The sets of reports that the analyst is scored on, and which of their launches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

from evals.public_reports import SETS, reports_in
from keet.errors import KeetError
from keet.profile import Launch, Profile
from keet.report import read_profile
from kernels_samples.casebook.cases import load_cases
from kernels_samples.casebook.family import WORK
from kernels_samples.samples import load_samples

ROOT = Path(__file__).parents[2]
TEST_DATA = ROOT / "tests" / "data"
LOCKED = "casebook, locked and opened families"
MOST_PROCESSES = 2

ReportSet = Literal["full", "basic", "other"]
_FULL = frozenset(
    {
        "ComputeWorkloadAnalysis",
        "InstructionStats",
        "LaunchStats",
        "MemoryWorkloadAnalysis",
        "Occupancy",
        "SchedulerStats",
        "SourceCounters",
        "SpeedOfLight",
        "WarpStateStats",
    }
)
"""Sections that every version of ncu collects with `--set full`."""
_BASIC = frozenset({"LaunchStats", "Occupancy", "SpeedOfLight", "WorkloadDistribution"})
"""Sections of `--set basic`, ncu's default; old versions have three."""


class Source(NamedTuple):
    """A report, and the kernels in it that are scored."""

    group: str
    """The group it is counted in, such as `samples`."""
    name: str
    path: Path
    kernels: tuple[str | None, ...] = ()
    """Function names; None stands for the longest kernel. Empty: all kernels."""


class Subject(NamedTuple):
    """A launch to score, with the other launches of its report."""

    source: Source
    launch: Launch
    beside: tuple[Launch, ...]

    @property
    def name(self) -> str:
        return f"{self.source.name} #{self.launch.id} {self.launch.kernel}"


# --- where reports are


def sample_sources() -> Iterator[Source]:
    for sample in load_samples():
        for variant in sample.variants:
            path = sample.report(variant)
            yield Source("samples", f"{sample.name}/{variant}", path, (sample.kernel,))


def casebook_sources(*, work: bool) -> Iterator[Source]:
    """Of the work families, or of the locked and opened ones: every side of the cases once,
    although several cases may share it."""
    kernels: defaultdict[tuple[str, Path], set[str | None]] = defaultdict(set)
    for case in load_cases():
        if (case.split == WORK) == work:
            for path in map(case.profile_path, case.spec.variants):
                kernels[case.family.name, path].add(case.spec.kernel)
    group = "casebook, work families" if work else LOCKED
    for (family, path), names in sorted(kernels.items()):
        name = f"{family}/{path.name.partition('.keet')[0]}"
        yield Source(group, name, path, tuple(sorted(names, key=str)))


def data_sources() -> Iterator[Source]:
    for folder in (TEST_DATA / "reports", TEST_DATA / "runs"):
        for path in reports_in(folder):
            yield Source("test data", path.name, path)


def corpus_sources() -> Iterator[Source]:
    for group, folder in SETS.items():
        for path in reports_in(folder):
            yield Source(group, path.name, path)


# --- what is in them


def profile_of(source: Source) -> Profile | None:
    """None: keet cannot read it, or it has no launch."""
    try:
        profile = read_profile(source.path)
    except KeetError:
        return None
    return profile if profile.launches else None


def subjects(source: Source, most: int | None = None) -> list[Subject]:
    """Empty if the report cannot be read."""
    profile = profile_of(source)
    return subjects_in(profile, source, most) if profile else []


def subjects_in(profile: Profile, source: Source, most: int | None = None) -> list[Subject]:
    """The longest launch of each kernel; at most `most` if the source names no kernels. A kernel
    that was not launched stands for the longest of all."""
    longest = kernels_by_time(profile.launches)
    chosen = longest[:most]
    if source.kernels:
        named = ([x for x in longest if x.name.function == kernel] for kernel in source.kernels)
        found = (max(own or longest, key=lambda launch: launch.rank_time) for own in named)
        chosen = list(dict.fromkeys(found))
    return [
        Subject(source, launch, tuple(one for one in profile.launches if one is not launch))
        for launch in chosen
    ]


def kernels_by_time(launches: Iterable[Launch]) -> list[Launch]:
    """The longest launch of each kernel; the kernel with the largest sum of times comes first."""
    by_kernel: defaultdict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        by_kernel[launch.kernel].append(launch)
    groups = sorted(by_kernel.values(), key=lambda group: -sum(one.rank_time for one in group))
    return [max(group, key=lambda one: one.rank_time) for group in groups]


def report_set(launch: Launch) -> ReportSet:
    """Which of ncu's sets the launch was profiled with, by its sections."""
    sections = set(launch.sections)
    if sections >= _FULL:
        return "full"
    return "basic" if sections and sections <= _BASIC else "other"


# --- work on all of them

Result = TypeVar("Result")


class Grouped(Protocol):
    @property
    def group(self) -> str: ...


Row = TypeVar("Row", bound=Grouped)


def by_group(rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
    """With all rows at the end."""
    groups = dict.fromkeys(row.group for row in rows)
    return {**{group: [r for r in rows if r.group == group] for group in groups}, "all": rows}


def over(
    sources: Sequence[Source], work: Callable[[Source], Result], processes: int
) -> list[Result]:
    """Apply `work` to each report; results are in the order of the reports. Other processes import
    `work` by name, so it must be a module's function or a `partial` of one."""
    if processes == 1:
        return [work(source) for source in sources]
    with ProcessPoolExecutor(min(processes, MOST_PROCESSES)) as pool:
        return list(pool.map(work, sources, chunksize=4))
