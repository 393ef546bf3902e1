"""Reports that several tests look at, explained once a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.report import read_profile
from tests.kept_reports import sample_report


@cache
def explained(report: Path | str, *, sass: bool = True) -> Explanation:
    """`report`: its path, or the name of a sample."""
    profile = read_profile(sample_report(report) if isinstance(report, str) else report)
    return explain(profile, profile.launches, 5, sass=sass)
