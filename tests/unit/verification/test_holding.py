"""A model's sentences stand only where the evidence, the launch, the source or the hardware bear them
out."""

from __future__ import annotations

from pathlib import Path

import pytest

from keet.explanation.analyst import LaunchExplanation, explain
from keet.ingest import read_profile
from keet.units import Quantity
from keet.verification.constants import constants
from keet.verification.holding import PROMISE, Holder
from keet.verification.suggested_code import without_promises

SAMPLES = Path(__file__).parents[3] / "kernels_samples"


@pytest.fixture(scope="module")
def each() -> LaunchExplanation:
    """A product with a tile of 128 x 16 floats at a pitch of 17, lost in bank conflicts."""
    profile = read_profile(SAMPLES / "score_tiles" / "slow.ncu-rep")
    return explain(profile, profile.launches, 5).launches[0]


@pytest.fixture
def holder(each: LaunchExplanation) -> Holder:
    files = {path: text for path, text in each.launch.source_files.items() if text}
    return Holder(each.evidence, [each.launch], files)


def cited(each: LaunchExplanation, label: str) -> str:
    """The value of a piece of evidence, and its id, as a model should write them."""
    piece = next(piece for piece in each.evidence if piece.label == label)
    return f"{piece} [{piece.id}]"


def test_a_cited_number_stands(each: LaunchExplanation, holder: Holder) -> None:
    lost = cited(each, "shared wavefronts lost to bank conflicts")
    held = holder.hold(f"Bank conflicts take {lost} of the shared-memory wavefronts.")
    assert held.text
    assert not held.let_go
    assert holder.count(held) == 1
    assert len(holder.ids(held)) == 1


def test_evidence_may_be_named_beside_the_text(each: LaunchExplanation, holder: Holder) -> None:
    piece = next(p for p in each.evidence if p.label == "shared wavefronts lost to bank conflicts")
    text = f"Bank conflicts take {piece} of the shared-memory wavefronts."
    assert holder.hold(text, [piece.id]).text == text
    (gone,) = holder.hold(text).let_go
    assert piece.id in gone.reason


