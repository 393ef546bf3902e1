"""Gains in words, the same in every list, table and sentence."""

from __future__ import annotations

from keet.analysis.candidate import MAX_GAIN
from keet.analysis.ledger import Ledger
from keet.analysis.time_model import WORTH
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding
from keet.documents.finding import Forecast
from keet.evidence import Evidence, Sentence, constant
from keet.findings import findings
from keet.units import Quantity

OPEN_GAIN = Sentence("gain not known")
LEAST_GAIN = constant(round(100 * (WORTH - 1), 6), "%", "gain from which on a cause is a finding")


def forecast_text(finding: Finding, ledger: Ledger) -> Sentence:
    """`2.1x faster (1.6x to 3.9x)`, `27x faster (21x or more)`. Where the amounts are a model's, it
    says so: `... with the model's amounts; keet alone: 1.2x`."""
    name = f"{finding.id}.claimed" if finding.origin == "model" else finding.id
    whose = ", with the model's amounts" if finding.amounts_by == "model" else ""
    gains = forecast_evidence(name, finding.forecast, f"{finding.label}{whose}", ledger)
    text = range_text(finding.id, *gains, variant=finding.variant)
    if finding.amounts_by != "model":
        return text
    if not finding.keet_alone:
        return Sentence("{text} with the model's amounts; keet alone: no estimate", text=text)
    own = forecast_evidence(f"{finding.id}.own", finding.keet_alone, finding.label, ledger)[1]
    claimed = "{text} with the model's amounts; keet alone: {own:times}"
    return Sentence(claimed, text=text, own=own)


def forecast_evidence(
    name: str, forecast: Forecast, label: str, ledger: Ledger
) -> tuple[Evidence, Evidence, Evidence]:
    """The least, the likely and the largest gain, entered in the ledger of the launch."""

    def entered(bound: str, gain: float) -> Evidence:
        number, words = Quantity(gain, ""), f"times faster without {label}, {bound}"
        piece = ledger.derived(f"forecast.{name}.{bound}", number, words)
        # Two claims of a model may be about the same finding.
        is_other = piece.value != gain
        return (
            ledger.derived(f"forecast.{name}.{bound}.{gain!r}", number, words)
            if is_other
            else piece
        )

    low, likely, high = forecast
    return entered("at least", low), entered("likely", likely), entered("at most", high)


def range_text(
    finding: str | None, low: Evidence, likely: Evidence, high: Evidence, *, variant: str = ""
) -> Sentence:
    """A launch that is too short does not become faster by batching: it does more in its time. The
    gain of launches that share data is that of all of them."""
    spec = findings().get(finding or "")
    if spec is not None and variant in spec.open_gains:
        return OPEN_GAIN
    does_more = spec is not None and (spec.of_launches or variant in spec.more_work)
    what = "the work in the same time" if does_more else "faster"
    what += " together" if variant in BETWEEN_LAUNCHES else ""
    highest = "or more" if high.value >= MAX_GAIN else Sentence("to {high:times}", high=high)
    form = "{likely:times} {what} ({low:times} {highest})"
    return Sentence(form, likely=likely, what=what, low=low, highest=highest)
