"""Closing of accounts: of made-up ones, and of every launch of two real reports."""

import pytest

from evals.analyst.account import Closing, closing, full_set_median, of_source, page_parts
from evals.analyst.report_sets import LOCKED, Source
from keet.analysis.account import TimePart
from keet.evidence import Evidence
from tests.conftest import REPORTS
from tests.rows import each_row


def part(name: str, share: float, *children: TimePart) -> TimePart:
    return TimePart(
        id=name, part=name, percent=Evidence("E1", name, share, "%", name), children=children
    )


def of(*parts: TimePart, group: str = "samples", kind: str = "full") -> Closing:
    return closing(group, "some kernel", kind, parts)


def test_an_account_that_adds_up() -> None:
    idle = part("idle", 30.0, part("tail", 10.0), part("idle.unknown", 20.0))
    row = of(idle, part("issue", 69.95))
    assert row.closes
    assert (row.gap, row.child_gap, row.least) == (pytest.approx(0.05), 0, 10)
    assert row.not_attributable == 20


@each_row("parts", [
    [part("idle", 30.0), part("issue", 69.8)],
    [part("idle", 30.0), part("issue", 70.2)],
    [part("idle", 100.0, part("tail", 99.0))],
    [part("idle", 100.0, part("tail", 100.0, part("a", 99.8)))],
    [part("idle", 100.5), part("issue", -0.5)],
    [],
])  # fmt: skip
def test_an_account_that_does_not_add_up(parts: list[TimePart]) -> None:
    assert not of(*parts).closes


def test_the_median_is_of_full_set_reports() -> None:
    shares = [of(part("a", 90.0), part("unknown", 10.0)), of(part("a", 100.0))]
    basic = of(part("unknown", 100.0), kind="basic")
    assert full_set_median([*shares, basic]) == 5
    assert full_set_median([basic]) is None


def test_only_sums_are_printed_for_locked_families(wording) -> None:
    rows = [of(part("a", 50.0), group=LOCKED), of(part("a", 100.0))]
    rows[0] = rows[0]._replace(name="secret kernel")
    summary, *rest = page_parts(rows)
    wording(summary.text)
    assert "secret" not in str(rest)
    assert "some kernel" in str(rest)


@pytest.mark.parametrize(("name", "kind"), [("tour_full", "full"), ("tour_basic", "basic")])
def test_accounts_of_real_reports_add_up(name: str, kind: str) -> None:
    rows = of_source(Source("test data", name, REPORTS / f"{name}.ncu-repz"))
    assert len(rows) >= 3
    assert all(row.closes for row in rows), rows
    assert {row.kind for row in rows} == {kind}
