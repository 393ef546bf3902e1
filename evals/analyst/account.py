"""Checks that the parts of every launch's account add up, and how much time cannot be
attributed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from evals.analyst.report_sets import LOCKED, ReportSet, Source, over, profile_of, report_set
from evals.pages import Heading, Part, Prose, Table, number_cell
from keet.analysis.account import UNKNOWN, Account, TimePart, account_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.profile import Launch

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


def parts_of_launch(launch: Launch, *, reads_code: bool) -> Sequence[TimePart]:
    view = LaunchView(launch, reads_code=reads_code)
    return account_of(view, TimeModel(view))


def closing(group: str, name: str, kind: ReportSet, parts: Sequence[TimePart]) -> Closing:
    every = [*Account(tuple(parts)).all()]
    return Closing(
        group,
        name,
        kind,
        abs(_sum(parts) - 100),
        max((abs(_sum(p.children) - p.percent.value) for p in every if p.children), default=0.0),
        min((float(part.percent.value) for part in every), default=0.0),
        _sum([part for part in every if not part.children and _is_unknown(part)]),
    )


def _sum(parts: Sequence[TimePart]) -> float:
    return sum(float(part.percent.value) for part in parts)


def _is_unknown(part: TimePart) -> bool:
    return part.id.rpartition(".")[2] == UNKNOWN


def closings(sources: Sequence[Source], processes: int = 1) -> list[Closing]:
    return [each for several in over(sources, of_source, processes) for each in several]


def of_source(source: Source) -> list[Closing]:
    """Every launch of the report. As in `keet explain`, the longest have their code analysed."""
    profile = profile_of(source)
    if profile is None:
        return []
    with_code = {launch.id for launch in profile.with_code(profile.launches)}
    return [
        closing(
            source.group,
            f"{source.name} #{launch.id} {launch.kernel}",
            report_set(launch),
            parts_of_launch(launch, reads_code=launch.id in with_code),
        )
        for launch in profile.launches
    ]


# --- the page


_NOTE = f"""\
An account closes if its parts add up to the launch's time, the children of each part to their
parent, and no part is below zero, each within {CLOSES:g} percentage points. By kind of report: full
has every section of ncu's `--set full`, basic only those of `--set basic`. Shares are of the time
of the launch over all SMs."""


def page_parts(rows: Sequence[Closing]) -> list[Part]:
    return [
        Prose(_summary(rows)),
        Table(_sums(rows)),
        Prose(_NOTE),
        Heading("Not attributable"),
        Table(_shares(rows)),
        Heading("Accounts that do not close"),
        Table([_HEAD, *map(_cells, _open(rows))]),
        Heading("Largest part that is not attributable, full set"),
        Table([_HEAD, *map(_cells, _least_attributed(rows))]),
    ]


def full_set_median(rows: Sequence[Closing]) -> float | None:
    """Per cent of the time that is not attributable; None without full-set reports."""
    return _median([row for row in rows if row.kind == "full"])


def _median(rows: Sequence[Closing]) -> float | None:
    return median(row.not_attributable for row in rows) if rows else None


def _summary(rows: Sequence[Closing]) -> str:
    closed, share = sum(row.closes for row in rows), full_set_median(rows)
    verdict = "met" if share is not None and share <= MOST_NOT_ATTRIBUTABLE else "NOT met"
    return (
        f"{closed} of {len(rows)} accounts close ({'met' if closed == len(rows) else 'NOT met'}: "
        f"all must). Not attributable in the median of full-set reports: "
        f"{number_cell(share, '.1f')} % of the time ({verdict}: at most "
        f"{MOST_NOT_ATTRIBUTABLE:g} %)."
    )


def _sums(rows: Sequence[Closing]) -> list[tuple[str, ...]]:
    head = ("launches of", "launches", "close", "largest gap", "largest gap of children", "least")
    groups = {group: [r for r in rows if r.group == group] for group in _groups(rows)}
    return [head, *(_sum_row(name, own) for name, own in {**groups, "all": rows}.items())]


def _groups(rows: Sequence[Closing]) -> list[str]:
    return list(dict.fromkeys(row.group for row in rows))


def _sum_row(name: str, rows: Sequence[Closing]) -> tuple[str, ...]:
    return (
        name,
        str(len(rows)),
        str(sum(row.closes for row in rows)),
        number_cell(max((row.gap for row in rows), default=None), ".3f"),
        number_cell(max((row.child_gap for row in rows), default=None), ".3f"),
        number_cell(min((row.least for row in rows), default=None), ".3f"),
    )


def _shares(rows: Sequence[Closing]) -> list[tuple[str, ...]]:
    """Medians by kind of report, in per cent of the time."""
    groups = {group: [r for r in rows if r.group == group] for group in _groups(rows)}
    table = [("launches of", *(f"{kind} set, median (launches)" for kind in _SETS))]
    for name, own in {**groups, "all": rows}.items():
        by_set = [[row for row in own if row.kind == kind] for kind in _SETS]
        table.append((name, *(_share_cell(each) for each in by_set)))
    return table


def _share_cell(rows: Sequence[Closing]) -> str:
    return f"{_median(rows):.1f} % ({len(rows)})" if rows else "-"


_HEAD = ("launch", "set", "gap", "gap of children", "least", "not attributable")


def _open(rows: Sequence[Closing]) -> list[Closing]:
    """For locked families only sums are printed: showing their cases would invite fitting to
    them."""
    found = [row for row in rows if not row.closes and row.group != LOCKED]
    return sorted(found, key=lambda row: -max(row.gap, row.child_gap, -row.least))[:_LISTED]


def _least_attributed(rows: Sequence[Closing]) -> list[Closing]:
    found = [row for row in rows if row.kind == "full" and row.group != LOCKED]
    return sorted(found, key=lambda row: -row.not_attributable)[:_LISTED]


def _cells(row: Closing) -> tuple[str, ...]:
    return (
        row.name,
        row.kind,
        f"{row.gap:.3f}",
        f"{row.child_gap:.3f}",
        f"{row.least:.3f}",
        f"{row.not_attributable:.1f} %",
    )
