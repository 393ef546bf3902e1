"""What counts as a number that a text claims, and what it is."""

import pytest

from keet.catalog import metrics
from keet.units import base_unit, symbol
from keet.verification.numbers import RATES, SPELLINGS, find_numbers, unit_at
from keet.verification.sentences import split_sentences
from tests.rows import each_row


@each_row(("text", "value", "half", "unit"), [
    ("69.3 us", 69_300, 50, "ns"),
    ("69.3us", 69_300, 50, "ns"),
    ("69.30 µs", 69_300, 5, "ns"),
    ("0.0693 ms", 69_300, 50, "ns"),
    ("2 seconds", 2e9, 5e8, "ns"),
    ("1,238 samples", 1238, 0.5, "sample"),
    ("14.7M sectors", 14.7e6, 5e4, "sector"),
    ("14.7 million sectors", 14.7e6, 5e4, "sector"),
    ("3k", 3000, 500, ""),
    ("5.9%", 5.9, 0.05, "%"),
    ("5.9 percent", 5.9, 0.05, "%"),
    ("12 percentage points", 12, 0.5, "point"),
    ("2.1x", 2.1, 0.05, "x"),
    ("4 bank conflicts", 4, 0.5, "conflict"),
    ("2.1×", 2.1, 0.05, "x"),
    ("13 times", 13, 0.5, "x"),
    ("284.2 GB/s", 284.2e9, 5e7, "byte/s"),
    ("4.22 kB/block", 4220, 5, "byte/block"),
    ("48 KiB", 49152, 512, "byte"),
    ("16 registers per thread", 16, 0.5, "register/thread"),
    ("16 registers a thread", 16, 0.5, "register/thread"),
    ("32 sectors/request", 32, 0.5, "sector/request"),
    ("11.58 active warps per scheduler", 11.58, 0.005, "warp/scheduler"),
    ("1.98 GHz", 1.98e9, 5e6, "hz"),
    ("36.9 TFLOP/s", 36.9e12, 5e10, "flop/s"),
    ("36.9 TFLOPS", 36.9e12, 5e10, "flop/s"),
    ("6.93e+04 ns", 69_300, 50, "ns"),
    (".5 us", 500, 50, "ns"),
    ("-3.2 %", -3.2, 0.05, "%"),
    ("−3.2 %", -3.2, 0.05, "%"),
    ("132 SMs", 132, 0.5, "SM"),
])  # fmt: skip
def test_a_number(text: str, value: float, half: float, unit: str) -> None:
    (number,) = find_numbers(f"It is {text}, they say.")
    assert number.text == text
    assert number.value == pytest.approx(value)
    assert number.half == pytest.approx(half)
    assert number.unit == unit


@each_row(("text", "numbers"), [
    ("slow.cu:25, 49.5 % of the samples", ["49.5 %"]),
    ("slow.cu:25, 30 and 31 are hot", []),
    ("slow.cu:10 and 15 wait for it", []),
    ("slow.cu:42, 60, 61 and 65 hold the rest", []),
    ("slow.cu:42, 60 of the samples", ["60"]),
    ("slow.cu:42 and 60 [E3] are", ["60"]),
    ("slow.cu:25 and 49 % of it", ["49 %"]),
    ("slow.cu:25 to 31 wait", []),
    ("slow.cu:25, 12 sectors", ["12 sectors"]),
    ("It is LDS.128 and LDG.E.64.", []),
])  # fmt: skip
def test_places_and_opcodes_are_no_numbers(text: str, numbers: list[str]) -> None:
    assert [number.text for number in find_numbers(text)] == numbers


def test_brackets_nouns_and_names() -> None:
    (number,) = find_numbers("It has many (1,234,567) of them.")
    assert (number.value, number.shape) == (1_234_567, None)
    (number,) = find_numbers("They fall into 4 banks.")
    assert (number.text, number.value, number.unit) == ("4", 4, "")
    assert [n.text for n in find_numbers("void gemm 64 takes 5 us", ["gemm 64"])] == ["5 us"]


