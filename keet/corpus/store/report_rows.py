"""Makes the rows of the store from an explained report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from keet.analysis.account import Account, TimePart
from keet.corpus.store.schema import LAUNCH_COLUMNS, METRICS
from keet.diagnosis.finding import Finding
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.profile import Launch, Provenance
from keet.profile.launch import Dim3
from keet.profile.run_table import RunPositions

Row = tuple[object, ...]
_DURATION = LAUNCH_COLUMNS.index("duration_us")
_METRIC_IDS = tuple(spec.id for spec in METRICS)
SLICE = 256
"""Launches per slice: a worker holds and sends their rows together, about 50 kB each."""


class RunTotals(NamedTuple):
    """GPU time of the whole run that a report is from."""

    total_us: float
    unprofiled_us: float
    """In kernels that were not profiled."""
    overlap_known: bool | None = None
    """True: both are GPU time. False: both are sums of durations, in which overlapping kernels
    count in full. None: not known."""

    @property
    def has_timed_launch(self) -> bool:
        """Whether a launch of the report has a time in the run; false for a report of a range."""
        return self.unprofiled_us < self.total_us


class FileRows(NamedTuple):
    """The rows of one report, with cells in the order of the columns in `schema`."""

    launches: tuple[Row, ...]
    findings: tuple[Row, ...]
    account: tuple[Row, ...] = ()
    run: RunTotals | None = None
    """None: no run table."""
    table_problem: str | None = None
    """Why the run table beside the report is not used."""
    notes: tuple[str, ...] = ()
    """Notes on its numbers: launches may be missing, values may be rounded."""
    origin_sha256: str | None = None
    """Of a snapshot: of the report that it was made from, as the snapshot states."""

    @property
    def sha256(self) -> str | None:
        """Of the report; None if it has no launches."""
        return str(self.launches[0][0]) if self.launches else None

    @property
    def gpu_us(self) -> float:
        """Sum of the measured durations, in microseconds."""
        return sum(us for row in self.launches if isinstance(us := row[_DURATION], float))


Document = Callable[[LaunchExplanation], str]
"""Makes the JSON of the column `explanation`."""


def slices_of(
    explanation: Explanation, document: Document, most: int = SLICE
) -> Iterator[FileRows]:
    """The rows of a report, at most `most` launches at a time; at least one slice. Each launch is
    read once, and its memory may be released afterwards."""
    profile = explanation.profile
    run = _run_times(profile.in_run)
    sha256 = profile.provenance.sha256
    launches: list[Row] = []
    findings: list[Row] = []
    account: list[Row] = []
    for launch in explanation.launches:
        if len(launches) == most:
            yield FileRows(tuple(launches), tuple(findings), tuple(account), run)
            launches, findings, account = [], [], []
        in_run = _in_run(profile.in_run, run, launch.launch)
        head = _launch_row(profile.provenance, launch, in_run)
        # Plausible values only: all are finite.
        numbers = map(launch.launch.number, _METRIC_IDS)
        metrics = [None if number is None else float(number) for number in numbers]
        launches.append((*head, document(launch), *metrics))
        findings += _finding_rows(sha256, launch)
        for part in launch.account:  # all parts, so that sums over launches are complete
            account += _part_rows(part, None, (sha256, launch.launch.id))
    yield FileRows(tuple(launches), tuple(findings), tuple(account), run)


def _run_times(in_run: RunPositions | None) -> RunTotals | None:
    if in_run is None:
        return None
    table = in_run.table
    return RunTotals(table.busy_ns / 1e3, in_run.unprofiled_ns / 1e3, table.overlap_known)


def _in_run(in_run: RunPositions | None, run: RunTotals | None, launch: Launch) -> Row:
    """Cells about the run: launches that it stands for, their time, the part of it in launches of
    similar length, their share, and the time of this launch in the run."""
    position = in_run.of(launch.id) if in_run else None
    if position is None or run is None:
        return (None,) * 5
    time = position.busy_ns / 1e3
    share = time / run.total_us if run.total_us else None
    alike, plain = _microseconds(position.alike_ns), _microseconds(position.plain_ns)
    return (position.launches, time, alike, share, plain)


def _microseconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e3


def _launch_row(provenance: Provenance, each: LaunchExplanation, in_run: Row) -> Row:
    """The cells before `explanation`."""
    verdict, duration = each.verdict, each.launch.get("duration")
    return (
        *(provenance.sha256, provenance.path, each.launch.id),
        *_identity(each.launch),
        *_capture(provenance),
        _finite(duration.to("us").value) if duration else None,
        *in_run,
        *(verdict.limiter, verdict.reached_pct, verdict.headline, verdict.healthy),
        *_top_finding(each),
        *(len(each.findings), len(each.skipped), verdict.not_judged),
        *_top_part(each.account),
        each.view.code_state,
    )


def _identity(launch: Launch) -> Row:
    device = launch.device
    blocks = math.prod(launch.grid) if launch.grid else None
    threads = blocks * math.prod(launch.block) if blocks is not None and launch.block else None
    return (
        *(launch.kernel, launch.name.full),
        *(device.name, device.compute_capability, device.sm_count),
        *(_shape(launch.grid), _shape(launch.block)),
        *(launch.grid or (None, None, None)),
        *(launch.block or (None, None, None)),
        *(blocks, threads),
        *(launch.process, launch.stream),
        "/".join(each.name for each in launch.nvtx) or None,
    )


def _shape(axes: Dim3 | None) -> str | None:
    return "x".join(map(str, axes)) if axes else None


def _capture(provenance: Provenance) -> Row:
    created = provenance.created
    return (
        provenance.ncu_version,
        provenance.cuda_version,
        provenance.driver_version,
        provenance.command_line,
        # In UTC, as all times of reports are; without the offset, as the store has them.
        datetime.fromisoformat(created).replace(tzinfo=None) if created else None,
    )


def _top_finding(each: LaunchExplanation) -> Row:
    if not each.findings:
        return (None, None, None, None)
    first = each.findings[0]
    low, likely, high = _forecast(first)
    return (first.id, likely, low, high)


def _forecast(finding: Finding) -> tuple[float | None, ...]:
    """All three numbers or none, as in the JSON of `keet explain`."""
    bounds = tuple(map(_finite, finding.forecast))
    return (None, None, None) if None in bounds else bounds


def _finding_rows(sha256: str, each: LaunchExplanation) -> Iterator[Row]:
    for rank, finding in enumerate(each.findings, 1):
        place = finding.locations[0] if finding.locations else None
        yield (
            *(sha256, each.launch.id, rank),
            *(finding.id, finding.variant or None),
            *(finding.cause_certainty, finding.confidence),
            *_forecast(finding),
            *((place.file, place.line, _finite(place.share)) if place else (None, None, None)),
            *(finding.title, finding.text),
        )


def _top_part(account: Account) -> Row:
    """The innermost part with the most time, its share, and the unknown share."""
    leading = account.leading(most=1, least=0.0)
    first = (leading[0].id, _share(leading[0])) if leading else (None, None)
    return (*first, _finite(account.unknown / 100))


def _part_rows(part: TimePart, parent: str | None, launch: Row) -> Iterator[Row]:
    us = _finite(part.time.value) if part.time else None
    yield (*launch, part.id, parent, part.part, not part.children, _share(part), us)
    for child in part.children:
        yield from _part_rows(child, part.id, launch)


def _share(part: TimePart) -> float | None:
    """0 to 1."""
    return _finite(part.percent.value / 100)


def _finite(value: float) -> float | None:
    """None for NaN, which ncu writes for 0/0, and for infinity."""
    return float(value) if math.isfinite(value) else None
