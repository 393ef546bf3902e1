"""How near units are to their peak, and what less work would gain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.ceilings import Ceilings, bounded, less_work, more_parallel
from keet.analysis.ledger import Ledger
from keet.analysis.view import View
from keet.ingest import read_profile
from keet.profile import Profile
from kernels_samples.samples import load_samples
from tests.conftest import REPORTS


@pytest.fixture(scope="module")
def ceilings() -> Ceilings:
    return Ceilings(Ledger(read_profile(REPORTS / "tour_full.ncu-rep").launches[0]))


def test_units_have_names_and_shares(ceilings: Ceilings) -> None:
    """A transposition that writes across rows: L2 is what it presses, DRAM idles."""
    assert ceilings.ranked[0].name == "L2"
    assert ceilings.share("L2") > 0.6
    assert ceilings.share("DRAM") < 0.1
    assert "tensor" in ceilings
    assert ceilings.share("no such unit") == 0


def test_ties_are_kept(ceilings: Ceilings) -> None:
    nearest = ceilings.nearest
    assert nearest[0] == ceilings.ranked[0]
    assert all(nearest[0].share - unit.share <= 0.05 for unit in nearest)


factors = st.dictionaries(st.sampled_from(["L2", "L1", "DRAM", "FMA"]), st.floats(0.01, 1))


@given(factors)
def test_less_work_is_never_slower(ceilings: Ceilings, factors: dict[str, float]) -> None:
    forecast = less_work(ceilings, factors)
    assert 1 <= forecast.low <= forecast.likely <= forecast.high


@given(factors, st.floats(0.1, 1))
def test_less_of_the_same_gains_more(
    ceilings: Ceilings, factors: dict[str, float], more: float
) -> None:
    further = {name: factor * more for name, factor in factors.items()}
    assert less_work(ceilings, further).likely >= less_work(ceilings, factors).likely - 0.01


def test_no_change_gains_nothing(ceilings: Ceilings) -> None:
    assert less_work(ceilings, {}).likely == 1


@given(st.floats(1, 1000))
def test_more_in_flight_ends_at_the_first_full_unit(ceilings: Ceilings, times: float) -> None:
    forecast = more_parallel(ceilings, times)
    assert 1 <= forecast.low <= forecast.likely <= forecast.high
    assert forecast.likely <= max(1.0, 0.9 / ceilings.ranked[0].share) + 0.01


@given(st.floats(1, 1e6), st.floats(0.1, 1e6))
def test_forecasts_are_ordered(likely: float, high: float) -> None:
    forecast = bounded(likely, high)
    assert 1 <= forecast.low <= forecast.likely <= forecast.high <= 100


def test_stalls_close(profile_of: Callable[[str], Profile]) -> None:
    for launch in profile_of("tour_full.ncu-rep").launches:
        assert sum(View(launch).stalls.values()) == pytest.approx(1)


def test_every_unit_of_a_sample_is_below_its_peak() -> None:
    for sample in load_samples():
        launch = read_profile(sample.report("slow")).launches[0]
        assert all(c.share <= 1.02 for c in View(launch).ceilings.ranked), sample.name
