"""The account of a launch in a few rows, the largest first: what its time is spent on.

The rows are flat and add up to the launch's time. Small parts are summed in the last row. The tree
of the account is in JSON, in HTML and with `--verbose`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.analysis.account import Account, TimePart
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import NAMED_PART, NEARLY_ALL
from keet.evidence import Evidence
from keet.units import Quantity

MOST_ROWS = 10
_PRINTED = 0.5
"""Per cent of the time: less would be printed as 0 %."""
ISSUING = "issuing instructions"
_OTHER = "other"


class AccountRow(NamedTuple):
    """A part of the time, or several small ones together."""

    label: str
    share: Evidence
    us: Evidence | None
    """None where the report has no duration."""
    parts: tuple[TimePart, ...] = ()
    """The part that the label names, or all parts that are summed in this row."""

    @property
    def time(self) -> str:
        """`2.58 ms`; empty if the duration is unknown."""
        return time_text(self.us)


def time_text(us: Evidence | None) -> str:
    """In the unit that fits the size: `97.37 us`."""
    return str(Quantity(us.value, us.unit).to_base()) if us else ""


def account_rows(
    view: LaunchView, account: Account, most: int = MOST_ROWS
) -> tuple[AccountRow, ...]:
    """At most so many rows; the last one sums up the parts that are small, or that do not fit."""
    rows = sorted(_rows(account), key=lambda row: -float(row.share.value))
    large = [row for row in rows if row.share.value >= NAMED_PART] or rows[:1]
    shown = large if len(rows) <= most else large[: most - 1]
    rest = [part for row in rows[len(shown) :] for part in row.parts]
    if sum(float(part.percent.value) for part in rest) >= _PRINTED:
        shown = [*shown, _other(view, rest)]
    return tuple(shown)


def rows_of_any_size(view: LaunchView, account: Account) -> Iterator[AccountRow]:
    """The rows of tables of every length up to `MOST_ROWS`: each sums up other parts."""
    for most in range(2, MOST_ROWS + 1):
        yield from account_rows(view, account, most)


def leading_text(view: LaunchView, account: Account, most: int = 3) -> str:
    """The largest parts and the rest in one line: `62% waiting for L2, which is busy; 38% other`.

    Empty where next to nothing is attributable.
    """
    if account.unknown >= 100 * NEARLY_ALL:
        return ""
    return "; ".join(
        f"{row.share:.0f} {row.label}" for row in account_rows(view, account, most + 1)
    )


def _rows(account: Account) -> Iterator[AccountRow]:
    """A row per part without children. The issued instructions are one row: a note tells what they
    are for."""
    for part in account:
        if part.id == "issuing":
            yield AccountRow(ISSUING, part.percent, part.time, (part,))
            continue
        before = "SMs idle: " if part.id == "idle" and part.children else ""
        for leaf in part.children or (part,):
            yield AccountRow(f"{before}{leaf.part}", leaf.percent, leaf.time, (leaf,))


def _other(view: LaunchView, parts: Sequence[TimePart]) -> AccountRow:
    name = f"account.rest_{len(parts)}"
    share = _sum(view, name, [part.percent for part in parts], f"{_OTHER}, share of the time")
    times = [part.time for part in parts if part.time]
    us = _sum(view, f"{name}.us", times, _OTHER) if times else None
    return AccountRow(_OTHER, share, us, tuple(parts))


def _sum(view: LaunchView, name: str, pieces: Sequence[Evidence], label: str) -> Evidence:
    total = Quantity(sum(float(piece.value) for piece in pieces), pieces[0].unit)
    return view.ledger.derived(name, total, label, *pieces)
