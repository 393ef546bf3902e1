"""What a launch does beyond what is needed, the largest first: the short list of `explain`.

The time of an excess is what the finding about it would save, by the same effect on units and
waiting: bytes that L1 delivers again cost nothing while the issue slots set the pace. Excesses of
the same kind, such as several arrays, share that time by their size. What saves no time is no
excess, but for bytes that DRAM moves again and again: another design does not need them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.amounts.accesses import line_accesses, place_of
from keet.analysis.amounts.arrays import arrays
from keet.analysis.amounts.items import item_of, per_item
from keet.analysis.amounts.loops import loop_label, loops
from keet.analysis.amounts.serial_loads import serial_loads
from keet.analysis.amounts.units import unit_parts
from keet.analysis.kernel.archetype import is_debug_build
from keet.analysis.kernel.resident_warps import does_nothing
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.limits import MAJORITY, READ_AGAIN, SAVED_PART
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.diagnosis import causes
from keet.documents.amounts import ArrayDocument, ExcessDocument, LineAccessDocument, LoopAmounts
from keet.evidence import Sentence
from keet.profile import Location

_LEVELS = {
    "dram_bytes": ("", "passes"),
    "l2_bytes": ("l2", "passes"),
    "l1_bytes": ("l1", "fragments"),
}
"""Variants of redundant traffic by the level that delivers bytes again: fields of an array."""

_SPREAD = {"uncoalesced_global": "sectors", "shared_bank_conflict": "wavefronts"}
"""Findings about accesses that are spread too far, and the field of an access that they lower."""


@cached_per_view
def excesses(view: LaunchView) -> tuple[ExcessDocument, ...]:
    if view.code is None or is_debug_build(view) or does_nothing(view):
        return ()
    costs = _Costs(view)
    found = [
        *_arrays(costs),
        *_accesses(costs),
        *_local(costs),
        *_loops(costs),
        *_serial(costs),
        *_instructions(costs),
    ]
    return tuple(sorted(found, key=lambda each: -(each.us or 0.0)))


class _Costs:
    """The share of the launch's time that fixes would save."""

    def __init__(self, view: LaunchView) -> None:
        self.view = view
        self.model = TimeModel(view)
        self.worth = causes(view)

    def saved(self, name: str, variants: Sequence[str] | None = None) -> float:
        gains = (
            each.possible
            for each in self.worth
            if each.id == name and (variants is None or each.variant in variants)
        )
        return 1 - 1 / max(gains, default=1.0)

    def us(self, part: float) -> float | None:
        duration = self.view.value("duration")
        return duration / 1e3 * part if duration else None


def _arrays(costs: _Costs) -> Iterator[ExcessDocument]:
    """Bytes that a level delivers again."""
    every = [array for array in arrays(costs.view) if array.distinct_bytes is not None]
    parts = dict.fromkeys(range(len(every)), 0.0)
    for level, variants in _LEVELS.items():
        saved = costs.saved("redundant_traffic", variants)
        again = [_again(array, level) for array in every]
        if saved and (total := sum(again)):
            for at, own in enumerate(again):
                parts[at] = max(parts[at], saved * own / total)
    for at, array in enumerate(every):
        part = max(parts[at], _busy(costs.view, "DRAM") * _repeated_share(array, every))
        is_again = (array.times or 1.0) >= READ_AGAIN * _needed(array)
        if is_again and (part >= SAVED_PART or _is_moved_again(array, every)):
            yield _array(array, costs.us(part))


def _busy(view: LaunchView, unit: str) -> float:
    return min(1.0, view.ceilings.share(unit) or 0.0)


def _repeated_share(array: ArrayDocument, every: Sequence[ArrayDocument]) -> float:
    """Of all bytes of DRAM: those that it moves again for the array."""
    moved = sum(each.dram_bytes or 0.0 for each in every)
    return _again(array, "dram_bytes") / moved if moved else 0.0


def _is_moved_again(array: ArrayDocument, every: Sequence[ArrayDocument]) -> bool:
    """Whether most of what DRAM moves are bytes of the array that it moved before: that asks for
    another design, also if no unit is saturated."""
    return _repeated_share(array, every) >= MAJORITY


def _again(array: ArrayDocument, level: str) -> float:
    """Bytes that a level moves and had moved before."""
    once = _needed(array) * (array.distinct_bytes or 0.0)
    return max(0.0, (getattr(array, level) or 0.0) - once)


def _needed(array: ArrayDocument) -> int:
    """How often each byte has to be moved: an array that is updated is read and written."""
    return 2 if array.access == "updated" else 1


def _array(array: ArrayDocument, us: float | None) -> ExcessDocument:
    return ExcessDocument(
        id=f"array.{array.name}",
        label=array.name,
        us=us,
        places=array.lines,
        text=array.text,
        evidence=array.evidence,
    )