@pytest.mark.parametrize(
    "text",
    [
        "The tiles are 128x16 floats.",
        "Each thread makes 8 x 8 results.",
        "Neighbours are 8 * 17 = 136 floats apart.",
        "A warp has 32 threads and shared memory 32 banks.",
        "Rows are padded to kPitch, 17 floats.",
        "`item_tile[item + j][k]` at slow.cu:43 is read by all.",
        "The block has 256 threads.",
        "The rows are 8 * 18 = 144 words apart, and 144 mod 32 = 16.",
        "A step stages 17408 bytes = 2 * 128 * 17 * 4 of them.",
        "That takes 64 / 4 = 16 cycles of FFMA.",
        "There are 132 SMs.",
        "It is 16-byte aligned.",
        "Each thread copies 16 B of the array into shared memory.",
        "A thread owns 8x8 sums in registers (8 * 8 = 64).",
        "More warps would gain nothing here.",
        "With kTile + 4 it is 4 * 132 = 528, 528 mod 32 = 16.",
        "It reads item_tile[max(k - 2, 0)] (slow.cu:43) again.",
        "Each SM has 64 warps at most and 65,536 registers.",
        "It compiles to LDS.128 at slow.cu:42, 43 and 45.",
        "The lines slow.cu:41 to 46 make 8 * 8 = 64 products.",
        "There are 65536 registers on an SM.",
        "Sizes over 2^31 elements overflow.",
        "It overflows at 2147483648 elements.",
        "That is 192 * 192 / (128 * 256) = 1.125 times the work.",
        "There are 8 * 17 * 3 = 408 words. The 408 words are spread.",
    ],
)
def test_constants_of_the_source_the_launch_and_the_hardware_stand(
    holder: Holder, text: str
) -> None:
    held = holder.hold(text)
    assert held.let_go == ()
    assert held.text == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("DRAM runs at 97.3 % of peak.", "97.3 %"),
        ("Each request takes 17 wavefronts.", "17 wavefronts"),
        ("It takes 128 us.", "128 us"),
        ("Neighbours are 8 * 17 = 137 floats apart.", "137"),
        ("That is 53 floats.", "53"),
        ("It has 3 * 4 = 5 rows.", "3 * 4 = 5"),
        ("It has more than 20 threads.", "20 threads"),
        ("The tile has 9013 rows.", "9013"),
        ("It uses 49152 bytes of shared memory a block.", "49152 bytes"),
        ("About 100 of the SMs are idle.", "100"),
        ("Duration is 59.58 [E13] ms.", "59.58"),
        ("IPC is 4.", "4"),
        ("The L2 hit rate is 0.", "0"),
        ("Each SM holds 4 blocks.", "4 blocks"),
        ("The grid has 128 blocks.", "128 blocks"),
        ("16 threads per warp are active.", "16 threads"),
        ("66 SMs sit idle.", "66 SMs"),
        ("Nine in ten wavefronts are wasted.", "Nine in ten"),
        ("A gather uses 4 / 32 = 25% of each sector.", "25%"),
        ("DRAM runs at 128 / 132 = 97%.", "97%"),
        ("That is 144 mod 32 = 15 words.", "144"),
        ("That takes 6173 / 4 = 1543.25 cycles.", "6173"),
        ("# 97.3 % of peak", "97.3 %"),
        ("`97.3 %` of peak is reached.", "97.3 %"),
        ("```\nDRAM is at 97.3 %\n```", "97.3 %"),
        ("The block uses 65,536 registers.", "65,536 registers"),
        ("It reads 2^31 sectors.", "31 sectors"),
        ("DRAM throughput is 2^31 %.", "2"),
        ("It makes 128 / 16 = 8 times the DRAM traffic.", "8 times"),
        ("See slow.cu:999 for the loop.", "slow.cu has 64 lines"),
        ("The FMA pipe is at 35.9 % [E9999].", "there is no evidence E9999"),
    ],
)
def test_what_nothing_bears_out_is_let_go(holder: Holder, text: str, reason: str) -> None:
    held = holder.hold(text)
    assert held.text == ""
    (gone,) = held.let_go
    assert reason in gone.reason
    assert holder.count(held) == 0


@pytest.mark.parametrize(
    "text",
    [
        "This makes it 1.8x faster.",
        "Expect a speed-up of 2x.",
        "The kernel gains 40 % by that.",
        "It improves the run time by 25 %.",
    ],
)
def test_promises_are_keets_to_make(holder: Holder, text: str) -> None:
    (gone,) = holder.hold(text).let_go
    assert gone.reason == PROMISE


def test_a_right_number_at_the_wrong_thing(each: LaunchExplanation, holder: Holder) -> None:
    """It has an id, and the sentence says it of something else."""
    lost = cited(each, "shared wavefronts lost to bank conflicts")
    assert holder.hold(f"DRAM throughput is {lost}.").text == ""


def test_arithmetic_may_be_shown(each: LaunchExplanation, holder: Holder) -> None:
    piece = next(p for p in each.evidence if p.label == "shared-memory wavefronts")
    half = f"{piece.value / 2:,.0f}"
    assert holder.hold(f"That is {piece.value:,} [{piece.id}] / 2 = {half} of them.").let_go == ()
    assert holder.hold(f"That is {piece.value:,} [{piece.id}] / 2 = 5,000 of them.").let_go
    assert holder.hold(f"That is {piece.value + 9e6:,} [{piece.id}] / 2 = {half} of them.").let_go


def test_what_one_sentence_computes_another_may_use(holder: Holder) -> None:
    text = "Each lane has 137 values."
    assert holder.hold(text).let_go
    holder.learn(["It is 8 * 17 + 1 = 137.", "And 4 * 4 = 99."])
    assert holder.hold(text).let_go == ()
    assert holder.hold("Each lane has 99 values.").let_go


