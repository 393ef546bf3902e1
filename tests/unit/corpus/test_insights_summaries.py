"""A model's sentences about an insight: numbers are printed from its facts."""

from __future__ import annotations

import pytest

from keet.agent.insights_summary import insight_text, read_summary
from keet.documents.insights import InsightDocument
from keet.evidence import Prose
from tests.insights_sets import insights_of, launch, make_set
from tests.rows import each_row


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> InsightDocument:
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


def fact(insight: InsightDocument, label: str, value: float) -> str:
    """The id of a fact."""
    return next(
        name
        for name, each in insight.facts.items()
        if each.label == label and each.value == pytest.approx(value)
    )


def read(insight: InsightDocument, text: str) -> Prose:
    return read_summary(insight, text)


@pytest.mark.slow
def test_each_fact_names_its_point_of_the_sweep(sweep: InsightDocument) -> None:
    text = insight_text(sweep)
    assert "Duration at T 1 = 200 us" in text
    assert "T_1.ncu-rep" not in text


def test_references_are_printed_with_their_point(sweep: InsightDocument, wording) -> None:
    time = fact(sweep, "Duration", 100)
    written = read(sweep, f"The best takes {{{time}}}. Look at the tile next.")
    wording(str(written))
    assert not written.problems


def test_a_true_comparison_is_kept_and_a_false_one_is_marked(sweep: InsightDocument) -> None:
    fast, slow = fact(sweep, "Duration", 100), fact(sweep, "Duration", 200)
    assert not read(sweep, f"It pays: {{{fast} < {slow}}}.").problems
    assert read(sweep, f"It costs: {{{fast} > {slow}}}.").problems


@each_row(
    "sentence",
    [
        "It takes 120 us.",
        "It takes {nothing}.",
        "L2 share of peak at T 4 is {dram}.",
        "Doubling T would make it 1.5x faster.",
        "A larger tile halves the time.",
        "It takes a hundred and twenty microseconds.",
        "It takes `120` us.",
        "See https://example.com/120 for more.",
    ],
)
def test_other_numbers_are_marked(sweep: InsightDocument, sentence: str) -> None:
    filled = sentence.replace("dram", fact(sweep, "DRAM share of peak", 91))
    written = read(sweep, f"{filled} The tile decides.")
    assert str(written).startswith("[unchecked] ")
    assert str(written).endswith("The tile decides.")
    assert all(entry.problem for entry in written.problems)
    assert len(written.problems) == 1
