"""The figures in the head of a launch."""

from __future__ import annotations

from textwrap import wrap

from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.resident_warps import few_warps
from keet.explanation.launch_figures import figures_text, launch_figures
from keet.profile import Launch
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import launch_of, profile_of


def text_of(launch: Launch) -> str:
    return figures_text(LaunchView(launch))


def test_rates_and_resources() -> None:
    assert text_of(launch_of("score_tiles")) == (
        "FP32 22.30 TFLOP/s (33% of peak), DRAM 64.82 GB/s (1% of peak), 46.21 MB read, "
        "L2 hits 92%, 92 registers, 17.41 kB shared, 16 warps per SM (of 64; registers)"
    )


def test_what_is_left_out() -> None:
    launch = profile_of(REPORTS / "tour_basic.ncu-repz").launches[0]
    shape = "15.5 waves, 16 registers, 8 blocks per SM"
    assert text_of(launch) == f"{shape}, 64 warps per SM (of 64; 46 on average)"
    launch = profile_of(REPORTS / "range.ncu-rep").launches[0]
    assert not any(
        figure.id == "registers_per_thread" for figure in launch_figures(LaunchView(launch))
    )
    assert text_of(made_up({})) == ""
    known = text_of(made_up({}, dram_bytes_read=2e6))
    assert known == "DRAM 2 MB read"


def test_figures_and_their_line() -> None:
    view = LaunchView(launch_of("score_tiles"))
    ids = {number for figure in launch_figures(view) for number in figure.text.ids}
    assert ids <= {entry.id for entry in view.ledger}
    assert len(ids) == 15
    # Two lines of a page: what is left out is among the figures.
    launch = launch_of("half_dense:fast")
    ids = {figure.id for figure in launch_figures(LaunchView(launch))}
    assert {"dram_read", "dram_written", "l2_bytes", "l1_hit_rate", "l2_hit_rate", "waves"} <= ids
    assert len(wrap(text_of(launch), 98)) == 2
    # 645 instructions of a warp: 7,925,760 over 12,288 warps.
    figures = {each.id: each for each in launch_figures(LaunchView(launch_of("softmax_rows")))}
    assert figures["spills_per_thread"].value == 645
    others = {each.id for each in launch_figures(LaunchView(launch_of("softmax_rows:fast")))}
    assert "spills_per_thread" not in others


def test_blocks_on_an_sm(wording) -> None:
    """Made up: 64 blocks on 132 SMs, of which 12 fit on one."""
    limits = {"block_limit_registers": 16.0, "block_limit_warps": 12.0, "grid_size": 64.0}
    assert text_of(made_up({}, **limits)) == "1 block per SM (12 fit)"
    assert text_of(made_up({}, **{**limits, "grid_size": 5000.0})) == "12 blocks per SM"
    # Made up: blocks of all warps that one may have on some SMs, which hold 18.9 on average.
    numbers = {"block_limit_warps": 2.0, "block_size": 1024.0, "grid_size": 64.0}
    numbers |= {"achieved_warps_per_sm": 18.9, "achieved_occupancy_pct": 29.5}
    found = few_warps(LaunchView(made_up({}, **numbers)))
    assert [round(float(each.value), 1) for each in found[1]] == [18.9, 64, 32]
    wording(found[0])


LIMITED = {
    "block_limit_registers": 5.0,
    "block_limit_shared_memory": 5.0,
    "block_limit_warps": 12.0,
    "achieved_warps_per_sm": 18.0,
    "achieved_occupancy_pct": 37.5,
}
"""20 of 48 warps, with two equal limits."""
ENDED = {
    "block_limit_registers": 2.0,
    "block_limit_warps": 2.0,
    "block_size": 512.0,
    "achieved_warps_per_sm": 1.44,
    "achieved_occupancy_pct": 4.5,
}
"""1.4 of 32 warps, although a block has 16."""


@each_row(("numbers", "grid"), [(LIMITED, 64.0), (LIMITED, 5000.0), (ENDED, 1.0), (ENDED, 5000.0)])
def test_what_keeps_an_sm_from_holding_more_warps_is_said(numbers, grid: float, wording) -> None:
    """Warps that ended do not count as missing blocks."""
    found = few_warps(LaunchView(made_up({}, **numbers, grid_size=grid)))
    wording(found[0], case=f"{grid} of {'limited' if numbers is LIMITED else 'ended'}")
