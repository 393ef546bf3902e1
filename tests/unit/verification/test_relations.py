"""What a text says of two quantities: found, and right or wrong by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keet.documents.verify import RelationDocument
from keet.profile import Profile
from keet.verification.relations import find_relations
from keet.verification.verify import verify_text
from tests.rows import each_row

TOUR = "tour_full.ncu-repz"
ProfileOf = Callable[[str], Profile]


def relations(text: str, profile: Profile) -> list[RelationDocument]:
    return [each for found in verify_text(text, profile.launches) for each in found.relations]


@each_row(
    ("text", "kind", "factor"),
    [
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
    ],
)
def test_found(text: str, kind: str, factor: float | None) -> None:
    (relation,) = find_relations(text)
    assert relation.kind == kind
    assert (relation.factor.value if relation.factor else None) == factor


@each_row(
    "text",
    [
        "It takes more than 60 us.",
        "L2 is above 70 %.",
        "It fills less than a quarter of a wave.",
        "It",
    ],
)
def test_a_bound_of_a_number_is_not_a_comparison(text: str) -> None:
    assert find_relations(text) == []


@each_row(
    "text",
    [
        "Store along the fastest axis of the output.",
        "The busiest stage is the crossbar to L2.",
        "The busiest slice of L2 looks up 25.6 times as many sectors.",
    ],
)
def test_the_name_of_a_part_is_not_a_comparison(text: str) -> None:
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


@each_row("text", RIGHT)
def test_right(text: str, profile_of: ProfileOf) -> None:
    assert [each.verdict for each in relations(text, profile_of(TOUR))] == ["confirmed"]


@each_row("text", WRONG)
def test_wrong(text: str, profile_of: ProfileOf) -> None:
    assert [each.verdict for each in relations(text, profile_of(TOUR))] == ["contradicted"]


@pytest.mark.parametrize(
    "text",
    [
        "transpose_rows takes 69.34 us, which is more than most of its neighbours.",
        "In launch 0, the L2 hit rate of 89.9 % is better and higher than usage suggests.",
        "In launch 0, Drain is the second largest stall reason with 55 % of the samples.",
    ],
)
def test_what_is_not_understood_is_not_confirmed(text: str, profile_of: ProfileOf) -> None:
    assert [each.verdict for each in relations(text, profile_of(TOUR))] == ["not_found"]


def test_a_possibility_is_not_checked(profile_of: ProfileOf) -> None:
    text = "With tiling, transpose_rows would be faster than normalise."
    assert relations(text, profile_of(TOUR)) == []


def test_positions_are_those_in_the_whole_text(profile_of: ProfileOf, wording) -> None:
    text = "It is slow. In launch 0, L2 is busier than DRAM."
    (found,) = relations(text, profile_of(TOUR))
    assert text[found.start : found.end] == found.text == "busier than"
    wording(found.reason)
