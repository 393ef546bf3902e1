"""What readings of public reports showed to be wrong, on reports of ours."""

from __future__ import annotations

from keet.analysis.launch_view import LaunchView
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.explanation.analyst import _healthy
from keet.profile import Launch
from keet.profile.metric import Value
from tests.unit.analysis.real_launches import changed, launch_of


def gain_of(diagnosis: Diagnosis, finding: str) -> float:
    found = [each for each in (*diagnosis.findings, *diagnosis.minor) if each.id == finding]
    return max((each.forecast.likely for each in found), default=1.0)


def healthy_notes(launch: Launch) -> list[str]:
    return [str(note.text) for note in _healthy(LaunchView(launch), set())]


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


def test_threads_that_are_predicated_off_do_not_look_good() -> None:
    """An edited snapshot: nearly all threads are active, and most of them are predicated off."""
    name = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
    launch = launch_of("tap_filter")
    told = healthy_notes(launch)
    assert [text for text in told if "active" in text]
    edited = changed(launch, lambda each, value: 19.3 if each == name else value)
    told = healthy_notes(edited)
    assert not [text for text in told if "active" in text]
