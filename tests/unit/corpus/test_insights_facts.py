"""Ids of an insight's facts: which number, and of which point. A model's sentences are printed from
them."""

import re

import pytest

from keet.agent.insights_summary import insight_text, read_summary
from keet.documents.insights import InsightDocument
from tests.insights_sets import finding, found_apart, launch, night
from tests.rows import each_row

OUTLIER = [
    launch("steps.ncu-rep", number, duration_us=us, l2_hit_rate_pct=hits)
    for number, (us, hits) in enumerate(
        [(200.0 + n % 3, 80.0) for n in range(11)] + [(600.0, 20.0)]
    )
]
HISTORY = [
    launch(f"night_{n}.ncu-rep", duration_us=us, created=night(n), l2_hit_rate_pct=hits)
    for n, (us, hits) in enumerate([(100.0, 80.0)] * 4 + [(150.0, 40.0)] * 4)
]
SICK = [
    launch(f"{k}.ncu-rep", kernel=k, kernel_full=f"{k}()", duration_us=us)
    for k, us in (("one", 300.0), ("two", 100.0))
]


SWEEP = [
    launch(f"T_{v}.ncu-rep", duration_us=t, limiter=unit, reached_pct=90.0, ceilings=shares)
    for v, t, unit, shares in (
        (1, 200.0, "L2", {"L2": 90.0, "DRAM": 45.0}),
        (2, 150.0, "L2", {"L2": 89.0, "DRAM": 60.0}),
        (4, 100.0, "DRAM", {"L2": 50.0, "DRAM": 91.0}),
    )
]
"""T = 1, 2 and 4 take 200, 150 and 100 us; DRAM and L2 change places."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, InsightDocument]:
    ill = [finding(each, "uncoalesced_global", 2.0) for each in SICK]
    sets = {"sweep": (SWEEP, ()), "outlier": (OUTLIER, ()), "history": (HISTORY, ())}
    out = tmp_path_factory.mktemp("summaries") / "store"
    _, by_set = found_apart(out, {**sets, "cluster": (SICK, ill)}, gpus=True)
    return {name: insight for name, (insight,) in by_set.items()}


@pytest.fixture(scope="module")
def sweep(found: dict[str, InsightDocument]) -> InsightDocument:
    return found["sweep"]


def test_which_point_a_fact_is_of(found: dict[str, InsightDocument]) -> None:
    """Points of a sweep and files of a history are numbered in their order. Facts of an outlier and
    of the usual launch differ in id; a cluster has no points."""
    for insight in found.values():
        for name, fact in insight.facts.items():
            assert re.fullmatch(r"[a-z]\w*#(\d+|usual|set)", name)
            assert set(fact.derived_from or ()) <= insight.facts.keys()
    sweep, outlier, history, cluster = (found[name].facts for name in found)
    for number, point in enumerate(found["sweep"].sweep.points):
        assert sweep[f"duration_us#{number}"].path == point.path
        assert sweep[f"t#{number}"].value == point.value
    slowest = sweep["slowest_to_best#set"]
    assert slowest.value == pytest.approx(2.0)
    assert slowest.derived_from == ("duration_us#0", "duration_us#2")
    assert (outlier["duration_us#0"].launch, outlier["duration_us#0"].value) == (11, 600.0)
    assert outlier["l2_hit_rate_pct#usual"].value == 80.0
    assert outlier["l2_hit_rate_pct#0"].value == 20.0
    assert outlier["as_long_as_the_median#set"].value == pytest.approx(600 / 201, rel=0.01)
    cells = {name: fact for name, fact in history.items() if fact.path}
    assert cells
    for name, fact in cells.items():
        number = int(name.partition("#")[2])
        assert found["history"].change.history[number].path == fact.path
    assert history["median_before#set"].value == 100.0
    assert cluster["kernels#set"].value == 2
    assert all(name.endswith("#set") for name in cluster)


# --- a model's sentences


def fact(insight: InsightDocument, label: str, value: float) -> str:
    """The id of a fact."""
    facts = insight.facts.items()
    same = (n for n, f in facts if f.label == label and f.value == pytest.approx(value))
    return next(same)


def test_references_are_printed_with_their_point(sweep: InsightDocument, wording) -> None:
    text = insight_text(sweep)
    assert "Duration at T 1 = 200 us" in text
    assert "T_1.ncu-rep" not in text
    time = fact(sweep, "Duration", 100)
    written = read_summary(sweep, f"The best takes {{{time}}}. Look at the tile next.")
    wording(str(written))
    assert not written.problems


def test_a_true_comparison_is_kept_and_a_false_one_is_marked(sweep: InsightDocument) -> None:
    fast, slow = fact(sweep, "Duration", 100), fact(sweep, "Duration", 200)
    assert not read_summary(sweep, f"It pays: {{{fast} < {slow}}}.").problems
    assert read_summary(sweep, f"It costs: {{{fast} > {slow}}}.").problems


@each_row(
    "sentence",
    [
        *("It takes 120 us.", "It takes {nothing}.", "L2 share of peak at T 4 is {dram}."),
        *("Doubling T would make it 1.5x faster.", "A larger tile halves the time."),
        *("It takes a hundred and twenty microseconds.", "It takes `120` us."),
        "See https://example.com/120 for more.",
    ],
)
def test_other_numbers_are_marked(sweep: InsightDocument, sentence: str) -> None:
    filled = sentence.replace("dram", fact(sweep, "DRAM share of peak", 91))
    written = read_summary(sweep, f"{filled} The tile decides.")
    assert str(written).startswith("[unchecked] ")
    assert str(written).endswith("The tile decides.")
    assert [bool(entry.problem) for entry in written.problems] == [True]
