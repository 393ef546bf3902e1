"""Whether the report shows that a claimed cause is absent."""

from __future__ import annotations

from keet.analysis.account import Account
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.diagnosis.claims.claim import Contradiction
from keet.findings import findings


def check_cause(
    finding: str, view: LaunchView, model: TimeModel, account: Account
) -> Contradiction | None:
    """None: the report shows the cause, or does not say. Unknown is not a contradiction."""
    del account
    absent = findings()[finding].absent(view, model)
    return Contradiction(finding, *absent) if absent else None
