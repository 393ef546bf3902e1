"""A line's share is of the whole effect, whether or not all of it has a source line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keet.analysis.facts.global_memory import STORE, addresses_of
from keet.analysis.kernel.source_calls import launch_places
from keet.analysis.launch_view import LaunchView
from keet.analysis.source_lines import Hotspots, find_hotspots
from keet.analysis.time_model import TimeModel
from keet.documents.finding import Place
from keet.findings import findings
from keet.pages.launch import place_shares, unplaced_shares
from keet.profile import Launch, Profile
from keet.profile.metric import Value
from tests.conftest import needs_corpus
from tests.unit.analysis.real_launches import changed, launch_of, public_launch

NO_CODE = 1
"""No address of an instruction."""


@pytest.fixture
def launch(profile_of: Callable[[str], Profile]) -> Launch:
    return profile_of("tour_full.ncu-repz").launches[0]


def test_shares_of_places_are_of_all_samples(launch: Launch) -> None:
    found = find_hotspots(launch, "line")
    assert isinstance(found, Hotspots)
    shares = {spot.location: spot.share for spot in found.rows}
    places = LaunchView(launch).sampled_places()
    assert places
    for place in places:
        assert place.share == pytest.approx(shares[place.file, place.line])
    address = next(iter(launch.locations))
    (place,) = LaunchView(launch).places_by("samples", {address: 30, NO_CODE: 70})
    assert (place.share, place.unplaced) == (0.3, 0.7)
    assert place_shares([place]) == ["30% of all samples"]
    assert list(unplaced_shares([place])) == ["70% of all samples"]
    assert LaunchView(launch).places_by("samples", {NO_CODE: 70}) == ()
    address = next(iter(launch.locations))
    (place,) = LaunchView(launch).places_by("samples", {address: 98, NO_CODE: 2})
    assert not list(unplaced_shares([place]))
    (place, *_) = launch_places(LaunchView(launch))
    assert place_shares([place]) == ["launched here"]


def test_both_ends_of_a_wait_say_which_they_are(wording) -> None:
    """The load that is waited for and the line that waits: shares of one whole, twice."""
    load = Place("a.py", 13, 0.94, "waits for data")
    use = Place("a.py", 17, 0.72, "warps that wait for data")
    wording(place_shares([load]), place_shares([load, use]))


@needs_corpus
def test_a_report_with_code_of_no_line() -> None:
    launch = public_launch("NCAR", 2)
    found = find_hotspots(launch, "line")
    assert isinstance(found, Hotspots)
    (without,) = (spot for spot in found.rows if spot.location is None)
    (first, *_) = LaunchView(launch).sampled_places()
    assert first.unplaced == pytest.approx(without.share)
    assert first.share == pytest.approx(0.47, abs=0.001)


def first_places(name: str, finding: str) -> list[tuple[str, str]]:
    """Of a sample's slow variant: what each place is a share of, and the text of its line."""
    view, spec = LaunchView(launch_of(name), reads_code=True), findings()[finding]
    (found,) = spec.candidates(view, TimeModel(view))
    places = view.led_places(spec.leading_lines, found.places())
    return [(place.of, view.text_of(place)) for place in places]


def test_places_are_of_what_the_finding_is_about() -> None:
    # In series_eval, warps wait longest for constants among what other warps can hide. Four samples
    # of that are too few for a place.
    assert not first_places("series_eval", "latency_bound")
    # They wait after the last instruction, at the closing brace.
    of, text = first_places("matrix_flip", "latency_bound")[0]
    assert (of, text.startswith("out[")) == ("stores", True)
    found = first_places("orbit_forces", "low_precision_possible")
    assert all(of == "instructions of the FP64 pipe" for of, _ in found)
    assert "double" in found[0][1]
    launch = launch_of("transpose/column_stores")
    view = LaunchView(launch)
    stores = addresses_of(view, STORE)
    (found,) = (
        each
        for each in findings()["uncoalesced_global"].candidates(view, TimeModel(view))
        if each.basis == "measured"
    )
    lines = {launch.locations[address] for address in stores if address in launch.locations}
    assert (found.places()[0].file, found.places()[0].line) in lines


def test_a_handful_of_samples_that_counters_contradict_names_no_place() -> None:
    """An edited snapshot: of the waits that the counters show, the sampler saw one in a hundred."""
    launch = launch_of("column_physics")
    reason = max(LaunchView(launch).stalls, key=LaunchView(launch).stalls.__getitem__)

    def change(name: str, value: Value) -> Value:
        is_sample = "pcsamp" in name and name.endswith((reason, f"{reason}_not_issued"))
        return int(value) // 100 if is_sample and isinstance(value, int | float) else value

    before = LaunchView(launch).waiting_places(reason)
    after = LaunchView(changed(launch, change)).waiting_places(reason)
    assert {place.of for place in before} != {"samples"}
    assert {place.of for place in after} == {"samples"}
