"""Clusters, outliers and changes over time: planted ones are found, others are not made up."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from keet.corpus.insights.changes import change_point
from keet.documents.insights import InsightsDocument
from keet.formats import page_text
from keet.pages.insights import insights_page
from tests.insights_sets import finding, insights_of, launch, make_set, night, of_kind


def found_in(tmp_path: Path, launches: list[dict[str, object]], findings=()) -> InsightsDocument:  # type: ignore[no-untyped-def]
    return insights_of(make_set(tmp_path / "store", launches, findings))


# --- clusters


def test_one_finding_in_several_kernels_of_each_gpu(tmp_path: Path) -> None:
    sick = [
        launch(f"{gpu}-{k}.ncu-rep", kernel=k, kernel_full=f"{k}()", device=gpu, duration_us=t)
        for gpu in ("NVIDIA H200", "NVIDIA A100")
        for k, t in (("one", 300.0), ("two", 100.0))
    ]
    well = launch("well.ncu-rep", kernel="three", kernel_full="three()", duration_us=600.0)
    ill = [finding(each, "uncoalesced_global", 2.0) for each in sick]
    found = found_in(tmp_path, [*sick, well], ill)
    clusters = [each.cluster for each in of_kind(found, "cluster") if each.cluster]
    assert {(c.device, c.kernel_count, round(c.share_pct)) for c in clusters} == {
        ("NVIDIA H200", 2, 40),
        ("NVIDIA A100", 2, 100),
    }
    for cluster in clusters:
        assert cluster.saved_likely_us == pytest.approx(200.0)  # half of 400 us
        assert cluster.saved_low_us < 200.0 < cluster.saved_high_us < cluster.time_us
        assert cluster.remedy


RUN_TIMES = {"one": 4000.0, "two": 1000.0, "three": 2800.0}
"""In two files with 100 us each that were not profiled: 8 ms in all."""


@pytest.mark.slow
def test_a_gpu_is_the_same_with_and_without_the_maker_in_its_name(tmp_path: Path) -> None:
    sick = [
        launch(f"{k}.ncu-rep", kernel=k, kernel_full=f"{k}()", device=device)
        for k, device in (("one", "TITAN V"), ("two", "NVIDIA TITAN V"))
    ]
    found = found_in(tmp_path, sick, [finding(each, "small_grid", 2.0) for each in sick])
    assert found.devices == ["NVIDIA TITAN V"]
    (insight,) = found.insights
    assert insight.cluster is not None
    assert (insight.cluster.device, insight.cluster.kernel_count) == ("NVIDIA TITAN V", 2)


@pytest.mark.slow
def test_gpus_with_different_numbers_of_sms_are_different_gpus(tmp_path: Path) -> None:
    sick = [
        launch(f"{k}.ncu-rep", kernel=k, kernel_full=f"{k}()", sm_count=sms)
        for k, sms in (("one", 132), ("two", 66))
    ]
    found = found_in(tmp_path, sick, [finding(each, "small_grid", 2.0) for each in sick])
    assert found.devices == ["NVIDIA H200 (132 SMs)", "NVIDIA H200 (66 SMs)"]
    assert found.insights == []


def sick_in_runs(*known: str) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Launches of 100 us, for which `RUN_TIMES` are known where the kernel is named."""
    made = [
        launch(
            "b.ncu-rep" if name == "two" else "a.ncu-rep",
            number,
            kernel=name,
            kernel_full=f"{name}()",
            **({"run_time_us": time, "plain_us": 110.0} if name in known else {}),
        )
        for number, (name, time) in enumerate(RUN_TIMES.items())
    ]
    return made, [finding(each, "uncoalesced_global", 2.0) for each in made[:2]]


