"""Measured cases in `keet finding`: the list, its filters, one case, and the JSON that other
programs read; and `keet cases`, its older name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keet.explanation.finding_notes import casebook
from kernels_samples.casebook.family import SPLITS
from tests.conftest import Keet
from tests.rows import each_row

CONTRACT = {
    "id", "family", "split", "finding", "also", "archetype", "speedup", "before_us", "after_us",
    "spread_pct", "hidden", "start_share_of_roofline", "gpu", "date", "lookalike",
}  # fmt: skip
ENTRY = next(entry for entry in casebook() if entry.id == "transpose/power_of_two_tile")


def cases_in(keet: Keet, *arguments: str) -> list[dict[str, Any]]:
    return json.loads(keet(*arguments, "--format", "json").out)["cases"]


def test_json_holds_the_contract(keet: Keet) -> None:
    cases = cases_in(keet, "finding", "--cases")
    assert len(cases) == len(casebook())
    for case in cases:
        assert set(case) >= CONTRACT
        assert case["split"] in SPLITS
        assert (case["speedup"] < 1.1) == case["lookalike"]
        assert case["speedup"] == pytest.approx(case["before_us"] / case["after_us"], rel=2e-3)
        assert "steps" not in case or len(case["steps"]) > 1
    alone = cases_in(keet, "finding", "--lookalikes")
    assert alone == [case for case in cases if case["lookalike"]] != []


@each_row("field", ["finding", "archetype", "family"])
def test_filters(field: str, keet: Keet) -> None:
    wanted = getattr(ENTRY, field)
    chosen = [wanted, "--cases"] if field == "finding" else [f"--{field}", wanted]
    cases = cases_in(keet, "finding", *chosen)
    assert {case[field] for case in cases} == {wanted}
    assert len(cases) == sum(getattr(entry, field) == wanted for entry in casebook())
    if field != "finding":  # of a finding, a page prints a few cases in full
        page = keet("finding", *chosen, width=200).out
        assert page.startswith(f"{len(cases)} measured cases ")
        assert all(case["id"] in page for case in cases)
    assert cases_in(keet, "cases", f"--{field}", wanted) == cases


def test_one_case_shows_diff_times_and_counters(keet: Keet, golden, wording) -> None:
    """Several fixes are shown alone; the older command says what to type now."""
    out = keet("finding", ENTRY.id).out
    golden("finding.power_of_two_tile.80.txt", out)
    assert all(Path(path).exists() for path in ENTRY.profiles)
    assert keet("finding", "power_of_two_tile").out == out
    entry = next(entry for entry in casebook() if entry.steps)
    shown = " ".join(keet("finding", entry.id).out.split())
    for step in entry.steps:
        assert f"fixed alone: {step.speedup:.2f}x" in shown
    older = keet("cases", ENTRY.id)
    assert older.out == out
    wording(older.err)
    assert keet("cases", ENTRY.id, "-q").err == ""
    assert "keet finding --cases" in keet("cases", "power_of_too_tile").err


@each_row("arguments, told", [
    ("transpose/power_of_too_tile", "did you mean: keet finding transpose/power_of_two_tile"),
    ("tail_efect --cases", "did you mean tail_effect?"),
    ("--archetype zzz", "there are: attention, "),
    ("--family transpose --archetype gemm", "leave out one of the options"),
    ("transpose/xyzzy_abc", "see: keet finding --cases --family transpose"),
    ("tail_effect --archetype zzz", "there are: attention, "),
])  # fmt: skip
def test_missing_cases_are_reported_with_the_next_step(arguments, told, keet: Keet) -> None:
    result = keet("finding", *arguments.split())
    assert result.code == 2
    assert told in result.err
