"""Which hardware units a text names: each once, the limiting one first."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.hardware.ceilings import TIE, WHOLE, Ceiling
from keet.analysis.time_model import BLOCK_STARTS, HOT_LINE, LEADS
from keet.diagnosis.diagnosis import Diagnosis


def distinct_units(ranked: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """Without L1 if its busiest stage is the LSU pipe: both would show the same counter."""
    names = {ceiling.name for ceiling in ranked}
    return tuple(each for each in ranked if not ("LSU" in names and _is_lsu(each)))


def _is_lsu(ceiling: Ceiling) -> bool:
    return ceiling.name == "L1" and ceiling.stage is not None and ceiling.stage.id == "lsu"


def nearest_units(diagnosis: Diagnosis) -> tuple[Ceiling, ...]:
    """The busiest units by share of their peak, ties included."""
    return distinct_units(diagnosis.view.ceilings.nearest)


def leading_units(diagnosis: Diagnosis) -> tuple[Ceiling, ...]:
    """The units that limit the launch: the one with the largest load in the time model, if that is
    large, then those that are as busy, by load or by share of their peak.

    The load takes into account what a unit can reach in practice and how long SMs are active.
    Therefore the first unit may differ from the one with the largest share of its peak.
    """
    model = diagnosis.model
    units = distinct_units(diagnosis.view.ceilings.ranked)
    if model.pressure < LEADS or model.busiest == BLOCK_STARTS:
        return ()
    if model.busiest in WHOLE:
        return tuple(each for each in units if each.name == model.busiest)
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
    """With DRAM before L2 if DRAM is ranked first: L2 then only passes on what DRAM delivers."""
    names = [each.name for each in ranked]
    if leading[0].name != "L2" or "DRAM" not in names[: names.index("L2")]:
        return leading
    return [ranked[names.index("DRAM")], *(each for each in leading if each.name != "DRAM")]
