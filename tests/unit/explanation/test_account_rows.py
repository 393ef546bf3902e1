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
from keet.explanation.account_rows import AccountRow, account_rows, leading_text
from keet.ingest import read_profile
from keet.units import Quantity
from tests.conftest import REPORTS
from tests.kept_reports import sample_report
from tests.rows import each_row

SAMPLES = Path("kernels_samples")
PATHS = [
    *(sample_report(name) for name in ("matrix_flip", "gas_state", "sparse_apply")),
    REPORTS / "tour_basic.ncu-rep",
    REPORTS / "metrics_only.ncu-repz",
]
LAUNCH = read_profile(PATHS[0]).launches[0]
UNPRINTED = 0.5
WITHIN = 3.0


def outer(rows: Sequence[AccountRow]) -> float:
    return sum(float(row.share.value) for row in rows if row.depth == 0)


@each_row("path", PATHS, ids=lambda path: path.parent.name + path.name)
@each_row("most", [5, 8])
def test_rows_of_real_launches_add_up(path: Path, most: int) -> None:
    for launch in read_profile(path).launches:
        diagnosis = diagnose(launch, reads_code=False)
        rows = account_rows(diagnosis.view, diagnosis.account, most)
        assert 1 <= len(rows) <= most
        assert outer(rows) == pytest.approx(100, abs=UNPRINTED)
        entered = {piece.id for piece in diagnosis.view.ledger}
        assert {row.share.id for row in rows} <= entered
        assert all(row.us is None or row.us.id in entered for row in rows)


def test_a_part_with_one_child_has_one_row_with_both_labels() -> None:
    launch = read_profile(SAMPLES / "row_norms" / "slow.ncu-repz").launches[0]
    diagnosis = diagnose(launch, reads_code=False)
    first = account_rows(diagnosis.view, diagnosis.account)[0]
    assert first.label == "SMs idle while others work: fewer blocks than SMs"
    assert first.time == "125.6 us"


def test_unknown_instructions_have_no_row_of_their_own() -> None:
    launch = read_profile(REPORTS / "tour_basic.ncu-rep").launches[2]
    diagnosis = diagnose(launch, reads_code=False)
    labels = [row.label for row in account_rows(diagnosis.view, diagnosis.account)]
    assert "schedulers issue instructions" in labels
    assert not any("what for is not known" in label for label in labels)
    assert "what for is not known" not in leading_text(diagnosis.view, diagnosis.account)


# --- made-up accounts


@each_row("most", [6, 7])
def test_waiting_is_split_before_issued_instructions(most: int) -> None:
    """As in a report with 60 % issue slots: the instructions took all rows within a part."""
    view = LaunchView(LAUNCH)
    parts = (
        part_of(view, "issuing", 60, (53, 7), timed=True),
        part_of(view, "waiting", 35, (13, 8, 7, 7), timed=True),
        part_of(view, "idle", 5, timed=True),
    )
    rows = account_rows(view, Account(parts), most)
    labels = [row.label for row in rows]
    assert len(rows) <= most
    assert labels[labels.index("waiting") + 1 :][:2] == ["waiting.0", "waiting.1"]


SHARES = st.lists(st.floats(0.01, 100), min_size=1, max_size=6)


@given(
    sizes=st.lists(st.tuples(st.floats(0.01, 100), SHARES), min_size=1, max_size=5),
    most=st.integers(5, 8),
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
    account = Account(parts)
    rows = account_rows(view, account, most)
    assert len(rows) <= max(most, 1 + sum(part.share.value >= WITHIN for part in parts))
    assert outer(rows) == pytest.approx(100, abs=UNPRINTED)
    assert all((row.us is not None) == timed for row in rows)
    for place, row in enumerate(rows):
        inner = within(rows[place + 1 :])
        if row.depth == 0 and inner:
            assert sum(inner) == pytest.approx(float(row.share.value), abs=WITHIN)


def within(rows: Sequence[AccountRow]) -> list[float]:
    """Shares of the rows up to the next outermost one."""
    shares: list[float] = []
    for row in rows:
        if row.depth == 0:
            break
        shares.append(float(row.share.value))
    return shares


def part_of(
    view: LaunchView, name: str, percent: float, inner: Sequence[float] = (), *, timed: bool
) -> TimePart:
    children = tuple(
        part_of(view, f"{name}.{number}", percent * size / sum(inner), timed=timed)
        for number, size in enumerate(sorted(inner, reverse=True))
    )
    share = view.ledger.derived(f"account.{name}", Quantity(percent, "%"), name)
    us = view.ledger.derived(f"account.{name}.us", Quantity(percent, "us"), name)
    return TimePart(name, name, share, us if timed else None, (), children)
