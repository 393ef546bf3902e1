"""Clusters, outliers and changes over time: planted ones are found, others are not made up."""

import random
from collections.abc import Sequence

import pytest

from keet.corpus.insights.outliers import change_point
from keet.documents.insights import ClusterDocument, InsightDocument, InsightsDocument
from keet.formats import page_text
from keet.pages.insights import insights_page
from tests.insights_sets import Set, finding, found_apart, launch, night
from tests.rows import each_row

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


RUN_TIMES = {"one": 4000.0, "two": 1000.0, "three": 2800.0}
"""In two files with 100 us each that were not profiled: 8 ms in all."""


def sick_in_runs(*known: str, **first: object) -> Set:
    """Launches of 100 us, for which `RUN_TIMES` are known where the kernel is named."""
    made = one_each(list(RUN_TIMES), "a.ncu-rep")
    made[1] = launch("b.ncu-rep", 1, kernel="two", kernel_full="two()")
    for each, (name, time) in zip(made, RUN_TIMES.items()):
        each.update({"run_time_us": time, "plain_us": 110.0} if name in known else {})
    made[0].update(first)
    return made, ill(made[:2], "uncoalesced_global")


def versions() -> Launches:
    """As `track` of xs_lookup: slow, step1 and fast have other parameters and one name."""
    return [
        launch(f"{path}.ncu-rep", kernel=kernel, kernel_full=f"{kernel}({path})", duration_us=us)
        for path, kernel, us in (
            *(("x/slow", "track", 300.0), ("x/step1", "track", 200.0), ("x/fast", "track", 100.0)),
            *(("y/slow", "track", 80.0), ("z/slow", "flip", 60.0)),
        )
    ]


ONE, TWO, THREE = [launch(f"{i}.ncu-rep", i) for i in range(3)], one_each("ab"), one_each("abc")
SMALL, BRIEF = one_each("ab", duration_us=3.0), one_each("abc", duration_us=4.0)
SICK = one_each(["one", "two"], duration_us={"one": 300.0, "two": 100.0}.get)
MAKERS = one_each(["one", "two"], device={"one": "TITAN V", "two": "NVIDIA TITAN V"}.get)
SIZES = one_each(["one", "two"], sm_count={"one": 132, "two": 66}.get)
CLUSTERS: dict[str, Set] = {
    "on one GPU": ([*SICK, *one_each(["three"], duration_us=600.0)], ill(SICK, "uncoalesced_global")),
    "on another": (SICK, ill(SICK, "uncoalesced_global")),
    "one GPU, with and without its maker": (MAKERS, ill(MAKERS)),
    "runs": sick_in_runs(*RUN_TIMES),
    "runs with few launches like the profiled ones": sick_in_runs(*RUN_TIMES, run_alike_us=1000.0),
    "runs, one of them unknown": sick_in_runs("one", "three"),
    "versions of a kernel": (versions(), ill(versions(), "uncoalesced_global")),
    "kernels of one file": (one_each(RUN_TIMES, "a.ncu-rep"), ill(one_each(RUN_TIMES, "a.ncu-rep"))),
}  # fmt: skip
NO_CLUSTER: dict[str, Set] = {
    "GPUs of one name that differ in their numbers of SMs": (SIZES, ill(SIZES)),
    "the replay differs, so that one kernel is left": sick_in_runs(*RUN_TIMES, plain_us=2400.0),
    "one kernel": (ONE, ill(ONE)),
    "launches that are too short: their gain is more work in the same time": (TWO, ill(TWO, "launch_bound")),
    "a small saving": ([*SMALL, *one_each("l", duration_us=1e4)], ill(SMALL, "launch_bound", 3.0)),
    "within noise": (BRIEF, ill(BRIEF)),
    "below one percent": ([*THREE, *one_each("l", duration_us=5e4)], ill(THREE)),
    "no time, and nothing of the code": ([launch("c.ncu-rep", duration_us=None), launch("d.ncu-rep", machine_code="off")], ()),
}  # fmt: skip


def running(times: Sequence[float], **cells: object) -> Launches:
    """Launches of one kernel in one file."""
    return [launch("app.ncu-rep", i, duration_us=t, **cells) for i, t in enumerate(times)]


def steady(count: int, median: float = 200.0) -> list[float]:
    noise = random.Random(7)
    return [median * (1 + noise.gauss(0, 0.004)) for _ in range(count)]


SPREAD = random.Random(3)
OUTLIER = running(steady(20))
OUTLIER[13] |= {"duration_us": 620.0, "inst_executed_total": 3.1e7}
NO_OUTLIER = {
    "widely spread": running([100.0 * SPREAD.lognormvariate(0, 0.3) for _ in range(60)]),
    "a second mode": running([100.0] * 12 + [300.0] * 5),
    "another shape": [*running(steady(8)), launch("app.ncu-rep", 8, grid=(9999, 1, 1), duration_us=2e3)],
    "too few": running([99.0, 100, 101, 400]),
}  # fmt: skip


def nights(times: list[float], **later: object) -> Launches:
    """Files whose names do not tell their order; `later` holds from 130 us on."""
    return [
        launch(f"{7 * i % 41:02d}", created=night(i), duration_us=t, **(later if t > 130 else {}))
        for i, t in enumerate(times)
    ]


NIGHTS = [100.0, 102, 98, 101, 99, 141, 139, 140, 143]
SLOWER = {"limiter": "L2", "l2_hit_rate_pct": 20.0, "registers_per_thread": 64.0}
OTHERS = {
    "an outlier": OUTLIER,
    **NO_OUTLIER,
    "a regression": nights(NIGHTS, **SLOWER),
    "another driver": nights([100.0, 101, 99, 100, 150, 151, 149], driver_version="590.2"),
    "no dates": [each | {"created": None} for each in nights([100.0] * 3 + [150.0] * 3)],
}


