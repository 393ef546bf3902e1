"""Numbers of a text against its evidence: what keet writes always passes, what is off never does."""

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from keet.catalog import metrics
from keet.evidence import Evidence
from keet.units import Quantity, parse_unit
from keet.verification.grounding import check_grounding
from keet.verification.text.numbers import find_numbers
from tests.rows import each_row

L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
PIECES = [
    Evidence("E1", "gpu__time_duration.sum", 69344, "ns", "Duration"),
    Evidence("E2", L2, 76.603, "%", "L2 Cache Throughput"),
    Evidence("E3", DRAM, 5.91, "%", "DRAM Throughput"),
    Evidence("E4", "other__duration", 12256, "ns", "Duration of tiles"),
    Evidence("E5", "share", 0.218, "", "Share of the samples"),
    Evidence("E6", "lts__t_sectors.sum", 14_680_064, "sector", "L2 Cache Sectors"),
    Evidence("E7", "launch__shared_mem_per_block", 4224, "byte/block", "Shared Memory"),
    Evidence("E8", "change", -3.2, "%", "Change"),
]

UNITS = sorted(
    {spec.unit for spec in metrics().values()} | {"x", "us", "Gbyte/s", "flop/s", "op/s"}
)
VALUES = st.one_of(
    st.integers(-(10**15), 10**15),
    st.floats(-1e18, 1e18, allow_nan=False).filter(lambda v: v == 0 or abs(v) > 1e-12),
)
SPECS = ["", ".0f", ".1f", ".2f", ",.0f", ",.2f", ".3g", ".2e", "+.1f", ">12.1f"]
AROUND = [
    "It is {} here.",
    "({}), of peak",
    "about {}",
    "{}; more",
    "a: {}.",
    "- **{}**",
    "| x | {} |",
]


@given(VALUES, st.sampled_from(UNITS), st.sampled_from(SPECS), st.sampled_from(AROUND))
def test_what_keet_writes_is_verified(value, unit, spec, around) -> None:
    piece = Evidence("E1", "some__metric", value, unit, "Some Metric")
    grounding = check_grounding(around.format(format(piece, spec)), [piece])
    assert grounding.numbers == 1
    assert grounding.all_supported, grounding.unsupported


@given(st.lists(st.tuples(VALUES, st.sampled_from(UNITS)), min_size=2, max_size=4))
def test_lists_of_evidence_are_verified(drawn) -> None:
    """Units are shared in lists (`5.9, 29.5 and 24.6 %`): that must not hurt what has none."""
    pieces = [Evidence(f"E{i}", f"m{i}", v, u, f"M{i}") for i, (v, u) in enumerate(drawn)]
    for text in (
        ", ".join(map(str, pieces)),
        " and ".join(map(str, pieces)),
        " to ".join(map(str, pieces)),
    ):
        assert check_grounding(text, pieces).all_supported, text


@given(
    VALUES, st.sampled_from(UNITS), st.sampled_from(SPECS[:6]), st.floats(1.01, 1e6), st.booleans()
)
def test_a_number_off_by_more_than_its_rounding_is_unsupported(
    value, unit, spec, times, up
) -> None:
    text = format(Evidence("E1", "m", value, unit, "M"), spec)
    (number,) = find_numbers(f"It is {text} here.")
    step = number.half * times * (1 if up else -1)
    power = parse_unit(number.unit).power - parse_unit(unit).power
    moved = Quantity((number.value + step) * 10.0**power, unit)
    # Where the digits of a double end, there is nothing beyond the rounding.
    assume(math.isfinite(moved.value) and number.half > 1e-9 * abs(number.value))
    grounding = check_grounding(
        f"It is {text} here.", [Evidence("E1", "m", moved.value, unit, "M")]
    )
    assert not grounding.verified
    assert len(grounding.unsupported) == 1


