"""What accounts for the difference: causes first, then what was measured.

A cause's share is an estimate: what keet's forecast says the flaw cost before, less what it costs
after. The shares of warp states, units and lines are measured. All are shares of the difference in
time; a negative one worked against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from keet.comparison.account import Account, Change
from keet.comparison.causes import Cause, changed_causes
from keet.comparison.lines import LineChange, changed_lines
from keet.comparison.pairing import How
from keet.comparison.timing import Timing
from keet.evidence import Evidence
from keet.profile.launch import Location
from keet.profile.names import file_name
from keet.units import Quantity

Kind = Literal["fusion", "cause", "unit", "stall", "work", "line"]
_CAUSES, _UNITS, _STALLS, _LINES = 3, 3, 3, 4
_LEAST = 0.1
"""Share of the difference below which something does not account for it."""
_BUSY = {"DRAM": 0.4, "L2": 0.4, "L1": 0.4}
"""Share of its peak that a unit must reach on a side for its load to matter: latency grows long
before a memory's bandwidth ends, while a pipe at half its peak is no news."""
_BUSY_PIPE = 0.6
_MUCH = 0.3
"""Relative change of the instructions that is a reason by itself."""
_MOVED = 0.1
"""Relative change of a number below which it is not worth a word."""
_WORK = (
    "inst_executed_total",
    "registers_per_thread",
    "achieved_occupancy_pct",
    "dram_bytes_read",
    "dram_bytes_written",
    "l2_sectors",
)
_AMOUNTS = ("inst_executed_total", "l2_sectors")
"""Added up over a run. Not what DRAM moved: ncu empties the caches before each replay, so many
launches of a run may find in the L2 what each replay reads from DRAM."""
_WITH_CACHES = ("dram_bytes_read", "dram_bytes_written")


class Attribution(NamedTuple):
    """One thing that accounts for the difference."""

    kind: Kind
    what: str
    unit: str | None
    """The hardware unit, where one is meant."""
    share: Evidence | None
    """Of the time that was saved or lost, in per cent; `None` where time did not change."""
    evidence: tuple[Evidence, ...]
    finding: str | None = None
    place: tuple[Location | None, Location | None] | None = None
    """The source line before and after."""
    where: str = ""
    """The same in words, with which `what` begins."""
    code: str = ""
    """What stands there."""


def attribute(
    account: Account, timing: Timing, how: How, *, splits: bool = True
) -> Iterator[Attribution]:
    """`splits`: the time of the run is split among units, warp states and lines as under replay."""
    changed = timing.word in ("faster", "slower")
    saved = timing.saved if changed else 0.0
    told = [*_fusion(account, how), *_causes(account, saved), *_less_work(account, timing)]
    told += _units(account, saved) if splits else []
    if changed and splits:
        told += [*_states(account, saved), *_lines(account, saved)]
    yield from told
    said = {evidence.id for each in told for evidence in each.evidence}
    yield from (each for each in _work(account) if said.isdisjoint(e.id for e in each.evidence))


# --- kernels that became one, or several


def _fusion(account: Account, how: How) -> Iterator[Attribution]:
    if how not in ("fused", "split"):
        return
    moved = [volume for unit in ("DRAM", "L2") for volume in account.volumes(unit)]
    moved = [volume for volume in moved if volume.moved >= _MOVED][:2]
    numbers = "; ".join(map(str, moved))
    word = "fused into one kernel" if how == "fused" else "split into several kernels"
    text = f"{word}: {numbers}" if numbers else word
    evidence = tuple(e for volume in moved for e in (volume.before, volume.after))
    yield Attribution("fusion", text, None, None, evidence)


# --- causes


def _causes(account: Account, saved: float) -> Iterator[Attribution]:
    told = 0
    for cause in changed_causes(account):
        # The forecasts are estimates: one can't have saved more than all.
        most = max(-abs(saved), min(abs(saved), cause.saved))
        share = account.percent(
            f"share of {cause.id}", "of the difference (estimated)", most, saved
        )
        if share is not None and share.value < 100 * _LEAST:
            continue
        yield _told(cause, share)
        told += 1
        if told == _CAUSES:
            return


