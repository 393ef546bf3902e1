"""The units that a text names: each once, and the one that sets the pace first."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.diagnosis import Diagnosis
from keet.analysis.hardware.ceilings import TIE, WHOLE_SM, Ceiling
from keet.analysis.parameters import parameter
from keet.analysis.time_model import HOT_LINE


def distinct_units(ranked: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """Without L1 where its busiest stage takes the requests of the LSU pipe: one counter."""
    names = {ceiling.name for ceiling in ranked}
    return tuple(each for each in ranked if not ("LSU" in names and _is_lsu(each)))


def _is_lsu(ceiling: Ceiling) -> bool:
    return ceiling.name == "L1" and ceiling.stage is not None and ceiling.stage.id == "lsu"


def nearest_units(diagnosis: Diagnosis) -> tuple[Ceiling, ...]:
    """The busiest units by share of their peak, ties included."""
    return distinct_units(diagnosis.view.ceilings.nearest)


def leading_units(diagnosis: Diagnosis) -> tuple[Ceiling, ...]:
    """The units that set the pace: the one with the largest load in the time model, if that is
    large, then those that are as busy by load or by share of their peak.

    A load counts what a unit can reach, and an SM while it is active, so that it may be another
    unit than the one with the largest share of its peak.
    """
    model = diagnosis.model
    units = distinct_units(diagnosis.view.ceilings.ranked)
    if model.pressure < parameter("leads"):
        return ()
    if model.busiest == WHOLE_SM:
        return tuple(each for each in units if each.name == WHOLE_SM)
    if model.busiest == HOT_LINE:
        return tuple(each for each in units if each.name == "L2")
    loads = {each.name: model.loads.get(each.name, 0.0) for each in units}
    by_load = sorted(units, key=lambda each: -loads[each.name])
    first = by_load[0]
    leading = [
        each
        for each in by_load
        if loads[each.name] >= loads[first.name] - TIE / 100
        or each.share >= first.share - TIE / 100
    ]
    return tuple(_source_first(leading, units))


def _source_first(leading: Sequence[Ceiling], ranked: Sequence[Ceiling]) -> Sequence[Ceiling]:
    """With DRAM first where L2 leads and is ranked after it: L2 passes on what DRAM delivers."""
    names = [each.name for each in ranked]
    if leading[0].name != "L2" or "DRAM" not in names[: names.index("L2")]:
        return leading
    return [ranked[names.index("DRAM")], *(each for each in leading if each.name != "DRAM")]
