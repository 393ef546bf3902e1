"""The figures in the head of a launch."""

from __future__ import annotations

from keet.analysis.launch_view import LaunchView
from keet.explanation.launch_figures import figures_text, launch_figures
from keet.profile import Launch
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import launch_of, profile_of


def text_of(launch: Launch) -> str:
    return figures_text(LaunchView(launch))


@each_row(
    ("sample", "text"),
    [
        (
            "score_tiles",
            "FP32 22.30 TFLOP/s (33% of peak), DRAM 64.82 GB/s (1% of peak), 3.9 waves, "
            "92 registers per thread, 2 blocks per SM",
        ),
        (
            "matrix_flip",
            "DRAM 553.4 GB/s (12% of peak), 248 waves, 16 registers per thread, 8 blocks per SM",
        ),
    ],
)
def test_rates_and_resources(sample: str, text: str) -> None:
    assert text_of(launch_of(sample)) == text


def test_a_basic_report_has_no_rates() -> None:
    launch = profile_of(REPORTS / "tour_basic.ncu-rep").launches[0]
    assert text_of(launch) == "15.5 waves, 16 registers per thread, 8 blocks per SM"


def test_a_range_has_no_registers_of_its_own() -> None:
    launch = profile_of(REPORTS / "range.ncu-rep").launches[0]
    assert not any(
        figure.id == "registers_per_thread" for figure in launch_figures(LaunchView(launch))
    )


def test_nothing_is_known() -> None:
    assert text_of(made_up({})) == ""


def test_every_number_is_evidence() -> None:
    view = LaunchView(launch_of("score_tiles"))
    ids = {number for figure in launch_figures(view) for number in figure.text.ids}
    assert ids <= {entry.id for entry in view.ledger}
    assert len(ids) == 7
