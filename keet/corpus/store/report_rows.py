"""One report as rows of the store: what a worker hands back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from keet.analysis.account import Account, TimePart
from keet.analysis.findings import Finding
from keet.corpus.store.schema import LAUNCH_COLUMNS, METRICS
from keet.explanation.explained import Explanation, LaunchExplanation
from keet.profile import Launch, Provenance
from keet.profile.launch import Dim3
from keet.profile.run_table import RunPositions
from keet.records import NamedTuple

Row = tuple[object, ...]
_DURATION = LAUNCH_COLUMNS.index("duration_us")
_METRIC_IDS = tuple(spec.id for spec in METRICS)
SLICE = 256
"""Launches whose rows a worker holds and sends at a time: some 50 kB each."""


class RunTotals(NamedTuple):
    """Time of the whole run that a report is of."""

    total_us: float
    unprofiled_us: float
    """In kernels that no launch of the report stands for."""
    overlap_known: bool | None = None
    """True: both are GPU time. False: both are sums of durations, in which kernels that ran at the
    same time count in full. None: not known."""

    @property
    def has_timed_launch(self) -> bool:
        """Whether a launch of the report has a time in the run; not where it is of a range."""
        return self.unprofiled_us < self.total_us


class FileRows(NamedTuple):
    """The rows of one report, in the order of the columns of `layout`."""

    launches: tuple[Row, ...]
    findings: tuple[Row, ...]
    account: tuple[Row, ...] = ()
    run: RunTotals | None = None
    """None: the run is not known."""
    table_problem: str | None = None
    """Why the table of the run that lies beside the report is not used."""
    notes: tuple[str, ...] = ()
    """What a reader of its numbers must know: launches that may be missing, rounded values."""

    @property
    def sha256(self) -> str | None:
        """Of the report; `None` where there is no launch to tell."""
        return str(self.launches[0][0]) if self.launches else None

    @property
    def gpu_us(self) -> float:
        """Of the launches that say how long they took, in microseconds."""
        return sum(us for row in self.launches if isinstance(us := row[_DURATION], float))


Document = Callable[[LaunchExplanation], str]
"""Makes the text of the column `explanation`."""


def slices_of(
    explanation: Explanation, document: Document, most: int = SLICE
) -> Iterator[FileRows]:
    """The rows of a report, those of so many launches at a time; one slice where it has none. Each
    launch is looked at once, and may be forgotten afterwards."""
    profile = explanation.profile
    run = _run_times(profile.in_run)
    launches: list[Row] = []
    findings: list[Row] = []
    account: list[Row] = []
    for each in explanation.launches:
        if len(launches) == most:
            yield FileRows(tuple(launches), tuple(findings), tuple(account), run)
            launches, findings, account = [], [], []
        in_run = _in_run(profile.in_run, run, each.launch)
        head = _launch_row(profile.provenance, each, in_run)
        launches.append((*head, document(each), *_metrics(each.launch)))
        findings.extend(_finding_rows(profile.provenance.sha256, each))
        account.extend(_account_rows(profile.provenance.sha256, each))
    yield FileRows(tuple(launches), tuple(findings), tuple(account), run)


def rows_of(explanation: Explanation, document: Document) -> FileRows:
    """All of them."""
    (rows,) = slices_of(explanation, document, max(len(explanation.launches), 1))
    return rows


def _run_times(in_run: RunPositions | None) -> RunTotals | None:
    if in_run is None:
        return None
    table = in_run.table
    return RunTotals(table.busy_ns / 1e3, in_run.unprofiled_ns / 1e3, table.overlap_known)


def _in_run(in_run: RunPositions | None, run: RunTotals | None, launch: Launch) -> Row:
    """What the launch stands for in the run: launches, time, part of the time in launches like it,
    share, and its own time there."""
    position = in_run.of(launch.id) if in_run else None
    if position is None or run is None:
        return (None,) * 5
    time, share = position.busy_ns / 1e3, None
    if run.total_us:
        share = time / run.total_us
    alike, plain = _microseconds(position.alike_ns), _microseconds(position.plain_ns)
    return (position.launches, time, alike, share, plain)


def _microseconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e3


def _launch_row(provenance: Provenance, each: LaunchExplanation, in_run: Row) -> Row:
    """Up to the explanation."""
    return (
        *(provenance.sha256, provenance.path, each.launch.id),
        *_identity(each.launch),
        *_capture(provenance),
        _duration(each.launch),
        *in_run,
        *_verdict(each),
        *_top_finding(each),
        *(len(each.findings), len(each.skipped), each.verdict.not_judged),
        *_top_part(each.account),
    )


def _identity(launch: Launch) -> Row:
    device = launch.device
    return (
        *(launch.kernel, launch.name.full),
        *(device.name, device.compute_capability, device.sm_count),
        *(_shape(launch.grid), _shape(launch.block)),
        *(launch.grid or (None, None, None)),
        *(launch.block or (None, None, None)),
        *_sizes(launch),
        *(launch.process, launch.stream),
        "/".join(each.name for each in launch.nvtx) or None,
    )


def _shape(axes: Dim3 | None) -> str | None:
    return "x".join(map(str, axes)) if axes else None


def _sizes(launch: Launch) -> tuple[int | None, int | None]:
    """Blocks, and threads."""
    blocks = math.prod(launch.grid) if launch.grid else None
    threads = blocks * math.prod(launch.block) if blocks is not None and launch.block else None
    return blocks, threads


def _capture(provenance: Provenance) -> Row:
    return (
        provenance.ncu_version,
        provenance.cuda_version,
        provenance.driver_version,
        provenance.command_line,
        _moment(provenance.created),
    )


def _moment(text: str | None) -> datetime | None:
    """In UTC. A report that says nothing sensible of its time says nothing."""
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        return None


def _duration(launch: Launch) -> float | None:
    """Microseconds."""
    duration = launch.get("duration")
    return _finite(duration.to("us").value) if duration else None


def _verdict(each: LaunchExplanation) -> Row:
    verdict = each.verdict
    return (
        verdict.limiter if verdict.reached else None,
        _finite(verdict.reached.value) if verdict.reached else None,
        verdict.headline,
        verdict.healthy,
    )


def _top_finding(each: LaunchExplanation) -> Row:
    if not each.findings:
        return (None, None, None, None)
    first = each.findings[0]
    low, likely, high = _forecast(first)
    return (first.id, likely, low, high)


def _forecast(finding: Finding) -> tuple[float | None, ...]:
    """Whole or not at all, as in the JSON of `keet explain`."""
    bounds = tuple(map(_finite, finding.forecast))
    return (None, None, None) if None in bounds else bounds


def _finding_rows(sha256: str, each: LaunchExplanation) -> Iterator[Row]:
    for rank, finding in enumerate(each.findings, 1):
        place = finding.places[0] if finding.places else None
        yield (
            *(sha256, each.launch.id, rank),
            *(finding.id, finding.variant or None, finding.confidence),
            *_forecast(finding),
            *((place.file, place.line, _finite(place.share)) if place else (None, None, None)),
            *(finding.title, finding.text),
        )


def _top_part(account: Account) -> Row:
    """The innermost part with the most time, its share, and the share of what is not known."""
    leading = account.leading(most=1, least=0.0)
    first = (leading[0].id, _share(leading[0])) if leading else (None, None)
    return (*first, _finite(account.unknown / 100))


def _account_rows(sha256: str, each: LaunchExplanation) -> Iterator[Row]:
    """All parts: sums over launches close as the account of each launch does."""
    for part in each.account.parts:
        yield from _part_rows(part, None, (sha256, each.launch.id))


def _part_rows(part: TimePart, parent: str | None, launch: Row) -> Iterator[Row]:
    us = _finite(part.us.value) if part.us else None
    yield (*launch, part.id, parent, part.label, not part.children, _share(part), us)
    for child in part.children:
        yield from _part_rows(child, part.id, launch)


def _share(part: TimePart) -> float | None:
    """0 to 1."""
    return _finite(part.share.value / 100)


def _metrics(launch: Launch) -> Row:
    """Those that can be measurements, so that each is finite."""
    found = map(launch.number, _METRIC_IDS)
    return tuple([None if number is None else float(number) for number in found])


def _finite(value: float) -> float | None:
    """ncu writes NaN where it divided zero by zero: nothing to add up, and nothing measured."""
    return float(value) if math.isfinite(value) else None