def test_shares_add_up(each: LaunchExplanation, holder: Holder) -> None:
    shares = [p for p in each.evidence if p.unit == "%" and 1 < p.value < 30][:3]
    terms = " + ".join(f"{p.value:.1f}% [{p.id}]" for p in shares)
    total = sum(round(p.value, 1) for p in shares)
    assert holder.hold(f"Together they are {terms} = {total:.1f}%.").let_go == ()
    assert holder.hold(f"Together they are {terms} = {total + 9:.1f}%.").let_go


def test_a_number_of_the_unit_that_is_named_stands(each: LaunchExplanation, holder: Holder) -> None:
    """Several metrics are called L1's share of peak: the id says which one is meant."""
    busy = cited(each, "L1 data stage (LSU) busy")
    assert holder.hold(f"L1 runs at {busy} of its peak.").let_go == ()


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("A block makes 128 * 128 results, 16384 in all.", True),
        ("Each step stages 2048 floats of a tile.", True),
        ("The grid covers 4096 x 4096 scores.", True),
        ("A butterfly takes 5 steps.", True),
        ("A gather uses 4 / 32 = 12.5% of each sector.", True),
        ("It will run at 90 % of peak.", False),
        ("It will take 30 us.", False),
        ("There are 1237 rows.", False),
    ],
)
def test_a_prediction_may_follow_from_the_source(holder: Holder, text: str, stands: bool) -> None:
    assert bool(holder.hold(text, stage="predicting").text) == stands


def test_a_unit_does_not_lend_its_number_to_another(
    each: LaunchExplanation, holder: Holder
) -> None:
    busy = cited(each, "L1 data stage (LSU) busy")
    assert holder.hold(f"DRAM is {busy} busy.").let_go
    assert holder.hold(f"The tensor pipe is {busy} busy.").let_go


def test_a_number_of_one_line_is_not_that_of_another() -> None:
    profile = read_profile(SAMPLES / "score_tiles" / "slow.ncu-rep")
    told = explain(profile, profile.launches, 5).launches[0]
    share = told.view.ledger.derived(
        "samples_share", Quantity(35.6, "%"), "share of samples", line="slow.cu:45"
    )
    holder = Holder(told.evidence, [told.launch], {})
    assert holder.hold(f"slow.cu:45 has 35.6 % [{share.id}] of the samples.").let_go == ()
    (gone,) = holder.hold(f"Line 43 has 35.6 % [{share.id}] of the samples.").let_go
    assert "slow.cu:45" in gone.reason


def test_a_number_of_one_report_is_not_that_of_another(each: LaunchExplanation) -> None:
    piece = next(p for p in each.evidence if p.label == "Duration")
    holder = Holder(each.evidence, [each.launch], {}, origins={piece.id: 1})
    assert holder.hold(f"Report 1 takes {piece} [{piece.id}].").let_go == ()
    (gone,) = holder.hold(f"Report 0 takes {piece} [{piece.id}].").let_go
    assert "of report 1" in gone.reason


def test_the_verdict_on_a_prediction_may_repeat_its_numbers(holder: Holder) -> None:
    text = "It makes 2176 of them."
    assert holder.hold(text).let_go
    holder.hold("A tile of 128 x 17 floats takes 2176 floats.", stage="predicting")
    assert holder.hold(text).let_go == ()
    assert holder.hold("It makes 2176 sectors.").let_go


def test_a_clause_behind_the_id_is_of_another_thing(each: LaunchExplanation) -> None:
    share = each.view.ledger.derived("samples_share", Quantity(35.6, "%"), "share of samples")
    holder = Holder(each.evidence, [each.launch], {})
    assert holder.hold(f"The loop holds 35.6 % [{share.id}] and fills the ALU pipe.").let_go == ()
    assert holder.hold(f"The ALU pipe is at 35.6 % [{share.id}].").let_go
    assert holder.hold(f"It is at 35.6 % [{share.id}], the ALU pipe's share.").let_go


