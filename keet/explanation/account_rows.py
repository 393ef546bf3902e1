"""The account of a launch in a few rows: large parts with what is largest within them.

The outermost rows add up to the launch's time, and so do the rows within a part, but for what is
too small to be printed. Small parts are summed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from keet.analysis.account import UNKNOWN, Account, TimePart
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import NAMED_PART, NEARLY_ALL, NOTABLE_PART
from keet.analysis.parameters import Parameter
from keet.evidence import Evidence
from keet.units import Quantity

MOST_ROWS = 8
_PRINTED = 0.5
"""Per cent of the time: less would be printed as 0 %."""
JOINED_ROW = Parameter(0.98, "share of a part: the child's label joins the part's", "judgement")
_LONGEST = 60
"""Longest label made of two parts' labels, in characters."""
_OTHERS = {"waiting": "other waits", "issuing": "other instructions"}
_OTHER = "other"


class AccountRow(NamedTuple):
    """A part of the time, or several small ones together."""

    label: str
    share: Evidence
    us: Evidence | None
    """None where the report has no duration."""
    depth: int = 0
    """0: an outermost part. 1: a child of the row above."""
    parts: tuple[TimePart, ...] = ()
    """The innermost part that the label names, or all parts that are summed in this row."""

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
    """Outermost parts, and as many of their children as fit into `most` rows, the largest first.

    Waiting and idle time is split before the issued instructions: it is what a change can remove,
    and a note tells what the instructions are for.
    """
    parts = sorted(account.parts, key=_size)
    large = [part for part in parts if part.share.value >= NAMED_PART] or parts[:1]
    small = parts[len(large) :]
    within = sorted(
        (
            child
            for part in large
            if part.share.value >= 100 * NOTABLE_PART and not _joined(part)
            for child in part.children
            if child.share.value >= NAMED_PART
        ),
        key=lambda child: (child.id.startswith("issuing."), _size(child)),
    )
    shown = frozenset(child.id for child in within)
    for count in range(len(within), -1, -1):
        shown = frozenset(child.id for child in within[:count])
        rows = sum(1 + len(_groups(part, shown)) for part in large) + bool(_printed(small))
        if rows <= most:
            break
    return tuple(_rows(view, large, small, shown))


def rows_of_any_size(view: LaunchView, account: Account) -> Iterator[AccountRow]:
    """The rows of tables of every length up to `MOST_ROWS`: each sums up other parts."""
    for most in range(1, MOST_ROWS + 1):
        yield from account_rows(view, account, most)


def leading_text(view: LaunchView, account: Account, most: int = 3) -> str:
    """The largest parts and the rest in one line: `62% waiting for L2, which is busy; 38% other`.

    Empty where next to nothing is attributable.
    """
    if account.unknown >= 100 * NEARLY_ALL:
        return ""
    labels = {part.children[0].id: part.label for part in account.parts if _tells_nothing(part)}
    leading = account.leading(most)
    told = [f"{part.share:.0f} {labels.get(part.id, part.label)}" for part in leading]
    if leading and (rest := rest_of(view, leading)) is not None:
        told.append(f"{rest:.0f} {_OTHER}")
    return "; ".join(told)


def rest_of(view: LaunchView, leading: Sequence[TimePart]) -> Evidence | None:
    """Percentage of the time that is not in these parts; None: too small to print."""
    shares = [part.share for part in leading]
    left = 100 - sum(float(share.value) for share in shares)
    if left < _PRINTED:
        return None
    label = f"{_OTHER}, share of the time"
    return view.ledger.derived("account.rest", Quantity(left, "%"), label, *shares)


def _tells_nothing(part: TimePart) -> bool:
    """Whether the only known parts of the issued instructions are inactive lanes."""
    return any(child.id == "issuing.instructions" for child in part.children[:1])


def _size(part: TimePart) -> float:
    return -float(part.share.value)


def _rows(
    view: LaunchView, large: Sequence[TimePart], small: Sequence[TimePart], shown: Collection[str]
) -> Iterator[AccountRow]:
    for part in large:
        joined = _joined(part)
        named = part.children[0] if joined else part
        yield AccountRow(joined or part.label, part.share, part.us, parts=(named,))
        for group in _groups(part, shown):
            yield _row(view, group, f"{part.id}.", _OTHERS.get(part.id, _OTHER), 1)
    if _printed(small):
        yield _row(view, small, "", _OTHER, 0)


def _joined(part: TimePart) -> str:
    """The label with that of the only part within it; empty where there are several, or none."""
    first = next(iter(part.children), None)
    if first is None or first.share.value < JOINED_ROW * part.share.value:
        return ""
    label = f"{part.label}: {first.label}"
    is_unknown = first.id.rpartition(".")[2] == UNKNOWN
    return label if len(label) <= _LONGEST or is_unknown else ""


def _groups(part: TimePart, shown: Collection[str]) -> list[Sequence[TimePart]]:
    """Rows of the children of a part: one per child that is shown, and one for all others."""
    if _joined(part) or not any(child.id in shown for child in part.children):
        return []
    if _tells_nothing(part) and len(part.children) == 1:
        return []
    single = [[child] for child in part.children if child.id in shown]
    rest = [child for child in part.children if child.id not in shown]
    is_worth = sum(float(child.share.value) for child in rest) >= NAMED_PART
    return [*single, rest] if is_worth else [*single]


def _printed(parts: Sequence[TimePart]) -> bool:
    return sum(float(part.share.value) for part in parts) >= _PRINTED


def _row(
    view: LaunchView, parts: Sequence[TimePart], within: str, other: str, depth: int
) -> AccountRow:
    if len(parts) == 1:
        return AccountRow(parts[0].label, parts[0].share, parts[0].us, depth, tuple(parts))
    name = f"account.{within}rest_{len(parts)}"
    share = _sum(view, name, [part.share for part in parts], f"{other}, share of the time")
    times = [part.us for part in parts if part.us]
    us = _sum(view, f"{name}.us", times, other) if times else None
    return AccountRow(other, share, us, depth, tuple(parts))


def _sum(view: LaunchView, name: str, pieces: Sequence[Evidence], label: str) -> Evidence:
    total = Quantity(sum(float(piece.value) for piece in pieces), pieces[0].unit)
    return view.ledger.derived(name, total, label, *pieces)
