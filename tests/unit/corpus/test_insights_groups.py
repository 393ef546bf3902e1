"""Clusters, outliers and changes over time: planted ones are found, others are not made up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from keet.corpus.insights.changes import change_point
from keet.documents.insights import ClusterDocument, InsightDocument, InsightsDocument
from keet.formats import page_text
from keet.pages.insights import insights_page
from tests.insights_sets import finding, insights_of, launch, make_set, night, of_kind
from tests.rows import each_row


def found_in(tmp_path: Path, launches: list[dict[str, object]], findings=()) -> InsightsDocument:  # type: ignore[no-untyped-def]
    return insights_of(make_set(tmp_path / "store", launches, findings))


Launches = list[dict[str, object]]


def one_each(names: Sequence[str], file: str = "{}.ncu-rep", **cells: object) -> Launches:
    """A launch of a kernel for each name; a cell that is a function gets the name."""
    return [
        launch(
            file.format(name),
            number,
            kernel=name,
            kernel_full=f"{name}()",
            **{key: cell(name) if callable(cell) else cell for key, cell in cells.items()},
        )
        for number, name in enumerate(names)
    ]


def ill(launches: Launches, name: str = "small_grid", gain: float = 2.0) -> Launches:
    return [finding(each, name, gain) for each in launches]


def only_cluster(found: InsightsDocument) -> tuple[InsightDocument, ClusterDocument]:
    (insight,) = of_kind(found, "cluster")
    assert insight.cluster is not None
    return insight, insight.cluster


def running(times: Sequence[float], **cells: object) -> Launches:
    """Launches of one kernel in one file."""
    return [launch("app.ncu-rep", i, duration_us=t, **cells) for i, t in enumerate(times)]


# --- clusters


def test_one_finding_in_several_kernels_of_each_gpu(tmp_path: Path) -> None:
    times = {"one": 300.0, "two": 100.0}
    sick = [
        each
        for gpu in ("NVIDIA H200", "NVIDIA A100")
        for each in one_each(["one", "two"], gpu + "-{}", device=gpu, duration_us=times.get)
    ]
    well = one_each(["three"], duration_us=600.0)
    found = found_in(tmp_path, [*sick, *well], ill(sick, "uncoalesced_global"))
    clusters = [each.cluster for each in of_kind(found, "cluster") if each.cluster]
    told = {(c.device, c.kernel_count, round(c.share_pct)) for c in clusters}
    assert told == {("NVIDIA H200", 2, 40), ("NVIDIA A100", 2, 100)}
    for cluster in clusters:
        assert cluster.saved_likely_us == pytest.approx(200.0)  # half of 400 us
        assert cluster.saved_low_us < 200.0 < cluster.saved_high_us < cluster.time_us
        assert cluster.remedy


RUN_TIMES = {"one": 4000.0, "two": 1000.0, "three": 2800.0}
"""In two files with 100 us each that were not profiled: 8 ms in all."""


@pytest.mark.slow
def test_gpus_differ_by_their_numbers_of_sms_and_not_by_their_maker(tmp_path: Path) -> None:
    names = {"one": "TITAN V", "two": "NVIDIA TITAN V"}
    sick = one_each(["one", "two"], device=names.get)
    found = found_in(tmp_path / "maker", sick, ill(sick))
    assert found.devices == ["NVIDIA TITAN V"]
    _, cluster = only_cluster(found)
    assert (cluster.device, cluster.kernel_count) == ("NVIDIA TITAN V", 2)
    sick = one_each(["one", "two"], sm_count={"one": 132, "two": 66}.get)
    found = found_in(tmp_path / "sms", sick, ill(sick))
    assert found.devices == ["NVIDIA H200 (132 SMs)", "NVIDIA H200 (66 SMs)"]
    assert found.insights == []


def sick_in_runs(*known: str) -> tuple[Launches, Launches]:
    """Launches of 100 us, for which `RUN_TIMES` are known where the kernel is named."""
    made = one_each(list(RUN_TIMES), "a.ncu-rep")
    made[1] = launch("b.ncu-rep", 1, kernel="two", kernel_full="two()")
    for each, (name, time) in zip(made, RUN_TIMES.items()):
        each.update({"run_time_us": time, "plain_us": 110.0} if name in known else {})
    return made, ill(made[:2], "uncoalesced_global")


@pytest.mark.slow
def test_clusters_count_the_time_of_the_runs(tmp_path: Path, wording) -> None:
    launches, findings = sick_in_runs(*RUN_TIMES)
    found = found_in(tmp_path / "all", launches, findings)
    insight, cluster = only_cluster(found)
    assert (cluster.basis, cluster.total_us) == ("run", 8000.0)
    assert cluster.time_us == pytest.approx(5000.0)
    assert cluster.saved_likely_us == pytest.approx(2500.0)
    wording(insight.title, insight.text[0])
    assert found.notes == []
    launches[0]["run_alike_us"] = 1000.0  # it saves only in launches like the profiled ones
    _, cluster = only_cluster(found_in(tmp_path / "alike", launches, findings))
    assert cluster.time_us == pytest.approx(5000.0)
    assert cluster.saved_likely_us == pytest.approx(1000.0)


@pytest.mark.slow
def test_clusters_count_as_profiled_where_one_run_is_not_known(tmp_path: Path, wording) -> None:
    """Times of runs and of single launches do not add up."""
    found = found_in(tmp_path, *sick_in_runs("one", "three"))
    _, cluster = only_cluster(found)
    assert (cluster.basis, cluster.total_us) == ("reports", 300.0)
    assert cluster.saved_likely_us == pytest.approx(100.0)
    wording(found.notes)


def no_clusters() -> dict[str, tuple[Launches, Launches]]:
    replayed, of_replayed = sick_in_runs(*RUN_TIMES)
    replayed[0]["plain_us"] = 2400.0
    one = [launch(f"{i}.ncu-rep", i) for i in range(3)]
    two, small, brief = (
        one_each("ab"),
        one_each("ab", duration_us=3.0),
        one_each("abc", duration_us=4.0),
    )
    three = one_each("abc")
    return {
        "the replay differs, so that one kernel is left": (replayed, of_replayed),
        "one kernel": (one, ill(one)),
        "launches that are too short: their gain is more work in the same time": (two, ill(two, "launch_bound")),
        "a small saving": ([*small, *one_each(["l"], duration_us=1e4)], ill(small, "launch_bound", 3.0)),
        "within noise": (brief, ill(brief)),
        "below one percent": ([*three, *one_each(["l"], duration_us=5e4)], ill(three)),
    }  # fmt: skip


@each_row(("name", "stored"), no_clusters().items())
@pytest.mark.slow
def test_what_is_no_cluster(
    name: str, stored: tuple[Launches, Launches], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert of_kind(found_in(tmp_path_factory.mktemp("set"), *stored), "cluster") == []


@pytest.mark.slow
def test_versions_of_a_kernel_in_one_folder_do_not_add_up(tmp_path: Path, wording) -> None:
    """As `track` of xs_lookup: slow, step1 and fast have other parameters and one name."""
    launches = [
        launch(f"{path}.ncu-rep", kernel=kernel, kernel_full=f"{kernel}({path})", duration_us=us)
        for path, kernel, us in (
            *(("x/slow", "track", 300.0), ("x/step1", "track", 200.0), ("x/fast", "track", 100.0)),
            *(("y/slow", "track", 80.0), ("z/slow", "flip", 60.0)),
        )
    ]
    found = found_in(tmp_path, launches, ill(launches, "uncoalesced_global"))
    insight, cluster = only_cluster(found)
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
    sick = one_each(["one", "two", "three"], "a.ncu-rep")
    found = found_in(tmp_path, sick, ill(sick))
    assert only_cluster(found)[0].adds == ""
    page = page_text(lambda reader: insights_page(found, reader), "markdown")
    assert page.count("in one file") == 1


@pytest.mark.slow
def test_what_is_left_out_and_what_was_not_analysed_is_counted(tmp_path: Path, wording) -> None:
    """As many launches as `keet top` counts."""
    timed = [launch(f"{k}.ncu-rep", machine_code="off") for k in "ab"]
    found = found_in(tmp_path, [*timed, launch("c.ncu-rep", duration_us=None)], [])
    assert (found.launches, found.files) == (2, 2)
    wording(found.notes)


# --- outliers


def steady(count: int, median: float = 200.0) -> list[float]:
    noise = random.Random(7)
    return [median * (1 + noise.gauss(0, 0.004)) for _ in range(count)]


@pytest.mark.slow
def test_an_outlier_names_the_metrics_that_changed(tmp_path: Path) -> None:
    launches = running(steady(20))
    launches[13] |= {"duration_us": 620.0, "inst_executed_total": 3.1e7}
    (insight,) = of_kind(found_in(tmp_path, launches), "outliers")
    (only,) = insight.outliers.launches
    assert (only.launch, [each.metric for each in only.moved]) == (13, ["inst_executed_total"])
    assert only.times == pytest.approx(3.1, rel=0.02)
    assert any("Executed Instructions is 31,000,000" in text for text in insight.text)


SPREAD = random.Random(3)
NO_OUTLIER = {
    "widely spread": running([100.0 * SPREAD.lognormvariate(0, 0.3) for _ in range(60)]),
    "a second mode": running([100.0] * 12 + [300.0] * 5),
    "another shape": [*running(steady(8)), launch("app.ncu-rep", 8, grid=(9999, 1, 1), duration_us=2e3)],
    "too few": running([99.0, 100, 101, 400]),
}  # fmt: skip


@each_row("name", NO_OUTLIER)
@pytest.mark.slow
def test_what_is_no_outlier(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = found_in(tmp_path_factory.mktemp("set"), NO_OUTLIER[name])
    assert of_kind(found, "outliers") == []


# --- changes over time


def nights(times: list[float], **later: object) -> Launches:
    """Files whose names do not tell their order; `later` holds from 130 us on."""
    return [
        launch(f"{7 * i % 41:02d}", created=night(i), duration_us=t, **(later if t > 130 else {}))
        for i, t in enumerate(times)
    ]


def test_a_regression_between_two_nights(tmp_path: Path) -> None:
    times = [100.0, 102, 98, 101, 99, 141, 139, 140, 143]
    later = {"limiter": "L2", "l2_hit_rate_pct": 20.0, "registers_per_thread": 64.0}
    (insight,) = of_kind(found_in(tmp_path, nights(times, **later)), "change")
    change = insight.change
    assert (change.slower, change.last_before) == (True, 4)
    assert [each.time_us for each in change.history] == times
    assert change.history[5].created.startswith("2026-11-07")
    assert change.change_pct == pytest.approx(40.5, abs=1)
    assert (change.limiter_before, change.limiter_after) == ("DRAM", "L2")
    assert [each.metric for each in change.moved] == ["registers_per_thread"]


@pytest.mark.slow
def test_versions_that_changed_as_well_are_named(tmp_path: Path) -> None:
    launches = nights([100.0, 101, 99, 100, 150, 151, 149], driver_version="590.2")
    (insight,) = of_kind(found_in(tmp_path, launches), "change")
    assert insight.change.versions == ["driver 580.1 to driver 590.2"]


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


@each_row(
    ("times", "after"),
    [
        ([100.0, 103, 106, 109, 112, 115, 118, 121], None),  # a slow drift
        ([100.0, 100, 100, 100, 110], None),  # in the last file it must be twice as large
        ([100.0, 100, 100, 100, 130], 3),
    ],
)
def test_where_times_change(times: list[float], after: int | None) -> None:
    found = change_point(times)
    assert (found and found.after) == after