@pytest.mark.parametrize("text", ["Pad the pitch to 20 floats.", "Use a 32x33 tile."])
def test_an_edit_may_choose_sizes(holder: Holder, text: str) -> None:
    assert holder.hold(text, stage="proposing").let_go == ()
    assert holder.hold("It then runs at 83 %.", stage="proposing").let_go
    assert holder.hold("Use more than 20 floats [E13].", stage="proposing").let_go


def test_a_measured_share_beside_a_weak_word_is_no_promise(
    each: LaunchExplanation, holder: Holder
) -> None:
    lost = cited(each, "shared wavefronts lost to bank conflicts")
    text = f"It removes the {lost} of the shared wavefronts that are repeats, which improves L1."
    assert holder.hold(text).let_go == ()
    assert holder.hold(f"With it, {lost} of the time can be saved.").let_go


def test_a_change_is_of_one_quantity(each: LaunchExplanation, holder: Holder) -> None:
    one = cited(each, "shared wavefronts lost to bank conflicts")
    other = cited(each, "L1 data stage (LSU) busy")
    (gone,) = holder.hold(f"The share goes from {one} to {other} by that.").let_go
    assert "not one quantity" in gone.reason


def test_the_rest_of_a_text_is_kept(holder: Holder) -> None:
    held = holder.hold("The tile is shared. DRAM is at 97.3 %. Rows are 17 floats apart.")
    assert held.text == "The tile is shared. Rows are 17 floats apart."
    assert [gone.text for gone in held.let_go] == ["DRAM is at 97.3 %."]


def test_paragraphs_stay_and_clauses_hold_together(holder: Holder) -> None:
    text = "It waits; DRAM is at 97.3 %. The rest is idle.\n\n- One.\n- DRAM is at 97.3 %.\n- Two."
    assert holder.hold(text).text == "The rest is idle.\n\n- One.\n- Two."


def test_mended_text_stands_where_the_other_stood(holder: Holder) -> None:
    held = holder.hold("First. DRAM is at 97.3 %. Last.")
    assert held.mended(1, holder.hold("Middle. More.")).text == "First. Middle. More. Last."


def test_comments_of_suggested_code_do_not_promise() -> None:
    code = "#pragma unroll 4\nx = y;  // 2x faster\nz = 1;  # 4 banks\n#define A 2\n"
    assert without_promises(code) == "#pragma unroll 4\nx = y;  \nz = 1;  # 4 banks\n#define A 2\n"


def test_suggested_code_may_be_quoted(each: LaunchExplanation) -> None:
    holder = Holder(each.evidence, [each.launch], {}, suggested="float tile[16][137];")
    assert holder.hold("Declare it as `tile[16][137]`.").let_go == ()
    assert Holder(each.evidence, [each.launch], {}).hold("Declare it as `tile[16][137]`.").let_go


def test_named_constants_are_computed() -> None:
    code = """
    #define TILE 32
    constexpr int kDepth = 16, kOther = 3;
    constexpr int kPitch = kDepth + 1;
    static const unsigned kBytes = kPitch * TILE * 4u;  // of a tile
    constexpr int kLoop = kLoop + 1;
    constexpr int kHalf = 7 / 0;
    BLOCK: tl.constexpr = 1 << 10
    float x = 2.75f;
    """
    found = constants(code)
    assert {32, 16, 17, 2176, 1024} <= found
    assert not {2, 75, 3} <= found or 3 in found


@pytest.mark.parametrize(
    "code", ["#define A (((((", "constexpr int a = " + "(" * 5000, "A = 9" * 3]
)
def test_odd_code_has_no_constants_that_hurt(code: str) -> None:
    assert isinstance(constants(code), set)