@pytest.mark.slow
def test_clusters_count_the_time_of_the_runs(tmp_path: Path, wording) -> None:
    found = found_in(tmp_path, *sick_in_runs("one", "two", "three"))
    (only,) = of_kind(found, "cluster")
    assert only.cluster is not None
    assert (only.cluster.basis, only.cluster.total_us) == ("run", 8000.0)
    assert only.cluster.time_us == pytest.approx(5000.0)
    assert only.cluster.saved_likely_us == pytest.approx(2500.0)
    wording(only.title, only.text[0])
    assert found.notes == []


@pytest.mark.slow
def test_a_cluster_saves_only_in_launches_like_the_profiled_ones(tmp_path: Path) -> None:
    launches, findings = sick_in_runs("one", "two", "three")
    launches[0]["run_alike_us"] = 1000.0
    (only,) = of_kind(found_in(tmp_path, launches, findings), "cluster")
    assert only.cluster is not None
    assert only.cluster.time_us == pytest.approx(5000.0)
    assert only.cluster.saved_likely_us == pytest.approx(1000.0)


@pytest.mark.slow
def test_clusters_count_as_profiled_where_one_run_is_not_known(tmp_path: Path, wording) -> None:
    """Times of runs and of single launches do not add up."""
    found = found_in(tmp_path, *sick_in_runs("one", "three"))
    (only,) = of_kind(found, "cluster")
    assert only.cluster is not None
    assert (only.cluster.basis, only.cluster.total_us) == ("reports", 300.0)
    assert only.cluster.saved_likely_us == pytest.approx(100.0)
    wording(found.notes)


@pytest.mark.slow
def test_clusters_claim_no_saving_if_the_replay_differs(tmp_path: Path) -> None:
    launches, findings = sick_in_runs("one", "two", "three")
    launches[0]["plain_us"] = 2400.0
    assert of_kind(found_in(tmp_path, launches, findings), "cluster") == [], "one kernel is left"


@pytest.mark.slow
def test_one_kernel_is_not_a_cluster(tmp_path: Path) -> None:
    sick = [launch(f"{i}.ncu-rep", i) for i in range(3)]
    found = found_in(tmp_path, sick, [finding(each, "small_grid", 2.0) for each in sick])
    assert of_kind(found, "cluster") == []


@pytest.mark.slow
def test_a_finding_with_a_small_saving_is_not_a_cluster(tmp_path: Path) -> None:
    small = [launch(f"{k}.ncu-rep", kernel=k, kernel_full=f"{k}()", duration_us=3.0) for k in "ab"]
    large = launch("l.ncu-rep", kernel="large", kernel_full="large()", duration_us=1e4)
    found = found_in(tmp_path, [*small, large], [finding(e, "launch_bound", 3.0) for e in small])
    assert of_kind(found, "cluster") == []


@pytest.mark.slow
def test_versions_of_a_kernel_in_one_folder_do_not_add_up(tmp_path: Path, wording) -> None:
    """As `track` of xs_lookup: slow, step1 and fast have other parameters and one name."""
    versions = [
        launch(f"x/{name}.ncu-rep", kernel="track", kernel_full=f"track({name})", duration_us=t)
        for name, t in (("slow", 300.0), ("step1", 200.0), ("fast", 100.0))
    ]
    others = [
        launch("y/slow.ncu-rep", kernel="track", kernel_full="track(y)", duration_us=80.0),
        launch("z/slow.ncu-rep", kernel="flip", kernel_full="flip()", duration_us=60.0),
    ]
    sick = [finding(each, "uncoalesced_global", 2.0) for each in (*versions, *others)]
    (insight,) = of_kind(found_in(tmp_path, [*versions, *others], sick), "cluster")
    cluster = insight.cluster
    assert cluster is not None
    rows = [(k.kernel, k.shown_path, k.versions, k.launches) for k in cluster.kernels]
    assert rows == [
        ("track", "x/slow.ncu-rep", 3, 1),
        ("track", "y/slow.ncu-rep", 1, 1),
        ("flip", "z/slow.ncu-rep", 1, 1),
    ]
    assert cluster.saved_likely_us == pytest.approx((300 + 80 + 60) / 2)
    assert (cluster.versions, cluster.launches, cluster.kernel_count) == (2, 5, 3)
    wording(insight.text[0])