@each_row("text", [
    "slow.cu:95 and src/a-b.cuh:12-14",
    "line 33, lines 30-39 and line 12",
    "sm_90, L1, L2, FP32, FP64, E3, H200, float4, int8, k44, R0",
    "elements of nodes.parts[2].x[11] are stored", "`x = 12345` and `69.3 us`",
    "```\nfor (int i = 0; i < 100; i++)\n```", "## 3 Results of 7",
    "1. first\n2. second\n3) third",
    "CUDA 13.0, ncu 2025.3.1, driver 580.65, version 2, cc 9.0, v1.2, RTX 4090",
    "2026-11-15 03:15, 12:30",
    "transpose_tiles<float, 32>, tile<64, 8>",
    "launch 2, launches 0 and 1, #3",
    "0x7f00, 3D, a 2-D grid, 128-bit loads, 32-byte sectors, the 3rd",
    "https://example.org/2024/12?x=5",
    "A100-SXM4-80GB, RTX-4090Ti, 4090Ti", "a ratio of 2:1", "three of them",
])  # fmt: skip
def test_no_claim(text: str) -> None:
    assert find_numbers(text) == []


@each_row("text", ["64x256", "64×256", "64 x 256", "(64, 256, 1)", "[64,256,1]"])
def test_a_shape(text: str) -> None:
    (number,) = find_numbers(f"a grid of {text} blocks")
    assert number.shape[:2] == (64, 256)


def test_units_of_lists_and_columns() -> None:
    numbers = find_numbers("5.9, 29.5 and 24.6 %, or 20-30 us")
    percents = [(value, "%") for value in (5.9, 29.5, 24.6)]
    assert [(n.value, n.unit) for n in numbers] == [*percents, (20_000, "ns"), (30_000, "ns")]
    text = "Duration  us  69.34\n| Memory Throughput | Gbyte/s | 284.2 |"
    columns = [(pytest.approx(69_340), "ns"), (pytest.approx(284.2e9), "byte/s")]
    assert [(n.value, n.unit) for n in find_numbers(text)] == columns
    above, below, about, exact = find_numbers("over 60 %, under 5 us, about 70 us, 70 us")
    assert (above.bound, below.bound, about.bound) == ("above", "below", None)
    assert (about.half, exact.half) == (5000, 500)


@each_row("unit", sorted({spec.unit for spec in metrics().values()} - {""}))
def test_every_unit_of_the_catalog_is_known(unit: str) -> None:
    for written in (unit, symbol(unit)):
        found, end, _ = unit_at(f" {written} of it", 0)
        assert base_unit(found) == base_unit(unit)
        assert end == len(written) + 1


def test_every_spelling_is_found() -> None:
    for word, unit in SPELLINGS.items():
        assert unit_at(f" {word}" if word[0].isalpha() else word, 0)[0] == unit
    for word, unit in RATES.items():
        assert unit_at(f" {word}", 0) == (unit, len(word) + 1, 0)


def test_sentences(wording) -> None:
    text = (
        "The kernel, e.g. this one, takes 5.5 us. It is slow!\n\n"
        "- one item\n- another\n```\ncode. Here. 5\n```\n"
        "A paragraph that was wrapped at some width\nand goes on. | a | b |\n"
    )
    wording([sentence.text for sentence in split_sentences(text)])
    assert all(text[s.start : s.end] == s.text for s in split_sentences(text))
    assert all(len(s.text) <= 1000 for s in split_sentences("word " * 1000))


@each_row("unit", ["TiB", "kiB", "iB"])
def test_a_unit_on_the_next_line_that_keet_does_not_know_is_none(unit: str) -> None:
    assert [number.unit for number in find_numbers(f"12\n  {unit}")] == [""]
    assert unit_at("\n  KiB", 0)[0]


@each_row(("text", "count"), [
    ("15% waiting for the latency of shared memory: 131.9 us\n    → 3.85 us", 1),
    ("→ Store along the fastest axis of the output at slow.cu:7, or\n  swap the axes.", 1),
    ("The kernel waits for global memory most of the time.\n→ Load earlier.", 2),
])  # fmt: skip
def test_wrapped_rows_stay_one_sentence(text: str, count: int) -> None:
    assert len(list(split_sentences(text))) == count
