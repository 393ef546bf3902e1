"""Sweeps: knobs are found, not given; nothing is found where nothing is."""

from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest

from evals.public_reports import NOT_FOUND
from keet.corpus.insights.points import capture_control, naming_of, program_part
from keet.documents.insights import InsightDocument, InsightsDocument, SweepDocument
from tests.conftest import CORPUS
from tests.insights_sets import found_apart, insights_of, launch, of_kind, reports_in
from tests.rows import each_row

SAMPLES = Path("kernels_samples")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> InsightsDocument:
    """Every report of the samples: two sweeps among 35 pairs of slow and fast."""
    reports = sorted(SAMPLES.glob("*/*.ncu-rep*")) + sorted(SAMPLES.glob("*/sweep/*.ncu-repz"))
    return insights_of(reports_in(tmp_path_factory.mktemp("store"), reports))


def about(insights: Iterable[InsightDocument], knob: str) -> InsightDocument:
    (found,) = [each for each in insights if each.sweep and each.sweep.knob == knob]
    return found


def best_of(sweep: SweepDocument) -> float | None:
    return None if sweep.best is None else sweep.points[sweep.best].value


# --- the samples


@pytest.mark.slow
def test_the_samples_have_two_sweeps_and_no_other(samples: InsightsDocument) -> None:
    found = [each.sweep for each in of_kind(samples, "sweep")]
    assert {(s.kernel, s.knob) for s in found} == {("dot", "BLOCK"), ("blur", "TILE_Y")}
    assert not [*of_kind(samples, "change"), *of_kind(samples, "outliers")]
    assert samples.grounding.numbers > 100
    assert samples.grounding.verified == samples.grounding.numbers
    assert samples.grounding.stray == []
    sweep = about(samples.insights, "BLOCK").sweep
    assert [point.value for point in sweep.points] == [32, 64, 96, 128, 192, 256, 512, 1024]
    assert best_of(sweep) == 1024
    assert [point.value for point in sweep.points if point.tied] == [96, 128, 512, 1024]
    assert [(c.after, c.until, c.was, c.becomes) for c in sweep.changes] == [
        ("32", "64", "L2", "DRAM"),
        ("128", "192", "DRAM", "L2"),
        ("256", "512", "L2", "DRAM"),
    ]
    sweep = about(samples.insights, "TILE_Y").sweep
    assert (best_of(sweep), sweep.work) == (8, "same")
    changes = [(c.after, c.until, c.was, c.becomes) for c in sweep.changes]
    assert changes == [("4", "5", "L1", "issue")]
    assert "grid y" in sweep.moves_with


def slow_parts(told: InsightDocument) -> dict[str, str]:
    """Sentences about slow points, by the values they are about."""
    slow = [text for text in told.text if text.startswith("At ") and "of the best" in text]
    return {text[3 : text.index(" it takes")]: text for text in slow}


@pytest.mark.slow
def test_texts_about_the_samples(samples: InsightsDocument, wording) -> None:
    """Each slow point of pair_reduce has its own sentence. L2 is near its peak at 32 and 64, and has
    more to do there: nothing says `in flight`. Work that varies is not called the same; a sentence
    about several points names both ends."""
    reduce, smooth = (about(samples.insights, knob) for knob in ("BLOCK", "TILE_Y"))
    slow = slow_parts(reduce)
    assert list(slow) == ["32", "64", "192", "256"]
    assert not any("hide latency" in text or "No counter" in text for text in slow.values())
    assert len(slow_parts(smooth)) == 1
    assert "L2 Cache Sectors" in reduce.text[0]
    assert "Executed Instructions" in smooth.text[0]
    for told in (reduce, smooth):
        wording(told.text, told.adds, case=told.sweep.knob)


@pytest.mark.slow
def test_public_reports_have_no_sweep_and_no_history(tmp_path: Path) -> None:
    if not CORPUS.is_dir():
        pytest.skip(NOT_FOUND)
    found = insights_of(reports_in(tmp_path / "s", sorted(CORPUS.glob("*.ncu-rep"))))
    assert {each.kind for each in found.insights} <= {"cluster"}


# --- planted knobs


Launches = list[dict[str, object]]


def over(knob: str, times: dict[int, float], **cells: object) -> Launches:
    """A file for each value; a cell that is a function gets the value."""
    return [
        launch(
            f"{knob}_{v}.ncu-rep",
            duration_us=t,
            **{name: cell(v) if callable(cell) else cell for name, cell in cells.items()},
        )
        for v, t in times.items()
    ]


EDITS = {1: 400.0, 2: 300.0, 3: 200.0, 4: 250.0}


def clocked(control: str) -> str:
    return f"ncu --clock-control {control} ./app"


