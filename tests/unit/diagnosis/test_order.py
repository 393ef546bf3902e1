"""Why a finding ranks before another one that takes a larger part of the time."""

from __future__ import annotations

from keet.analysis.account import account_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.diagnosis import diagnose, is_worth, ranked_candidates
from keet.diagnosis.forecast import order_reason, saved_parts
from tests.unit.analysis.real_launches import launch_of

SAVES_MORE = "halo_filter/edges_of_single_bytes"


def gains_in(reason: str) -> tuple[float, float]:
    own, their = reason.rpartition(": ")[2].removesuffix("x.").split("x against ")
    return float(own), float(their)


def test_a_finding_with_a_larger_gain_saves_more() -> None:
    reason = diagnose(launch_of(SAVES_MORE), reads_code=False).order_reason
    assert reason is not None
    assert "because fixing it saves more: " in reason
    own, their = gains_in(reason)
    assert own > their


def test_the_named_part_is_one_of_which_the_other_fix_removes_more() -> None:
    diagnosis = diagnose(launch_of(SAVES_MORE), reads_code=False)
    ranked = ranked_candidates(diagnosis.view, diagnosis.model)
    effects = {each.candidate.id: each.candidate.effect for each in ranked}
    reason = str(diagnosis.order_reason)
    other = next(each.id for each in diagnosis.findings if f"before {each.spec.label}" in reason)
    first = diagnosis.findings[0].id
    saved = [
        {
            part.label: share
            for part, share in saved_parts(effect, diagnosis.model, diagnosis.account)
        }
        for effect in (effects[first], effects[other])
        if isinstance(effect, Effect)
    ]
    label = next(each for each in saved[1] if each in reason)
    assert saved[1][label] > saved[0][label]


def test_a_smaller_gain_may_be_less_doubtful() -> None:
    """The order of a real launch is turned round. Nothing is said where the first one is only
    possible: it is no more certain than the other."""
    view = LaunchView(launch_of("ode_batch/triangle_in_registers"), reads_code=False)
    model = TimeModel(view)
    worth = [each for each in ranked_candidates(view, model) if is_worth(each)]
    worth = sorted(worth, key=lambda each: each.possible)
    account = account_of(view, model)
    reason = order_reason(worth, model, account, is_doubtful=False)
    assert reason is not None
    assert "because its gain is less doubtful: " in reason
    own, their = gains_in(reason)
    assert own < their
    assert order_reason(worth, model, account, is_doubtful=True) is None
