"""`each_row`: every row runs, and every failure is reported."""

import pytest

from tests.rows import PART, each_row


def test_every_row_runs_and_each_failure_names_its_row() -> None:
    """Fixtures stay parameters."""

    @each_row("number, word", [(1, "a"), (2, "b"), (3, "c")])
    def check(number: int, word: str, seen: list[tuple[int, str]]) -> None:
        seen.append((number, word))
        assert number == 2

    seen = list[tuple[int, str]]()
    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as raised:
        check(seen=seen)
    assert seen == [(1, "a"), (2, "b"), (3, "c")]
    notes = [failure.__notes__ for failure in raised.value.exceptions]
    assert notes == [["row: 1-'a'"], ["row: 3-'c'"]]


def test_tables_that_would_test_nothing_are_refused() -> None:
    for rows, few in ((0, None), (0, 2), (2, 2)):
        with pytest.raises(ValueError, match=f"^{rows} rows, few={few}: "):
            each_row("number", range(rows), few=few)

    @pytest.mark.slow
    @each_row("number", range(10), few=3)
    def check(number: int) -> None:
        pass

    with pytest.raises(ValueError, match="check is marked slow"):
        check(**{PART: "quick"})


def test_quick_and_slow_rows_are_the_whole_table() -> None:
    found: list[int] = []

    @each_row("number", range(10), few=3)
    def check(number: int) -> None:
        found.append(number)

    check(**{PART: "quick"})
    assert found == [0, 3, 6]
    check(**{PART: "slow"})
    assert sorted(found) == list(range(10))
