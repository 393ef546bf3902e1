"""All amounts of one launch, put together, and the document of `keet amounts`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from keet.analysis.amounts.accesses import line_accesses, place_of
from keet.analysis.amounts.arrays import arrays
from keet.analysis.amounts.bounds import bounds
from keet.analysis.amounts.conditions import conditions
from keet.analysis.amounts.items import item_of, per_item
from keet.analysis.amounts.loops import loop_label, loops
from keet.analysis.amounts.phases import phases
from keet.analysis.amounts.resources import resources
from keet.analysis.amounts.serial_loads import serial_loads
from keet.analysis.amounts.units import unit_parts, unit_uses
from keet.analysis.capture.report_document import report_document
from keet.analysis.kernel_kind.archetype import is_debug_build
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.ledger import Ledger
from keet.analysis.limits import SAME_COUNT
from keet.analysis.machine_code.analyses.footprints import MANY_ENTRIES
from keet.diagnosis.excesses import excesses
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
from keet.profile import Absent, Launch, Profile
from keet.profile.launch_sequences import iterate_launches
from keet.profile.names import file_name

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
    typical = (
        views[launch.id] for launch in profile.representatives(launches) if launch.id in views
    )
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