@each_row(
    "text",
    [
        "It takes 69.34 us, 69.3 us, 69 us, 0.0693 ms or 69,344 ns.",
        "L2 is at 76.6 % and DRAM at 5.9 %.",
        "5.9 and 76.6 %",
        "It is 5.66x the 12.26 us: 69.34 us.",
        "57.1 us longer than the 12.26 us, for 69.34 us",
        "together 81.6 us: 69.34 us and 12.26 us",
        "L2 Cache Throughput is 70.7 points above DRAM Throughput",
        "21.8 % of the samples, a share of 0.218",
        "14.7M sectors, 14.68 million sectors, 14,680,064 sectors",
        "4.22 kB of shared memory, 4,224 bytes a block, 4.125 KiB",
        "over 70 % of the L2 throughput",
        "3.2 % lower than before",
        "a change of -3.2 %",
        "about 70 us",
        "The ratio of Duration and Duration of tiles is 5.66x.",
    ],
)
def test_verified(text: str) -> None:
    assert check_grounding(text, PIECES).unsupported == ()


@each_row(
    ("text", "number", "reason"),
    [
        ("It takes 69.34 ms.", "69.34 ms", "Duration is 69.34 us"),
        ("It takes 70 us.", "70 us", "Duration is 69.34 us"),
        ("It takes 69.4 us.", "69.4 us", "Duration is"),
        ("It takes 69.34.", "69.34", "is"),
        ("L2 is at 0.766 %.", "0.766 %", "is"),
        ("L2 is at 77.6 %.", "77.6 %", "L2 Cache Throughput is 76.60%"),
        ("14.8M sectors", "14.8M sectors", "L2 Cache Sectors is 14,680,064 sector"),
        ("14.7k sectors", "14.7k sectors", "L2 Cache Sectors"),
        ("0.218 % of the samples", "0.218 %", "is"),
        ("69.34 GB/s", "69.34 GB/s", "nothing in the evidence has that unit"),
        ("It is 5.66x as long.", "5.66x", "is"),
        ("81.6 us: 69.34 us and 12.26 us", "81.6 us", "Duration"),
        ("over 30 % of the L2 throughput", "30 %", "is"),
        ("a grid of 64x64", "64x64", "no grid or block of that shape"),
    ],
)
def test_stray(text: str, number: str, reason: str) -> None:
    strays = check_grounding(text, PIECES).unsupported
    assert number in [stray.text for stray in strays]
    assert any(reason in stray.reason for stray in strays)


def test_a_ratio_needs_both_values_in_the_text() -> None:
    """Of eight pieces there are 56 ratios: any round number would be one of them."""
    assert check_grounding("It is 13x worse.", PIECES).unsupported
    assert check_grounding("L2 Cache Throughput is 13x DRAM Throughput.", PIECES).all_supported


def test_shapes_and_counts_of_the_launch_need_no_evidence(profile_of) -> None:
    launch = profile_of("tour_full.ncu-rep").launches[1]
    text = (
        "transpose_tiles<float, 32> (launch 1 of NVIDIA H200) runs 64x64 blocks of 32x8 threads: "
        "4,096 blocks, 256 threads each, on 132 SMs; see tour.cu:33 and lines 30-39."
    )
    assert check_grounding(text, [], launch=launch).unsupported == ()
    assert check_grounding("65x64 blocks", [], launch=launch).unsupported
    assert check_grounding("4,097 blocks", [], launch=launch).unsupported


def test_what_keet_explains_is_verified_on_the_samples(profile_of) -> None:
    """Everything that the ledger holds, said in one text."""
    from keet.analysis.ledger import LaunchLedger

    for launch in profile_of("tour_full.ncu-rep").launches:
        ledger = LaunchLedger(launch)
        pieces = [piece for spec in metrics().values() if (piece := ledger.measured(spec.id))]
        text = "\n".join(f"{piece.label} is {piece} of the launch." for piece in pieces)
        grounding = check_grounding(text, pieces, launch=launch)
        assert len(pieces) > 200
        assert grounding.unsupported == ()


def test_the_same_text_is_checked_against_each_evidence() -> None:
    """Its numbers are found once, and kept."""
    text = "DRAM delivers 42 % of its peak."
    (sound, wrong) = (
        [Evidence("dram", "dram", value, "%", "DRAM throughput")] for value in (42.0, 17.0)
    )
    assert check_grounding(text, sound).all_supported
    assert not check_grounding(text, wrong).all_supported
    assert check_grounding(text, sound).all_supported
