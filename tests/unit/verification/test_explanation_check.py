"""keet's own texts: every number has evidence, and one that has none is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from keet.analysis.place import Place
from keet.explanation.analyst import explain
from keet.explanation.program import program_of
from keet.profile import Profile
from keet.verification.explanation_check import ExplanationCheck


def test_texts_of_launches_and_of_the_program(profile_of: Callable[[str], Profile]) -> None:
    profile = profile_of("tour_full.ncu-rep")
    explanation = explain(profile, profile.launches, 5, sass=False)
    alone = ExplanationCheck(explanation)
    together = ExplanationCheck(explanation, program_of(explanation))
    assert 0 < alone.numbers < together.numbers
    assert together.verified == together.numbers
    assert together.unchecked == ()


def test_a_number_without_evidence_is_named(profile_of: Callable[[str], Profile]) -> None:
    profile = profile_of("tour_full.ncu-rep")
    explanation = explain(profile, profile.launches[:1], 5, sass=False)
    first = explanation.launches[0]
    wrong = first.verdict._replace(headline="L2 hits in 12.34 % of the lookups.")
    told = ExplanationCheck(explanation._replace(launches=(first._replace(verdict=wrong),)))
    assert told.numbers == told.verified + 1
    (line,) = told.unchecked
    assert line.startswith("12.34 %: ")


def test_a_line_of_a_file_without_a_suffix_is_no_number(
    profile_of: Callable[[str], Profile],
) -> None:
    """`at cmath:1073` is a place of the finding, not 1,073 of something."""
    profile = profile_of("tour_full.ncu-rep")
    explanation = explain(profile, profile.launches, 5, sass=False)
    first = next(each for each in explanation.launches if each.findings)
    finding = replace(
        first.findings[0],
        places=(Place("/usr/include/c++/cmath", 1073, 1.0, "samples"),),
        here=" at cmath:1073",
    )
    told = ExplanationCheck(explanation._replace(launches=(first._replace(findings=(finding,)),)))
    assert "cmath:1073" in finding.action
    assert told.unchecked == ()
