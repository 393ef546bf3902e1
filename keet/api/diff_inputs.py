"""Converts the arguments of `keet.diff`: each side is a report, runs, a folder or a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keet.api.inputs import Kernel, Report, StrPath, as_profile, selected_launches
from keet.errors import UsageError
from keet.profile import Profile

if TYPE_CHECKING:
    from keet.comparison.pairing.sides import Side

Reports = Report | Sequence[Report]
"""A report, a folder of runs, `baseline:NAME`, or several runs of the same program."""


def profiles_of(
    reports: Reports, source: StrPath | None, run_table: StrPath | None
) -> list[Profile]:
    if isinstance(reports, Sequence) and not isinstance(reports, str):
        several: list[Report] = list(reports)
    else:
        several = _named(reports)
    if not several:
        raise UsageError("a side has no report; name one, or several runs")
    if run_table is not None and len(several) > 1:
        raise UsageError(
            f"a run table belongs to one report, and this side has {len(several)}: put each table "
            "beside its report"
        )
    return [as_profile(each, source, run_table) for each in several]


def _named(report: Report) -> list[Report]:
    """The reports of a folder or of a baseline; else the report itself."""
    if isinstance(report, Profile):
        return [report]
    if isinstance(report, str) and report.startswith("baseline:"):
        from keet.ingest.snapshots.baselines import find_baseline

        return list(find_baseline(report.removeprefix("baseline:")).runs)
    path = Path(report)
    if not path.is_dir():
        return [path]
    from keet.corpus.discovery import reports_in

    return list(reports_in(path))


def side_of(
    profiles: Sequence[Profile],
    which: int,
    launches: tuple[int, int] | None,
    kernel: Kernel | None,
    times: tuple[int, int] | None,
) -> Side:
    from keet.comparison.pairing.sides import Side, SideCapture, distinct_captures

    number = launches[which] if launches else None
    runs = [SideCapture(each, selected_launches(each, number, kernel)) for each in profiles]
    return Side(distinct_captures(runs), times[which] if times else None)
