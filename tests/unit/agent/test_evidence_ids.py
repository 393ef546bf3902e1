"""A transcript of an older keet replays: its ids are read as what they stood for."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest
from keet_tools.case import Case

from keet.agent.evidence_ids import Translation, entries, recorded_in
from keet.errors import UsageError
from keet.explanation.analyst import explain
from keet.ingest import read_profile

REPORT = Path("kernels_samples/matrix_flip/slow.ncu-rep")


def case_from(first: int) -> Case:
    """The same report with ids that start elsewhere."""
    profile = read_profile(REPORT)
    return Case([explain(profile, profile.launches, 5, count(first))])


def test_ids_are_read_as_what_they_were() -> None:
    before, today = case_from(1), case_from(101)
    translation = Translation(entries(before))
    assert translation.to_today("L2 at 83 % [E8], see E3.", today) == "L2 at 83 % [E108], see E103."


def test_what_is_not_looked_up_any_more_is_no_evidence() -> None:
    translation = Translation({"E7": ("0.0", "no_such_metric", None)})
    assert translation.to_today("so [E7], but E8", case_from(1)) == "so [E0], but E8"


def test_the_table_is_kept_in_the_transcript(tmp_path: Path) -> None:
    table = entries(case_from(1))
    rows = [[found, *entry] for found, entry in table.items()]
    path = tmp_path / "kept.jsonl"
    events = [{"event": "start"}, {"event": "note", "evidence": rows}, {"event": "note", "x": 1}]
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    assert recorded_in(path).to_today("[E8]", case_from(11)) == "[E18]"


def test_a_broken_file_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        recorded_in(tmp_path / "none.jsonl")
