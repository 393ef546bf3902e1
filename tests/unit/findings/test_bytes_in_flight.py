"""Bytes on their way: too few show exposed latency or narrow accesses, enough rule them out."""

from __future__ import annotations

import pytest

from keet.analysis.kernel.bytes_in_flight import BytesInFlight, bytes_in_flight
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.diagnosis.diagnosis import ranked_candidates
from keet.diagnosis.forecast import RankedCandidate
from tests.unit.analysis.real_launches import launch_of


def view_of(name: str) -> LaunchView:
    return LaunchView(launch_of(name), reads_code=True)


def flight_of(name: str) -> BytesInFlight:
    found = bytes_in_flight(view_of(name))
    assert found is not None
    return found


def ranked(name: str) -> dict[str, RankedCandidate]:
    view = view_of(name)
    return {each.candidate.id: each for each in ranked_candidates(view, TimeModel(view))}


@pytest.mark.parametrize(
    "name", ["sound_chain/four_loads_at_a_time", "reduce_rows/one_load_one_warp"]
)
def test_too_few_loads_at_a_time_are_named(name: str) -> None:
    found = ranked(name)["latency_bound"]
    assert flight_of(name).shortage() > 0.8
    assert found.gain > 1.1
    assert "Loads have requested about" in found.candidate.text


@pytest.mark.parametrize("name", ["histogram/spread_classes", "spmv_ell/waiting_for_dram"])
def test_with_enough_bytes_on_their_way_loads_wait_in_a_queue(name: str) -> None:
    assert flight_of(name).shortage() == 0
    assert ranked(name)["latency_bound"].possible < 1.05


def test_which_accesses_need_to_be_wider() -> None:
    flight = flight_of("quant_elementwise/two_floats")
    assert flight.waits < 1.2
    assert flight.per_thread == pytest.approx(8, rel=0.1)
    assert ranked("quant_elementwise/two_floats")["narrow_access"].gain > 1.1
    assert flight_of("matrix_flip:slow").unqueued < 0.8
    assert ranked("matrix_flip:slow")["narrow_access"].possible < 1.1
    assert flight_of("sound_chain/four_loads_at_a_time").waits > 10
    assert ranked("sound_chain/four_loads_at_a_time")["narrow_access"].possible < 1.05
    assert bytes_in_flight(LaunchView(launch_of("quant_dense/row_by_row"))) is None
