"""The explained launches of a pair, and weighted sums of their numbers before and after.

A side may have several launches (fused kernels), each of which represents many (repetitions, a
whole run). So each number of a side is a weighted sum over its launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from keet.analysis.ledger import Ledger
from keet.catalog import metric_with_id
from keet.comparison.numbers import LaunchTimes, NumberChange
from keet.comparison.timing.weighting import RunDoubt
from keet.evidence import Evidence
from keet.explanation.explanation_types import LaunchExplanation
from keet.units import Quantity

_VOLUMES = {
    "DRAM": (("dram_bytes_read",), ("dram_bytes_written",)),
    "L2": (("l2_sectors",),),
    "L1": (
        ("global_load_sectors", "global_store_sectors"),
        ("shared_load_wavefronts", "shared_store_wavefronts"),
        ("local_load_sectors", "local_store_sectors"),
    ),
    "LSU": (
        ("shared_load_wavefronts", "shared_store_wavefronts"),
        ("global_load_requests", "global_store_requests"),
    ),
    "FMA": (("thread_inst_fp32",),),
    "ALU": (("thread_inst_integer",),),
    "FP64": (("thread_inst_fp64",),),
    "FP16": (("thread_inst_fp16",),),
    "XU": (("thread_inst_conversion",),),
    "issue": (("inst_executed_total",),),
}
"""Metrics that count the work of a unit; each tuple is summed."""
_LABELS = {
    "dram_bytes_read": "bytes read from DRAM",
    "dram_bytes_written": "bytes written to DRAM",
    "l2_sectors": "L2 sectors",
    "global_load_sectors": "sectors of global accesses",
    "shared_load_wavefronts": "shared-memory wavefronts",
    "local_load_sectors": "sectors of local memory",
    "global_load_requests": "requests of global accesses",
    "thread_inst_fp32": "FP32 thread instructions",
    "thread_inst_integer": "integer thread instructions",
    "thread_inst_fp64": "FP64 thread instructions",
    "thread_inst_fp16": "FP16 thread instructions",
    "thread_inst_conversion": "conversion thread instructions",
    "inst_executed_total": "warp instructions",
}


class WeightedLaunch(NamedTuple):
    """An explained launch, and how many launches it represents."""

    explanation: LaunchExplanation
    weight: float
    """Time of its kernel over the time of this launch."""
    volume: float | None
    """Work of its kernel over the work of this launch. None: not known, because launches of other
    shapes do other work."""
    alike: float | None = None
    """Share of the kernel's time in the run, 0 to 1, in launches between half and twice as long.
    None: not known, or there is no run table."""
    doubt: RunDoubt | None = None
    """Why this launch does not show what its kernel would save in the run."""

    @property
    def duration(self) -> Evidence | None:
        return self.explanation.view.get("duration")

    @property
    def time(self) -> float | None:
        """Nanoseconds of all launches that it represents; None: not measured."""
        return None if self.duration is None else self.weight * float(self.duration.value)


def longest_launch(launches: Sequence[WeightedLaunch]) -> WeightedLaunch:
    return max(launches, key=lambda each: each.weight * each.explanation.launch.rank_time)


Share = Callable[[WeightedLaunch], tuple[float, tuple[Evidence, ...]] | None]
"""Share of a launch's time, 0 to 1, and the evidence for it."""


