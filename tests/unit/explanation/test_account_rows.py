"""The account in a few rows: they add up, and each number has evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.account import Account, TimePart
from keet.analysis.launch_view import LaunchView
from keet.diagnosis.diagnosis import diagnose
from keet.explanation.account_rows import ISSUING, AccountRow, account_rows, leading_text
from keet.ingest import read_profile
from keet.units import Quantity
from tests.conftest import REPORTS
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


FIRST_ROWS = [
    ("matrix_flip", "waiting for L2, which is busy", "609.9 us"),
    ("row_norms", "SMs idle: fewer blocks than SMs", "125.5 us"),
]


@each_row(("name", "label", "time"), FIRST_ROWS)
def test_the_first_row_says_what_takes_most_of_the_time(name: str, label: str, time: str) -> None:
    diagnosis = diagnose(read_profile(sample_report(name)).launches[0], reads_code=False)
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
