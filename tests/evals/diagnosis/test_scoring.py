"""The scorer on made-up answers: what is right, what is not, and why."""

from dataclasses import replace

import pytest

from evals.diagnosis.answers import Answer, Claim, Truth
from evals.diagnosis.nvidia import Advice
from evals.diagnosis.scoring import HealthyRow, Row, score, score_healthy
from evals.diagnosis.task import summarise, threshold_values
from evals.task_command import Share, Unscored
from tests.rows import each_row

TRUTH = Truth(
    "made_up",
    "tail_effect",
    accept=("small_grid",),
    lines=(("slow.cu", 7), ("slow.cu", 9)),
    fixed=("narrow_access", "small_grid", "tail_effect"),
    left=(("fast", "latency_bound"),),
)


def a_claim(finding: str, likely: float = 2.0, places: tuple[tuple[str, int], ...] = ()) -> Claim:
    return Claim(finding, likely / 2, likely, likely * 2, places=places)


def scored(*claims: Claim, fast: Answer | None = None, truth: Truth = TRUTH) -> Row:
    return score(truth, {"slow": Answer(claims), "fast": fast or Answer(healthy="latency_bound")})


def test_ranks() -> None:
    row = scored(a_claim("tail_effect", places=(("slow.cu", 9),)), a_claim("sfu_bound"))
    assert (row.rank, row.located, row.misses) == (1, True, ())
    assert scored(a_claim("sfu_bound"), a_claim("small_grid"), a_claim("tail_effect")).rank == 2
    many = [a_claim(f"other_{n}") for n in range(5)]
    assert scored(*many, a_claim("tail_effect")).rank is None
    assert scored(*many[:4], a_claim("tail_effect")).rank == 5
    assert scored(*many, a_claim("tail_effect")).beside == 5
    row = scored(a_claim("sfu_bound"), a_claim("sfu_bound"), a_claim("tail_effect"))
    assert (row.rank, row.beside) == (3, 1)
    truth = replace(TRUTH, others=("narrow_access",))
    claims = (a_claim("tail_effect"), a_claim("narrow_access"), a_claim("sfu_bound"))
    assert scored(*claims, truth=truth).beside == 1


def test_misses_and_hits_say_why(wording) -> None:
    nothing = scored()
    assert (nothing.rank, nothing.located) == (None, False)
    assert (nothing.nvidia_rank, nothing.nvidia_global_rank, nothing.nvidia_first_means) == (
        None,
        None,
        0,
    )
    healthy = score(TRUTH, {"slow": Answer(healthy="at_dram_roofline"), "fast": Answer()})
    placed = a_claim("tail_effect", places=(("slow.cu", 7),))
    second, other = scored(a_claim("sfu_bound", 3.0), placed), scored(a_claim("sfu_bound", 3.0))
    for row in (nothing, healthy, second, other, scored(a_claim("tail_effect"))):
        wording(row.misses)
    wording(scored(a_claim("sfu_bound"), placed).why)


@each_row(("places", "located"), [
    ((), False),
    ((("slow.cu", 7),), True),
    ((("slow.cu", 1), ("slow.cu", 2), ("slow.cu", 9)), True),
    ((("slow.cu", 1), ("slow.cu", 2), ("slow.cu", 3), ("slow.cu", 9)), False),
    ((("header.h", 7),), False),
    ((("slow.cu", 8),), False),
])  # fmt: skip
def test_a_cause_line_is_among_the_first_three_places(
    places: tuple[tuple[str, int], ...], located: bool
) -> None:
    row = scored(a_claim("tail_effect", places=places))
    assert row.located is located
    assert row.places == min(len(places), 3)
    assert bool(row.misses) is not located


