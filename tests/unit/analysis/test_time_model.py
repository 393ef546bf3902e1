"""The time model: today's time without a fix, never longer with less work, and no jumps."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keet.analysis import time_model
from keet.analysis.time_model import HOT_LINE, Effect, attainable
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import STATES, active, launches, made_up, model_of
from tests.unit.analysis.real_launches import changed, launch_of

UNITS = ("DRAM", "L2", "L1", "LSU", "FMA", "ALU", "FP64", "XU", "tensor", "issue")
FEW = settings(max_examples=25)
"""Each example is a whole launch: more of them cost more than they find."""
FACTOR = st.floats(0, 1)
EFFECTS = st.tuples(
    st.dictionaries(st.sampled_from(UNITS), FACTOR),
    st.dictionaries(st.sampled_from(STATES), FACTOR),
    FACTOR,
    FACTOR,
).map(lambda parts: Effect(*parts))


@FEW
@given(launches(), EFFECTS, EFFECTS)
@pytest.mark.slow
def test_times_are_shares_that_less_work_or_waiting_never_makes_longer(
    launch, effect, further
) -> None:
    """A gain is a finite number from one on. A fix of a unit that was not measured promises nothing,
    and costs nothing."""
    model = model_of(launch)
    assert model.time(Effect()) == pytest.approx(1, abs=1e-9)
    assert model.gain(Effect()) == pytest.approx(1, abs=1e-9)
    assert sum(model.waiting.values()) == pytest.approx(1)
    assert min(model.waiting.values()) >= 0
    shares = (*model.loads.values(), model.pressure, model.exposed, model.fixed)
    assert all(0 <= share <= 1 for share in shares)
    assert not {"selected", "not_selected"} & model.waiting.keys()  # these warps do not wait
    both = (_both(effect.units, further.units), _both(effect.waits, further.waits))
    factors = (effect.every_wait * further.every_wait, effect.longest_sm * further.longest_sm)
    more = Effect(*both, *factors)
    assert model.time(more) <= model.time(effect) + 1e-9
    assert 1 <= model.gain(effect) < math.inf
    unmeasured = {unit: part for unit, part in effect.units.items() if unit not in model.loads}
    assert model.time(Effect(unmeasured)) == model.time(Effect())


def _both(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    return {name: first.get(name, 1.0) * second.get(name, 1.0) for name in {*first, *second}}


@FEW
@given(launches(), EFFECTS, st.booleans(), st.data())
@pytest.mark.slow
def test_the_time_changes_continuously(launch, effect, grows, data) -> None:
    """The most sensitive place is a unit at its limit whose whole work goes: 20 times as much as the
    metric. Where no unit is, a per cent moves the time by a few."""
    assume(launch.metric_names())
    metric, model = data.draw(st.sampled_from(launch.metric_names())), model_of(launch)
    for part, most in ((1e-4, 0.002), (0.01, 0.06)):
        if part < 0.01 or model.pressure <= 0.9:
            factor = 1 + part if grows else 1 - part
            other = changed(launch, lambda name, v, f=factor: v * f if name == metric else v)
            assert abs(model_of(other).time(effect) - model.time(effect)) <= most


def test_units_idle_sms_and_the_launch() -> None:
    idle, unknown = model_of(made_up({"fma": 0.0})), model_of(made_up({}))
    assert (idle.loads, idle.pressure, idle.busiest) == ({"FMA": 0.0}, 0.0, "FMA")
    assert (unknown.loads, unknown.busiest, unknown.pressure) == (
        {},
        None,
        time_model.UNMEASURED_PRESSURE,
    )
    assert idle.is_measured
    assert not unknown.is_measured
    assert model_of(made_up({"dram": 20.0}, sm_throughput_pct=60.0)).busiest == "SM"
    assert "SM" not in model_of(made_up({"issue_slots": 20.0}, sm_throughput_pct=60.0)).loads
    model = model_of(made_up({"issue_slots": 30.0, "dram": 30.0}, **active(0.5)))
    assert model.loads["issue"] == pytest.approx(0.6 / attainable("issue"))
    assert model.loads["DRAM"] == pytest.approx(0.3 / attainable("DRAM"))
    halved = Effect(longest_sm=0.5, every_wait=0.0)
    for unit, name in (("dram", "DRAM"), ("l2", "L2"), ("fma", "FMA"), ("xu", "XU")):
        model = model_of(made_up({unit: 40.0}, **active(0.5)))
        kept = 1.0 if name in time_model.DEVICE_WIDE else 0.5
        assert model.time(halved) == pytest.approx(kept * model.loads[name])
    model = model_of(made_up({"dram": 10.0}, **active(0.25, 0.25)))
    assert model.fixed == pytest.approx(0.75)
    everything = Effect(dict.fromkeys(UNITS, 0.0), every_wait=0.0)
    assert model.time(everything) == pytest.approx(0.75)
    model = model_of(made_up({"l1": 50.0}))
    assert model.time(Effect({"L1": 0.0}, every_wait=0.0, least=0.4)) == 0.4
    model = model_of(made_up({"fp64": 80.0, "fma": 10.0}))
    gone = Effect({"FP64": 0.0}, every_wait=0.0)
    assert model.time(gone) == pytest.approx(model.loads["FMA"])
    assert model.time(gone._replace(moved={"FMA": 0.5})) == pytest.approx(0.5)
    assert model.time(gone._replace(moved={"FP16": 0.5})) == pytest.approx(0.5)
    short, long = (model_of(made_up({}, duration=ns, **active(0.95, 0.96))) for ns in (5e4, 5e6))
    assert (short.fixed, long.fixed * 5e6) == (pytest.approx(0.04), pytest.approx(10_000))
    assert long.balance.evenness == pytest.approx(short.balance.evenness)
    half = {"elapsed_cycles": 1e6, "sm_active_cycles": 2.5e5, "duration": 1e4}
    assert model_of(made_up({}, grid_size=66, **half)).fixed == pytest.approx(0.5)
    assert model_of(made_up({}, grid_size=132, **half)).fixed == pytest.approx(0.75)
    assert model_of(made_up({}, grid_size=133, **half)).fixed == 0, "more is not known"


@FEW
@given(st.floats(1.0, 30.0), st.floats(0, 1e7))
def test_one_hot_slice_of_l2_is_a_unit_of_its_own(skew: float, usual: float) -> None:
    shape = {"l2_elapsed_cycles_total": 80e6, "device_l2_slices": 80, "l2_slice_sectors_avg": usual}
    load, busier = (
        model_of(made_up({"l2": 30.0}, l2_slice_sectors_max=most, **shape)).loads.get(HOT_LINE, 0.0)
        for most in (usual * skew, usual * skew * 1.5)
    )
    assert 0 <= load <= min(1, busier)
    assert load == 0 or (skew > 1.1 and usual > 0)


SLICES = {"l2_elapsed_cycles_total": 96e6, "device_l2_slices": 96.0, "l2_slice_sectors_avg": 5e4}


@pytest.mark.parametrize(("least", "load"), [(4.8e4, 1.0), (1e4, 0.0)])
def test_a_hot_line_stands_out_and_uneven_slices_do_not(least: float, load: float) -> None:
    """With one line that all want, the other slices are at the average; else some are far below."""
    launch = made_up({}, l2_slice_sectors_max=4e5, l2_slice_sectors_min=least, **SLICES)
    uneven = made_up({}, l2_slice_sectors_max=1e5, l2_slice_sectors_min=least, **SLICES)
    hot = [model_of(each).hot_line for each in (launch, uneven)]
    assert hot[0].load > 0.95
    assert (hot[1].load if hot[1] else 0.0) == pytest.approx(load * (5e4 / 1e6) / 0.24, abs=0.01)


@each_row("few, many", [
    ("reduce_rows/few_long_rows", 4.69),
    ("pool_depthwise/few_planes", 2.8),
    ("gemv/sixteen_slices", 1.82),
])  # fmt: skip
def test_a_fabric_with_little_to_do_is_busy_for_longer_than_its_work_takes(few, many) -> None:
    """A fix that moves the same bytes gained more than the fabric's busy share leaves room for."""
    model = model_of(launch_of(few))
    busy = model.view.ceilings.get("L2")
    assert busy.stage.id == time_model.FABRIC
    assert attainable("L2") / busy.share < many < 1.1 / model.loads["L2"]
    # A full one has as much work as its busy share says.
    full = model_of(launch_of("gemv/one_warp_blocks_long"))
    load = full.view.ceilings.share("L2") / attainable("L2") / (full.balance.longest or 1.0)
    assert full.loads["L2"] == pytest.approx(load, rel=0.03)
