"""What the same fix gained in measured cases: a summary of the casebook's index."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

import pytest

from keet.analysis.findings import Finding, Forecast
from keet.catalog import findings
from keet.catalog.cases import CaseEntry, CaseStep, casebook
from keet.catalog.precedents import PRECEDENTS, Precedents, precedents
from keet.catalog.precedents import precedents_text as file_text
from keet.explanation import precedents as told


def test_the_summary_is_that_of_the_index() -> None:
    command = "run: python -m kernels_samples.casebook.index"
    assert PRECEDENTS.read_text(encoding="utf-8") == file_text(casebook()), command


def test_every_row_is_a_finding_with_gains_in_order() -> None:
    assert len(precedents()) >= 20
    for finding, row in precedents().items():
        assert finding in findings()
        assert row.cases >= 1
        assert 1 <= row.low <= row.median <= row.high


def entry(finding: str, speedup: float, *, lookalike: bool = False, **steps: float) -> CaseEntry:
    fields: dict[str, Any] = dict.fromkeys(CaseEntry._fields)
    made = tuple(CaseStep(name, 1.0, gain, "") for name, gain in steps.items())
    told = {"finding": finding, "speedup": speedup, "lookalike": lookalike, "steps": made}
    return CaseEntry(**(fields | told))


def test_gains_are_of_the_finding_alone_and_look_alikes_are_not_among_them() -> None:
    entries = [
        entry("tail_effect", 2.0),
        entry("tail_effect", 9.0, tail_effect=3.0, small_grid=4.0),
        entry("tail_effect", 1.5),
        entry("tail_effect", 1.02, lookalike=True),
        entry("small_grid", 1.01, lookalike=True),
    ]
    assert json.loads(file_text(entries)) == {
        "tail_effect": {
            "cases": 3,
            "low": 1.5,
            "median": median([2.0, 3.0, 1.5]),
            "high": 3.0,
            "lookalikes": 1,
        }
    }


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (None, ""),
        (Precedents(1, 2.25, 2.25, 2.25, 0), "This fix gained 2.2x in 1 measured case."),
        (
            Precedents(23, 1.42, 2.31, 13.7, 1),
            "This fix gained 1.4x to 14x (median 2.3x) in 23 measured cases. In 1 case that looks "
            "like it, it gained less than 10%.",
        ),
    ],
)
def test_the_sentence(row: Precedents | None, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "precedents", lambda: {"tail_effect": row} if row else {})
    finding = Finding("tail_effect", "high", "", Forecast(1, 2, 3), ())
    assert told.precedents_text(finding) == text