class ExplainedPair:
    """Both sides of a pair, with a ledger for numbers that are computed from both."""

    def __init__(  # noqa: PLR0913 - what is known of a pair
        self,
        before: Sequence[WeightedLaunch],
        after: Sequence[WeightedLaunch],
        book: Ledger,
        name: str,
        *,
        whole_run: bool = False,
        launches: LaunchTimes | None = None,
    ) -> None:
        self.before, self.after = tuple(before), tuple(after)
        self.whole_run = whole_run
        """The launches represent launches of a run; launch counts may differ between the sides."""
        self.launches = launches
        """None: one launch is compared with one launch."""
        self.book = book
        self.name = name
        """Prefix of the pair's evidence ids."""

    @property
    def sides(self) -> tuple[tuple[str, tuple[WeightedLaunch, ...]], ...]:
        return ("before", self.before), ("after", self.after)

    # --- busy times of units

    def units(self) -> Iterator[tuple[str, NumberChange]]:
        """Busy time of each unit that was measured on both sides. Units work at the same time, so
        these times overlap."""
        names = dict.fromkeys(
            c.name
            for each in (*self.before, *self.after)
            for c in each.explanation.view.ceilings.ranked
        )
        for name in names:
            change = self._times(f"busy {name}", f"{name} busy", _busy_share(name))
            if change:
                yield name, change

    def busiest(self, unit: str) -> float:
        """The largest share of its peak that the unit reached in any launch, 0 to 1."""
        launches = (*self.before, *self.after)
        reached = (
            c.share
            for launch in launches
            for c in launch.explanation.view.ceilings.ranked
            if c.name == unit
        )
        return max(reached, default=0.0)

    def _times(self, what: str, label: str, share: Share) -> NumberChange | None:
        before, after = (
            self._time(side, launches, what, label, share) for side, launches in self.sides
        )
        return NumberChange(label, before, after) if before and after else None

    def _time(
        self, side: str, launches: Sequence[WeightedLaunch], what: str, label: str, share: Share
    ) -> Evidence | None:
        total, sources = 0.0, []
        for launch in launches:
            portion, duration, time = share(launch), launch.duration, launch.time
            if portion is None or duration is None or time is None:
                return None
            total += portion[0] * time
            sources += [*portion[1], duration]
        return self.time_entry(side, what, label, total, sources)

    # --- volumes

    def volumes(self, unit: str) -> list[NumberChange]:
        """What the unit moved or executed, if it was counted on both sides. For a run, DRAM traffic
        is not known, because ncu flushes the caches before each replay."""
        if self.whole_run and unit == "DRAM":
            return []
        changes = [self.summed(*metrics) for metrics in _VOLUMES.get(unit, ())]
        return [change for change in changes if change]

    def summed(self, *metric_ids: str) -> NumberChange | None:
        label = _LABELS.get(metric_ids[0]) or metric_with_id(metric_ids[0]).label
        before, after = (
            self._sum(side, launches, label, metric_ids) for side, launches in self.sides
        )
        return NumberChange(label, before, after) if before and after else None

    def _sum(
        self, side: str, launches: Sequence[WeightedLaunch], label: str, metric_ids: Sequence[str]
    ) -> Evidence | None:
        total, sources = 0.0, []
        for launch in launches:
            numbers = [launch.explanation.view.get(metric) for metric in metric_ids]
            known = [number for number in numbers if number is not None]
            if len(known) != len(metric_ids) or launch.volume is None:
                return None
            total += launch.volume * sum(float(number.value) for number in known)
            sources += known
        if len(sources) == 1 and total == sources[0].value:
            return sources[0]
        unit = metric_with_id(metric_ids[0]).unit
        return self._entry(side, "+".join(metric_ids), Quantity(total, unit), label, sources)

    # --- evidence

    def time_entry(
        self, side: str, what: str, label: str, ns: float, sources: Sequence[Evidence]
    ) -> Evidence:
        whole = ns if ns >= 1 else 0.0  # rounding errors of sums
        return self._entry(side, what, Quantity(whole, "ns"), label, sources)

    def _entry(
        self, side: str, what: str, amount: Quantity, label: str, sources: Sequence[Evidence]
    ) -> Evidence:
        name = f"{self.name} {side}: {what}"
        return self.book.derived(name, amount, f"{label}, {side}", *sources)

    def percent(
        self, what: str, label: str, part: float, whole: float, line: str | None = None
    ) -> Evidence | None:
        """A share of the time that was saved or lost."""
        if not whole:
            return None
        share = Quantity(100 * part / whole, "%")
        return self.book.derived(f"{self.name}: {what}", share, label, line=line)


def _busy_share(unit: str) -> Share:
    def share(each: WeightedLaunch) -> tuple[float, tuple[Evidence, ...]] | None:
        ceiling = next((c for c in each.explanation.view.ceilings.ranked if c.name == unit), None)
        # A share above 100 % comes from clocks that differ between passes: no unit is busy for
        # longer than the launch takes.
        return (min(1.0, ceiling.share), (ceiling.reached,)) if ceiling else None

    return share
