"""What limits a launch, numbers below the title of a source line, and labels of exports."""

from pathlib import Path

import pytest

from keet.comparison.verify_values import computed_values
from keet.ingest import read_profile
from keet.profile import Profile
from keet.verification.verdicts import CheckedSentence
from keet.verification.verify import verify_text
from tests.printed_pages import Cell, Shown, csv_page
from tests.rows import each_row

SAMPLES = Path(__file__).parents[3] / "kernels_samples"


@pytest.fixture(scope="module")
def flip() -> Profile:
    """L2 is at 83 % of its peak, DRAM at 12 %, the SMs at 9 %."""
    return read_profile(SAMPLES / "matrix_flip" / "slow.ncu-rep")


def checked(text: str, profile: Profile) -> list[CheckedSentence]:
    return verify_text(text, profile.launches, known=computed_values([profile]))


@each_row(
    ("claim", "verdict"),
    [
        ("is DRAM bound", "contradicted"),
        ("is limited by DRAM", "contradicted"),
        ("is memory bandwidth bound", "contradicted"),
        ("is compute-bound", "contradicted"),
        ("is L2-bound", "confirmed"),
        ("is limited by the L2", "confirmed"),
        ("is memory-bound", "confirmed"),
        ("is not DRAM bound", "confirmed"),
        ("is not L2 bound", "contradicted"),
        ("is latency-bound", "contradicted"),
        ("is L1 bound", "contradicted"),
    ],
)
def test_limiters(claim: str, verdict: str, flip: Profile) -> None:
    found = checked(f"The kernel takes 1.02 ms and {claim}.", flip)
    assert [each.verdict for each in found[0].relations] == [verdict]
    assert [each.verdict for each in found[0].checks] == ["confirmed"]


@each_row(
    "text",
    ["The upper bound is 5 %.", "It would be DRAM bound."],
)
def test_sentences_that_do_not_claim_a_limiter(text: str, flip: Profile) -> None:
    assert not checked(text, flip)[0].relations


LINE = "#0 flip slow.cu:7\n109 of 264 samples (41.3%); waiting: Long Scoreboard 95%\n"


def verdicts(text: str, profile: Profile) -> list[str]:
    return [check.verdict for each in checked(text, profile) for check in each.checks]


def test_numbers_below_the_title_of_a_line_are_of_that_line(flip: Profile) -> None:
    assert verdicts(LINE, flip) == ["confirmed"] * 4
    others = "110 samples (41.7%) at other lines wait for this line: slow.cu:9 110 (Drain)\n"
    assert verdicts(LINE + others, flip) == ["confirmed"] * 7


@each_row(("true", "false"), [("109", "119"), ("41.3%", "51.3%"), ("95%", "59%")])
def test_a_wrong_number_below_the_title_is_not_confirmed(
    true: str, false: str, flip: Profile
) -> None:
    found = verdicts(LINE.replace(true, false), flip)
    assert len(found) == 4
    assert found.count("confirmed") == 3


def test_a_title_without_a_line_ends_the_block_of_a_line(flip: Profile) -> None:
    other = "\n#0 flip: grid 256x1024\n\nIt has 109 samples.\n"
    assert verdicts(LINE + other, flip)[-1] == "contradicted"


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    cells = [
        Cell("GPU Speed Of Light Throughput", "Duration", "us", "62.78"),
        Cell("Compute Workload Analysis", "Issue Slots Busy", "%", "75.41"),
        Cell("Compute Workload Analysis", "SM Busy", "%", "75.41"),
        Cell("Scheduler Statistics", "One or More Eligible", "%", "84.54"),
        Cell("Warp State Statistics", "Warp Cycles Per Issued Instruction", "cycle", "10.44"),
    ]
    path = tmp_path_factory.mktemp("export") / "page.csv"
    path.write_text(csv_page([Shown("gemv(int)", cells)]))
    return read_profile(path)


@each_row(
    ("text", "verdict"),
    [
        ("Issue slots busy is 75.41%.", "confirmed"),
        ("Issue Slots Busy: 75.4 %", "confirmed"),
        ("SM Busy is 75.41%.", "confirmed"),
        ("Warp Cycles Per Issued Instruction is 10.44.", "confirmed"),
        ("Issue slots busy is 60.00%.", "not_found"),
        ("SM Busy is 60%.", "not_found"),
        ("The duration is 70.1 us.", "contradicted"),
        ("One or More Eligible is 60%.", "contradicted"),
    ],
)
def test_labels_of_an_export(text: str, verdict: str, export: Profile) -> None:
    """Never wrong for what a metric related to the label has."""
    assert verdicts(text, export) == [verdict]
