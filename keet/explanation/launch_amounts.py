"""All amounts of one launch, put together, and the document of `keet amounts`.

The short list of `explain` is what a launch does beyond what is needed, the largest first.

The time of an excess is what the finding about it would save, by the same effect on units and
waiting: bytes that L1 delivers again cost nothing while the issue slots set the pace. Excesses of
the same kind, such as several arrays, share that time by their size. What saves no time is no
excess, but for bytes that DRAM moves again and again: another design does not need them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from keet.analysis.amounts.accesses import line_accesses, place_of, serial_loads
from keet.analysis.amounts.arrays import arrays
from keet.analysis.amounts.conditions import conditions
from keet.analysis.amounts.items import item_of, per_item
from keet.analysis.amounts.loops import loop_label, loops
from keet.analysis.amounts.phases import phases
from keet.analysis.amounts.resources import bounds, resources
from keet.analysis.amounts.units import unit_parts, unit_uses
from keet.analysis.archetype import is_debug_build
from keet.analysis.coverage import report_document
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.ledger import Ledger
from keet.analysis.machine_code.analyses.footprints import MANY_ENTRIES
from keet.analysis.parallelism.resident_warps import does_nothing
from keet.analysis.parameters import MAJORITY, READ_AGAIN, SAME_COUNT, SAVED_PART
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.diagnosis import causes
from keet.documents.amounts import (
    AmountsDocument,
    AmountsLaunch,
    AmountText,
    ArrayDocument,
    BoundDocument,
    ConditionDocument,
    ExcessDocument,
    LaunchAmounts,
    LineAccessDocument,
    LoopAmounts,
    PerItemDocument,
    UnitPartDocument,
    UnitUseDocument,
)
from keet.documents.document import Streamed
from keet.documents.shared_types import DeviceDocument, Skipped
from keet.evidence import Evidence, Sentence
from keet.explanation.capture_hints import DEBUG_CODE
from keet.explanation.launch_figures import moving_figures
from keet.profile import Absent, Launch, Location, Profile
from keet.profile.launch import file_name
from keet.profile.run_link import iterate_launches

_LEVELS = {
    "dram_bytes": ("", "passes"),
    "l2_bytes": ("l2", "passes"),
    "l1_bytes": ("l1", "fragments"),
}
"""Variants of redundant traffic by the level that delivers bytes again: fields of an array."""

_SPREAD_COSTS = {"uncoalesced_global": "sectors", "shared_bank_conflict": "wavefronts"}
"""Findings about accesses that are spread too far, and the field of an access that they lower."""


@cached_per_view
def excesses(view: LaunchView) -> tuple[ExcessDocument, ...]:
    if view.code is None or is_debug_build(view) or does_nothing(view):
        return ()
    costs = _Costs(view)
    makers = (_arrays, _accesses, _local, _loops, _serial, _instructions)
    documents = [excess for make in makers for excess in make(costs)]
    return tuple(sorted(documents, key=lambda document: -(document.us or 0.0)))


class _Costs:
    """The share of the launch's time that fixes would save."""

    def __init__(self, view: LaunchView) -> None:
        self.view = view
        self.model = TimeModel(view)
        self.worth = causes(view)

    def saved(self, name: str, variants: Sequence[str] | None = None) -> float:
        gains = (
            cause.possible
            for cause in self.worth
            if cause.id == name and (variants is None or cause.variant in variants)
        )
        return 1 - 1 / max(gains, default=1.0)

    def excess(
        self,
        part: float,
        row: AmountText,
        id: str,  # noqa: A002 - of the document
        label: str,
        places: Iterable[Location] = (),
    ) -> ExcessDocument:
        """`part`: share of the launch's time; `row`: what is said of it, with its evidence."""
        duration = self.view.value("duration")
        return ExcessDocument(
            id=id,
            label=label,
            us=duration / 1e3 * part if duration else None,
            places=tuple(dict.fromkeys(places)),
            text=row.text,
            evidence=row.evidence,
        )


def _arrays(costs: _Costs) -> Iterator[ExcessDocument]:
    """Bytes that a level delivers again."""
    every = [array for array in arrays(costs.view) if array.distinct_bytes is not None]
    parts = [0.0] * len(every)
    for level, variants in _LEVELS.items():
        saved = costs.saved("redundant_traffic", variants)
        again = [_again(array, level) for array in every]
        if saved and (total := sum(again)):
            parts = [max(part, saved * own / total) for part, own in zip(parts, again)]
    busy = min(1.0, costs.view.ceilings.share("DRAM") or 0.0)
    moved = sum(array.dram_bytes or 0.0 for array in every)
    for array, delivered in zip(every, parts):
        repeated = _again(array, "dram_bytes") / moved if moved else 0.0
        part = max(delivered, busy * repeated)
        # Where most of what DRAM moves are bytes of the array that it moved before, that asks for
        # another design, also if no unit is saturated.
        is_large = part >= SAVED_PART or repeated >= MAJORITY
        if (array.times or 1.0) >= READ_AGAIN * _needed(array) and is_large:
            yield costs.excess(part, array, f"array.{array.name}", array.name, array.lines)


