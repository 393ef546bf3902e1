"""Measured cases in `keet finding`: the list, its filters, one case, and the JSON that other
programs read; and `keet cases`, its older name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from keet.explanation.casebook import casebook
from kernels_samples.casebook.family import SPLITS
from tests.conftest import Keet

CONTRACT = {
    "id",
    "family",
    "split",
    "finding",
    "also",
    "archetype",
    "speedup",
    "before_us",
    "after_us",
    "spread_pct",
    "hidden",
    "start_share_of_roofline",
    "gpu",
    "date",
    "lookalike",
}
ENTRY = next(entry for entry in casebook() if entry.id == "transpose/power_of_two_tile")


@pytest.mark.slow
def test_the_list_begins_with_what_it_adds_up_to(keet: Keet) -> None:
    result = keet("finding", "--cases", width=200)
    assert result.code == 0
    assert result.out.startswith(f"{len(casebook())} measured cases from ")
    assert all(entry.id in result.out for entry in casebook())


def test_json_holds_the_contract(keet: Keet) -> None:
    cases = json.loads(keet("finding", "--cases", "--format", "json").out)["cases"]
    assert len(cases) == len(casebook())
    for case in cases:
        assert set(case) >= CONTRACT
        assert case["split"] in SPLITS
        assert (case["speedup"] < 1.1) == case["lookalike"]
        assert case["speedup"] == pytest.approx(case["before_us"] / case["after_us"], rel=2e-3)
        assert "steps" not in case or len(case["steps"]) > 1


@pytest.mark.parametrize("field", ["finding", "archetype", "family"])
def test_filters(field: str, keet: Keet) -> None:
    wanted = getattr(ENTRY, field)
    chosen = [wanted, "--cases"] if field == "finding" else [f"--{field}", wanted]
    result = keet("finding", *chosen, "--format", "json")
    cases = json.loads(result.out)["cases"]
    assert {case[field] for case in cases} == {wanted}
    assert len(cases) == sum(getattr(entry, field) == wanted for entry in casebook())
    older = keet("cases", f"--{field}", wanted, "--format", "json")
    assert (older.code, older.out) == (0, result.out)


def test_the_older_command_says_what_to_type_now(keet: Keet, wording) -> None:
    older = keet("cases", ENTRY.id)
    assert older.out == keet("finding", ENTRY.id).out
    wording(older.err)
    assert keet("cases", ENTRY.id, "-q").err == ""
    assert "keet finding --cases" in keet("cases", "power_of_too_tile").err


def test_look_alikes_alone(keet: Keet) -> None:
    cases = json.loads(keet("finding", "--lookalikes", "--format", "json").out)["cases"]
    assert cases
    assert all(case["lookalike"] for case in cases)


def test_one_case_shows_diff_times_and_counters(
    keet: Keet, golden: Callable[[str, str], None]
) -> None:
    out = keet("finding", ENTRY.id).out
    golden("finding.power_of_two_tile.80.txt", out)
    assert all(Path(path).exists() for path in ENTRY.profiles)
    assert keet("finding", "power_of_two_tile").out == out


def test_several_fixes_are_shown_alone(keet: Keet) -> None:
    entry = next(entry for entry in casebook() if entry.steps)
    out = " ".join(keet("finding", entry.id).out.split())
    for step in entry.steps:
        assert f"fixed alone: {step.speedup:.2f}x" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["transpose/power_of_too_tile"], "did you mean: keet finding transpose/power_of_two_tile"),
        (["tail_efect", "--cases"], "did you mean tail_effect?"),
        (["--archetype", "zzz"], "there are: attention, "),
        (["--family", "transpose", "--archetype", "gemm"], "leave out one of the options"),
        (["transpose/xyzzy_abc"], "see: keet finding --cases --family transpose"),
        (["tail_effect", "--archetype", "zzz"], "there are: attention, "),
    ],
)
def test_missing_cases_are_reported_with_the_next_step(
    arguments: list[str], told: str, keet: Keet
) -> None:
    result = keet("finding", *arguments)
    assert result.code == 2
    assert told in result.err
