"""A report with the code of its kernels, but without numbers for single instructions: keet says
that these lack, for each launch, and does not deny the code."""

from __future__ import annotations

from keet.diagnosis.diagnosis import diagnose
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.explanation.headline import verdict_of
from keet.pages.explain import without_code_text
from tests.conftest import REPORTS
from tests.unit.analysis.real_launches import launch_of, profile_of

_BASIC = profile_of(REPORTS / "tour_basic.ncu-repz")


def _lacking(told: Explanation) -> str:
    return told.capture_hints.lacking_text


def test_the_counts_lack_and_not_the_code(wording) -> None:
    told = explain(_BASIC, _BASIC.launches, 5)
    wording(_lacking(told))
    assert without_code_text(told, told.launches) == ""
    for each in told.launches:
        assert "the machine code" not in each.verdict.headline


def test_one_launch_is_told_the_same_as_all_of_them() -> None:
    every = _lacking(explain(_BASIC, _BASIC.launches, 5))
    for launch in _BASIC.launches:
        assert _lacking(explain(_BASIC, [launch], 5)) == every
        assert _lacking(explain(_BASIC, [launch], 5, sass=False)) == every


def test_with_the_counts_nothing_is_said_of_them() -> None:
    launch = launch_of("field_axpy")
    for reads_code in (False, True):
        diagnosis = diagnose(launch, reads_code=reads_code)
        assert not diagnosis.view.lacks_counts
        assert "counts per instruction" not in verdict_of(diagnosis).headline


def test_an_export_lacks_the_code_itself() -> None:
    profile = profile_of(REPORTS / "tour_lines.csv")
    told = explain(profile, profile.launches, 5)
    assert not any(each.view.lacks_counts for each in told.launches)
    assert "counts per instruction" not in _lacking(told)
