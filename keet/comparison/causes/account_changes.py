"""The difference of two accounts: the time of each part of a pair, before and after.

Each explained launch has an account (`keet.analysis.account`) whose parts add up to its time. The
time of a part on a side is the sum over the side's launches, so the differences of all parts add up
to the time that was saved or lost. Accounts are as detailed as their reports: a part is split
further only if every launch of both sides splits it in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from keet.analysis.account import UNKNOWN, TimePart
from keet.comparison.causes.explained_pair import ExplainedPair, WeightedLaunch
from keet.comparison.numbers import NumberChange
from keet.comparison.timing.pair_timing import Timing
from keet.documents.diff import PartChangeDocument
from keet.documents.document import live
from keet.evidence import Evidence, Sentence

_STATES = "warp states"
_IDLE, _ACTIVE, _ISSUING, _WAITING, _REST = "idle", "active", "issuing", "waiting", "rest"
_INSTRUCTIONS = "issuing.instructions"
_COARSE = {
    _IDLE: "SMs idle: launch, last wave or uneven work",
    _ACTIVE: "SMs active",
    _REST: "SMs idle, or their schedulers without a warp that could issue",
    _INSTRUCTIONS: "instructions",
}
"""Labels of parts that are compared as a whole because one side does not split them."""

_WITHIN = {_IDLE: "SMs idle", _ISSUING: "issuing instructions", _WAITING: "waiting"}


class PartChange(PartChangeDocument):
    """A part of the time, before and after."""

    children: Sequence[PartChange]
    time: NumberChange = live()
    percent: Evidence | None = live()
    """`share` in per cent."""

    @property
    def text(self) -> Sentence:
        """With the label of the outer part, if its own label does not contain it."""
        label, (within, *inner) = self.part, self.id.split(".")
        known = _WITHIN.get(within) if inner else None
        if known is not None and not label.startswith(known):
            label = f"{known}: {label}"
        label = f"{label}{',' if ': ' in label else ':'}"
        why = f" (not split further: {self.not_split})" if self.not_split else ""
        return Sentence("{label} {numbers}{why}", label=label, numbers=self.time.numbers, why=why)


def account_changes(
    sides: ExplainedPair, timing: Timing, *, changed: bool
) -> tuple[PartChange, ...]:
    """The outermost parts, the largest change first. Empty if a launch has no duration or the two
    accounts have no split in common. `changed`: the time changed, so shares of it are computed."""
    if not (sides.before and sides.after) or not _is_finite(sides):
        return ()
    changes = _AccountComparison(sides, timing, changed=changed).parts()
    leaves = (each for part in changes for each in part.children or (part,))
    known = any(each.id.rpartition(".")[2] != UNKNOWN for each in leaves)
    return changes if known and (len(changes) > 1 or len(changes[0].children) > 1) else ()


def leading_parts(account: Iterable[PartChange], least: float) -> Iterator[PartChange]:
    """The innermost parts with at least `least` per cent of the difference; a part itself if all
    its children are smaller."""
    for part in account:
        large = [child for child in part.children if _weight(child) >= least]
        yield from large or ([part] if _weight(part) >= least else [])


def _weight(part: PartChange) -> float:
    return abs(float(part.percent.value)) if part.percent else 0.0


def _is_finite(sides: ExplainedPair) -> bool:
    launches = (*sides.before, *sides.after)
    shares = (p.percent.value for launch in launches for p in launch.explanation.account.all())
    return all(map(math.isfinite, (*shares, *(launch.time or math.nan for launch in launches))))


# --- how accounts split the time


def _tells_idle(each: WeightedLaunch) -> bool:
    view = each.explanation.view
    return view.get("sm_active_cycles") is not None and bool(view.value("elapsed_cycles"))


def _tells_launch(each: WeightedLaunch) -> bool:
    return _tells_idle(each) and bool(each.explanation.view.value("sm_active_cycles_max"))


def _tells_issuing(each: WeightedLaunch) -> bool:
    return each.explanation.view.ceilings.reached("issue") is not None


def _tells_states(each: WeightedLaunch) -> bool:
    return bool(each.explanation.view.stalls)


def _tells_lanes(each: WeightedLaunch) -> bool:
    return (each.explanation.view.value("active_threads_per_warp") or 0) > 0


def _purpose(each: WeightedLaunch) -> str:
    view = each.explanation.view
    return "machine code" if view.code is not None else "opcodes" if view.opcodes else ""


def _waits(each: WeightedLaunch) -> str:
    """Without warp states, an account names only the busiest unit; waiting for other units is then
    unattributed, not zero."""
    if _tells_issuing(each) and _tells_states(each):
        return _STATES
    account = each.explanation.account
    parts = (part for name in (_WAITING, _ACTIVE) if (part := account.part(name)))
    return " ".join(c.id for part in parts for c in part.children if not c.id.endswith(UNKNOWN))


_SPLITS: Mapping[str, Callable[[WeightedLaunch], object]] = {
    "idle": _tells_idle,  # idle SMs are separate from active ones
    "launch": _tells_launch,  # launch and drain, from SMs that are idle while others work
    "issuing": _tells_issuing,
    "lanes": _tells_lanes,  # inactive lanes, from those that execute an instruction
    "purpose": _purpose,  # what issued instructions are for
    "waits": _waits,  # what schedulers wait for
}
"""How an account may split the time. What each split is based on: false if it is not made."""


# --- sums of parts


class _Sum:
    """The time of a part on both sides."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.ns = {"before": 0.0, "after": 0.0}
        self.sources: dict[str, list[Evidence]] = {"before": [], "after": []}

    def add(self, side: str, ns: float, *sources: Evidence) -> None:
        self.ns[side] += ns
        self.sources[side] += sources


