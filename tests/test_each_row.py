"""`each_row`: every row runs, and every failure is reported."""

import inspect

import pytest

from tests.rows import PART, each_row, mostly_slow


def test_every_row_runs_and_each_failure_names_its_row() -> None:
    seen = []

    @each_row("number, word", [(1, "a"), (2, "b"), (3, "c")])
    def check(number: int, word: str) -> None:
        seen.append((number, word))
        assert number == 2

    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as raised:
        check()
    assert seen == [(1, "a"), (2, "b"), (3, "c")]
    notes = [failure.__notes__ for failure in raised.value.exceptions]
    assert notes == [["row: 1-'a'"], ["row: 3-'c'"]]


def test_a_single_failure_is_raised_unchanged() -> None:
    @each_row("name", ["a", "b"], ids=str.upper)
    def check(name: str) -> None:
        if name == "b":
            pytest.fail("no")

    with pytest.raises(pytest.fail.Exception, match="no") as raised:
        check()
    assert raised.value.__notes__ == ["row: B"]


def test_skipped_rows_give_a_warning_and_only_a_whole_table_is_skipped() -> None:
    @each_row("name", ["a", "b"])
    def check(name: str, reason: str) -> None:
        if name in reason:
            pytest.skip(f"not for {name}")

    with pytest.warns(UserWarning, match=r"^1 of 2 rows skipped: 'a' \(not for a\)$"):
        check(reason="a")
    with pytest.raises(pytest.skip.Exception, match=r"'a' \(not for a\), 'b' \(not for b\)"):
        check(reason="ab")


@each_row(("rows", "few"), [(0, None), (0, 2), (2, 2), (2, 3)])
def test_a_part_without_rows_is_refused(rows: int, few: int | None) -> None:
    with pytest.raises(ValueError, match=f"^{rows} rows, few={few}: "):
        each_row("number", range(rows), few=few)


@pytest.mark.parametrize("given", [{}, {"few": 2}])
def test_an_empty_table_of_files_that_may_be_missing_is_skipped(given: dict[str, int]) -> None:
    @each_row("path", [], may_be_empty=True, **given)
    def check(path: str) -> None:
        raise AssertionError

    for part in [{PART: "quick"}, {PART: "slow"}] if given else [{}]:
        with pytest.raises(pytest.skip.Exception, match="0 of 0 rows"):
            check(**part)


def test_a_few_rows_of_a_slow_test_are_refused() -> None:
    def check(number: int) -> None:
        pass

    table = each_row("number", range(10), few=3)
    above = pytest.mark.slow(table(check))
    with pytest.raises(ValueError, match="check is marked slow"):
        above(**{PART: "quick"})
    with pytest.raises(ValueError, match="check is marked slow"):
        table(pytest.mark.slow(check))


def test_fixtures_stay_parameters() -> None:
    @each_row("first", [1, 2])
    @each_row("second", [10, 20])
    def check(first: int, second: int, found: list[int]) -> None:
        found.append(first + second)

    assert list(inspect.signature(check).parameters) == ["found"]
    found: list[int] = []
    check(found=found)
    assert found == [11, 21, 12, 22]


def slow_names(value: object) -> list[str]:
    return [mark.name for mark in getattr(value, "marks", ())]


def test_quick_and_slow_rows_are_the_whole_table() -> None:
    found: list[int] = []

    @each_row("number", range(10), few=3)
    def check(number: int) -> None:
        found.append(number)

    (mark,) = check.pytestmark  # type: ignore[attr-defined]
    assert [slow_names(each) for each in mark.args[1]] == [[], ["slow"]]
    mixed = mostly_slow(["a", pytest.param("b", id="B"), "c", "d"], few=2)
    assert [slow_names(each) for each in mixed] == [[], ["slow"], [], ["slow"]]
    assert mixed[1].id == "B"
    check(**{PART: "quick"})
    assert found == [0, 3, 6]
    check(**{PART: "slow"})
    assert sorted(found) == list(range(10))