def _again(array: ArrayDocument, level: str) -> float:
    """Bytes that a level moves and had moved before."""
    once = _needed(array) * (array.distinct_bytes or 0.0)
    return max(0.0, (getattr(array, level) or 0.0) - once)


def _needed(array: ArrayDocument) -> int:
    """How often each byte has to be moved: an array that is updated is read and written."""
    return 2 if array.access == "updated" else 1


def _accesses(costs: _Costs) -> Iterator[ExcessDocument]:
    """Sectors and wavefronts beyond those that the accessed bytes fill. Lines with as many of them
    are one row."""
    rows = line_accesses(costs.view)
    for finding, cost in _SPREAD_COSTS.items():
        saved = costs.saved(finding)
        groups: dict[str, list[LineAccessDocument]] = {}
        beyond: dict[str, float] = {}
        for row in rows if saved >= SAVED_PART else ():
            done, needed = getattr(row, cost), getattr(row, f"{cost}_needed")
            if done is not None and needed is not None and row.executed * (done - needed) > 0:
                groups.setdefault(row.text, []).append(row)
                beyond[row.text] = beyond.get(row.text, 0.0) + row.executed * (done - needed)
        for text, alike in groups.items():
            part = saved * beyond[text] / sum(beyond.values())
            if part >= SAVED_PART or beyond[text] == max(beyond.values()):
                first, label = alike[0], place_of(alike[0])
                places = (Location(row.file, row.line) for row in alike if row.file and row.line)
                if len(alike) > 1:
                    first = replace(first, text=Sentence("at each line {text}", text=first.text))
                more = ", …" if len(alike) > 1 else ""
                yield costs.excess(part, first, f"access.{label}", f"{label}{more}", places)


def _local(costs: _Costs) -> Iterator[ExcessDocument]:
    """Local memory: spilled registers, and arrays of a thread that are not in registers."""
    saved = costs.saved("local_memory_spill")
    parts = [part for part in unit_parts(costs.view) if saved and part.part == "local memory"]
    if parts:
        most = max(parts, key=lambda part: (part.share_pct, part.unit))
        most = replace(most, text=Sentence("{text}, in {unit}", text=most.text, unit=most.unit))
        yield costs.excess(saved, most, "local_memory", "local memory")


def _loops(costs: _Costs) -> Iterator[ExcessDocument]:
    """Work that does not depend on a loop."""
    every = [loop for loop in loops(costs.view) if loop.invariant]
    # Shares of the launch's requested bytes, 0 to 1.
    bytes_of = [
        sum((each.share_pct or 0.0) / 100 for each in loop.invariant if each.kind == "load")
        for loop in every
    ]
    for loop, loaded in zip(every, bytes_of):
        part = max(
            costs.saved("redundant_traffic", ("loop",)) * loaded / (sum(bytes_of) or 1.0),
            costs.saved("redundant_traffic", _LEVELS["l1_bytes"]) * loaded,
        )
        if part >= SAVED_PART or loaded >= MAJORITY:
            lines = (line for invariant in loop.invariant for line in invariant.lines)
            yield costs.excess(part, loop, f"loop.{loop.line}", loop_label(loop.line), lines)


def _serial(costs: _Costs) -> Iterator[ExcessDocument]:
    saved = costs.saved("latency_bound")
    loads = serial_loads(costs.view) if saved else None
    if loads is None:
        return
    sooner = Effect(every_wait=1 - loads.avoidable_pct / 100)
    part = min(saved, 1 - 1 / costs.model.gain(sooner))
    if part >= SAVED_PART:
        places = (
            Location(trip.file, trip.line)
            for trip in loads.trips
            if trip.is_avoidable and trip.file and trip.line
        )
        yield costs.excess(part, loads, "serial_loads", "serial loads", places)


def _instructions(costs: _Costs) -> Iterator[ExcessDocument]:
    """Instructions that neither compute with data nor move it."""
    saved = max(costs.saved("integer_overhead"), costs.saved("pipe_saturated", ("issue",)))
    item = item_of(costs.view) if saved else None
    for row in per_item(costs.view, item) if item else ():
        if row.id == "instructions":
            yield costs.excess(saved, row, "per_item", "per item")


_OFF = Absent("the machine code was not analysed", "leave out --no-sass, or name it with --launch")


class MainAmounts(NamedTuple):
    """Those that short lists show. The others are computed where all are asked for."""

    excesses: tuple[ExcessDocument, ...]
    per_item: tuple[PerItemDocument, ...]
    loops: tuple[LoopAmounts, ...]
    bounds: tuple[BoundDocument, ...]


@cached_per_view
def main_amounts(view: LaunchView) -> MainAmounts:
    item = item_of(view)
    rows = per_item(view, item) if item else ()
    return MainAmounts(excesses(view), rows, loops(view), bounds(view))