@pytest.mark.slow
def test_the_set_adds_nothing_to_kernels_of_one_file(tmp_path: Path) -> None:
    sick = [
        launch("a.ncu-rep", i, kernel=k, kernel_full=f"{k}()", duration_us=100.0)
        for i, k in enumerate(("one", "two", "three"))
    ]
    found = found_in(tmp_path, sick, [finding(each, "small_grid", 2.0) for each in sick])
    (insight,) = of_kind(found, "cluster")
    assert insight.adds == ""
    page = page_text(lambda reader: insights_page(found, reader), "markdown")
    assert page.count("in one file") == 1


@pytest.mark.slow
def test_what_is_left_out_and_what_was_not_analysed_is_counted(tmp_path: Path, wording) -> None:
    """As many launches as `keet top` counts."""
    timed = [launch(f"{k}.ncu-rep", machine_code="off") for k in "ab"]
    found = found_in(tmp_path, [*timed, launch("c.ncu-rep", duration_us=None)], [])
    assert (found.launches, found.files) == (2, 2)
    told = "; ".join(map(str, found.notes))
    wording(told)


def test_a_cluster_of_launches_that_are_too_short_saves_nothing_alone(tmp_path: Path) -> None:
    """Their gain is more work in the same time."""
    short = [launch(f"{k}.ncu-rep", kernel=k, kernel_full=f"{k}()") for k in ("one", "two")]
    found = found_in(tmp_path, short, [finding(each, "launch_bound", 2.0) for each in short])
    assert of_kind(found, "cluster") == []


@pytest.mark.parametrize(("time", "rest"), [(4.0, 0.0), (100.0, 5e4)])
@pytest.mark.slow
def test_a_saving_within_noise_or_below_one_percent_is_not_a_cluster(
    tmp_path: Path, time: float, rest: float
) -> None:
    sick = [launch(f"{k}.ncu-rep", kernel=k, kernel_full=f"{k}()", duration_us=time) for k in "abc"]
    large = [launch("l.ncu-rep", kernel="l", kernel_full="l()", duration_us=rest)] if rest else []
    ill = [finding(each, "small_grid", 2.0) for each in sick]
    assert of_kind(found_in(tmp_path, [*sick, *large], ill), "cluster") == []


# --- outliers


def steady(count: int, median: float = 200.0) -> list[float]:
    noise = random.Random(7)
    return [median * (1 + noise.gauss(0, 0.004)) for _ in range(count)]


@pytest.mark.slow
def test_an_outlier_names_the_metrics_that_changed(tmp_path: Path) -> None:
    launches = [launch("app.ncu-rep", i, duration_us=t) for i, t in enumerate(steady(20))]
    launches[13] |= {"duration_us": 620.0, "inst_executed_total": 3.1e7}
    (insight,) = of_kind(found_in(tmp_path, launches), "outliers")
    outliers = insight.outliers
    assert outliers is not None
    assert [each.launch for each in outliers.launches] == [13]
    assert outliers.launches[0].times == pytest.approx(3.1, rel=0.02)
    assert [each.metric for each in outliers.launches[0].moved] == ["inst_executed_total"]
    assert any("Executed Instructions is 31,000,000" in text for text in insight.text)


@pytest.mark.slow
def test_widely_spread_times_have_no_outlier(tmp_path: Path) -> None:
    noise = random.Random(3)
    launches = [
        launch("app.ncu-rep", i, duration_us=100.0 * noise.lognormvariate(0, 0.3))
        for i in range(60)
    ]
    assert of_kind(found_in(tmp_path, launches), "outliers") == []


