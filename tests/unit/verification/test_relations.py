"""What a text says of two quantities: found, and right or wrong by itself."""

from __future__ import annotations

import pytest

from keet.documents.verify import RelationDocument
from keet.profile import Profile
from keet.report import read_profile
from keet.verification.relation_check import find_relations
from keet.verification.verdicts import CheckedSentence
from keet.verification.verify import computed_values, verify_text
from tests.printed_pages import Cell, Shown, csv_page
from tests.rows import each_row


def relations(text: str, profile: Profile) -> list[RelationDocument]:
    return [each for found in verify_text(text, profile.launches) for each in found.relations]


@each_row(("text", "kind", "factor"), [
    ("L2 is busier than DRAM.", "more", None),
    ("DRAM lies below the L2 throughput.", "less", None),
    ("Loads outnumber stores.", "more", None),
    ("It is more than twice the hit rate.", "ratio", 2.0),
    ("It has ten times fewer loads than stores.", "less", 10.0),
    ("It takes 5.7 times as long as normalise.", "ratio", 5.7),
    ("It is three quarters of the peak.", "ratio", 0.75),
    ("Drain is the largest stall.", "most", None),
    ("Drain is the second largest stall.", "unclear", None),
    ("L1 is close to the L2 hit rate.", "close", None),
])  # fmt: skip
def test_found(text: str, kind: str, factor: float | None) -> None:
    (relation,) = find_relations(text)
    assert relation.kind == kind
    assert (relation.factor.value if relation.factor else None) == factor


@each_row("text", [
    "It takes more than 60 us.", "L2 is above 70 %.",
    "It fills less than a quarter of a wave.", "It",
])  # fmt: skip
def test_a_bound_of_a_number_is_not_a_comparison(text: str) -> None:
    assert find_relations(text) == []


RIGHT = [
    "transpose_rows is slower than normalise.",
    "transpose_tiles is faster than normalise.",
    "The L2 hit rate of transpose_rows is higher than that of normalise.",
    "transpose_rows has a higher L2 hit rate than normalise.",
    "In launch 0, L2 is busier than DRAM.",
    "In launch 0, DRAM throughput does not exceed L2 throughput.",
    "In launch 0, Drain is the largest stall reason.",
    "transpose_rows is the longest launch of the run.",
    "transpose_rows takes more than five times as long as transpose_tiles.",
    "In launch 2, DRAM reads are about 28 times the DRAM writes.",
    "In launch 2, the achieved occupancy is lower than the theoretical one.",
]
WRONG = [
    "transpose_rows is faster than normalise.",
    "The L2 hit rate of transpose_rows is lower than that of normalise.",
    "transpose_rows has a lower L2 hit rate than normalise.",
    "In launch 0, DRAM is busier than L2.",
    "In launch 0, DRAM throughput exceeds L2 throughput.",
    "In launch 0, L2 throughput does not exceed DRAM throughput.",
    "In launch 0, Long Scoreboard is the largest stall reason.",
    "normalise is the longest launch of the run.",
    "transpose_rows takes ten times as long as transpose_tiles.",
    "In launch 2, DRAM reads are half of the DRAM writes.",
    "In launch 2, the achieved occupancy is twice the theoretical one.",
]


NOT_UNDERSTOOD = [
    "transpose_rows takes 69.34 us, which is more than most of its neighbours.",
    "In launch 0, the L2 hit rate of 89.9 % is better and higher than usage suggests.",
    "In launch 0, Drain is the second largest stall reason with 55 % of the samples.",
]
RELATIONS = {"confirmed": RIGHT, "contradicted": WRONG, "not_found": NOT_UNDERSTOOD}


@each_row(("verdict", "text"), [(v, text) for v, texts in RELATIONS.items() for text in texts])
def test_verdicts(verdict: str, text: str, tour: Profile) -> None:
    assert [each.verdict for each in relations(text, tour)] == [verdict]


def test_positions_and_possibilities(tour: Profile, wording) -> None:
    text = "It is slow. In launch 0, L2 is busier than DRAM."
    (found,) = relations(text, tour)
    assert text[found.start : found.end] == found.text == "busier than"
    wording(found.reason)
    text = "With tiling, transpose_rows would be faster than normalise."
    assert relations(text, tour) == []


def checked(text: str, profile: Profile) -> list[CheckedSentence]:
    return verify_text(text, profile.launches, known=computed_values([profile]))


@each_row(("claim", "verdict"), [
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
])  # fmt: skip
def test_limiters(claim: str, verdict: str, flip: Profile) -> None:
    found = checked(f"The kernel takes 1.02 ms and {claim}.", flip)
    assert [each.verdict for each in found[0].relations] == [verdict]
    assert [each.verdict for each in found[0].checks] == ["confirmed"]


def test_sentences_that_do_not_claim_a_limiter(flip: Profile) -> None:
    for text in ("The upper bound is 5 %.", "It would be DRAM bound."):
        assert not checked(text, flip)[0].relations


LINE = "#0 flip slow.cu:7\n109 of 264 samples (41.3%); waiting: Long Scoreboard 95%\n"


def verdicts(text: str, profile: Profile) -> list[str]:
    return [check.verdict for each in checked(text, profile) for check in each.checks]


def test_numbers_below_the_title_of_a_line_are_of_that_line(flip: Profile) -> None:
    assert verdicts(LINE, flip) == ["confirmed"] * 4
    others = "110 samples (41.7%) at other lines wait for this line: slow.cu:9 110 (Drain)\n"
    assert verdicts(LINE + others, flip) == ["confirmed"] * 7
    other = "\n#0 flip: grid 256x1024\n\nIt has 109 samples.\n"
    assert verdicts(LINE + other, flip)[-1] == "contradicted"
    for true, false in (("109", "119"), ("41.3%", "51.3%"), ("95%", "59%")):
        found = verdicts(LINE.replace(true, false), flip)
        assert (len(found), found.count("confirmed")) == (4, 3)


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


@each_row(("text", "verdict"), [
    ("Issue slots busy is 75.41%.", "confirmed"),
    ("Issue Slots Busy: 75.4 %", "confirmed"),
    ("SM Busy is 75.41%.", "confirmed"),
    ("Warp Cycles Per Issued Instruction is 10.44.", "confirmed"),
    ("Issue slots busy is 60.00%.", "not_found"),
    ("SM Busy is 60%.", "not_found"),
    ("The duration is 70.1 us.", "contradicted"),
    ("One or More Eligible is 60%.", "contradicted"),
])  # fmt: skip
def test_labels_of_an_export(text: str, verdict: str, export: Profile) -> None:
    """Never wrong for what a metric related to the label has."""
    assert verdicts(text, export) == [verdict]