class Found:
    """What was found in the sets, all in one store."""

    def __init__(self, every: InsightsDocument, by_set: dict[str, list[InsightDocument]]) -> None:
        self.every, self.by_set = every, by_set

    def only(self, name: str) -> InsightDocument:
        (insight,) = self.by_set[name]
        return insight

    def cluster(self, name: str) -> ClusterDocument:
        found = self.only(name).cluster
        assert found is not None
        return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    sets = {**CLUSTERS, **NO_CLUSTER, **{name: (each, ()) for name, each in OTHERS.items()}}
    return Found(*found_apart(tmp_path_factory.mktemp("set") / "store", sets, gpus=True))


# --- clusters


def test_one_finding_in_several_kernels_of_each_gpu(found: Found) -> None:
    for name, share in (("on one GPU", 40), ("on another", 100)):
        cluster = found.cluster(name)
        assert (cluster.kernel_count, round(cluster.share_pct)) == (2, share)
        assert cluster.saved_likely_us == pytest.approx(200.0)  # half of 400 us
        assert cluster.saved_low_us < 200.0 < cluster.saved_high_us < cluster.time_us
        assert cluster.remedy
    cluster = found.cluster("one GPU, with and without its maker")
    assert (cluster.device[:14], cluster.kernel_count) == ("NVIDIA TITAN V", 2)
    sizes = [each for each in found.every.devices if " SMs)" in each]
    assert [each.partition("(")[2] for each in sizes] == ["132 SMs)", "66 SMs)"]


def test_clusters_count_the_time_of_the_runs(found: Found, wording) -> None:
    """Where one run is not known, as profiled: times of runs and of single launches do not add up.
    It saves only in launches like the profiled ones."""
    cluster, alike = found.cluster("runs"), "runs with few launches like the profiled ones"
    assert (cluster.basis, cluster.total_us) == ("run", 8000.0)
    for each, saved in ((cluster, 2500.0), (found.cluster(alike), 1000.0)):
        assert each.time_us == pytest.approx(5000.0)
        assert each.saved_likely_us == pytest.approx(saved)
    wording(found.only("runs").title, found.only("runs").text[0])
    cluster = found.cluster("runs, one of them unknown")
    assert (cluster.basis, cluster.total_us) == ("reports", 300.0)
    assert cluster.saved_likely_us == pytest.approx(100.0)


@each_row("name", NO_CLUSTER)
def test_what_is_no_cluster(name: str, found: Found) -> None:
    assert found.by_set[name] == []


def test_versions_of_a_kernel_in_one_folder_do_not_add_up(found: Found, wording) -> None:
    cluster = found.cluster("versions of a kernel")
    rows = [(k.kernel[2:], k.shown_path[-10:], k.versions, k.launches) for k in cluster.kernels]
    assert rows == [
        *(("track", "ow.ncu-rep", 3, 1), ("track", "ow.ncu-rep", 1, 1)),
        ("flip", "ow.ncu-rep", 1, 1),
    ]
    assert cluster.saved_likely_us == pytest.approx((300 + 80 + 60) / 2)
    assert (cluster.versions, cluster.launches, cluster.kernel_count) == (2, 5, 3)
    wording(found.only("versions of a kernel").text[0])


def test_the_set_adds_nothing_to_kernels_of_one_file(found: Found) -> None:
    insight = found.only("kernels of one file")
    assert insight.adds == ""
    page = page_text(lambda reader: insights_page(found.every, reader), "markdown")
    assert page.count("in one file") == 1


def test_what_is_left_out_and_what_was_not_analysed_is_counted(found: Found, wording) -> None:
    """As many launches as `keet top` counts. Files without dates have no history."""
    every = [
        each for launches, _ in (*CLUSTERS.values(), *NO_CLUSTER.values()) for each in launches
    ]
    every += [each for launches in OTHERS.values() for each in launches]
    assert found.every.launches == len(every) - 1
    wording(found.every.notes)


# --- outliers


def test_an_outlier_names_the_metrics_that_changed(found: Found) -> None:
    insight = found.only("an outlier")
    (only,) = insight.outliers.launches
    assert (only.launch, [each.metric for each in only.moved]) == (13, ["inst_executed_total"])
    assert only.times == pytest.approx(3.1, rel=0.02)
    assert any("Executed Instructions is 31,000,000" in text for text in insight.text)


@each_row("name", [*NO_OUTLIER, "no dates"])
def test_what_is_no_outlier_and_no_history(name: str, found: Found) -> None:
    assert [each for each in found.by_set[name] if each.kind in ("outliers", "change")] == []


# --- changes over time


def test_a_regression_between_two_nights(found: Found) -> None:
    change = found.only("a regression").change
    assert (change.slower, change.last_before) == (True, 4)
    assert [each.time_us for each in change.history] == NIGHTS
    assert change.history[5].created.startswith("2026-11-07")
    assert change.change_pct == pytest.approx(40.5, abs=1)
    assert (change.limiter_before, change.limiter_after) == ("DRAM", "L2")
    assert [each.metric for each in change.moved] == ["registers_per_thread"]
    driver = found.only("another driver").change
    assert driver.versions == ["driver 580.1 to driver 590.2"], "what changed as well is named"


@pytest.mark.slow
def test_no_change_in_pure_noise() -> None:
    """Captures that differ by what was measured between sessions, in hundreds of histories."""
    noise, changed = random.Random(5), 0
    for _ in range(400):
        length = noise.randint(5, 60)
        times = [100.0 * noise.lognormvariate(0, 0.025 / 2**0.5) for _ in range(length)]
        changed += change_point(times) is not None
    assert changed <= 1


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
