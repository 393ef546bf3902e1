"""The account in a few rows: they add up, and each number has evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.account import Account, TimePart
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import FEW
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.explanation.account_texts import (
    ISSUING,
    AccountRow,
    account_notes,
    account_rows,
    leading_text,
)
from keet.report import read_profile
from keet.units import Quantity
from tests.conftest import REPORTS
from tests.grounded import strays_in
from tests.kept_reports import sample_report
from tests.rows import each_row

PATHS = [
    *(sample_report(name) for name in ("matrix_flip", "gas_state", "sparse_apply")),
    REPORTS / "tour_basic.ncu-repz",
    REPORTS / "metrics_only.ncu-repz",
]
LAUNCH = read_profile(PATHS[0]).launches[0]
UNPRINTED = 0.5
"""Per cent of the time that may be missing: it would be printed as 0 %."""


def assert_complete(rows: Sequence[AccountRow]) -> None:
    """The largest row is the first, small ones are in the last, and all add up."""
    shares = [float(row.share.value) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=UNPRINTED)
    named = shares[:-1] if rows[-1].label == "other" else shares
    assert named == sorted(named, reverse=True)


@each_row("path", PATHS, ids=lambda path: path.parent.name + path.name)
@each_row("most", [5, 8])
def test_rows_of_real_launches_add_up(path: Path, most: int) -> None:
    for launch in read_profile(path).launches:
        diagnosis = diagnose(launch, reads_code=False)
        rows = account_rows(diagnosis.view, diagnosis.account, most)
        assert 1 <= len(rows) <= most
        assert_complete(rows)
        entered = {piece.id for piece in diagnosis.view.ledger}
        assert {row.share.id for row in rows} <= entered
        assert all(row.us is None or row.us.id in entered for row in rows)


@each_row(("name", "label", "time"), [
    ("matrix_flip", "waiting for L2, which is busy", "609.9 us"),
    ("row_norms", "SMs idle: fewer blocks than SMs", "125.5 us"),
])  # fmt: skip
def test_the_first_row_says_what_takes_most_of_the_time(name: str, label: str, time: str) -> None:
    diagnosis = diagnosed(name, code=False)
    first = account_rows(diagnosis.view, diagnosis.account)[0]
    assert (first.label, first.time) == (label, time)


def test_issued_instructions_are_one_row() -> None:
    launch = read_profile(REPORTS / "tour_basic.ncu-repz").launches[2]
    diagnosis = diagnose(launch, reads_code=False)
    issuing = diagnosis.account.part("issuing")
    rows = account_rows(diagnosis.view, diagnosis.account)
    assert [row.share for row in rows if row.parts[0].id.startswith("issuing")] == [issuing.percent]
    assert ISSUING in leading_text(diagnosis.view, diagnosis.account)


SHARES = st.lists(st.floats(0.01, 100), min_size=1, max_size=6)


@given(
    sizes=st.lists(st.tuples(st.floats(0.01, 100), SHARES), min_size=1, max_size=5),
    most=st.integers(2, 8),
    timed=st.booleans(),
)
def test_rows_of_any_account_add_up(
    sizes: list[tuple[float, list[float]]], most: int, timed: bool
) -> None:
    view = LaunchView(LAUNCH)
    total = sum(size for size, _ in sizes)
    parts = tuple(
        part_of(view, f"part{number}", 100 * size / total, inner, timed=timed)
        for number, (size, inner) in enumerate(sizes)
    )
    rows = account_rows(view, Account(parts), most)
    assert len(rows) <= most
    assert_complete(rows)
    assert all((row.us is not None) == timed for row in rows)


def part_of(
    view: LaunchView, name: str, percent: float, inner: Sequence[float] = (), *, timed: bool
) -> TimePart:
    children = tuple(
        part_of(view, f"{name}.{number}", percent * size / sum(inner), timed=timed)
        for number, size in enumerate(sorted(inner, reverse=True))
    )
    share = view.ledger.derived(f"account.{name}", Quantity(percent, "%"), name)
    us = view.ledger.derived(f"account.{name}.us", Quantity(percent, "us"), name)
    return TimePart(
        id=name, part=name, percent=share, time=us if timed else None, children=children
    )


NAMES = ("stencil_march", "gas_state", "matrix_flip", "field_axpy", "row_layers", "softmax_rows")


@cache
def diagnosed(sample: str, *, code: bool = True) -> Diagnosis:
    return diagnose(read_profile(sample_report(sample)).launches[0], reads_code=code)


def notes_of(sample: str, *, code: bool = True) -> dict[str, str]:
    diagnosis = diagnosed(sample, code=code)
    return {note.id: note.text for note in account_notes(diagnosis.view, diagnosis.account)}


@pytest.mark.slow
@each_row("code", [True, False])
@each_row("sample", NAMES[:3])
def test_every_number_has_evidence(sample: str, code: bool) -> None:
    diagnosis = diagnosed(sample, code=code)
    view = diagnosis.view
    for note in account_notes(view, diagnosis.account):
        assert any(map(str.isdigit, note.text))
        assert not strays_in(note.text, note.evidence, view.launch)


def test_instructions_by_purpose_and_line() -> None:
    """Counted here by hand: the purposes of the executed instructions, and their lines."""
    told = notes_of("stencil_march")["instruction_mix"]
    view = diagnosed("stencil_march").view
    counts = view.code.program.counts
    address = [n for n, purpose in enumerate(view.code.purposes) if purpose.value == "address"]
    share = 100 * sum(counts[n] for n in address) / sum(counts)
    assert told.startswith(f"Executed instructions: {share:.0f}% addresses and indices (")
    here = sum(counts[n] for n in address if (at := view.code.location(n)) and at.line == 19)
    assert f"({100 * here / sum(counts):.0f}% at slow.cu:19, " in told
    assert "cmath" not in notes_of("gas_state")["instruction_mix"]


def test_without_machine_code_the_mix_is_by_opcode_and_line(wording) -> None:
    told = notes_of("stencil_march", code=False)["instruction_mix"]
    assert re.match(r"Executed instructions by opcode: \d+% [A-Z0-9]+, \d+% [A-Z0-9]+", told)
    assert re.search(r"; by line: \d+% at slow\.cu:\d+", told)
    wording(told)


@each_row("sample", NAMES)
def test_the_mix_is_noted_only_if_issuing_takes_much_of_the_time(sample: str) -> None:
    issuing = diagnosed(sample).account.part("issuing")
    assert ("instruction_mix" in notes_of(sample)) == (issuing.percent.value >= 100 * FEW)


def test_notes_say_what_is_busy_and_moved(wording) -> None:
    wording(notes_of("matrix_flip")["l2_stage"], notes_of("softmax_rows")["l2_stage"])
    wording(notes_of("field_axpy")["bytes_moved"])
    assert "bytes_moved" not in notes_of("field_axpy", code=False)
    for sample in ("field_axpy", "gas_state"):
        assert "l2_stage" not in notes_of(sample), "it only passes on what DRAM delivers"
