"""The patterns for ignored digits, chosen by the first letter, find what one pattern of all finds."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keet.verification import sentences
from keet.verification.sentences import end_of_ignored, is_ignored, skip_prose

PIECES = (
    *(
        "`",
        "```",
        "~~~",
        "\n",
        "\n\n",
        " ",
        "  ",
        "\t",
        "# ",
        "## ",
        "#3",
        "- ",
        "* ",
        "1. ",
        "12) ",
    ),
    *(
        "https://a.b/c:3",
        "slow.cu:31",
        "src/a-b/k.cu:7-9",
        ":7",
        ", 12",
        " and 40",
        " or 3 %",
        " to 9",
    ),
    *(
        "LDS.128",
        "FADD",
        "line 7",
        "Lines 3, 4 and 5",
        "launch #3",
        "launches 2 to 5",
        "launch",
        "#12",
    ),
    *(
        "2026-11-17",
        "2026-11-17T10:20",
        "10:20",
        "CUDA 12.4",
        "Compute Capability 9.0",
        "Nsight Compute",
    ),
    *(
        "v12.3",
        "PCIe v4",
        "Fig. 3",
        "2025.3.1",
        "0x1f",
        "tile<float, 32>",
        "a::b<c<3>>",
        "sm_90",
        "L2",
    ),
    *(
        "L1/TEX",
        "per-request",
        "1st",
        "3D",
        "32-bit",
        "32-byte",
        "5",
        "4.5",
        "1,234",
        "-3.2",
        ".5",
        "7e3",
    ),
    *(
        "2.1x",
        "%",
        "%,",
        ")",
        "(",
        ";",
        ".",
        ":",
        "x",
        "é",
        "٣",
        "−",
        "–",
        "_",
        "\\",
        "/",
        "é.cu:3",
        "v",
    ),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20)


def end_of_any(text: str, position: int) -> int:
    found = sentences._ANY.match(text, position)
    return found.end() if found else position


@given(TEXTS)
@example("slow.cu:31, 32 and 40, 49 %")
@example("Compute Capability 9.0 and Nsight Compute 2025.3")
@example("   ## 3 of them\n 4. is")
def test_separate_patterns_match_like_the_whole_pattern(text: str) -> None:
    for position in range(len(text)):
        assert end_of_ignored(text, position) == end_of_any(text, position), position


@given(TEXTS)
@example(" 1. a")
@example("launch of 3")
def test_skipped_prose_contains_no_part_of_a_number(text: str) -> None:
    for position in range(len(text)):
        end, at = skip_prose(text, position), position
        while at < end:
            assert text[at].isalpha() or text[at] in "_ ,;()%"
            at = max(end_of_any(text, at), at + 1)
        assert at == max(end, position)


@given(TEXTS)
def test_which_digits_are_ignored(text: str) -> None:
    for position in range(len(text)):
        end = position
        while end < len(text) and text[end].isdecimal():
            end += 1
        if end > position and (position == 0 or not text[position - 1].isdecimal()):
            assert is_ignored(text, position, end) == (end_of_any(text, position) >= end)


@pytest.mark.slow
def test_separate_patterns_match_like_the_whole_pattern_in_printed_pages() -> None:
    pages = sorted((Path(__file__).parents[2] / "golden").rglob("*.md"))
    assert pages
    for page in pages:
        text = page.read_text()
        assert all(end_of_ignored(text, at) == end_of_any(text, at) for at in range(len(text)))
