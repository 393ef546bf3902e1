"""What holds for every launch, whatever its report has: for made-up, odd and real ones."""

import math
import re
from collections.abc import Iterable, Iterator

import pytest

from keet.analysis.account import UNKNOWN, Account, TimePart
from keet.analysis.launch_view import LaunchView
from keet.analysis.remedy_conditions import FACTS
from keet.analysis.roofline.launch_roofline import find_roofline
from keet.analysis.roofline.memory import slow_dram_clock
from keet.analysis.time_model import WORTH
from keet.diagnosis.advice import advice_for
from keet.diagnosis.diagnosis import MAX_FINDINGS, Diagnosis
from keet.diagnosis.finding import Advice, Finding
from keet.evidence import Evidence
from keet.explanation.headline import verdict_of
from keet.findings import findings
from keet.profile import Launch
from tests.unit.diagnosis.advice_checks import contradictions

CLOSES = 0.1
"""Percentage points."""
LSU = "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed"
_ID = re.compile(r"[a-z]\w*(@[\w.:+-]+)?#\w+([.-]\w+)*")
_RULE = re.compile(r"achieved\s+(?:close to )?(\d+)% .*?fp32 .*?(\d+)% of its fp64", re.IGNORECASE)


def check_launch(found: Diagnosis) -> None:
    """All that holds, apart from advice."""
    check_account(found.account, found.view)
    check_findings(found)
    check_ids(found.view.ledger)
    assert [*shown_differently(found.view)] == []
    check_roofline(found.view.launch)


def check_ids(pieces: Iterable[Evidence]) -> None:
    """All different, and none with a number that only tells it from another."""
    pieces = list(pieces)
    ids = {piece.id for piece in pieces}
    assert len(ids) == len({*pieces})
    for piece in pieces:
        assert _ID.fullmatch(piece.id)
        first = re.sub(r"_[2-9](?=[@#])", "", piece.id)
        assert first == piece.id or first not in ids, piece.id


def check_account(found: Account, view: LaunchView) -> None:
    """It closes, and is unknown only where the report lacks something."""
    parts, duration = list(found.all()), view.value("duration")
    assert sum(part.percent.value for part in found) == pytest.approx(100, abs=CLOSES)
    assert len({part.id for part in parts}) == len(parts)
    for part in parts:
        assert part.percent.unit == "%"
        assert 0 <= part.percent.value <= 100 + CLOSES
        _check_children(part)
        assert (part.time is None) == (duration is None)
        if part.time is not None and duration is not None:
            assert part.time.value == pytest.approx(part.percent.value / 100 * duration / 1000)
    unknown = [part for part in parts if part.id.split(".")[-1] == UNKNOWN]
    assert found.unknown == pytest.approx(sum(part.percent.value for part in unknown))
    for part in unknown:
        assert _is_missing(part.part, view), part


def _check_children(part: TimePart) -> None:
    shares = [child.percent.value for child in part.children]
    assert shares == sorted(shares, reverse=True)
    assert not shares or sum(shares) == pytest.approx(part.percent.value, abs=1e-6)
    assert all(child.id.startswith(f"{part.id}.") for child in part.children)


def _is_missing(reason: str, view: LaunchView) -> bool:
    """Whether the report really lacks what the reason names."""
    issue = view.ceilings.reached("issue")
    if "neither issue slots nor warp states" in reason:
        return issue is None
    if "no issue slots" in reason:
        return issue is None and bool(view.stalls)
    if "no warp states" in reason:
        return not view.stalls
    return reason == "not attributable (other warp states)"


def check_findings(diagnosis: Diagnosis) -> None:
    """They are complete, and their gains are finite."""
    every = [*diagnosis.findings, *diagnosis.minor]
    assert len(diagnosis.findings) <= MAX_FINDINGS
    assert len({finding.id for finding in every}) == len(every)
    for finding in diagnosis.findings:
        assert finding.forecast.likely >= round(WORTH, 2)
        # Beside a roofline:
        assert diagnosis.healthy is None or finding.cause_certainty == "possible"
    for finding in every:
        low, likely, high = finding.forecast
        assert 1 <= low <= likely <= high < math.inf
        assert finding.id in findings()
        assert finding.evidence
        assert "{" not in finding.action
        for of in {place.of for place in finding.locations}:
            assert sum(place.share for place in finding.locations if place.of == of) <= 1.001
    assert verdict_of(diagnosis).headline.endswith(".")


def check_advice(view: LaunchView, finding: Finding, advice: Advice | None = None) -> None:
    """It fits the report, and says by what it was chosen. None: the finding's own advice."""
    advice = advice or advice_for(finding, view)
    (chosen,) = (c for c in findings()[finding.id].remedies if c.name == advice.variant)
    assert all(fact.answer(view, finding) for fact in chosen.needs)
    assert not any(fact.answer(view, finding) for fact in chosen.excludes)
    needed = [fact.id for fact in chosen.needs]
    assert [because.fact for because in advice.because] == (needed or ["general"])
    known = {piece.id for piece in view.ledger}
    for because in advice.because:
        by_name = because.fact in FACTS and FACTS[because.fact].is_by_name
        assert because.evidence or because.places or by_name, because
        assert {piece.id for piece in because.evidence} <= known
    assert list(contradictions(view.launch, finding, advice)) == []


def shown_differently(view: LaunchView) -> Iterator[str]:
    """Units whose share is not what the metric of that name says, or not that of the roofline."""
    launch = view.launch
    for unit in view.ceilings.ranked:
        if not unit.reached.derived_from:
            metric = launch.metric(unit.reached.metric)
            if metric is None or metric.value != unit.reached.value:
                yield unit.name
    dram = next((each for each in find_roofline(launch).ceilings if each.id == "dram"), None)
    own = view.ceilings.get("DRAM")
    different = dram and own and dram.reached.value != pytest.approx(own.reached.value, abs=0.05)
    # A launch too short for its own clock has the device's in the roofline; explain prints both.
    if different and slow_dram_clock(view.ledger) is None:
        yield "DRAM of the roofline"
    lsu, issued = view.ceilings.share("LSU"), launch.metric(LSU)
    if issued is not None and issued.quantity and lsu != pytest.approx(issued.quantity.value / 100):
        yield "LSU"


def check_roofline(launch: Launch) -> None:
    """It works or abstains; where ncu's rule says a share, it is that; no peak is exceeded."""
    roofline = find_roofline(launch)
    assert roofline.reading
    for found in roofline.ceilings:
        assert 0 <= found.reached_pct < 105
        assert found.source
    for absent in roofline.skipped:
        assert absent.reason
        assert absent.remedy
    for ceiling, share in shares_by_rule(launch).items():
        assert roofline.ceiling(ceiling).reached_pct == pytest.approx(share, abs=1.01)


def shares_by_rule(launch: Launch) -> dict[str, int]:
    """NVIDIA's rule prints whole per cents of the FP32 and FP64 peaks. A printed page has the rule,
    but not what it counted."""
    said = [match for rule in launch.rules if (match := _RULE.search(rule.message))]
    shares = map(int, said[0].groups()) if said and not launch.is_printed else ()
    return dict(zip(("fp32", "fp64"), shares))
