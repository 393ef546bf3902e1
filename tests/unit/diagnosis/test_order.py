"""Why a finding ranks before another one that takes a larger part of the time."""

from __future__ import annotations

from keet.analysis.account import account_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.diagnosis.diagnosis import diagnose, is_worth, ranked_candidates
from keet.diagnosis.order import order_reason
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