def _told(cause: Cause, share: Evidence | None) -> Attribution:
    shown = cause.shown_by
    text = f"{cause.label}: {cause.became}{f'; {shown}' if shown else ''}"
    evidence = shown.evidence if shown else ()
    unit = cause.on.told.verdict.limiter
    return Attribution("cause", text, unit, share, evidence, cause.id)


def _less_work(account: Account, timing: Timing) -> Iterator[Attribution]:
    """Instructions that need not be executed any more, or that came on top, explain time where no
    flaw does; how much, no counter says."""
    change = account.summed("inst_executed_total")
    if change is None or change.moved < _MUCH or change.fell * timing.saved <= 0:
        return
    word = "fewer" if change.fell > 0 else "more"
    text = f"{word} instructions: {change}"
    yield Attribution("cause", text, "issue", None, (change.before, change.after))


# --- units and what they moved


def _units(account: Account, saved: float) -> Iterator[Attribution]:
    told = []
    for unit, change in account.units():
        if account.busiest(unit) < _BUSY.get(unit, _BUSY_PIPE):
            continue
        share = account.percent(f"share of {unit}", "of the difference", change.fell, saved)
        if share is not None and abs(share.value) >= 100 * _LEAST:
            told.append((abs(change.fell), _unit(account, unit, change, share)))
    for _, attribution in sorted(told, key=lambda each: -each[0])[:_UNITS]:
        yield attribution


def _unit(account: Account, unit: str, change: Change, share: Evidence) -> Attribution:
    # A count that rose is not why the unit was busy for less.
    with_it = (v for v in account.volumes(unit) if v.fell * change.fell > 0)
    moved = sorted((v for v in with_it if v.moved >= _MOVED), key=lambda v: -v.moved)
    why = "".join(f", {volume}" for volume in moved[:2])
    evidence = [e for c in (change, *moved[:2]) for e in (c.before, c.after)]
    return Attribution("unit", f"{change}{why}", unit, share, tuple(evidence))


# --- warp states


def _states(account: Account, saved: float) -> Iterator[Attribution]:
    told = []
    for reason, change in account.warp_states():
        share = account.percent(f"share of {reason}", "of the difference", change.fell, saved)
        if share is not None and abs(share.value) >= 100 * _LEAST:
            told.append((abs(change.fell), change, share))
    for _, change, share in sorted(told, key=lambda each: -each[0])[:_STALLS]:
        yield Attribution("stall", str(change), None, share, (change.before, change.after))


# --- lines


def _lines(account: Account, saved: float) -> Iterator[Attribution]:
    found = changed_lines(account.before, account.after)
    if isinstance(found, str):
        return
    for change in found[:_LINES]:
        yield _line(account, change, saved)


def _line(account: Account, change: LineChange, saved: float) -> Attribution:
    where = _where(change)
    before, after = (
        account.book.derived(
            f"{account.name} {side}: samples",
            Quantity(ns, "ns"),
            f"time at {where}, {side}",
            line=where,
        )
        for side, ns in (("before", change.before_ns), ("after", change.after_ns))
    )
    share = account.percent(f"share of {where}", "of the difference", change.fell, saved)
    place = (change.before, change.after)
    text = f"{where} {before} → {after}"
    code = "} (end of the function)" if change.code == "}" else change.code
    return Attribution("line", text, None, share, (before, after), None, place, where, code)


def _where(change: LineChange) -> str:
    one, other = (
        f"{file_name(place.file)}:{place.line}" if place else None
        for place in (change.before, change.after)
    )
    if one and other:
        return one if one == other else f"{one} → {other}"
    return f"{one} (gone)" if one else f"{other} (new)"


# --- numbers of the launch that changed


def _work(account: Account) -> Iterator[Attribution]:
    if len(account.before) != 1 or len(account.after) != 1:
        return
    for metric in _WORK:
        if account.whole_run and metric in _WITH_CACHES:
            continue
        change = _change_of(account, metric)
        if change and change.moved >= _MOVED:
            yield Attribution("work", str(change), None, None, (change.before, change.after))


def _change_of(account: Account, metric: str) -> Change | None:
    """Of one launch; of a run, amounts are those of all launches."""
    if account.whole_run and metric in _AMOUNTS:
        return account.summed(metric)
    one, other = (side[0].told.view.get(metric) for side in (account.before, account.after))
    return Change(one.label, one, other) if one and other else None
