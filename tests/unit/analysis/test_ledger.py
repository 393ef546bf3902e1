"""Ids of evidence: what they say, and that they depend on nothing but the number they stand for."""

import random

import pytest

from keet.analysis.ledger import LaunchLedger, Ledger, scope_in
from keet.catalog import metrics
from keet.comparison.compare import compare, compare_explanations
from keet.comparison.same_kernel import Side, SideCapture
from keet.evidence import Evidence, slug_of
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.explanation.program import program_of
from keet.profile import Profile, RawMetric
from keet.units import Quantity
from tests.conftest import REPORTS, TESTS
from tests.rows import each_row
from tests.unit.analysis.launch_checks import check_ids
from tests.unit.analysis.made_up_launch import made_up

SAMPLES = sorted((TESTS.parent / "kernels_samples").glob("*/*.ncu-rep*"))
RUNS = sorted((TESTS / "data" / "runs").glob("*.ncu-repz"))
PIPELINE = REPORTS / "pipeline_before.ncu-repz"
SHARE = Quantity(40.0, "%")


def explained(profile: Profile, report_scope: str = "", most: int = 6) -> Explanation:
    return explain(profile, profile.launches[:most], 5, report_scope=report_scope, sass=False)


def books_of(told: Explanation) -> list[list[Evidence]]:
    program = program_of(told)
    together = [*(program.evidence.values() if program else ())]
    together += told.whole_run.book if told.whole_run else ()
    return [*(list(each.view.ledger) for each in told.launches), together]


def test_ids_of_metrics_and_of_different_numbers() -> None:
    ledger = LaunchLedger(made_up({"dram": 80.0}, l2_hit_rate_pct=42.0))
    found = ledger.measured("l2_hit_rate_pct")
    assert (found.id, found.slug) == ("l2_hit_rate_pct#0", "l2_hit_rate_pct")
    assert ledger.named(found.metric, "hit rate") is found
    computed = ledger.derived("l2_hit_rate_pct", SHARE, "hits over look-ups")
    assert computed.slug == "l2_hit_rate_pct_computed"
    # The one that is found first has the id of the catalog.
    slugs = {
        "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved_occupancy_pct",
        "sm__active_warps_avg_per_active_cycle_pct": "sm__active_warps_avg_per_active_cycle_pct",
    }
    launch = made_up({}, achieved_occupancy_pct=50.0)
    launch.data.metrics.update(dict.fromkeys(slugs, RawMetric(50.0)))
    for order in (slugs, [*slugs][::-1]):
        ledger = LaunchLedger(launch)
        assert {name: ledger.named(name, "occupancy").slug for name in order} == slugs
    book = Ledger("0")
    names = ["a b", "a.b", "a-b", "a_b_2", "A b"]
    made = [book.derived(name, SHARE, "label") for name in names]
    assert len({piece.id for piece in made}) == len(names)
    assert [book.derived(name, SHARE, "label") for name in names] == made
    assert (scope_in("", 3), scope_in("before", 3)) == ("3", "before.3")
    assert LaunchLedger(made_up({}), "1").derived("share", SHARE, "share").id == "share#1.0"
    ledger = LaunchLedger(made_up({}, l2_hit_rate_pct=42.0, dram_bytes_read=4096))
    share = ledger.derived("share", SHARE, "share", line="a.cu:3")
    assert ledger.by_slug().get("share@a.cu:3") is share
    assert "l2_hit_rate_pct" not in ledger.by_slug()
    found = ledger.look_up("l2_hit_rate_pct")
    assert found.value == 42.0
    assert ledger.by_slug()["l2_hit_rate_pct"] is found
    assert ledger.by_slug() == {"share@a.cu:3": share, "l2_hit_rate_pct": found}
    assert ledger.look_up("l1_hit_rate_pct") is None
    assert ledger.look_up("no_such_metric") is None


@each_row("line, written", [
    ("flip.cu:31", "share@flip.cu:31#0"), ("my file.cu:31", "share@my_file.cu:31#0"),
    ("a}#0{b].cu:3", "share@a_0_b_.cu:3#0"), ("a.cu:3 → b.cu:5", "share@a.cu:3..b.cu:5#0"),
    ("größe.cu:3", "share@größe.cu:3#0"),
])  # fmt: skip
def test_a_source_line(line: str, written: str) -> None:
    assert LaunchLedger(made_up({})).derived("share", SHARE, "share", line=line).id == written


@each_row("name, slug", [
    ("left.DRAM", "left_dram"), ("2D size", "n_2d_size"), ("größe", "gr_e"), ("大小", "n_"),
    ("pair 0 before: busy L2", "pair_0_before_busy_l2"), ("dram__bytes.sum", "dram__bytes_sum"),
    ("threads -8", "threads_minus_8"), ("threads 8", "threads_8"),
])  # fmt: skip
def test_names_become_words(name: str, slug: str) -> None:
    assert slug_of(name) == slug


@each_row("path", [*SAMPLES[::9], *RUNS[::4], PIPELINE], ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_ids_are_names(path, profile_of) -> None:
    for book in books_of(explained(profile_of(path))):
        check_ids(book)


def test_the_order_of_look_ups_does_not_matter(profile_of) -> None:
    """Nor does whether a metric is asked for by its id or under one of ncu's names."""
    launch = profile_of(PIPELINE).launches[0]
    names = [(False, name) for name in launch.metric_names()] + [(True, i) for i in metrics()]
    first, other = LaunchLedger(launch), LaunchLedger(launch)
    for seed, ledger in enumerate((first, other)):
        random.Random(seed).shuffle(names)
        for is_id, name in names:
            _ = ledger.measured(name) if is_id else ledger.named(name, "label")
    assert {e.metric: e.id for e in first} == {e.metric: e.id for e in other}
    assert len({e.id for e in first}) == len(list(first)) > 500


def test_ids_depend_on_the_side_and_not_on_the_explained_launches(profile_of) -> None:
    profile = profile_of(PIPELINE)
    told = {e.id: e for each in explained(profile).launches for e in each.view.ledger}
    alone = [*explain(profile, profile.launches[2:3], 1, sass=False).launches[0].view.ledger]
    same = [told[piece.id] == piece for piece in alone if piece.id in told]
    assert all(same)
    assert len(same) > 0.9 * len(alone)
    before, after = profile, profile_of(REPORTS / "pipeline_after.ncu-repz")
    found = compare(*(Side((SideCapture(p, p.launches),)) for p in (before, after)))
    check_ids(found.evidence.values())
    pieces = found.evidence.values()
    sides = [piece for piece in pieces if "#before." in piece.id and not piece.derived_from]
    for piece in sides:
        alone = told.get(piece.id.replace("#before.", "#"))
        assert alone is None or (alone.metric, alone.value) == (piece.metric, piece.value)
    assert len(sides) > 100
    assert found.evidence.keys() >= {"duration#before.0", "duration#after.0"}
    assert found.evidence.keys() >= {"pair_0_time_before#diff", "all_kernels_speedup#diff"}
    before, after = (profile_of(path) for path in SAMPLES[:2])
    with pytest.raises(ValueError, match="report_scope"):
        compare_explanations(explained(before), explained(after))
    found = compare_explanations(explained(before, "before"), explained(after))
    check_ids(found.evidence.values())
