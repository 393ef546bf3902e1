"""A number with the right id may still be said of another line, report or metric."""

from __future__ import annotations

import pytest

from keet.evidence import Evidence
from keet.verification.elsewhere import said_elsewhere, wrong_change
from keet.verification.grounding import check_grounding

PIECES = {
    piece.id: piece
    for piece in (
        Evidence("E1", "samples_share", 35.61, "%", "share of the samples", "slow.cu:45"),
        Evidence("E2", "samples_share", 12.5, "%", "share of the samples", "slow.cu:43"),
        Evidence("E3", "dram__bytes_read.sum", 132.7e6, "byte", "DRAM Bytes Read"),
        Evidence("E4", "dram__bytes_write.sum", 65.1e6, "byte", "DRAM Bytes Written"),
        Evidence("E5", "gpu__time_duration.sum", 122_800, "ns", "Duration"),
        Evidence("E6", "gpu__time_duration.sum", 65_820, "ns", "Duration"),
        Evidence("E7", "l1_lsu", 59.6, "%", "L1 data stage (LSU) busy"),
        Evidence("E8", "l1_busy", 71.2, "%", "L1 busy"),
        Evidence("E9", "short_scoreboard", 48.9, "%", "Short Scoreboard", "slow.cu:45"),
        Evidence("E10", "wait", 3.1, "%", "Wait"),
        Evidence("E11", "samples_share", 24.24, "%", "share of the samples", "slow.cu:24"),
        Evidence("E12", "samples_share", 9.5, "%", "share of the samples", "cmath:1073"),
        Evidence("E13", "dram__bytes_read.sum", 99.1e6, "byte", "Bytes from DRAM"),
    )
}
ORIGINS = {"E5": 0, "E6": 1}


def reasons(sentence: str) -> list[str]:
    verified = check_grounding(sentence, PIECES.values()).verified
    assert verified
    return [found.reason for found in said_elsewhere(sentence, verified, PIECES, ORIGINS)]


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("slow.cu:43 has 35.61 % of the samples [E1].", "E1 is of slow.cu:45"),
        ("slow.cu:43 has 35.61 % [E1] of the samples.", "E1 is of slow.cu:45"),
        ("slow.cu:9 has 24.24 % [E11] of the samples.", "E11 is of slow.cu:24"),
        ("Lines 41 to 44 have 35.61 % [E1] of the samples.", "E1 is of slow.cu:45"),
        ("slow.cu:45 has 12.5 % [E2], slow.cu:43 the rest.", "E2 is of slow.cu:43"),
        ("DRAM Bytes Written is 132.7 MB [E3].", "E3 is DRAM Bytes Read, not DRAM Bytes Written"),
        ("In report 0, Duration is 65.82 us [E6].", "E6 is of report 1"),
        ("It writes 132.7 MB [E3] to DRAM.", "E3 is DRAM Bytes Read"),
        ("132.7 MB [E3] are written to DRAM.", "E3 is DRAM Bytes Read"),
        ("It goes from 122.8 us [E5] in report 1 to half of it.", "E5 is of report 0"),
        ("Report 1 takes 65.82 us [E6] and 122.8 us [E5].", "E5 is of report 0"),
    ],
)
def test_it_is_said_of_another(sentence: str, reason: str) -> None:
    assert reasons(sentence) == [reason]


@pytest.mark.parametrize(
    "sentence",
    [
        "slow.cu:45 has 35.61 % of the samples [E1].",
        "Lines 41 to 46 have 35.61 % [E1] of the samples.",
        "Lines 43 and 45 have 12.5 % [E2] and 35.61 % [E1] of the samples.",
        "slow.cu:43 has 12.5 % [E2] of the samples against 35.61 % [E1].",
        "cmath:1073, which slow.cu:45 calls, has 9.5 % [E12] of the samples.",
        "The loop has 35.61 % [E1] of the samples.",
        "slow.cu:45 waits 48.9 % [E9] of its samples on Short Scoreboard.",
        "DRAM Bytes Read is 132.7 MB [E3].",
        "L1 busy is 59.6 % [E7].",
        "DRAM Bytes Read is 99.1 MB [E13].",
        "The share of DRAM Bytes Read at 12.5 % [E2] is small.",
        "Report 0 takes 122.8 us [E5], the other 65.82 us [E6].",
        "Duration is 122.8 us [E5].",
        "It reads 132.7 MB [E3] from DRAM and writes 65.1 MB [E4].",
        "DRAM traffic is 132.7 MB [E3] read and 65.1 MB [E4] written.",
        "It changes from 122.8 us [E5] in report 0 to 65.82 us [E6] in report 1.",
        "Report 1 is quicker than report 0: 65.82 us [E6] against 122.8 us [E5].",
        "Between report 0 and report 1 it fell from 122.8 us [E5] to 65.82 us [E6].",
        "In report 1 it is 65.82 us [E6], in report 0 it was 122.8 us [E5].",
    ],
)
def test_it_is_said_of_its_own(sentence: str) -> None:
    assert reasons(sentence) == []


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("Duration went from 65.82 us [E6] to 122.8 us [E5].", "say which report is which"),
        ("Duration: 65.82 us [E6] -> 122.8 us [E5].", "say which report is which"),
        ("Duration fell from 65.82 us [E6] to 122.8 us [E5].", "the other way"),
        ("It rises only from 122.8 us [E5] to 65.82 us [E6].", "the other way"),
        ("It went from 65.82 us [E6] down to 122.8 us [E5].", "the other way"),
        ("Duration was 65.82 us [E6] and is now 122.8 us [E5].", "say which report is which"),
        ("Before, it took 65.82 us [E6]; after, 122.8 us [E5].", "say which report is which"),
        ("It goes from 35.61 % [E1] to 59.6 % [E7].", "not one quantity"),
    ],
)
def test_a_change_has_a_direction(sentence: str, reason: str) -> None:
    assert reason in (wrong_change(sentence, PIECES, ORIGINS) or "")


@pytest.mark.parametrize(
    "sentence",
    [
        "Duration went from 122.8 us [E5] to 65.82 us [E6].",
        "Duration drops from 122.8 us [E5] to 65.82 us [E6].",
        "From report 1 to report 0 it grows from 65.82 us [E6] to 122.8 us [E5].",
        "It takes 122.8 us [E5].",
        "It speeds up from 122.8 us [E5] to 65.82 us [E6].",
        "Performance increases from 122.8 us [E5] to 65.82 us [E6].",
        "Duration was 122.8 us [E5] and is now 65.82 us [E6].",
        "Before the loop it is 35.61 % [E1], and after it 59.6 % [E7].",
    ],
)
def test_a_change_that_is_one(sentence: str) -> None:
    assert wrong_change(sentence, PIECES, ORIGINS) is None


def test_one_report_has_no_order() -> None:
    text = "Duration goes from 65.82 us [E6] to 122.8 us [E5]."
    assert wrong_change(text, PIECES, {}) is None