@cached_per_view
def launch_amounts(view: LaunchView) -> LaunchAmounts:
    main = main_amounts(view)
    return LaunchAmounts(
        item=item_of(view),
        per_item=main.per_item,
        arrays=arrays(view),
        serial_loads=serial_loads(view),
        phases=phases(view),
        loops=main.loops,
        conditions=conditions(view),
        units=unit_uses(view),
        accesses=line_accesses(view),
        parts=unit_parts(view),
        resources=resources(view),
        bounds=main.bounds,
        excesses=main.excesses,
        unknown=tuple(_unknown(view)),
    )


def _unknown(view: LaunchView) -> Iterator[Skipped]:
    if is_debug_build(view):
        yield DEBUG_CODE
    if view.code is None:
        why = view.code_absent or _OFF
        reason = f"arrays, loops and the order of loads are not known: {why.reason}"
        yield Skipped(check="amounts", reason=reason, remedy=why.remedy)


class AmountRow(NamedTuple):
    """A row of amounts in words."""

    part: str
    """What it is about: a key of `PARTS`."""
    label: str
    text: Sentence
    evidence: tuple[Evidence, ...]


PARTS = {
    "excesses": "beyond what is needed",
    "bounds": "at least",
    "per_item": "per item",
    "arrays": "arrays",
    "loops": "loops",
    "conditions": "code that part of the threads reach",
    "serial_loads": "loads that wait for each other",
    "phases": "phases of a block",
    "units": "units",
    "parts": "work of L1 and L2",
    "accesses": "loads and stores, per warp instruction",
    "resources": "resources",
}
"""Fields of the document, in the order of pages."""


def amount_rows(amounts: LaunchAmounts) -> Iterator[AmountRow]:
    """Everything that is known of a launch, the most important first."""
    if amounts.item and amounts.per_item:
        yield AmountRow("per_item", "item", amounts.item.text, amounts.item.evidence)
    for part in PARTS:
        rows = getattr(amounts, part) if part != "bounds" else told_bounds(amounts.bounds)
        for row in rows if isinstance(rows, tuple) else filter(None, (rows,)):
            yield AmountRow(part, _label(row), row.text, row.evidence)


def told_bounds(bounds: Sequence[BoundDocument]) -> tuple[BoundDocument, ...]:
    """Without that of bytes that move once where they do so already."""
    same = next((bound.us for bound in bounds if bound.id == "same_bytes"), 0.0)
    less = (1 - SAME_COUNT) * same
    return tuple(bound for bound in bounds if bound.id != "bytes_once" or bound.us < less)


def _label(row: AmountText) -> str:  # noqa: PLR0911 - one per kind of row
    match row:
        case ExcessDocument() | PerItemDocument():
            return row.label
        case ArrayDocument():
            return row.name
        case LoopAmounts():
            return loop_label(row.line)
        case ConditionDocument():
            return f"{file_name(row.file)}:{row.line}"
        case UnitUseDocument():
            return row.unit
        case UnitPartDocument():
            return f"{row.unit} {row.part}"
        case LineAccessDocument():
            return f"{place_of(row)} {row.memory} {row.operation}"
    return ""


def amounts_document(
    profile: Profile,
    launches: Sequence[Launch],
    per: tuple[str, float] | None = None,
    *,
    sass: bool = True,
) -> Streamed[AmountsDocument]:
    """`per`: what amounts are counted per, and how many of these a launch has; None: what it
    stores."""
    return Streamed(AmountsDocument, _fields(profile, launches, per, sass=sass))


def _fields(
    profile: Profile, launches: Sequence[Launch], per: tuple[str, float] | None, *, sass: bool
) -> Iterator[tuple[str, Any]]:
    yield "report", report_document(profile)
    yield "device", DeviceDocument.taken_from(launches[0].device)
    with_code = profile.with_code(launches) if sass else []
    profile.prefetch_code(with_code)
    views = {launch.id: thorough_view(launch) for launch in with_code}
    typical = (views[x.id] for x in profile.representatives(launches) if x.id in views)
    from keet.analysis.several_launches.program_amounts import program_amounts

    program = program_amounts(profile, typical, Ledger())
    if program is not None:
        yield "program", program
    yield "launches", _launches(launches, views, per)


def thorough_view(launch: Launch) -> LaunchView:
    """With machine code, and more time for the addresses of its accesses than an explanation
    takes."""
    view = LaunchView(launch, reads_code=True)
    if view.code is not None:
        view.code.footprints.entries = MANY_ENTRIES
    return view


def _launches(
    launches: Sequence[Launch], views: Mapping[int, LaunchView], per: tuple[str, float] | None
) -> Iterator[AmountsLaunch]:
    """`views`: of the launches whose machine code is read."""
    for launch in iterate_launches(launches, "counting work"):
        view = views.get(launch.id) or LaunchView(launch)
        view.counted_per = per
        duration = view.value("duration")
        yield AmountsLaunch(
            id=launch.id,
            kernel=launch.kernel,
            grid=launch.grid,
            block=launch.block,
            duration_us=duration / 1e3 if duration is not None else None,
            figures=moving_figures(view),
            amounts=launch_amounts(view),
            evidence={piece.id: piece for piece in view.ledger},
        )