def test_what_is_left(wording) -> None:
    fast = Answer((a_claim("latency_bound"), a_claim("narrow_access")))
    row = scored(a_claim("tail_effect", places=(("slow.cu", 7),)), fast=fast)
    assert row.still_raised == ("narrow_access",)
    assert row.left_named == (("fast", True),)
    wording(row.misses)
    fast = Answer((a_claim("sfu_bound"), a_claim("latency_bound")))
    assert scored(fast=fast).left_named == (("fast", False),)
    assert scored(fast=Answer()).left_named == (("fast", False),)
    assert not scored(
        a_claim("sfu_bound", places=(("slow.cu", 7),)), a_claim("tail_effect")
    ).located


def test_alarms_on_healthy_variants() -> None:
    truth = Truth("fit", "at_dram_roofline")
    answers = {
        "slow": Answer(healthy="at_dram_roofline", global_advice=(Advice("CPIStall", 9.0),)),
        "fast": Answer((a_claim("sfu_bound"),), global_advice=(Advice("CPIStall", 9.2),)),
    }
    slow, fast = score_healthy(truth, answers)
    assert (slow.raised, slow.named, slow.nvidia_alarm) == ((), True, False)
    assert (fast.raised, fast.named, fast.nvidia_alarm) == (("sfu_bound",), False, True)
    assert not HealthyRow("fit", "slow", (), named=True, nvidia=None).nvidia_alarm


def rows() -> list[Row]:
    hit = scored(a_claim("tail_effect", places=(("slow.cu", 7),)))
    second = scored(a_claim("sfu_bound"), a_claim("tail_effect", 8.0))
    made_up = [hit, second, scored()]
    return [replace(row, sample=f"made_up_{n}") for n, row in enumerate(made_up)]


def test_means_are_those_of_the_rows() -> None:
    fit = score_healthy(Truth("fit", "at_dram_roofline"), {"slow": Answer(), "fast": Answer()})
    summary = summarise(rows(), fit)
    hits = summary.hits
    assert hits.top1.keet.mean == pytest.approx(1 / 3)
    assert hits.top3.keet.mean == pytest.approx(2 / 3)
    assert hits.top1.baseline.mean == hits.top3_global.baseline.mean == 0
    assert hits.located.mean == pytest.approx(1 / 3)
    assert summary.beside.mean == pytest.approx(1 / 3)
    assert len(summary.without_places) == 2
    assert summary.false_alarms.keet.mean == 0
    assert summary.healthy_named == Share(0, 2)
    assert summarise(rows(), []).false_alarms is None


def test_sums() -> None:
    kinds = ("hidden", "hidden", "decoy")
    summary = summarise([replace(r, difficulty=kind) for r, kind in zip(rows(), kinds)], [])
    assert {kind: hits.samples for kind, hits in summary.by_difficulty.items()} == {
        "decoy": 1,
        "hidden": 2,
    }
    assert summary.by_difficulty["hidden"].top3.keet.mean == 1
    lacking = Unscored("gone", "slow", "the report cannot be read")
    with_it, without = summarise(rows(), [], [lacking]), summarise(rows(), [])
    assert with_it.hits == without.hits
    assert threshold_values(with_it)["unscored"] == 1
    with pytest.raises(ValueError, match="made_up_0 is scored twice"):
        summarise([*rows(), rows()[0]], [])
    fit = score_healthy(Truth("fit", "at_dram_roofline"), {"slow": Answer()})
    with pytest.raises(ValueError, match="scored twice"):
        summarise(rows(), [*fit, *fit])


def test_an_answer_about_another_kernel_does_not_count(wording) -> None:
    truth = replace(TRUTH, kernel="mine")
    good = a_claim("tail_effect", places=(("slow.cu", 7),))
    answers = {"slow": Answer((good,), kernel="other"), "fast": Answer(healthy="latency_bound")}
    row = score(truth, answers)
    assert (row.rank, row.located) == (None, False)
    wording(row.misses[0])
    mine = score(truth, {**answers, "slow": Answer((good,), kernel="mine")})
    assert (mine.rank, mine.located) == (1, True)