def _accesses(costs: _Costs) -> Iterator[ExcessDocument]:
    """Sectors and wavefronts beyond those that the accessed bytes fill. Lines with as many of them
    are one row."""
    rows = line_accesses(costs.view)
    for finding, cost in _SPREAD.items():
        saved = costs.saved(finding)
        extra = {id(row): _beyond(row, cost) for row in rows} if saved >= SAVED_PART else {}
        groups: dict[str, list[LineAccessDocument]] = {}
        for row in rows:
            if extra.get(id(row)):
                groups.setdefault(row.text, []).append(row)
        parts = {text: sum(extra[id(row)] for row in own) for text, own in groups.items()}
        for text, own in groups.items():
            part = saved * parts[text] / sum(parts.values())
            if part >= SAVED_PART or parts[text] == max(parts.values()):
                yield _spread(own, costs.us(part))


def _spread(rows: Sequence[LineAccessDocument], us: float | None) -> ExcessDocument:
    first = place_of(rows[0])
    label = f"{first}, …" if len(rows) > 1 else first
    places = (Location(row.file, row.line) for row in rows if row.file and row.line)
    text = rows[0].text
    if len(rows) > 1:
        text = Sentence("at each line {text}", text=rows[0].text)
    return ExcessDocument(
        id=f"access.{first}",
        label=label,
        us=us,
        places=tuple(dict.fromkeys(places)),
        text=text,
        evidence=rows[0].evidence,
    )


def _beyond(row: LineAccessDocument, cost: str) -> float:
    """Sectors or wavefronts of all warps that are not needed."""
    done, needed = getattr(row, cost), getattr(row, f"{cost}_needed")
    return 0.0 if done is None or needed is None else row.executed * max(0.0, done - needed)


def _local(costs: _Costs) -> Iterator[ExcessDocument]:
    """Local memory: spilled registers, and arrays of a thread that are not in registers."""
    saved = costs.saved("local_memory_spill")
    parts = [each for each in unit_parts(costs.view) if saved and each.part == "local memory"]
    if parts:
        most = max(parts, key=lambda each: (each.share_pct, each.unit))
        yield ExcessDocument(
            id="local_memory",
            label="local memory",
            us=costs.us(saved),
            places=(),
            text=Sentence("{text}, in {unit}", text=most.text, unit=most.unit),
            evidence=most.evidence,
        )


def _loops(costs: _Costs) -> Iterator[ExcessDocument]:
    """Work that does not depend on a loop."""
    every = [loop for loop in loops(costs.view) if loop.invariant]
    bytes_of = [_loaded_again(loop) for loop in every]
    for loop, loaded in zip(every, bytes_of):
        part = max(
            costs.saved("redundant_traffic", ("loop",)) * loaded / (sum(bytes_of) or 1.0),
            costs.saved("redundant_traffic", _LEVELS["l1_bytes"]) * loaded,
        )
        if part >= SAVED_PART or loaded >= MAJORITY:
            lines = (line for each in loop.invariant for line in each.lines)
            yield _loop(loop, costs.us(part), tuple(dict.fromkeys(lines)))


def _loaded_again(loop: LoopAmounts) -> float:
    """Share of the launch's requested bytes, 0 to 1."""
    return sum((each.share_pct or 0.0) / 100 for each in loop.invariant if each.kind == "load")


def _loop(loop: LoopAmounts, us: float | None, lines: tuple[Location, ...]) -> ExcessDocument:
    return ExcessDocument(
        id=f"loop.{loop.line}",
        label=loop_label(loop.line),
        us=us,
        places=lines,
        text=loop.text,
        evidence=loop.evidence,
    )


def _serial(costs: _Costs) -> Iterator[ExcessDocument]:
    saved = costs.saved("latency_bound")
    found = serial_loads(costs.view) if saved else None
    if found is None:
        return
    sooner = Effect(every_wait=1 - found.avoidable_pct / 100)
    part = min(saved, 1 - 1 / costs.model.gain(sooner))
    if part < SAVED_PART:
        return
    avoidable = [trip for trip in found.trips if trip.is_avoidable]
    places = [Location(trip.file, trip.line) for trip in avoidable if trip.file and trip.line]
    yield ExcessDocument(
        id="serial_loads",
        label="serial loads",
        us=costs.us(part),
        places=tuple(dict.fromkeys(places)),
        text=found.text,
        evidence=found.evidence,
    )


def _instructions(costs: _Costs) -> Iterator[ExcessDocument]:
    """Instructions that neither compute with data nor move it."""
    saved = max(costs.saved("integer_overhead"), costs.saved("pipe_saturated", ("issue",)))
    item = item_of(costs.view) if saved else None
    rows = {row.id: row for row in per_item(costs.view, item)} if item else {}
    if "instructions" not in rows:
        return
    yield ExcessDocument(
        id="per_item",
        label="per item",
        us=costs.us(saved),
        places=(),
        text=rows["instructions"].text,
        evidence=rows["instructions"].evidence,
    )
