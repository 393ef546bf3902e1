"""Sweeps: knobs are found, not given; nothing is found where nothing is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evals.public_reports import NOT_FOUND
from keet.corpus.insights.knob_names import capture_control, naming_of, program_part
from keet.documents.insights import InsightsDocument, SweepDocument
from tests.conftest import CORPUS
from tests.insights_sets import insights_of, launch, make_set, of_kind, reports_in
from tests.rows import each_row

SAMPLES = Path("kernels_samples")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> InsightsDocument:
    """Every report of the samples: two sweeps among 35 pairs of slow and fast."""
    reports = sorted(SAMPLES.glob("*/*.ncu-rep*")) + sorted(SAMPLES.glob("*/sweep/*.ncu-repz"))
    return insights_of(reports_in(tmp_path_factory.mktemp("store"), reports))


def sweeps(insights: InsightsDocument) -> list[SweepDocument]:
    return [each.sweep for each in insights.insights if each.sweep]


def by_knob(insights: InsightsDocument, knob: str) -> SweepDocument:
    (found,) = [sweep for sweep in sweeps(insights) if sweep.knob == knob]
    return found


# --- the samples


@pytest.mark.slow
@pytest.mark.slow
def test_the_samples_have_two_sweeps_and_no_other(samples: InsightsDocument) -> None:
    assert {(s.kernel, s.knob) for s in sweeps(samples)} == {("dot", "BLOCK"), ("blur", "TILE_Y")}
    assert not of_kind(samples, "change")
    assert not of_kind(samples, "outliers")


@pytest.mark.slow
@pytest.mark.slow
def test_pair_reduce_has_its_best_point_and_its_changes_of_limiter(
    samples: InsightsDocument,
) -> None:
    sweep = by_knob(samples, "BLOCK")
    assert [point.value for point in sweep.points] == [32, 64, 96, 128, 192, 256, 512, 1024]
    assert sweep.best is not None
    assert sweep.points[sweep.best].value == 1024
    assert [point.value for point in sweep.points if point.tied] == [96, 128, 512, 1024]
    assert [(c.after, c.until, c.was, c.becomes) for c in sweep.changes] == [
        ("32", "64", "L2", "DRAM"),
        ("128", "192", "DRAM", "L2"),
        ("256", "512", "L2", "DRAM"),
    ]


def slow_parts(insights: InsightsDocument, knob: str) -> dict[str, str]:
    """Sentences about slow points, by the values they are about."""
    (told,) = [each for each in insights.insights if each.sweep and each.sweep.knob == knob]
    slow = [text for text in told.text if text.startswith("At ") and "of the best" in text]
    return {text[3 : text.index(" it takes")]: text for text in slow}


@pytest.mark.slow
@pytest.mark.slow
def test_each_slow_point_of_pair_reduce_has_its_own_sentence(
    samples: InsightsDocument, wording
) -> None:
    """L2 is near its peak at 32 and 64, and has more to do there: nothing says `in flight`."""
    slow = slow_parts(samples, "BLOCK")
    assert list(slow) == ["32", "64", "192", "256"]
    for value, beside in (("32", "96"), ("64", "96"), ("192", "128")):
        assert "L2 Cache Sectors, 42," in slow[value]
        assert f" at {beside}" in slow[value]
        assert "L2 Hit Rate" in slow[value]
    assert "L2 at 92% of peak" in slow["64"]
    wording(slow["256"])
    assert not any("hide latency" in text or "No counter" in text for text in slow.values())


@pytest.mark.slow
def test_work_that_varies_is_not_called_the_same(samples: InsightsDocument, wording) -> None:
    for knob, counter in (("BLOCK", "L2 Cache Sectors"), ("TILE_Y", "Executed Instructions")):
        (told,) = [each for each in samples.insights if each.sweep and each.sweep.knob == knob]
        assert counter in told.text[0]
        wording(told.text, told.adds, case=knob)


@pytest.mark.slow
def test_a_sentence_about_several_points_names_both_ends(
    samples: InsightsDocument, wording
) -> None:
    (text,) = slow_parts(samples, "TILE_Y").values()
    wording(text)


def starving(
    tmp_path: Path, share: float, units: dict[str, float] | None = None, **cells: object
) -> dict[str, str]:
    """Fewer warps below 4; `cells`: what else is there at 1."""
    given: dict[str, Any] = {"limiter": "latency", "reached_pct": share, "l2_sectors": 1e7}
    given["ceilings"] = {"DRAM": share, "issue": 20.0} if units is None else units
    found = planted(
        tmp_path,
        (
            launch(f"T_{v}.ncu-rep", duration_us=t, achieved_warps_per_sm=8.0 * v, **given)
            | (cells if v == 1 else {})
            for v, t in ((1, 400.0), (2, 200.0), (4, 100.0), (8, 101.0))
        ),
    )
    return slow_parts(found, "T")


@pytest.mark.slow
def test_too_few_warps_are_named_if_no_unit_is_near_its_peak(tmp_path: Path, wording) -> None:
    slow = starving(tmp_path, 40.0)
    assert list(slow) == ["1 and 2"]
    wording(slow["1 and 2"])


@pytest.mark.slow
def test_too_few_warps_are_not_named_with_a_busy_unit_or_more_work(tmp_path: Path) -> None:
    near = starving(tmp_path / "near", 70.0)
    more = starving(tmp_path / "more", 40.0, l2_sectors=2e7)
    for text in (near["1 and 2"], more["1"]):
        assert "hide latency" not in text
        assert "What changed" in text


@pytest.mark.parametrize("units", [{"DRAM": 40.0}, {"issue": 40.0, "host link": 10.0}, {}], ids=str)
@pytest.mark.slow
def test_a_unit_that_was_not_measured_may_be_near_its_peak(
    tmp_path: Path, units: dict[str, float], wording
) -> None:
    (text,) = starving(tmp_path, 40.0, units).values()
    wording(text)


@pytest.mark.slow
def test_no_changed_counter_is_reported_only_if_none_changed(tmp_path: Path, wording) -> None:
    found = planted(
        tmp_path,
        (launch(f"T_{v}.ncu-rep", duration_us=t) for v, t in ((1, 300.0), (2, 200.0), (8, 100.0))),
    )
    slow = slow_parts(found, "T")
    assert list(slow) == ["1 and 2"]
    wording(slow["1 and 2"])


@pytest.mark.slow
def test_tile_smooth_moves_from_l1_to_the_issue_slots(samples: InsightsDocument) -> None:
    sweep = by_knob(samples, "TILE_Y")
    assert sweep.best is not None
    assert sweep.points[sweep.best].value == 8
    assert [(c.after, c.until, c.was, c.becomes) for c in sweep.changes] == [
        ("4", "5", "L1", "issue")
    ]
    assert sweep.work == "same"
    assert "grid y" in sweep.moves_with


@pytest.mark.slow
def test_every_number_in_a_text_comes_from_cells_of_the_store(
    samples: InsightsDocument,
) -> None:
    assert samples.grounding.numbers > 100
    assert samples.grounding.verified == samples.grounding.numbers
    assert samples.grounding.stray == []


@pytest.mark.slow
def test_public_reports_have_no_sweep_and_no_history(tmp_path: Path) -> None:
    if not CORPUS.is_dir():
        pytest.skip(NOT_FOUND)
    found = insights_of(reports_in(tmp_path / "s", sorted(CORPUS.glob("*.ncu-rep"))))
    assert sweeps(found) == []
    assert of_kind(found, "change") == []
    assert of_kind(found, "outliers") == []


# --- planted knobs


def planted(tmp_path: Path, launches: Iterator[dict[str, object]]) -> InsightsDocument:
    return insights_of(make_set(tmp_path / "store", list(launches)))


def test_a_block_size_without_a_name_is_a_knob(tmp_path: Path) -> None:
    times = {64: 300.0, 128: 200.0, 256: 150.0, 512: 220.0}
    found = planted(
        tmp_path,
        (
            launch(
                f"r/{name}.ncu-rep", block=(size, 1, 1), grid=(2**20 // size, 1, 1), duration_us=t
            )
            for name, (size, t) in zip("abcd", times.items())
        ),
    )
    sweep = by_knob(found, "block x")
    assert sweep.source == "launch"
    assert sweep.moves_with == ["grid x"]
    assert sweep.best is not None
    assert sweep.points[sweep.best].value == 256


def test_a_template_argument(tmp_path: Path) -> None:
    times = {8: 200.0, 16: 120.0, 32: 100.0}
    names = "void tile<(int){}, float>(T1 *)"
    found = planted(
        tmp_path,
        (
            launch(
                f"{size}.ncu-rep",
                kernel=f"tile<{size}, float>",
                kernel_full=names.format(size),
                duration_us=t,
            )
            for size, t in times.items()
        ),
    )
    sweep = by_knob(found, "template argument #1")
    assert sweep.kernel == "tile<…>"
    assert [point.value for point in sweep.points] == [8, 16, 32]


@pytest.mark.slow
def test_kernels_of_other_types_are_other_kernels(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (
            launch(
                f"{t}.ncu-rep", kernel_full=f"void f<{t}>({t} *)", duration_us=d, block=(b, 1, 1)
            )
            for t, d, b in (("float", 100.0, 64), ("half", 50.0, 128), ("double", 200.0, 256))
        ),
    )
    assert sweeps(found) == []


@pytest.mark.slow
def test_an_option_of_the_command_line(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (
            launch(
                f"{i}.ncu-rep",
                duration_us=t,
                command_line=f"ncu -o x ./app --unroll {v} --seed {i}",
            )
            for i, (v, t) in enumerate({1: 100.0, 2: 80.0, 4: 60.0}.items())
        ),
    )
    sweep = by_knob(found, "unroll")
    assert sweep.source == "command line"


@pytest.mark.slow
def test_two_knobs_that_move_in_step_are_one(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (launch(f"M_{m}_N_{2 * m}.ncu-rep", duration_us=1000.0 / m) for m in (1, 2, 4, 8)),
    )
    (sweep,) = sweeps(found)
    assert sweep.knob == "M"
    assert sweep.moves_with == ["N"]


@pytest.mark.slow
def test_a_grid_of_two_knobs_gives_a_sweep_for_each_line(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (
            launch(f"M_{m}_N_{n}.ncu-rep", duration_us=100.0 * m + 30 * n)
            for m in (1, 2, 3)
            for n in (1, 2, 3)
        ),
    )
    assert [(s.knob, s.fixed) for s in sweeps(found) if s.knob == "M"] == [
        ("M", [f"N {n}"]) for n in (1, 2, 3)
    ]


@pytest.mark.slow
def test_two_independent_knobs_are_not_a_sweep(tmp_path: Path) -> None:
    """Tiles of an autotuner: a reader could not tell which argument did it."""
    tiles = {(128, 64): 100.0, (64, 256): 130.0, (256, 32): 90.0, (32, 128): 200.0}
    found = planted(
        tmp_path,
        (
            launch(
                f"{'abcd'[i]}.ncu-rep",
                kernel_full=f"void g<(int){m}, (int){n}>(float *)",
                duration_us=t,
            )
            for i, ((m, n), t) in enumerate(tiles.items())
        ),
    )
    assert sweeps(found) == []


@pytest.mark.slow
def test_two_values_are_not_a_sweep(tmp_path: Path) -> None:
    found = planted(
        tmp_path, (launch(f"BLOCK_{b}.ncu-rep", duration_us=1e4 / b) for b in (64, 128))
    )
    assert sweeps(found) == []


@pytest.mark.slow
def test_numbers_that_count_captures_are_not_knobs(tmp_path: Path) -> None:
    found = planted(
        tmp_path, (launch(f"run_{i}.ncu-rep", duration_us=100.0 + 20 * i) for i in range(1, 5))
    )
    assert sweeps(found) == []


EDITS = ((1, 400.0, 3e7), (2, 300.0, 1e7), (3, 200.0, 2e7), (4, 250.0, 4e7))


@pytest.mark.slow
def test_numbers_of_edits_are_not_knobs(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (
            launch(f"opt_{i}.ncu-rep", duration_us=t, inst_executed_total=n, grid=(1024, 1, 1))
            for i, t, n in EDITS
        ),
    )
    assert sweeps(found) == []


@pytest.mark.slow
def test_an_edit_that_is_left_out_leaves_ordinals(tmp_path: Path) -> None:
    """1, 2 and 4 look like a knob that doubles, but 3 is there too."""
    found = planted(
        tmp_path,
        (
            launch(f"opt_{i}.ncu-rep", duration_us=t, kernel_full=f"step({'int' * (i == 3)})")
            for i, t, _ in EDITS
        ),
    )
    assert sweeps(found) == []


@pytest.mark.slow
def test_consecutive_values_are_a_knob_where_the_launch_moves_with_them(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (launch(f"opt_{i}.ncu-rep", duration_us=t, grid=(1024 // i, 1, 1)) for i, t, _ in EDITS),
    )
    assert by_knob(found, "opt").moves_with == ["grid x"]


@pytest.mark.slow
def test_a_left_out_point_is_named_and_not_recommended(tmp_path: Path, wording) -> None:
    found = planted(
        tmp_path,
        (
            launch(
                f"T_{v}.ncu-rep",
                duration_us=t,
                command_line=f"ncu --clock-control {'none' if v == 16 else 'base'} ./app",
            )
            for v, t in ((2, 400.0), (4, 300.0), (8, 200.0), (16, 250.0))
        ),
    )
    (insight,) = of_kind(found, "sweep")
    assert insight.sweep is not None
    assert [each.value for each in insight.sweep.left_out] == [16]
    told = " ".join(insight.text)
    wording(told)


@pytest.mark.parametrize(("last", "said"), [(150.0, True), (189.0, False)])
@pytest.mark.slow
def test_larger_ones_are_recommended_while_the_curve_falls(
    tmp_path: Path, last: float, said: bool
) -> None:
    times = ((2, 400.0), (4, 200.0), (8, last))
    found = planted(tmp_path, (launch(f"T_{v}.ncu-rep", duration_us=t) for v, t in times))
    assert ("try larger" in " ".join(found.insights[0].text)) is said


@pytest.mark.slow
def test_values_below_one_are_not_recommended(tmp_path: Path) -> None:
    times = ((1, 100.0), (2, 200.0), (4, 400.0))
    found = planted(tmp_path, (launch(f"T_{v}.ncu-rep", duration_us=t) for v, t in times))
    assert "try smaller" not in " ".join(found.insights[0].text)


@pytest.mark.slow
def test_of_several_files_per_value_the_text_says_which_one_is_shown(
    tmp_path: Path, wording
) -> None:
    times = ((1, 100.0), (2, 200.0), (4, 63.0))
    found = planted(
        tmp_path,
        (
            launch(
                f"{name}-{'abcde'[v]}.ncu-rep",
                duration_us=t * factor,
                command_line=f"ncu -o x ./app --T {v}",
            )
            for v, t in times
            for name, factor in (("copied", 1.0), ("live", 8.0 if v == 4 else 1.1))
        ),
    )
    assert [point.time_us for point in by_knob(found, "T").points] == [100.0, 200.0, 63.0]
    wording(found.insights[0].text)


@pytest.mark.slow
def test_a_branch_efficiency_of_zero_is_not_a_change(tmp_path: Path, wording) -> None:
    """0 means that no counted branch ran."""
    times = ((1, 300.0, 0.0), (2, 200.0, 50.0), (4, 100.0, 100.0))
    found = planted(
        tmp_path,
        (
            launch(f"T_{v}.ncu-rep", duration_us=t, branch_efficiency_pct=share)
            for v, t, share in times
        ),
    )
    slow = slow_parts(found, "T")
    assert "Branch" not in slow["1"]
    wording(slow["2"])


@pytest.mark.slow
def test_a_title_names_only_fixed_values_that_distinguish_sweeps(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (
            launch(f"M_{m}_N_{n}_K_7.ncu-rep", duration_us=100.0 * m + 300 * n)
            for m in (1, 2, 3)
            for n in (1, 4)
        ),
    )
    told = [each for each in found.insights if each.sweep and each.sweep.knob == "M"]
    assert {each.title.partition(":")[0] for each in told} == {
        "step over M (with `N 1`)",
        "step over M (with `N 4`)",
    }
    assert all("The same in all files: `K 7`." in each.text for each in told)


@pytest.mark.slow
def test_shapes_of_one_file_are_not_a_sweep(tmp_path: Path) -> None:
    """A network launches its kernels in many sizes: that is one run."""
    found = planted(
        tmp_path,
        (
            launch("net.ncu-rep", i, grid=(g, 1, 1), duration_us=float(g))
            for i, g in enumerate((64, 128, 256))
        ),
    )
    assert sweeps(found) == []


@pytest.mark.slow
def test_captures_under_other_clocks_are_not_compared(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (
            launch(
                f"T_{v}.ncu-rep",
                duration_us=100.0 * v,
                command_line=f"ncu --clock-control {c} ./app",
            )
            for v, c in ((1, "none"), (2, "base"), (3, "none"))
        ),
    )
    assert sweeps(found) == []


# --- what the work is


@pytest.mark.slow
def test_a_problem_size_is_compared_per_unit_of_work(tmp_path: Path) -> None:
    """Twice as much work in less than twice the time: the larger problem is the better one."""
    sizes = {1024: 20.0, 2048: 30.0, 4096: 50.0, 8192: 99.0}
    found = planted(
        tmp_path,
        (
            launch(
                f"N_{n}.ncu-rep",
                duration_us=t,
                grid=(n // 256, 1, 1),
                inst_executed_total=1e3 * n,
                dram_bytes_read=1e4 * n,
                dram_bytes_written=1e4 * n,
                global_store_sectors=1e4 * n / 32,
            )
            for n, t in sizes.items()
        ),
    )
    sweep = by_knob(found, "N")
    assert (sweep.kind, sweep.work, sweep.work_unit) == ("size", "varies", "million instructions")
    assert sweep.best is not None
    assert sweep.points[sweep.best].value == 8192
    assert sweep.points[0].cost == pytest.approx(20.0 / 1.024)


@pytest.mark.slow
def test_without_work_counters_no_best_value_is_named(tmp_path: Path, wording) -> None:
    missing = dict.fromkeys(
        ("inst_executed_total", "dram_bytes_read", "dram_bytes_written", "global_store_sectors")
    )
    found = planted(
        tmp_path,
        (launch(f"N_{n}.ncu-rep", duration_us=n / 10, **missing) for n in (512, 1024, 2048)),
    )
    sweep = by_knob(found, "N")
    assert (sweep.work, sweep.best) == ("unknown", None)
    wording(found.insights[0].title)


@pytest.mark.slow
def test_a_knob_without_effect_is_within_noise(tmp_path: Path) -> None:
    times = {1: 100.0, 2: 103.0, 4: 99.0, 8: 101.0}
    found = planted(tmp_path, (launch(f"U_{v}.ncu-rep", duration_us=t) for v, t in times.items()))
    sweep = by_knob(found, "U")
    assert sweep.only_noise
    assert sweep.best is None
    assert "within noise" in found.insights[0].title


@pytest.mark.slow
def test_units_that_were_not_measured_are_absent_and_not_zero(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (
            launch(
                f"U_{v}.ncu-rep",
                duration_us=100.0 / v,
                limiter=lim,
                reached_pct=pct,
                ceilings=shares,
            )
            for v, lim, pct, shares in (
                (1, "L2", 90.0, {"L2": 90.0, "DRAM": 40.0}),
                (2, None, None, {}),
                (4, "DRAM", 85.0, {"L2": 50.0, "DRAM": 85.0}),
            )
        ),
    )
    sweep = by_knob(found, "U")
    assert [sorted(point.units) for point in sweep.points] == [["DRAM", "L2"], [], ["DRAM", "L2"]]
    assert sweep.points[1].limiter is None


# --- GPUs and versions


@pytest.mark.slow
def test_one_launch_on_two_gpus(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (
            launch(
                f"{gpu[-4:]}.ncu-rep", device=gpu, duration_us=t, limiter=lim, ceilings={lim: 80.0}
            )
            for gpu, t, lim in (("NVIDIA H200", 100.0, "DRAM"), ("NVIDIA A100", 240.0, "L2"))
        ),
    )
    sweep = by_knob(found, "GPU")
    assert (sweep.kind, sweep.best) == ("gpu", 1)
    assert [point.shown for point in sweep.points] == ["NVIDIA A100", "NVIDIA H200"]


@pytest.mark.slow
def test_versions_of_a_single_file_each_are_not_compared(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        (launch(f"{v}.ncu-rep", driver_version=str(v), duration_us=100.0 * v) for v in (1, 2)),
    )
    assert sweeps(found) == []


@pytest.mark.slow
def test_versions_that_make_no_difference(tmp_path: Path) -> None:
    captures = (("550.9", 100.0), ("550.9", 101.0), ("580.1", 102.0), ("580.1", 99.0))
    found = planted(
        tmp_path,
        (
            launch(f"{'abcd'[i]}.ncu-rep", driver_version=v, duration_us=t)
            for i, (v, t) in enumerate(captures)
        ),
    )
    sweep = by_knob(found, "driver")
    assert sweep.only_noise


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
    assert capture_control("ncu ./app") == "cache-control all, clock-control base"
    assert (
        capture_control("ncu --clock-control=none ./app") == "cache-control all, clock-control none"
    )
    assert capture_control(None) == "unknown"
