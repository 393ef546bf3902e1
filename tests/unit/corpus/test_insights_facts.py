"""Ids of an insight's facts: which number, and of which point."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keet.documents.insights import InsightDocument
from tests.insights_sets import finding, insights_of, launch, make_set, night

SWEEP = [
    launch(f"T_{t}.ncu-rep", duration_us=us, limiter="L2", reached_pct=90.0, ceilings={"L2": 90.0})
    for t, us in ((1, 200.0), (2, 150.0), (4, 100.0))
]
OUTLIER = [
    launch("steps.ncu-rep", number, duration_us=us, l2_hit_rate_pct=hits)
    for number, (us, hits) in enumerate(
        [(200.0 + n % 3, 80.0) for n in range(11)] + [(600.0, 20.0)]
    )
]
HISTORY = [
    launch(f"night_{n}.ncu-rep", duration_us=us, created=night(n), l2_hit_rate_pct=hits)
    for n, (us, hits) in enumerate([(100.0, 80.0)] * 4 + [(150.0, 40.0)] * 4)
]
SICK = [
    launch(f"{k}.ncu-rep", kernel=k, kernel_full=f"{k}()", duration_us=us)
    for k, us in (("one", 300.0), ("two", 100.0))
]


def only(
    tmp_path: Path, launches: list[dict[str, object]], *findings: dict[str, object]
) -> InsightDocument:
    (insight,) = insights_of(make_set(tmp_path / "store", launches, findings)).insights
    for name, fact in insight.facts.items():
        assert re.fullmatch(r"[a-z]\w*#(\d+|usual|set)", name)
        assert set(fact.derived_from or ()) <= insight.facts.keys()
    return insight


@pytest.mark.slow
def test_points_of_a_sweep_are_numbered_as_in_its_curve(tmp_path: Path) -> None:
    insight = only(tmp_path, SWEEP)
    assert insight.sweep is not None
    for number, point in enumerate(insight.sweep.points):
        assert insight.facts[f"duration_us#{number}"].path == point.path
        assert insight.facts[f"t#{number}"].value == point.value
    assert insight.facts["slowest_to_best#set"].value == pytest.approx(2.0)
    assert insight.facts["slowest_to_best#set"].derived_from == ("duration_us#0", "duration_us#2")


@pytest.mark.slow
def test_facts_of_an_outlier_and_of_the_usual_launch_differ_in_id(tmp_path: Path) -> None:
    facts = only(tmp_path, OUTLIER).facts
    assert (facts["duration_us#0"].launch, facts["duration_us#0"].value) == (11, 600.0)
    assert facts["l2_hit_rate_pct#usual"].value == 80.0
    assert facts["l2_hit_rate_pct#0"].value == 20.0
    assert facts["as_long_as_the_median#set"].value == pytest.approx(600 / 201, rel=0.01)


@pytest.mark.slow
def test_files_of_a_history_are_numbered_in_their_order(tmp_path: Path) -> None:
    insight = only(tmp_path, HISTORY)
    cells = {name: fact for name, fact in insight.facts.items() if fact.path}
    assert cells
    assert insight.change is not None
    for name, fact in cells.items():
        assert insight.change.history[int(name.partition("#")[2])].path == fact.path
    assert insight.facts["median_before#set"].value == 100.0


@pytest.mark.slow
def test_a_cluster_has_no_points(tmp_path: Path) -> None:
    ill = [finding(each, "uncoalesced_global", 2.0) for each in SICK]
    facts = only(tmp_path, SICK, *ill).facts
    assert facts["kernels#set"].value == 2
    assert all(name.endswith("#set") for name in facts)
