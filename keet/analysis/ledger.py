"""The ledger of a launch: looks up its metrics, derives numbers from them, gives each an id.

All of them are `Evidence`, the numbers that a text may cite.

An id says what the number is and where it was measured: `l2_hit_rate_pct#0` is a metric of launch
0, `samples_share@flip.cu:31#0` belongs to one of its source lines. Ids do not depend on the order
in which numbers are looked up.

The id also says which part of the hardware a measured number is about. A model's reasons for a
cause have to be about what the finding rests on: that a grid has many blocks says nothing about
bank conflicts, however true it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import count
from operator import attrgetter
from typing import Literal

from keet.catalog import metric_named, metric_with_id, metrics
from keet.evidence import Evidence, slug_of
from keet.profile import Launch, Metric
from keet.units import Number, Quantity

_id_of = attrgetter("id")

OF_RUN = "run"
"""Scope of numbers about several launches of a report."""


def scope_in(report_scope: str, part: object) -> str:
    """The part of an id after `#`: `3` for launch 3, or `before.3` if `report_scope` distinguishes
    two reports."""
    return f"{report_scope}.{part}" if report_scope else str(part)


class Ledger:
    """Computed numbers. A number that is derived twice is entered once and has one id."""

    def __init__(self, scope: str = OF_RUN) -> None:
        """`scope`: what the numbers belong to; the part of their ids after `#`."""
        self.scope = scope
        self._behind = f"#{scope}"
        self._entries: dict[str | tuple[str, str], Evidence] = {}
        """By name, or by (name, line) for a number of one source line."""
        self._ids: set[str] = set()

    def derived(
        self,
        name: str,
        quantity: Quantity | Number,
        label: str,
        *sources: Evidence,
        unit: str = "",
        line: str | None = None,
    ) -> Evidence:
        """Enter a number that keet computed from others, or summed over the code of a line. `unit`:
        that of a plain number."""
        if not isinstance(quantity, Quantity):
            quantity = Quantity(quantity, unit)
        evidence = self._entries.get(name if line is None else (name, line))
        if evidence is None:
            ids = tuple(map(_id_of, sources)) or None
            slug = _slug_of_computed(name)
            evidence = self._add(slug, name, quantity.value, quantity.unit, label, line, ids)
        return evidence

    def share(
        self, name: str, part: float, label: str, *sources: Evidence, line: str | None = None
    ) -> Evidence:
        """Enter a share, 0 to 1, as a percentage."""
        return self.derived(name, 100 * part, label, *sources, unit="%", line=line)

    def numbers(
        self, prefix: str, *sources: Evidence, line: str | None = None
    ) -> Callable[..., Evidence]:
        """Enters numbers whose names begin with `prefix`: `enter(name, value, label, unit="",
        *more_sources)`."""

        def enter(
            name: str, value: Number, label: str, unit: str = "", *more: Evidence
        ) -> Evidence:
            name = f"{prefix}{name}"
            return self.derived(name, value, label, *sources, *more, unit=unit, line=line)

        return enter

    def ratio(self, name: str, label: str, over: Evidence, under: Evidence) -> Evidence | None:
        """`None` if `under` is 0: the ratio is unknown, not zero."""
        if not under.value:
            return None
        return self.derived(name, over.value / under.value, label, over, under)

    def percent(self, name: str, label: str, part: Evidence, whole: Evidence) -> Evidence | None:
        """A part as a percentage of a whole; `None` if the whole is 0."""
        if not whole.value:
            return None
        return self.derived(name, 100 * part.value / whole.value, label, part, whole, unit="%")

    def _add(  # noqa: PLR0913, PLR0917 - what evidence is made of
        self,
        slug: str,
        metric: str,
        value: Number,
        unit: str,
        label: str,
        line: str | None = None,
        derived_from: tuple[str, ...] | None = None,
    ) -> Evidence:
        base = slug if line is None else f"{slug}@{_plain_line(line)}"
        name = base + self._behind
        if name in self._ids:
            name = self._unused(base)
        # Same as `Evidence(...)` in half the time: a launch has hundreds.
        entry = tuple.__new__(Evidence, (name, metric, value, unit, label, line, derived_from))
        self._ids.add(name)
        self._entries[metric if line is None else (metric, line)] = entry
        return entry

    def _unused(self, name: str) -> str:
        """Names should be unique; if two slugs collide, their ids still differ."""
        others = (f"{name}_{number}#{self.scope}" for number in count(2))
        return next(other for other in others if other not in self._ids)

    def by_slug(self) -> Mapping[str, Evidence]:
        """All entries by their id without the part after `#`."""
        return {piece.slug: piece for piece in self}

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self._entries.values())


class LaunchLedger(Ledger):
    """The evidence of one launch: measured metrics, and numbers computed from them."""

    def __init__(self, launch: Launch, report_scope: str = "") -> None:
        super().__init__(scope_in(report_scope, launch.id))
        self.launch = launch
        self._measured: dict[str, Evidence | None] = {}
        self._named: dict[str, Evidence | None] = {}
        self.refused: set[str] = set()
        """Metrics that were requested but whose values can't be measurements (NaN, negative
        counts)."""

    def measured(self, metric_id: str) -> Evidence | None:
        """A metric of the catalog; None where the report has no value for it."""
        evidence = self._measured.get(metric_id)
        if evidence is None and metric_id not in self._measured:
            metric, number = self.launch.look_up(metric_id)
            label = metric_with_id(metric_id).label
            evidence = self._measured[metric_id] = self._enter(metric, number, metric_id, label)
        return evidence

    def named(self, name: str, label: str) -> Evidence | None:
        """A metric by ncu's own name, if the catalog has no id for it."""
        if name not in self._named:
            metric = self.launch.metric(name)
            self._named[name] = metric and self._enter(
                metric, metric.number, self._slug_of(name), label
            )
        return self._named[name]

    def look_up(self, slug: str) -> Evidence | None:
        """The entry with this slug; else the catalog metric of this id."""
        entered = next((piece for piece in self if piece.slug == slug), None)
        return entered if entered or slug not in metrics() else self.measured(slug)

    def _slug_of(self, name: str) -> str:
        """The catalog id of a metric. If a report has the metric under two of ncu's names, the id
        belongs to the one that `find` returns."""
        metric_id, is_preferred = _catalog_id(name)
        if metric_id is None or is_preferred:
            return metric_id or slug_of(name)
        metric = self.launch.find(metric_id)
        return metric_id if metric and metric.name == name else slug_of(name)

    def _enter(
        self, metric: Metric | None, number: Number | None, slug: str, label: str
    ) -> Evidence | None:
        """None for texts and for numbers that can't be measurements."""
        if metric is None or number is None:
            if metric is not None and metric.quantity is not None:
                self.refused.add(metric.name)
            return None
        name, _, unit = metric
        return self._entries.get(name) or self._add(slug, name, number, unit, label)

    def adopt(self, piece: Evidence) -> Evidence:
        """Add evidence about several launches that this launch cites; its id keeps its own
        scope."""
        key = piece.id if piece.line is None else (piece.id, piece.line)
        self._entries.setdefault(key, piece)
        return piece

    def entry_named(self, name: str) -> Evidence | None:
        """The existing entry with this name."""
        return self._entries.get(name)


