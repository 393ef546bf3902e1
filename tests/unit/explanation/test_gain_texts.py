"""Gains in words."""

from __future__ import annotations

from keet.analysis.ledger import Ledger
from keet.diagnosis.finding import Finding
from keet.documents.finding import Forecast
from keet.evidence import Evidence, Sentence, constant
from keet.explanation.gain_texts import forecast_text, range_text
from tests.rows import each_row


def gain(factor: float) -> Evidence:
    return constant(factor, "", "gain")


@each_row(
    ("finding", "forecast", "text"),
    [
        ("latency_bound", (1.6, 2.1, 3.9), "2.1x faster (1.6x to 3.9x)"),
        ("launch_bound", (1.6, 2.1, 3.9), "2.1x the work in the same time (1.6x to 3.9x)"),
        ("latency_bound", (1.0, 1.02, 2.4), "1.02x faster (1.0x to 2.4x)"),
        ("local_memory_spill", (21, 27, 30), "27x faster (21x or more)"),
        (None, (1.0, 1.05, 1.2), "1.05x faster (1.0x to 1.2x)"),
    ],
)
def test_forecasts(finding: str | None, forecast: tuple[float, float, float], text: str) -> None:
    """A range that ends at the largest gain that keet computes has no upper end."""
    assert range_text(finding, *map(gain, forecast)) == text


def test_the_gain_of_several_launches_is_not_that_of_one() -> None:
    said = range_text("redundant_traffic", *map(gain, (1.0, 2.8, 4.6)), variant="hand_over")
    assert said == "2.8x faster together (1.0x to 4.6x)"


def test_two_claims_about_the_same_finding_keep_their_own_numbers() -> None:
    ledger = Ledger("0")
    first, second = (
        Finding(
            id="tail_effect",
            cause_certainty="likely",
            text=Sentence(),
            forecast=Forecast(1.0, likely, 4.0),
            evidence=(),
            origin="model",
        )
        for likely in (2.0, 3.0)
    )
    texts = [forecast_text(each, ledger) for each in (first, second, first)]
    assert [text[:4] for text in texts] == ["2.0x", "3.0x", "2.0x"]
    assert texts[0].ids == texts[2].ids != texts[1].ids
    assert {*texts[0].ids, *texts[1].ids} <= {piece.id for piece in ledger}
