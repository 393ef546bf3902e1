"""`keet top --format json` and `keet query --format json`."""

from __future__ import annotations

from typing import Any, Literal

from keet.documents.document import Document
from keet.documents.finding import CauseCertainty, Forecast
from keet.documents.shared_types import CommandResult

Basis = Literal["run", "reports"]
By = Literal["kernel", "finding", "file"]
Sort = Literal["saved", "share"]


class OpportunityDocument(Document):
    rank: int
    """Starts at 1. Groups of basis `run` come first; then by `saved_us` plus `unknown_us`; with
    --sort share, as a share of `total_us` of the group's GPU and basis."""
    kernel: str
    """Short name; when grouped by finding or file, of the kernel with the longest time."""
    kernels: int
    """Number of different kernels in the group."""
    grid: str | None
    """Blocks, for example `128x128x1`; null when grouped by finding or file."""
    block: str | None
    """Threads per block."""
    device: str | None
    """Null if the reports do not say."""
    compute_capability: str | None
    sm_count: int | None
    launches: int
    """Number of profiled launches."""
    untimed: int
    """Launches without a measured duration; they are not in any time here."""
    time_us: float | None
    """Time of all its launches; null if none was measured."""
    share: float | None
    """Share of `total_us` of its GPU and basis, 0 to 1: of the time of all launches there, or of
    the whole runs including kernels that were not profiled."""
    limiter: str | None
    """The limiter with most of the time, among the launches with the finding."""
    finding: str | None
    """Id of the finding that would save the most; null if there is none."""
    finding_launches: int
    """Number of launches whose first finding it is."""
    forecast: Forecast | None
    """For the launches whose time is `saved_of_us`; null if not computed."""
    saved_us: float | None
    """Part of `saved_of_us` that would be saved according to the likely forecast; null if not
    known. Of a finding whose fix does more work in the same time, what is saved by
    merging the launches of a report or its run into one."""
    saved_share: float | None
    """`saved_us` as a share of the same total as `share`, 0 to 1."""
    not_judged: int
    """Launches without any metric that shows where the time goes."""
    path: str
    """The report with the launch that takes the most time among those with the finding."""
    launch: int
    """Id of a launch there: the representative of that launch's kernel and shape in `keet explain`,
    if it has the finding, else of those that have it."""
    gone: bool
    """True if that report is no longer at its path."""
    basis: Basis
    """What the times cover. `run`: whole runs, for reports with run tables. `reports`: the profiled
    launches, each counted once."""
    run_launches: float | None
    """Number of launches in the runs that the profiled ones represent; a fraction if several share
    them. Null with basis `reports`."""
    replay_gaps: int
    """Number of launches whose times in the run and under the profiler differ by more than 1.5x."""
    saved_of_us: float | None
    """Time that the forecast is for: of the launches with the finding, without those with a replay
    gap. With basis `run`, only of launches that took between half and twice as long as the profiled
    one, if the run table has their times. Null without a forecast."""
    unknown_us: float | None
    """Part of `time_us` for which it is not known what a fix would save; null with basis `reports`.
    """
    unlike_us: float | None
    """Part of `unknown_us` in launches of the run that took less than half or more than twice as
    long as the profiled one. Null with basis `reports`, or if all have a replay gap."""
    variant: str | None
    """Which of several causes of the finding; null if it has one, or launches differ."""
    debug_builds: int
    """Launches of debug code (-G), which has no findings: keet estimates no gains of it."""
    reports: int
    """Number of reports with these launches; identical files count once."""
    file: str | None
    """Source file of the finding in the launch at `path`, as the compiler recorded it; null if not
    known."""
    line: int | None
    cause_certainty: CauseCertainty | None
    """Of the finding in the launch at `path`: whether the cause is there. Null without a finding,
    or if an older keet did not store it."""
    without_code: int
    """Launches whose machine code was not analysed (`keet batch` without --sass)."""


class GapExampleDocument(Document):
    """The launch that represents the most time, among those with a replay gap."""

    path: str
    launch: int
    """Id of the launch in that report."""


class GpuDocument(Document):
    """The selected launches on one GPU, with one basis."""

    device: str | None
    """Null if the reports do not say."""
    compute_capability: str | None
    sm_count: int | None
    launches: int
    """Number of profiled launches."""
    untimed: int
    time_us: float | None
    total_us: float | None
    """Time of all its kernels; with basis `run` including those that were not profiled. Shares are
    of this time."""
    basis: Basis
    """What the times cover. `run`: whole runs, for reports with run tables. `reports`: the profiled
    launches, each counted once."""
    runs: int
    """Number of reports with a run table of all kernels."""
    run_launches: float | None
    """Number of launches in the runs that the profiled ones represent; a fraction if several share
    them. Null with basis `reports`."""
    not_profiled_us: float | None
    """Part of `total_us` in kernels that were not profiled; null with basis `reports`."""
    replay_gaps: int
    """Number of launches whose times in the run and under the profiler differ by more than 1.5x."""
    replay_gap_us: float | None
    """Time of the launches with a replay gap in the runs; no saving is claimed for it. Null if
    there are none."""
    gap_example: GapExampleDocument | None
    summed_runs: int
    """Number of those `runs` whose tables do not record which kernels overlapped: their times are
    sums of durations, not GPU time."""


class TopDocument(CommandResult):
    """`keet top --format json`"""

    store: str
    by: By
    device: str | None
    """Value of --device; null for all."""
    kernel: str | None
    """Value of --kernel; null for all."""
    reports: int
    """Number of reports with these launches; identical files count once."""
    failed: int
    """Files in the whole store that could not be read."""
    launches: int
    """Number of selected launches."""
    untimed: int
    time_us: float | None
    """Null also if `gpus` has several entries."""
    gpus: list[GpuDocument]
    """Whole runs first, then by number of launches. A GPU has two entries if the run is known for
    only some of its reports."""
    groups: int
    """Number of all groups, including those that --top leaves out."""
    opportunities: list[OpportunityDocument]
    without_finding: list[OpportunityDocument]
    """Groups without a finding that --top leaves out though they take a tenth or more of the time
    on their GPU: those with most time, at most three per basis."""
    runs: int
    """Number of reports with launches whose time in the whole run is known; the other reports count
    as profiled."""
    known_runs: int
    """Number of reports with a run table: `runs`, plus those whose table has no times of the
    profiled launches, such as a report of a range."""
    sort: Sort
    """Value of --sort."""
    without_code: int
    """Number of `reports` whose machine code was not analysed (`keet batch` without --sass)."""


class QueryColumn(Document):
    name: str
    type: str
    """Type of the column, as duckdb names it."""


class QueryDocument(CommandResult):
    """`keet query --format json`"""

    columns: list[QueryColumn]
    rows: list[list[Any]]
    """Cells in the order of `columns`; null for NULL, or for a number that JSON cannot represent.
    """
