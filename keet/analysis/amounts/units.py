"""How busy units are on average over all SMs, and while an SM is active.

A unit of an SM that is busy for 92 % of the time in which its SM has work looks idle on average if
few SMs have any.
"""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.hardware.ceilings import MEMORY_UNITS, WHOLE, Ceiling, spoken_unit
from keet.analysis.hardware.stages import sm_elapsed_cycles
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.documents.amounts import UnitUseDocument
from keet.evidence import Evidence, Sentence, finite
from keet.units import Quantity

_LEAST_PCT = 1.0
_ELAPSED, _ACTIVE = "pct_of_peak_sustained_elapsed", "pct_of_peak_sustained_active"
_CLEARLY, _POINTS = 1.1, 2.0
"""The use while active is said too if it is more than the average by this factor and difference."""


@cached_per_view
def unit_uses(view: LaunchView) -> tuple[UnitUseDocument, ...]:
    """Those that reach a hundredth of their peak, on average or while active; the busiest first."""
    return tuple(_uses(view))


def _uses(view: LaunchView) -> Iterator[UnitUseDocument]:
    for ceiling in sorted(view.ceilings.ranked, key=lambda each: -each.share):
        average = finite(ceiling.reached)
        active = _while_active(view, ceiling)
        if average is None or max(average, finite(active) or 0.0) < _LEAST_PCT:
            continue
        if "tensor" in ceiling.id and _has_no_tensor_code(view):
            continue
        text = Sentence("{average:.0f} of its peak", average=ceiling.reached)
        if active is not None and _differ(average, float(active.value)):
            form = "{average:.0f} of its peak on average, {active:.0f} while an SM is active"
            text = Sentence(form, average=ceiling.reached, active=active)
        yield UnitUseDocument(
            text=text,
            evidence=tuple(text.evidence.values()),
            unit=_name(ceiling),
            average_pct=average,
            active_pct=finite(active),
        )


def _has_no_tensor_code(view: LaunchView) -> bool:
    """The counter of the pipe has a few per cent in such kernels, too."""
    if view.code is None:
        return False
    program = view.code.program
    return all(program.code[at].role.name != "TENSOR" for at in program.ran)


def _name(ceiling: Ceiling) -> str:
    """`FP64 pipe`."""
    return spoken_unit(ceiling.name).removeprefix("the ").partition(" (")[0]


def _differ(average: float, active: float) -> bool:
    return active >= _CLEARLY * average and active - average >= _POINTS


def _while_active(view: LaunchView, ceiling: Ceiling) -> Evidence | None:
    """As measured for the same counter, else from the cycles in which SMs are active; None for
    units outside of the SMs, and where the cycles are not known."""
    is_outside = ceiling.name in MEMORY_UNITS and ceiling.name != "L1"
    if is_outside or ceiling.kind == "link" or ceiling.name in WHOLE:
        return None
    label = f"{_name(ceiling)} busy while an SM is active"
    if ceiling.reached.metric.endswith(_ELAPSED):
        name = ceiling.reached.metric.replace(_ELAPSED, _ACTIVE)
        if (measured := view.ledger.named(name, label)) is not None:
            return measured
    active, cycles = view.get("sm_active_cycles"), cycles_of_all_sms(view)
    sms = view.launch.device.sm_count
    if active is None or cycles is None or not sms or not active.value or not cycles.value:
        return None
    part = min(1.0, float(active.value) * sms / float(cycles.value))
    share = Quantity(min(100.0, float(ceiling.reached.value) / part), "%")
    name = f"active.{ceiling.id}"
    return view.ledger.derived(name, share, label, ceiling.reached, active, cycles)


def cycles_of_all_sms(view: LaunchView) -> Evidence | None:
    """Elapsed cycles, summed over the SMs, as they and their L1 caches count them. The GPCs count
    up to 6 % more or less in short launches."""
    label = "elapsed cycles, summed over the SMs"
    for name in ("sm__cycles_elapsed.sum", "l1tex__cycles_elapsed.sum"):
        if (counted := view.ledger.named(name, label)) is not None:
            return counted
    elapsed, sms = sm_elapsed_cycles(view.ledger), view.launch.device.sm_count
    if elapsed is None or not sms:
        return None
    cycles = Quantity(sms * float(elapsed.value), "cycle")
    return view.ledger.derived("elapsed_cycles_of_sms", cycles, label, elapsed)
