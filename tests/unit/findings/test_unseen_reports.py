"""What readings of public reports showed to be wrong, on reports of ours."""

from __future__ import annotations

from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.profile import Launch
from keet.profile.metric import Value
from tests.unit.analysis.real_launches import changed, launch_of


def gain_of(diagnosis: Diagnosis, finding: str) -> float:
    found = [each for each in (*diagnosis.findings, *diagnosis.minor) if each.id == finding]
    return max((each.forecast.likely for each in found), default=1.0)


def with_local_accesses(launch: Launch, local: float) -> Launch:
    """An edited snapshot: the same launch, with this many local loads and stores."""

    def change(name: str, value: Value) -> Value:
        return local if name.startswith("smsp__sass_inst_executed_op_local_") else value

    return changed(launch, change)


def test_narrow_global_accesses_are_no_cause_where_nearly_all_accesses_are_local() -> None:
    launch = launch_of("bit_unpack/nibbles_narrow")
    before = diagnose(launch)
    assert before.findings[0].id == "narrow_access"
    after = diagnose(with_local_accesses(launch, 1e12))
    assert gain_of(after, "narrow_access") < 1 + (gain_of(before, "narrow_access") - 1) / 2