class _AccountComparison:
    def __init__(self, sides: ExplainedPair, timing: Timing, *, changed: bool) -> None:
        self._sides = sides
        self._saved = timing.saved if changed else 0.0
        self._times = {"before": timing.before, "after": timing.after}
        launches = (*sides.before, *sides.after)
        self._unlike = {
            split
            for split, basis_of in _SPLITS.items()
            if len({basis_of(launch) for launch in launches}) > 1
        }
        """Splits that not all accounts make in the same way."""
        self._tops: dict[str, _Sum] = {}
        self._children: dict[str, dict[str, _Sum]] = {}

    def parts(self) -> tuple[PartChange, ...]:
        for side, launches in self._sides.sides:
            scale = self._scale(side, launches)
            for launch in launches:
                self._add(side, launch, scale)
        return tuple(
            self._change(
                name,
                whole,
                tuple(self._change(*part) for part in _by_change(self._children.get(name, {}))),
                self._not_split(name),
            )
            for name, whole in _by_change(self._tops)
        )

    def _scale(self, side: str, launches: Sequence[WeightedLaunch]) -> float:
        """The explained launches are those of the first capture; with several captures, the time of
        the pair is an average."""
        own, whole = sum(launch.time or 0.0 for launch in launches), self._times[side]
        return whole / own if whole and own else 1.0

    def _add(self, side: str, each: WeightedLaunch, scale: float) -> None:
        time, duration = each.time, each.duration
        if time is None or duration is None:
            return
        ns = scale * time / 100  # shares are per cent
        for part in each.explanation.account:
            top = self._top(part.id)
            label = _COARSE[top] if self._is_coarse(top) else part.part
            whole = self._tops.setdefault(top, _Sum(label))
            whole.add(side, ns * part.percent.value, part.percent, duration)
            for child in part.children:
                if name := self._child(part, child):
                    label = _COARSE[name] if name != child.id else child.part
                    split = self._children.setdefault(top, {}).setdefault(name, _Sum(label))
                    split.add(side, ns * child.percent.value, child.percent, duration)

    def _top(self, part_id: str) -> str:
        """The outermost part that it belongs to in the comparison."""
        name = part_id
        if name == "launch" and "launch" in self._unlike:
            name = _IDLE
        if name in (_ISSUING, _WAITING) and "issuing" in self._unlike:
            name = _ACTIVE
        return _REST if "idle" in self._unlike and name != _ISSUING else name

    def _is_coarse(self, top: str) -> bool:
        split = {_IDLE: "launch", _ACTIVE: "issuing"}.get(top)
        return top == _REST or split in self._unlike

    def _child(self, part: TimePart, child: TimePart) -> str | None:
        """The inner part that it belongs to in the comparison; None: it is not split."""
        if self._is_coarse(self._top(part.id)):
            return None
        if part.id in (_WAITING, _ACTIVE):
            return None if "waits" in self._unlike else child.id
        if part.id == _ISSUING and "lanes" in self._unlike:
            return None
        if part.id == _ISSUING and "purpose" in self._unlike:
            return child.id if child.id.endswith("lanes_off") else _INSTRUCTIONS
        return child.id

    def _change(
        self, name: str, total: _Sum, children: Sequence[PartChange] = (), not_split: str = ""
    ) -> PartChange:
        what = f"account {name}"
        before, after = (
            self._sides.time_entry(
                side, what, total.label, total.ns[side], total.sources[side] or _durations(launches)
            )
            for side, launches in self._sides.sides
        )
        change = NumberChange(total.label, before, after)
        share = self._sides.percent(
            f"share of {what}", "of the difference", change.fell, self._saved
        )
        before_us, after_us = (float(each.value) / 1e3 for each in change.evidence)
        return PartChange(
            id=name,
            part=total.label,
            before_us=before_us,
            after_us=after_us,
            change_us=after_us - before_us,
            share=float(share.value) / 100 if share else None,
            not_split=not_split or None,
            evidence=[*change.evidence, *([share] if share else [])],
            children=children,
            time=change,
            percent=share,
        )

    # --- why a part has no children

    def _not_split(self, top: str) -> str:
        split, what, tells = _NEEDS.get(top, ("", "", _tells_idle))
        if split in self._unlike:
            sides = self._sides.sides
            lacking = [side for side, launches in sides if not all(map(tells, launches))]
            one = len(lacking) == 1
            return f"the report {lacking[0]} lacks {what}" if one else f"both reports lack {what}"
        unlike = top == _ISSUING and "purpose" in self._unlike
        return "the machine code was not analysed on both sides" if unlike else ""


_NEEDS = {
    _REST: ("idle", "a count of active cycles", _tells_idle),
    _IDLE: ("launch", "the active cycles of the longest SM", _tells_launch),
    _ACTIVE: ("waits", "a count of issue slots", _tells_issuing),
    _WAITING: ("waits", _STATES, _tells_states),
    _ISSUING: ("lanes", "a count of active threads", _tells_lanes),
}
"""What splits a part, and what the report must have for it."""


def _durations(launches: Sequence[WeightedLaunch]) -> list[Evidence]:
    """Evidence for a time of zero: the accounts of these launches have no such part."""
    return [launch.duration for launch in launches if launch.duration is not None]


def _by_change(sums: dict[str, _Sum]) -> list[tuple[str, _Sum]]:
    return sorted(sums.items(), key=lambda item: -abs(item[1].ns["before"] - item[1].ns["after"]))
