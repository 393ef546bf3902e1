"""Sentences about several launches: checked over the launches that they name, or not at all."""

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from keet.documents.verify import ClaimVerdict
from keet.profile import Profile
from keet.report import read_profile
from keet.verification.launch_values import ComputedValues
from keet.verification.run_check import with_run_checks
from keet.verification.verify import computed_values, verify_text
from tests.rows import each_row

ROOT = Path(__file__).parents[3]
SIDES = ("before", "after")
SENTENCES = tomllib.loads((ROOT / "tests/attacks/quantified.toml").read_text("utf-8"))["report"]


@cache
def report(path: str) -> tuple[Profile, ComputedValues]:
    profile = read_profile(ROOT / path)
    return profile, computed_values([profile])


def verdict(path: str, text: str) -> str:
    profile, known = report(path)
    found = verify_text(text, profile.launches, known=known)
    if profile.run:
        found = with_run_checks(found, profile)
    verdicts = [each for sentence in found for each in sentence.verdicts]
    if "contradicted" in verdicts:
        return "contradicted"
    sure = verdicts and all(each == "confirmed" for each in verdicts)
    return "confirmed" if sure else "not_checked"


def sentences(truth: str) -> Iterator[tuple[str, str, str]]:
    for of in SENTENCES:
        for expected, texts in of.get(truth, {}).items():
            yield from ((of["path"], text, expected) for text in texts)


def test_most_true_sentences_are_confirmed() -> None:
    expected = [expected for _, _, expected in sentences("true")]
    assert expected.count("confirmed") >= 0.9 * len(expected) > 35
    assert "contradicted" not in expected


@each_row(("text", "expected"), [
    ("turn went from 32.10 us to 17.44 us.", "confirmed"),
    ("turn went from 17.44 us to 32.10 us.", "not_found"),
    ("turn: 17.44 us → 32.10 us", "not_found"),
])  # fmt: skip
def test_a_change_has_a_direction(text: str, expected: ClaimVerdict) -> None:
    sides = [report(f"tests/data/reports/pipeline_{side}.ncu-repz")[0] for side in SIDES]
    launches = [launch for profile in sides for launch in profile.launches]
    found = verify_text(text, launches, both_sides=True)
    assert {each for sentence in found for each in sentence.verdicts} == {expected}


@each_row(("path", "text", "expected"), [*sentences("false"), *sentences("true")], few=8)
def test_verdict(path: str, text: str, expected: str) -> None:
    assert verdict(path, text) == expected
