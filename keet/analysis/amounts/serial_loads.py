"""Loads that are issued one after the other although they could be issued together.

Said only where warps wait for these loads in a notable part of the samples. With a unit that is
busy, loads that are issued together would wait for the unit instead: the text says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from keet.analysis.code_names import line_text
from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.hotspots.source_lines import LEAST_SAMPLES
from keet.analysis.kernel_kind.archetype import Language, language_of
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.limits import NOTABLE_PART
from keet.analysis.remedy_conditions.on_chip import MOST_REGISTERS_PER_THREAD
from keet.analysis.time_model import LEADS
from keet.documents.amounts import RoundTripDocument, SerialLoadsDocument
from keet.evidence import Evidence, Sentence
from keet.profile import Location
from keet.profile.names import file_name

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.serial_loads import RoundTrip, SerialLoads
    from keet.analysis.machine_code.launch_code import MachineCode


@cached_per_view
def serial_loads(view: LaunchView) -> SerialLoadsDocument | None:
    """Of the loop, or of the code outside of loops, whose avoidable round trips take most samples;
    None where they do not matter."""
    region = _most_avoidable(view)
    if region is None or view.code is None:
        return None
    from keet.analysis.machine_code.lines import loop_line

    code, every = view.code, sum(wait.samples for wait in view.code.waits)
    samples, source = sum(trip.samples for trip in region.trips), view.get("samples_total")
    enter = view.ledger.numbers("serial_")
    share = view.ledger.numbers("serial_", *((source,) if source else ()))
    label = "round trips to memory, one after the other"
    trips = enter("round_trips", len(region.trips), label)
    label = "of these that would remain if loads were issued together"
    needed = enter("trips_needed", region.needed, label)
    label = "of the samples wait for loads of these round trips"
    waits = share("waits", 100 * samples / every, label, "%")
    label = "of the samples wait for round trips that could be avoided"
    avoidable = share("avoidable", 100 * region.avoidable_samples / every, label, "%")
    cited: list[Evidence] = [trips, needed, waits, avoidable]
    where, loop = Sentence("per thread, one after the other"), None
    if region.loop is not None:
        loop = loop_line(code, code.program.flow.loops[region.loop])
        label = "trips of the loop that has the round trips"
        cited.append(enter("iterations", region.passes, label))
        words = "one after the other in each of the {n:.0f} trips of the loop{at}"
        if region.passes < _HARDLY_REPEATED:
            words = "one after the other in a trip of the loop{at}"
        where = Sentence(words, n=cited[-1], at=f" at {line_text(loop)}" if loop else "")
    remedy = _remedy(code, region, language_of(view.launch))
    summary = Sentence(
        "{trips} round trips to memory {where}, of which {needed} would remain: {why}; {waits:.0f} "
        "of the samples wait for these loads",
        trips=trips,
        where=where,
        needed=needed,
        why=_why(code, region),
        waits=waits,
    )
    text = Sentence("{summary}; {remedy}", summary=summary, remedy=remedy)
    if (busy := _busy(view)) is not None:
        cited.append(busy.reached)
        text = Sentence(
            "{text}; {unit} is busy for {part:.0f} of the time, and what that leaves is the most "
            "that can be gained",
            text=text,
            unit=busy.spoken,
            part=busy.reached,
        )
    return SerialLoadsDocument(
        text=text,
        summary=summary,
        evidence=tuple(cited),
        round_trips=float(trips.value),
        needed=float(needed.value),
        loads=float(sum(len(trip.loads) for trip in region.trips)),
        loop=loop,
        iterations=None if region.loop is None else region.passes,
        waits_pct=float(waits.value),
        avoidable_pct=float(avoidable.value),
        pointers=_pointers(code, region),
        trips=tuple(_trip(view, code, trip, every) for trip in region.trips),
        remedy=remedy,
    )


def avoidable_loads(view: LaunchView) -> SerialLoads | None:
    """The round trips that `serial_loads` is about, if no unit is so busy that it is the limit."""
    return None if _busy(view) is not None else _most_avoidable(view)


def _busy(view: LaunchView) -> Ceiling | None:
    top = next(iter(view.ceilings.ranked), None)
    return top if top is not None and top.share >= LEADS else None


@cached_per_view
def _most_avoidable(view: LaunchView) -> SerialLoads | None:
    if view.code is None:
        return None
    regions = [region for region in view.code.serial_loads if region.avoidable]
    every = sum(wait.samples for wait in view.code.waits)
    region = max(regions, key=lambda region: region.avoidable_samples, default=None)
    if region is None or every < LEAST_SAMPLES:
        return None
    return region if region.avoidable_samples >= NOTABLE_PART * every else None


# --- documents


def _trip(view: LaunchView, code: MachineCode, trip: RoundTrip, every: int) -> RoundTripDocument:
    line = _line(code, trip.loads[0])
    after = None if trip.after is None else _line(code, trip.after)
    reason = trip.reason
    if reason == "unknown" and after is None:
        used = view.value("registers_per_thread")
        reason = "registers" if used is not None and used >= MOST_REGISTERS_PER_THREAD else reason
    return RoundTripDocument(
        file=line.file if line else None,
        line=line.line if line else None,
        loads=len(trip.loads),
        after_file=after.file if after else None,
        after_line=after.line if after else None,
        reason=reason,
        is_avoidable=trip.is_avoidable,
        samples_pct=100 * trip.samples / every,
    )


def _line(code: MachineCode, position: int) -> Location | None:
    from keet.analysis.machine_code.lines import calling_line

    return calling_line(code, position)


# --- words

_MOST_NAMED_LINES = 6
_HARDLY_REPEATED = 1.5
"""Iterations up to which a loop hardly repeats anything."""


def first_avoidable(region: SerialLoads) -> RoundTrip:
    """The avoidable round trip with most samples by the first reason of `_REASON_TEXTS`."""
    order = [*_REASON_TEXTS]
    trips = [trip for trip in region.trips if trip.is_avoidable and trip.reason in order]
    return min(trips, key=lambda trip: (order.index(str(trip.reason)), -trip.samples))


_REASON_TEXTS = {
    "store": "the load{at} is issued after the store{there}, which may write what it reads",
    "atomic": "the load{at} is issued after the atomic{there}, which may change what it reads",
    "volatile": "the load{at} stays in its order because of volatile or atomic loads",
    "branch": "the load{at} is issued after the branch{there}, although it needs no result of the "
    "loads before",
}
"""By the reason; those that can be told most about first."""


def _why(code: MachineCode, region: SerialLoads) -> Sentence:
    trip = first_avoidable(region)
    load, after = _line(code, trip.loads[0]), None
    if trip.after is not None and trip.reason != "volatile":
        after = _line(code, trip.after)
    at = f" at {line_text(load)}" if load else ""
    there = f" at {line_text(after)}" if after else ""
    return Sentence(_REASON_TEXTS[str(trip.reason)], at=at, there=there)


def _remedy(code: MachineCode, region: SerialLoads, language: Language) -> str:
    """What to change, with the lines."""
    reason = first_avoidable(region).reason
    moved = [trip for trip in region.trips if trip.is_avoidable and trip.reason == reason]
    lines = _lines(code, (load for trip in moved for load in trip.loads))
    earlier = _lines(code, (load for trip in region.trips for load in trip.loads))
    loads = f"the loads at {_listed(lines)}" if lines else "these loads"
    if region.loop is not None and set(lines) >= set(earlier):
        loads = f"{loads} for all iterations that are unrolled"
    if reason == "volatile":
        return f"issue {loads} before the first result is used, or load without volatile"
    # Where the first thing stands that one of these round trips comes after.
    first = next((trip.after for trip in moved if trip.after is not None), None)
    line = None if first is None else _line(code, first)
    at = f" at {line_text(line)}" if line else ""
    if reason == "branch":
        return f"issue {loads} before the branch{at}"
    advice = f"issue {loads} before the first {reason}{at}"
    if language != "CUDA C++":
        return advice
    declared = _listed(_pointers(code, region) or ("the pointers",))
    return f"{advice}, or declare {declared} __restrict__"


def _lines(code: MachineCode, positions: Iterable[int]) -> list[str]:
    """Each line once, in the order of the file; of the first file alone."""
    lines = [line for position in positions if (line := _line(code, position)) is not None]
    numbers = sorted({line.line for line in lines if line.file == lines[0].file})[
        :_MOST_NAMED_LINES
    ]
    return [f"{file_name(lines[0].file)}:{line}" for line in numbers]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _pointers(code: MachineCode, region: SerialLoads) -> tuple[str, ...]:
    """Names of the pointers of avoidable loads and of the stores before them, as far as the source
    has them."""
    pointer_of = {access.position: access.pointer for access in code.accesses}
    reasons = ("store", "atomic")
    trips = [trip for trip in region.trips if trip.is_avoidable and trip.reason in reasons]
    ends = [trip.after for trip in trips if trip.after is not None]
    loads = [load for trip in trips for load in trip.loads]
    pointers = dict.fromkeys(
        pointer_of[position] for position in (*loads, *ends) if position in pointer_of
    )
    return tuple(code.names[pointer] for pointer in pointers if pointer in code.names)
