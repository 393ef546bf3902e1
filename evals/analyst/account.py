"""Checks that the parts of every launch's account add up, and how much time cannot be
attributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from evals.analyst.report_sets import (
    LOCKED,
    ReportSet,
    Source,
    by_group,
    over,
    profile_of,
    report_set,
)
from evals.pages import Heading, Part, Prose, Table, number_cell
from keet.analysis.account import UNKNOWN, Account, TimePart, account_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel

CLOSES = 0.1
"""Allowed difference between the sum of the parts and 100 %, in percentage points."""
MOST_NOT_ATTRIBUTABLE = 15.0
"""Per cent of the time, median over full-set reports."""
_SETS: tuple[ReportSet, ...] = ("full", "basic", "other")
_LISTED = 20


class Closing(NamedTuple):
    """How well the account of one launch adds up."""

    group: str
    name: str
    kind: ReportSet
    gap: float
    """Percentage points between 100 % and the sum of the top parts."""
    child_gap: float
    """The largest difference between a part and the sum of its children."""
    least: float
    """The smallest share of any part; below zero is an error."""
    not_attributable: float

    @property
    def closes(self) -> bool:
        return max(self.gap, self.child_gap, -self.least) <= CLOSES


def closing(group: str, name: str, kind: ReportSet, parts: Sequence[TimePart]) -> Closing:
    every = [*Account(tuple(parts)).all()]
    return Closing(
        group,
        name,
        kind,
        abs(_sum(parts) - 100),
        max((abs(_sum(p.children) - p.percent.value) for p in every if p.children), default=0.0),
        min((float(part.percent.value) for part in every), default=0.0),
        _sum([part for part in every if not part.children and part.id.split(".")[-1] == UNKNOWN]),
    )


def _sum(parts: Sequence[TimePart]) -> float:
    return sum(float(part.percent.value) for part in parts)


def closings(sources: Sequence[Source], processes: int = 1) -> list[Closing]:
    return [each for several in over(sources, of_source, processes) for each in several]


def of_source(source: Source) -> list[Closing]:
    """Every launch of the report. As in `keet explain`, the longest have their code analysed."""
    profile = profile_of(source)
    if profile is None:
        return []
    with_code = {launch.id for launch in profile.with_code(profile.launches)}
    rows = []
    for launch in profile.launches:
        view = LaunchView(launch, reads_code=launch.id in with_code)
        name, parts = (
            f"{source.name} #{launch.id} {launch.kernel}",
            account_of(view, TimeModel(view)),
        )
        rows.append(closing(source.group, name, report_set(launch), parts))
    return rows


# --- the page


_NOTE = f"""\
An account closes if its parts add up to the launch's time, the children of each part to their
parent, and no part is below zero, each within {CLOSES:g} percentage points. By kind of report: full
has every section of ncu's `--set full`, basic only those of `--set basic`. Shares are of the time
of the launch over all SMs."""


def page_parts(rows: Sequence[Closing]) -> list[Part]:
    """For locked families only sums are printed: showing their cases would invite fitting to
    them."""
    shown = [row for row in rows if row.group != LOCKED]
    still_open = sorted(
        (row for row in shown if not row.closes),
        key=lambda row: -max(row.gap, row.child_gap, -row.least),
    )
    full = sorted((r for r in shown if r.kind == "full"), key=lambda row: -row.not_attributable)
    return [
        Prose(_summary(rows)),
        Table(list(_sums(rows))),
        Prose(_NOTE),
        Heading("Not attributable"),
        Table(list(_shares(rows))),
        Heading("Accounts that do not close"),
        Table([_HEAD, *map(_cells, still_open[:_LISTED])]),
        Heading("Largest part that is not attributable, full set"),
        Table([_HEAD, *map(_cells, full[:_LISTED])]),
    ]


def full_set_median(rows: Sequence[Closing]) -> float | None:
    """Per cent of the time that is not attributable; None without full-set reports."""
    shares = [row.not_attributable for row in rows if row.kind == "full"]
    return median(shares) if shares else None


def _summary(rows: Sequence[Closing]) -> str:
    closed, share = sum(row.closes for row in rows), full_set_median(rows)
    verdict = "met" if share is not None and share <= MOST_NOT_ATTRIBUTABLE else "NOT met"
    return (
        f"{closed} of {len(rows)} accounts close ({'met' if closed == len(rows) else 'NOT met'}: "
        f"all must). Not attributable in the median of full-set reports: "
        f"{number_cell(share, '.1f')} % of the time ({verdict}: at most "
        f"{MOST_NOT_ATTRIBUTABLE:g} %)."
    )


def _sums(rows: Sequence[Closing]) -> Iterator[tuple[str, ...]]:
    yield "launches of", "launches", "close", "largest gap", "largest gap of children", "least"
    for name, own in by_group(rows).items():
        worst = (
            max((row.gap for row in own), default=None),
            max((row.child_gap for row in own), default=None),
            min((row.least for row in own), default=None),
        )
        counts = str(len(own)), str(sum(row.closes for row in own))
        yield name, *counts, *(number_cell(each, ".3f") for each in worst)


def _shares(rows: Sequence[Closing]) -> Iterator[tuple[str, ...]]:
    """Medians by kind of report, in per cent of the time."""
    yield "launches of", *(f"{kind} set, median (launches)" for kind in _SETS)
    for name, own in by_group(rows).items():
        by_set = [[row.not_attributable for row in own if row.kind == kind] for kind in _SETS]
        yield name, *(f"{median(s):.1f} % ({len(s)})" if s else "-" for s in by_set)


_HEAD = ("launch", "set", "gap", "gap of children", "least", "not attributable")


def _cells(row: Closing) -> tuple[str, ...]:
    numbers = (f"{number:.3f}" for number in (row.gap, row.child_gap, row.least))
    return row.name, row.kind, *numbers, f"{row.not_attributable:.1f} %"
