"""What accounts for the difference in time: findings, parts of the account, units, source lines.

A finding's share is an estimate: its forecast cost before minus its forecast cost after. The parts
of the account add up to the difference; busy times of units overlap. All shares are of the
difference in time; a negative share changed in the opposite direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from keet.comparison.causes.account_changes import PartChange, leading_parts
from keet.comparison.causes.explained_pair import ExplainedPair
from keet.comparison.causes.finding_changes import changed_findings
from keet.comparison.causes.line_changes import LineChange, LineCost, changed_lines, sampled_time
from keet.comparison.numbers import NumberChange
from keet.comparison.timing.pair_timing import Timing
from keet.documents.diff import AttributionDocument, AttributionKind, How
from keet.documents.document import live
from keet.evidence import Evidence, Reference, Sentence
from keet.profile.launch import file_name
from keet.units import Quantity

_CAUSES, _PARTS, _UNITS, _LINES = 3, 4, 2, 4
_LEAST_SHARE = 0.1
"""Smallest share of the difference that is reported."""
_BUSY = {"DRAM": 0.4, "L2": 0.4, "L1": 0.4}
"""Share of its peak that a unit must reach on a side to be reported. Lower for memories, whose
latency grows long before their bandwidth limit."""
_BUSY_PIPE = 0.6
_MUCH = 0.3
"""Relative change of executed instructions from which it is listed as a cause."""
_MOVED = 0.1
"""Smallest relative change of a number that is reported."""
_WORK = ("inst_executed_total", "registers_per_thread", "achieved_occupancy_pct",
         "dram_bytes_read", "dram_bytes_written", "l2_sectors")  # fmt: skip
_AMOUNTS = ("inst_executed_total", "l2_sectors")
"""Summed over a run. Not DRAM traffic: ncu flushes the caches before each replay, so launches of a
run may find in L2 what each replay reads from DRAM."""
_WITH_CACHES = ("dram_bytes_read", "dram_bytes_written")


class Attribution(AttributionDocument):
    """One thing that accounts for the difference."""

    percent: Evidence | None = live()
    """`share` in per cent."""
    where: str = live(default="")
    """The place as text; `what` begins with it."""
    samples: tuple[int, int] | None = live(default=None)
    """Samples of a line, before and after."""

    @property
    def numbers(self) -> list[Evidence]:
        """Its evidence without the share."""
        return [each for each in self.evidence if each is not self.percent]


def _attribution(  # noqa: PLR0913 - what an attribution is made of
    kind: AttributionKind,
    what: Sentence,
    evidence: Sequence[Evidence],
    *,
    percent: Evidence | None = None,
    unit: str | None = None,
    finding: str | None = None,
) -> Attribution:
    return Attribution(
        kind=kind,
        what=what,
        unit=unit,
        share=float(percent.value) / 100 if percent else None,
        finding=finding,
        before=None,
        after=None,
        code=None,
        evidence=[*evidence, *([percent] if percent else [])],
        percent=percent,
    )


def attribute(
    sides: ExplainedPair,
    timing: Timing,
    how: How,
    account: Sequence[PartChange],
    *,
    splits: bool = True,
) -> Iterator[Attribution]:
    """`splits`: the split of the time under replay also applies to the run."""
    changed = timing.word in ("faster", "slower")
    saved = timing.saved if changed else 0.0
    reported = [*_fusion(sides, how), *_causes(sides, saved), *_less_work(sides, timing)]
    if changed and splits:
        reported += [*_units(sides, account, saved), *_lines(sides, saved)]
    yield from reported
    cited = {evidence.id for each in reported for evidence in each.evidence}
    yield from (each for each in _work(sides) if cited.isdisjoint(e.id for e in each.evidence))


# --- kernels that became one, or several


def _fusion(sides: ExplainedPair, how: How) -> Iterator[Attribution]:
    if how not in ("fused", "split"):
        return
    moved = [volume for unit in ("DRAM", "L2") for volume in sides.volumes(unit)]
    moved = [volume for volume in moved if volume.moved >= _MOVED][:2]
    word = Sentence("fused into one kernel" if how == "fused" else "split into several kernels")
    numbers = Sentence("; ").join(volume.text for volume in moved)
    text = Sentence("{word}: {numbers}", word=word, numbers=numbers) if numbers else word
    yield _attribution("fusion", text, [each for volume in moved for each in volume.evidence])


# --- causes


def _causes(sides: ExplainedPair, saved: float) -> Iterator[Attribution]:
    reported = 0
    for cause in changed_findings(sides):
        # Forecasts are estimates: limit the share to 100 %.
        most = max(-abs(saved), min(abs(saved), cause.saved))
        share = sides.percent(f"share of {cause.id}", "of the difference (estimated)", most, saved)
        if (share.value < 100 * _LEAST_SHARE) if share is not None else not cause.worth:
            continue
        if reported and not cause.worth:
            return  # minor findings are listed only if there is no larger one
        shown = cause.shown_by
        yield _attribution(
            "cause",
            Sentence(
                "{label}: {became}{shown}",
                label=cause.label,
                became=cause.became,
                shown=Sentence("; {shown}", shown=shown.text) if shown else "",
            ),
            shown.evidence if shown else (),
            percent=share,
            unit=cause.on.explanation.verdict.limiter or "unknown",
            finding=cause.id,
        )
        reported += 1
        if reported == _CAUSES:
            return


def _less_work(sides: ExplainedPair, timing: Timing) -> Iterator[Attribution]:
    """Fewer or more executed instructions, without a share: no counter says how much time they
    cost."""
    change = sides.summed("inst_executed_total")
    if change is None or change.moved < _MUCH or change.fell * timing.saved <= 0:
        return
    word = "fewer" if change.fell > 0 else "more"
    text = Sentence("{word} instructions: {change}", word=word, change=change.text)
    yield _attribution("cause", text, change.evidence, unit="issue")


# --- parts of the account, and units that none of them names


def _units(
    sides: ExplainedPair, account: Sequence[PartChange], saved: float
) -> Iterator[Attribution]:
    reported = _Units(sides)
    yield from reported.parts(account)
    yield from reported.busy(saved)


class _Units:
    """Reports each unit and each count once."""

    def __init__(self, sides: ExplainedPair) -> None:
        self._sides = sides
        self._times = dict(sides.units())
        self._reported: set[str] = set()

    def parts(self, account: Sequence[PartChange]) -> Iterator[Attribution]:
        leading = leading_parts(account, 100 * _LEAST_SHARE)
        names = {name.lower().replace(" ", "_"): name for name in self._times}
        for part in sorted(leading, key=lambda part: -abs(part.time.fell))[:_PARTS]:
            _, is_busy, slug = part.id.rpartition("busy.")
            busy = names.get(slug) if is_busy else None
            moved = self._volumes(busy, part.time) if busy else []
            unit = "issue" if part.id.startswith("issuing") else busy
            yield self._report("account", part.text, unit, part.percent, [part.time, *moved])

    def busy(self, saved: float) -> Iterator[Attribution]:
        busier = []
        for unit, change in self._times.items():
            is_busy = self._sides.busiest(unit) >= _BUSY.get(unit, _BUSY_PIPE)
            share = self._sides.percent(f"share of {unit}", "of the difference", change.fell, saved)
            large = share is not None and abs(share.value) >= 100 * _LEAST_SHARE
            if unit not in self._reported and is_busy and large:
                busier.append((unit, change, share))
        for unit, change, share in sorted(busier, key=lambda each: -abs(each[1].fell))[:_UNITS]:
            moved = self._volumes(unit, change)
            yield self._report("unit", change.text, unit, share, [change, *moved])

    def _volumes(self, unit: str, time: NumberChange) -> list[NumberChange]:
        """What the unit had to do: counts that changed in the same direction as the time."""
        volumes = [
            volume
            for volume in self._sides.volumes(unit)
            if volume.fell * time.fell > 0
            and volume.moved >= _MOVED
            and volume.label not in self._reported
        ]
        return sorted(volumes, key=lambda volume: -volume.moved)[:2]

    def _report(
        self,
        kind: AttributionKind,
        what: Sentence,
        unit: str | None,
        share: Evidence | None,
        shown: list[NumberChange],
    ) -> Attribution:
        self._reported |= {unit or "", *(volume.label for volume in shown[1:])}
        text = Sentence(", ").join((what, *(volume.text for volume in shown[1:])))
        evidence = [each for change in shown for each in change.evidence]
        return _attribution(kind, text, evidence, percent=share, unit=unit)


# --- lines


def _lines(sides: ExplainedPair, saved: float) -> Iterator[Attribution]:
    changes = changed_lines(sides.before, sides.after)
    if isinstance(changes, str):
        return
    for change in changes[:_LINES]:
        yield _line(sides, change, saved)


def _line(sides: ExplainedPair, change: LineChange, saved: float) -> Attribution:
    where = _where(change)
    before, after = (
        sides.book.derived(
            f"{sides.name} {side}: samples",
            Quantity(ns, "ns"),
            f"time at {where}, {side}",
            line=where,
        )
        for side, (ns, *_) in zip(("before", "after"), change.costs, strict=True)
    )
    bounds = [
        _bound(sides, side, most, where)
        for side, most in zip(("before", "after"), change.most, strict=True)
    ]
    times = map(_time_text, change.costs, (before, after), bounds)
    what = Sentence("{where} {times}", where=where, times=Sentence(" → ").join(times))
    share = sides.percent("share", "of the difference", change.fell, saved, line=where)
    code = "} (end of the function)" if change.code == "}" else change.code
    return replace(
        _attribution("line", what, [before, after, *filter(None, bounds)], percent=share),
        before=change.before,
        after=change.after,
        code=code or None,
        where=where,
        samples=(change.costs[0].samples, change.costs[1].samples),
    )


def _bound(sides: ExplainedPair, side: str, most: float | None, where: str) -> Evidence | None:
    """Upper bound for a side where no sample hit the line."""
    if most is None:
        return None
    return sides.book.derived(
        f"{sides.name} {side}: samples, at most",
        Quantity(most, "ns"),
        f"most time at {where} that no sample rules out, {side} (3 samples' worth)",
        line=where,
    )


def _time_text(cost: LineCost, time: Evidence, bound: Evidence | None) -> Sentence:
    if bound is not None:
        most = Reference(sampled_time(float(bound.value)), (bound.id,))
        return Sentence.of(("below about ", most))
    return Sentence.of((Reference(sampled_time(cost.ns, cost.deviation), (time.id,)),))


def _where(change: LineChange) -> str:
    one, other = (
        f"{file_name(place.file)}:{place.line}" if place else None
        for place in (change.before, change.after)
    )
    if one and other:
        return one if one == other else f"{one} → {other}"
    return f"{one} (gone)" if one else f"{other} (new)"


# --- numbers of the launch that changed


def _work(sides: ExplainedPair) -> Iterator[Attribution]:
    if len(sides.before) != 1 or len(sides.after) != 1:
        return
    for metric in _WORK:
        if sides.whole_run and metric in _WITH_CACHES:
            continue
        change = _change_of(sides, metric)
        if change and change.moved >= _MOVED:
            yield _attribution("work", change.text, change.evidence)


def _change_of(sides: ExplainedPair, metric: str) -> NumberChange | None:
    """Of one launch; for a run, amounts are summed over all launches."""
    if sides.whole_run and metric in _AMOUNTS:
        return sides.summed(metric)
    one, other = (side[0].explanation.view.get(metric) for side in (sides.before, sides.after))
    return NumberChange(one.label, one, other) if one and other else None
