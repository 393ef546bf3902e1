"""Fast paths, which a batch uses for every launch, give the same results as the general code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from keet.analysis.hotspots.source_lines import Hotspots, Spot, find_hotspots
from keet.analysis.launch_view import LaunchView
from keet.documents.document import json_line
from keet.documents.finding import Place
from keet.explanation.analyst import explain, explain_document
from keet.profile import Launch
from keet.report import read_profile
from kernels_samples.samples import load_samples
from tests.conftest import REPORTS
from tests.rows import each_row

SLOW = [sample.report("slow") for sample in load_samples()]
SOME = [*SLOW[::12], *sorted(REPORTS.glob("*.ncu-rep*"))[::2]]

_WAYS: dict[
    str, tuple[Callable[[LaunchView], Mapping[int, int] | None], Callable[[Spot], int | None]]
] = {
    "samples": (lambda view: view.table.samples, lambda spot: spot.samples),
    "executed": (lambda view: view.table.executed, lambda spot: spot.executed),
    "sectors": (
        lambda view: view.table.column("src_l2_sectors_global_excess"),
        lambda spot: spot.sectors_global_excess,
    ),
    "waiting": (
        lambda view: view.table.waiting("long_scoreboard"),
        lambda spot: spot.samples_by_reason.get("long_scoreboard"),
    ),
}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@each_row("path", SOME, ids=name_of)
@pytest.mark.slow
def test_a_single_launch_is_written_like_in_the_document(path: Path) -> None:
    profile = read_profile(path)
    explanation = explain(profile, profile.launches, 5)
    # First, because what is said of the program adds to the evidence of launches.
    short = [json_line(each) for each in explanation.launches]
    assert [json_line(launch) for launch in explain_document(explanation).launches] == short


def by_line(launch: Launch, of: str, cost: Callable[[Spot], int | None]) -> tuple[Place, ...]:
    """The general way: every line of the launch is summed up first."""
    found = find_hotspots(launch, "line") if launch.has_lines else None
    spots = found.rows if isinstance(found, Hotspots) else ()
    costs = {spot.location: cost(spot) or 0 for spot in spots}
    return LaunchView(launch)._largest(of, Counter(costs))


@pytest.mark.slow
@each_row("path", SOME, ids=name_of)
def test_places_found_by_instruction_equal_those_found_by_line(path: Path) -> None:
    for launch in read_profile(path).launches:
        for name, (costs, cost) in _WAYS.items():
            short = LaunchView(launch).places_by(name, costs(LaunchView(launch)))
            assert short == by_line(launch, name, cost), name


@each_row("path", SOME, ids=name_of)
def test_some_lines_equal_those_of_all_lines(path: Path) -> None:
    for short, long in zip(read_profile(path).launches, read_profile(path).launches):
        assert short.has_lines == bool(long.locations)
        assert short.has_source_text == any(long.source_files.values())
        some = list(long.locations)[::7]
        assert short.locate(some) == {address: long.locations[address] for address in some}
        for file in {location.file for location in long.locations.values()}:
            assert short.source_text(file) == long.source_files[file]