KNOBS: dict[str, tuple[Launches, str, dict[str, object]]] = {
    "a block size without a name": (
        [
            launch(f"r/{n}.ncu-rep", block=(b, 1, 1), grid=(2**20 // b, 1, 1), duration_us=t)
            for n, b, t in (("a", 64, 300.0), ("b", 128, 200.0), ("c", 256, 150.0), ("d", 512, 220.0))
        ],
        "block x", {"source": "launch", "moves_with": ["grid x"], "best": 256},
    ),
    "an option of the command line": (
        [
            launch(f"{i}.ncu-rep", duration_us=t, command_line=f"ncu -o x ./app --unroll {v} --seed {i}")
            for i, v, t in ((0, 1, 100.0), (1, 2, 80.0), (2, 4, 60.0))
        ],
        "unroll", {"source": "command line"},
    ),
    "two that move in step are one": (
        [launch(f"M_{m}_N_{2 * m}.ncu-rep", duration_us=1000.0 / m) for m in (1, 2, 4, 8)],
        "M", {"moves_with": ["N"]},
    ),
    "consecutive values, where the launch moves with them": (
        over("opt", EDITS, grid=lambda i: (1024 // i, 1, 1)), "opt", {"moves_with": ["grid x"]},
    ),
    "a template argument": (
        [
            launch(f"{n}.ncu-rep", kernel=f"tile<{n}, float>", kernel_full=f"void tile<(int){n}, float>(T1 *)", duration_us=t)
            for n, t in ((8, 200.0), (16, 120.0), (32, 100.0))
        ],
        "template argument #1", {"kernel": "tile<…>", "values": [8, 16, 32]},
    ),
    # twice as much work in less than twice the time: the larger problem is the better one
    "a problem size, per unit of work": (
        over(
            "N", {1024: 20.0, 2048: 30.0, 4096: 50.0, 8192: 99.0}, grid=lambda n: (n // 256, 1, 1),
            inst_executed_total=lambda n: 1e3 * n, dram_bytes_read=lambda n: 1e4 * n,
            dram_bytes_written=lambda n: 1e4 * n, global_store_sectors=lambda n: 1e4 * n / 32,
        ),
        "N", {"kind": "size", "work": "varies", "work_unit": "million instructions", "best": 8192, "cost": pytest.approx(20.0 / 1.024)},
    ),
    "without effect": (
        over("U", {1: 100.0, 2: 103.0, 4: 99.0, 8: 101.0}), "U", {"only_noise": True, "best": None},
    ),
    "one launch on two GPUs": (
        [
            launch(f"{gpu[-4:]}.ncu-rep", device=gpu, duration_us=us, limiter=unit, ceilings={unit: 80.0})
            for gpu, us, unit in (("NVIDIA H200", 100.0, "DRAM"), ("NVIDIA A100", 240.0, "L2"))
        ],
        "GPU", {"kind": "gpu", "best_shown": "NVIDIA H200", "shown": ["NVIDIA A100", "NVIDIA H200"]},
    ),
    "versions that make no difference": (
        [
            launch(f"{n}.ncu-rep", driver_version=v, duration_us=t)
            for n, v, t in (("a", "550.9", 100.0), ("b", "550.9", 101.0), ("c", "580.1", 102.0), ("d", "580.1", 99.0))
        ],
        "driver", {"only_noise": True},
    ),
}  # fmt: skip


NO_SWEEP: dict[str, Launches] = {
    "types of a kernel": [
        launch(f"{t}.ncu-rep", kernel_full=f"void f<{t}>({t} *)", duration_us=us, block=(b, 1, 1))
        for t, us, b in (("float", 100.0, 64), ("half", 50.0, 128), ("double", 200.0, 256))
    ],
    # of an autotuner: a reader could not tell which argument did it
    "two independent knobs": [
        launch(f"{name}.ncu-rep", kernel_full=f"void g<(int){m}, (int){n}>(float *)", duration_us=us)
        for name, m, n, us in (("a", 128, 64, 100.0), ("b", 64, 256, 130.0), ("c", 256, 32, 90.0), ("d", 32, 128, 200.0))
    ],
    "two values": over("BLOCK", {64: 156.25, 128: 78.125}),
    "counts of captures": over("run", {n: 100.0 + 20 * n for n in range(1, 5)}),
    "numbers of edits": over("opt", EDITS, inst_executed_total=lambda n: {1: 3e7, 2: 1e7, 3: 2e7, 4: 4e7}[n]),
    # 1, 2 and 4 look like a knob that doubles, but 3 is there too
    "an edit that is left out": over("opt", EDITS, kernel_full=lambda n: f"step({'int' * (n == 3)})"),
    # a network launches its kernels in many sizes: that is one run
    "shapes of one file": [
        launch("net.ncu-rep", i, grid=(g, 1, 1), duration_us=float(g)) for i, g in enumerate((64, 128, 256))
    ],
    "captures under other clocks": over(
        "T", {1: 100.0, 2: 200.0, 3: 300.0}, command_line=lambda v: clocked("base" if v == 2 else "none")
    ),
    "versions of a single file each": [
        launch(f"{v}.ncu-rep", driver_version=str(v), duration_us=100.0 * v) for v in (1, 2)
    ],
}  # fmt: skip


TIMES = {1: 400.0, 2: 200.0, 4: 100.0, 8: 101.0}
BOTH = {"DRAM": 40.0, "issue": 20.0}


def starving(share: float = 40.0, units: dict[str, float] = BOTH, **slowest: object) -> Launches:
    """Fewer warps below 4; `slowest`: what else is there at 1."""
    given = {"limiter": "latency", "reached_pct": share, "l2_sectors": 1e7, "ceilings": units}
    launches = over("T", TIMES, achieved_warps_per_sm=lambda v: 8.0 * v, **given)
    launches[0] |= slowest
    return launches


FALLING = {
    "try larger": {2: 400.0, 4: 200.0, 8: 150.0},
    "flat at the end": {2: 400.0, 4: 200.0, 8: 189.0},
    "there are no values below one": {1: 100.0, 2: 200.0, 4: 400.0},
}
SLOW: dict[str, Launches] = {
    "no unit is near its peak": starving(),
    "issue slots not measured": starving(units={"DRAM": 40.0}),
    "DRAM not measured": starving(units={"issue": 40.0, "host link": 10.0}),
    "no unit measured": starving(units={}),
    "a busy unit": starving(70.0, {"DRAM": 70.0, "issue": 20.0}),
    "more work": starving(l2_sectors=2e7),
    # the slow point has warps, and those beside it have none
    "counters of zero are compared": over("T", TIMES, achieved_warps_per_sm=lambda v: 32.0 * (v < 4)),
    "no counter changed": over("T", {1: 300.0, 2: 200.0, 8: 100.0}),
    # 0 means that no counted branch ran
    "branch efficiency": over(
        "T", {1: 300.0, 2: 200.0, 4: 100.0}, branch_efficiency_pct={1: 0.0, 2: 50.0, 4: 100.0}.get
    ),
}  # fmt: skip
FILES = (
    *(("copied-b", 1, 100.0), ("copied-c", 2, 200.0), ("copied-e", 4, 63.0)),
    *(("live-b", 1, 110.0), ("live-c", 2, 220.0), ("live-e", 4, 504.0)),
)
COUNTERS = "inst_executed_total dram_bytes_read dram_bytes_written global_store_sectors"
OTHERS: dict[str, Launches] = {
    "two knobs": [
        launch(f"M_{m}_N_{n}_K_7.ncu-rep", duration_us=100.0 * m + 300 * n)
        for m, n in product((1, 2, 3), (1, 4, 9))
    ],
    "a point under other clocks": over(
        "T", {2: 400.0, 4: 300.0, 8: 200.0, 16: 250.0},
        command_line=lambda v: clocked("none" if v == 16 else "base"),
    ),
    "several files per value": [
        launch(f"{name}.ncu-rep", duration_us=us, command_line=f"ncu -o x ./app --T {v}")
        for name, v, us in FILES
    ],
    "no counters of work": over(
        "N", {512: 51.2, 1024: 102.4, 2048: 204.8}, **dict.fromkeys(COUNTERS.split())
    ),
    "units that were not measured": over(
        "U", {1: 100.0, 2: 50.0, 4: 25.0},
        ceilings={1: {"L2": 90.0, "DRAM": 40.0}, 2: {}, 4: {"L2": 50.0, "DRAM": 85.0}}.get,
        limiter={1: "L2", 4: "DRAM"}.get, reached_pct={1: 90.0, 4: 85.0}.get,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[InsightDocument]]:
    sets = {name: launches for name, (launches, *_) in KNOBS.items()}
    sets |= NO_SWEEP | {name: over("T", times) for name, times in FALLING.items()} | SLOW | OTHERS
    out = tmp_path_factory.mktemp("store")
    return found_apart(out, {name: (launches, ()) for name, launches in sets.items()})[1]


Planted = dict[str, list[InsightDocument]]


@each_row("name", KNOBS)
def test_what_is_a_knob(name: str, planted: Planted) -> None:
    _, knob, expected = KNOBS[name]
    sweep = about(planted[name], knob).sweep
    points, best = sweep.points, sweep.best
    told = {
        **vars(sweep),
        "kernel": sweep.kernel[2:],
        "values": [point.value for point in points],
        "shown": [point.shown for point in points],
        "cost": points[0].cost,
        "best": best_of(sweep),
        "best_shown": best is not None and points[best].shown,
    }
    assert {key: told[key] for key in expected} == expected


@each_row("name", NO_SWEEP)
def test_what_is_no_sweep(name: str, planted: Planted) -> None:
    assert [each for each in planted[name] if each.sweep] == []


def test_a_grid_of_two_knobs_gives_a_sweep_for_each_line(planted: Planted) -> None:
    """Its title names only fixed values that distinguish sweeps."""
    over_m = [each for each in planted["two knobs"] if each.sweep.knob == "M"]
    titles = {each.title.partition(":")[0].partition("_")[2] for each in over_m}
    assert titles == {f"step over M (with `N {n}`)" for n in (1, 4, 9)}
    assert all("The same in all files: `K 7`." in each.text for each in over_m)
    fixed = [value for each in over_m for value in each.sweep.fixed if value != "K 7"]
    assert sorted(fixed) == ["N 1", "N 4", "N 9"]


def test_a_left_out_point_is_named_and_not_recommended(planted: Planted, wording) -> None:
    (insight,) = planted["a point under other clocks"]
    assert [each.value for each in insight.sweep.left_out] == [16]
    wording(insight.text)


@each_row("name", FALLING)
def test_more_is_recommended_while_the_curve_falls(name: str, planted: Planted) -> None:
    (insight,) = planted[name]
    said = [each for each in ("try larger", "try smaller") if each in " ".join(insight.text)]
    assert said == [name] * name.startswith("try")


def test_of_several_files_per_value_the_text_says_which_one_is_shown(
    planted: Planted, wording
) -> None:
    (insight,) = planted["several files per value"]
    assert [point.time_us for point in insight.sweep.points] == [100.0, 200.0, 63.0]
    wording(insight.text)


def test_too_few_warps_are_named_if_no_unit_is_near_its_peak(planted: Planted, wording) -> None:
    """One that was not measured may be near it."""
    slow = {name: slow_parts(planted[name][0]) for name in SLOW}
    for name, texts in slow.items():
        wording(texts, case=name)
    for text in (slow["a busy unit"]["1 and 2"], slow["more work"]["1"]):
        assert "hide latency" not in text
        assert "What changed" in text
    assert list(slow["counters of zero are compared"]) == ["1 and 2"]
    assert "Branch" not in slow["branch efficiency"]["1"]


# --- what the work is


def test_without_work_counters_no_best_value_is_named(planted: Planted, wording) -> None:
    (insight,) = planted["no counters of work"]
    assert (insight.sweep.work, insight.sweep.best) == ("unknown", None)
    wording(insight.title)


def test_units_that_were_not_measured_are_absent_and_not_zero(planted: Planted) -> None:
    points = planted["units that were not measured"][0].sweep.points
    assert [sorted(point.units) for point in points] == [["DRAM", "L2"], [], ["DRAM", "L2"]]
    assert points[1].limiter is None


# --- names


@each_row(
    ("path", "expected"),
    [
        ("sweep/BLOCK_0128.ncu-repz", {"BLOCK": 128}),
        ("sweep/TILE_Y_0004.ncu-repz", {"TILE_Y": 4}),
        ("x/tile=64,stages=3.ncu-repz", {"tile": 64, "stages": 3}),
        ("M_128_N_64/report.ncu-rep", {"M": 128, "N": 64}),
        ("nightly-2026-11-02.ncu-rep", {}),
        ("run3.ncu-rep", {}),
        ("h200/sm_90/report_v4.ncu-rep", {}),
        ("a3f9c2e1.ncu-rep", {}),
        ("NVIDIA A100-SXM4-40GB/T4_L40.ncu-rep", {}),
        ("T_4.ncu-rep", {"T": 4}),
    ],
)
def test_knobs_in_file_names(path: str, expected: dict[str, float]) -> None:
    named = naming_of(path, None, None).named
    assert {each.name: each.value for each in named} == expected


def test_the_program_begins_where_ncus_options_end() -> None:
    line = "/opt/ncu --section X --export /tmp/app/report ./app --n=4 -DT=8 mode=2 7 --seed 3"
    assert program_part("/home/me/app", line)[0] == "./app"
    named = naming_of("r.ncu-rep", "/home/me/app", line).named
    assert {n.name: n.value for n in named} == {"n": 4, "T": 8, "mode": 2, "argument #1": 7}
    python = "/opt/ncu -o r /opt/venv/bin/python3 bench.py --size 64"
    assert program_part("/usr/bin/python3.12", python)[1] == "bench.py"


def test_defaults_of_ncu_are_known_and_no_command_line_is_not() -> None:
    controls = [capture_control(line) for line in ("ncu ./app", clocked("none"), None)]
    both = "cache-control all, clock-control"
    assert controls == [f"{both} base", f"{both} none", "unknown"]