# --- slugs: cached, as every launch has the same names


@lru_cache(maxsize=4096)
def _slug_of_computed(name: str) -> str:
    """A slug that is never the id of a catalog metric."""
    slug = slug_of(name)
    return f"{slug}_computed" if slug in metrics() else slug


@lru_cache(maxsize=4096)
def _catalog_id(name: str) -> tuple[str | None, bool]:
    """The catalog id for ncu's name of a metric, and whether it is the preferred name."""
    spec = metric_named(name)
    return (spec.id, spec.names[0] == name) if spec else (None, False)


def _plain_line(line: str) -> str:
    """`flip.cu:31` stays as it is; other characters of a file name are replaced. Two lines, as in
    `a.cu:3 → b.cu:5`, become `a.cu:3..b.cu:5`: names stay whole words so that they can be
    redacted."""
    return re.sub(r"[^\w.:+-]+", "_", re.sub(r" (?:→ |\()", "..", line)).strip("_")


Area = Literal[
    "dram", "l2", "slices", "global", "shared", "local", "atomics", "host", "memory waits",
    "barriers", "fetch", "waits", "instructions", "pipes", "fp64", "fma", "xu", "issue", "lanes",
    "occupancy", "grid", "waves", "balance", "time",
]  # fmt: skip
_AREAS: Mapping[Area, str] = {
    "dram": r"dram|hbm|device_misses|distinct|bytes_once|reads_per_byte|^mem_|^memory_thr",
    "l2": r"(?:^|_)(?:l2|lts)(?!_slice)|reads_per_byte",
    "slices": r"slice|hot_line",
    "global": r"global|(?:^|_)l1(?:_|tex)|sectors|access_width|widest|requested|lsu",
    "shared": r"(?:^|_)shared_(?!memory)|bank_conflict|wavefront|ldmatrix",
    "local": r"local|spill|stack_size",
    "atomics": r"atom|reduction|_cas_|(?:^|_)red(?:_|$)",
    "host": r"host|sysmem|syslts|pcie|nvlink|c2c|peer",
    "memory waits": r"(?:long|short)_scoreboard|(?:lg|mio)_throttle|drain|imc_miss",
    "barriers": r"(?<!_limit_)barrier|membar|(?:^|_)bar(?:_|$)|sync",
    "fetch": r"no_instruction|icc_|gcc_inst|program|function",
    "waits": r"stall|scoreboard|throttle|eligible|warp_cycles|latency|sample|wait",
    "instructions": r"inst|opcode|integer|division|overhead|address|conversion",
    "pipes": r"pipe|flop|tensor|idc|(?:^|_)(?:alu|fma|xu|lsu|adu|fp16|fp64)(?:_|$)|sm_thr",
    "fp64": r"fp64|d(?:add|mul|fma)|double|conversion",
    "fma": r"fma|tensor|fp16|fp32|flop",
    "xu": r"(?:^|_)xu|mufu|sfu",
    "issue": r"issue|ipc|inst_executed|sm_busy",
    "lanes": r"threads_(?:per|exec|unexec)|thread_inst|pred_|diverge|branch|lanes",
    "occupancy": r"occupancy|limit_|warps|registers|shared_memory|block_size",
    "grid": r"grid|sm_count|blocks|threads_launched",
    "waves": r"waves",
    "balance": r"evenness|active_cycles|longest|idle",
    "time": r"duration|launch|gap|elapsed|start",
}
"""Patterns: `re` keeps those that are used, and most commands use none."""


def areas_of(ids: Iterable[str]) -> frozenset[Area]:
    """`ids`: of evidence. What the device has (`device_sm_count`), what a model states and what
    keet forecasts was not measured of the launch: it is in no area."""
    slugs = {re.split(r"[@#]", name)[0] for name in ids}
    measured = [slug for slug in slugs if not slug.startswith(("device_", "claimed_", "forecast_"))]
    found = (area for slug in measured for area, of in _AREAS.items() if re.search(of, slug))
    return frozenset(found)
