"""A model's sentences about an insight: what is no fact of it does not stand."""

from __future__ import annotations

import pytest

from keet.corpus.insights.records import Insight
from keet.corpus.insights.summaries import hold, told
from tests.insights_sets import insights_of, launch, make_set


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Insight:
    """T = 1, 2 and 4 take 200, 150 and 100 us; DRAM and L2 change places."""
    out = make_set(
        tmp_path_factory.mktemp("store"),
        [
            launch(f"T_{v}.ncu-rep", duration_us=t, limiter=lim, reached_pct=90.0, ceilings=shares)
            for v, t, lim, shares in (
                (1, 200.0, "L2", {"L2": 90.0, "DRAM": 45.0}),
                (2, 150.0, "L2", {"L2": 89.0, "DRAM": 60.0}),
                (4, 100.0, "DRAM", {"L2": 50.0, "DRAM": 91.0}),
            )
        ],
    )
    (insight,) = insights_of(out).insights
    return insight


def fact(insight: Insight, label: str, value: float) -> str:
    """The id of a fact."""
    return next(
        name
        for name, each in insight.facts.items()
        if each.label == label and each.value == pytest.approx(value)
    )


def test_it_is_told_which_point_each_fact_is_of(sweep: Insight) -> None:
    text = told(sweep)
    assert "Duration at T 1 = 200 us" in text
    assert "T_1.ncu-rep" not in text


def test_what_the_facts_bear_out_stands(sweep: Insight) -> None:
    knob, time = fact(sweep, "T", 4), fact(sweep, "Duration", 100)
    text = f"At T = 4 [{knob}] the launch takes 100 us [{time}]. Look at the tile next."
    written = hold(sweep, text)
    assert written.text == text
    assert written.dropped == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "It takes 120 us [{time}].",
        "It takes 100 us.",
        "It takes 100 us [E99].",
        "At T = 1 [{one}] it takes 100 us [{time}].",
        "L2 is at 91% [{dram}] of peak.",
        "Doubling T would make it 1.5x faster.",
        "A larger tile halves the time.",
        "It takes a hundred and twenty microseconds.",
        "It takes `120` us.",
        "See https://example.com/120 for more.",
    ],
)
def test_what_they_do_not_is_dropped_and_shown(sweep: Insight, sentence: str) -> None:
    filled = sentence.format(
        time=fact(sweep, "Duration", 100),
        one=fact(sweep, "T", 1),
        dram=fact(sweep, "DRAM share of peak", 91),
    )
    written = hold(sweep, f"{filled} The tile decides.")
    assert written.text == "The tile decides."
    assert [entry.text for entry in written.dropped] == [filled]
    assert all(entry.reason for entry in written.dropped)