@pytest.mark.slow
def test_a_second_mode_is_not_an_outlier(tmp_path: Path) -> None:
    times = [100.0] * 12 + [300.0] * 5
    launches = [launch("app.ncu-rep", i, duration_us=t) for i, t in enumerate(times)]
    assert of_kind(found_in(tmp_path, launches), "outliers") == []


@pytest.mark.slow
def test_launches_of_other_shapes_are_not_peers(tmp_path: Path) -> None:
    launches = [launch("app.ncu-rep", i, duration_us=t) for i, t in enumerate(steady(8))]
    launches.append(launch("app.ncu-rep", 8, grid=(9999, 1, 1), duration_us=2000.0))
    assert of_kind(found_in(tmp_path, launches), "outliers") == []


@pytest.mark.slow
def test_four_launches_are_too_few(tmp_path: Path) -> None:
    launches = [launch("a.ncu-rep", i, duration_us=t) for i, t in enumerate((99.0, 100, 101, 400))]
    assert of_kind(found_in(tmp_path, launches), "outliers") == []


# --- changes over time


def nights(times: list[float], **later: object) -> list[dict[str, object]]:
    """Files whose names do not tell their order; `later` holds from 130 us on."""
    return [
        launch(
            f"{(7 * i) % 41:02d}.ncu-rep",
            created=night(i),
            duration_us=t,
            **(later if t > 130 else {}),
        )
        for i, t in enumerate(times)
    ]


def test_a_regression_between_two_nights(tmp_path: Path) -> None:
    times = [100.0, 102, 98, 101, 99, 141, 139, 140, 143]
    found = found_in(
        tmp_path,
        nights(times, limiter="L2", l2_hit_rate_pct=20.0, registers_per_thread=64.0),
    )
    (insight,) = of_kind(found, "change")
    change = insight.change
    assert change is not None
    assert change.slower
    assert change.last_before == 4
    assert [each.time_us for each in change.history] == times
    assert change.history[5].created.startswith("2026-11-07")
    assert change.change_pct == pytest.approx(40.5, abs=1)
    assert (change.limiter_before, change.limiter_after) == ("DRAM", "L2")
    assert [each.metric for each in change.moved] == ["registers_per_thread"]


@pytest.mark.slow
def test_versions_that_changed_as_well_are_named(tmp_path: Path) -> None:
    launches = nights([100.0, 101, 99, 100, 150, 151, 149], driver_version="590.2")
    (insight,) = of_kind(found_in(tmp_path, launches), "change")
    assert insight.change is not None
    assert insight.change.versions == ["driver 580.1 to driver 590.2"]


@pytest.mark.slow
def test_noise_is_not_a_change(tmp_path: Path) -> None:
    noise = random.Random(1)
    times = [100.0 * noise.lognormvariate(0, 0.025) for _ in range(40)]
    assert of_kind(found_in(tmp_path, nights(times)), "change") == []


@pytest.mark.slow
def test_files_without_dates_have_no_history(tmp_path: Path) -> None:
    launches = [each | {"created": None} for each in nights([100.0, 100, 100, 150, 150, 150])]
    found = found_in(tmp_path, launches)
    assert of_kind(found, "change") == []
    assert any("have no date" in note for note in found.notes)


@pytest.mark.slow
def test_no_change_in_pure_noise() -> None:
    """Captures that differ by what was measured between sessions, in a thousand histories."""
    noise, found = random.Random(5), 0
    for _ in range(1000):
        length = noise.randint(5, 60)
        times = [100.0 * noise.lognormvariate(0, 0.025 / 2**0.5) for _ in range(length)]
        found += change_point(times) is not None
    assert found <= 1


def test_a_slow_drift_is_cut_nowhere_near_its_ends() -> None:
    assert change_point([100.0, 103, 106, 109, 112, 115, 118, 121]) is None


def test_a_change_in_the_last_file_must_be_twice_as_large() -> None:
    assert change_point([100.0, 100, 100, 100, 110]) is None
    found = change_point([100.0, 100, 100, 100, 130])
    assert found is not None
    assert found.after == 3
