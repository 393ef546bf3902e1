"""Runs all rows of a table as one test: pytest takes some milliseconds per item, a row often less."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import pytest

Test = Callable[..., None]
PART = "part_of_the_table"
"""Name of the parameter that tells the quick rows from the slow ones."""


class Row(NamedTuple):
    name: str
    values: dict[str, Any]


def each_row(
    names: str | Sequence[str],
    table: Iterable[Any],
    *,
    ids: Callable[[Any], object] | None = None,
    few: int | None = None,
    may_be_empty: bool = False,
) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, with one item for all rows. Every row runs, also after one
    that failed, and each failure names its row. Skipped rows are told in a warning. Fixtures are
    shared by the rows.

    `few`: so many rows, spread over the table, are the quick test, and the others are slow.
    `may_be_empty`: where the rows are files that not everybody has.
    """
    named = _names(names)
    table = [_row(named, value, ids) for value in table]
    if len(table) <= (few or 0) and not (may_be_empty and not table):
        raise ValueError(f"{len(table)} rows, few={few}: a test without rows can't fail")

    def decorate(test: Test) -> Test:
        given = inspect.signature(test).parameters.values()
        fixtures = [each for each in given if each.name not in named]
        if few is None:
            return _with_signature(lambda **given: _run(test, table, given), test, fixtures)
        return _in_two_parts(test, table, few, fixtures)

    return decorate


def _in_two_parts(
    test: Test, table: Sequence[Row], few: int, fixtures: Sequence[inspect.Parameter]
) -> Test:
    _refuse_slow(test)
    quick = set(_spread(len(table), few))
    parts = {
        "quick": [row for number, row in enumerate(table) if number in quick],
        "slow": [row for number, row in enumerate(table) if number not in quick],
    }

    def of_a_part(**given: Any) -> None:
        _refuse_slow(whole)
        _run(test, parts[given.pop(PART)], given)

    part = inspect.Parameter(PART, inspect.Parameter.KEYWORD_ONLY)
    whole = _with_signature(of_a_part, test, [*fixtures, part])
    return pytest.mark.parametrize(PART, ["quick", _slow("slow")])(whole)


def _refuse_slow(test: Test) -> None:
    """Checked when the decorator runs, for marks below `each_row`, and again when the test runs, for
    marks above it."""
    if any(mark.name == "slow" for mark in getattr(test, "pytestmark", ())):
        raise ValueError(f"{test.__name__} is marked slow, so that few= does nothing")


def _spread(count: int, few: int) -> range:
    """Indices of `few` rows, evenly spaced."""
    step = max(1, count // few)
    return range(0, min(count, step * few), step)


def mostly_slow(values: Iterable[Any], few: int) -> list[Any]:
    """For `pytest.mark.parametrize`, where each row needs fixtures of its own: so many of them,
    spread over the table, are quick tests, and the others are slow."""
    values = list(values)
    quick = set(_spread(len(values), few))
    return [each if n in quick else _slow(each) for n, each in enumerate(values)]


def _slow(value: Any) -> Any:
    if hasattr(value, "marks"):  # it is a pytest.param already
        return value._replace(marks=[*value.marks, pytest.mark.slow])
    return pytest.param(value, marks=pytest.mark.slow)


def _with_signature(run: Test, test: Test, parameters: Sequence[inspect.Parameter]) -> Test:
    @wraps(test)
    def whole(**given: Any) -> None:
        run(**given)

    by_name = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    whole.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    return whole


def _run(test: Test, table: Sequence[Row], given: dict[str, Any]) -> None:
    failures, skipped = list[BaseException](), list[str]()
    for row in table:
        try:
            test(**given, **row.values)
        except pytest.skip.Exception as reason:
            skipped.append(f"{row.name} ({reason})")
        except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - raised below
            failure.add_note(f"row: {row.name}")
            failures.append(failure)
    told = f"{len(skipped)} of {len(table)} rows skipped: {', '.join(skipped)}"
    if len(skipped) == len(table):
        pytest.skip(told)
    if skipped:  # pyproject.toml excepts this warning from those that fail a test
        warnings.warn(told, stacklevel=1)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)


def _names(names: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _row(names: Sequence[str], value: Any, ids: Callable[[Any], object] | None) -> Row:
    values = [value] if len(names) == 1 else list(value)
    return Row("-".join(_id(each, ids) for each in values), dict(zip(names, values, strict=True)))


def _id(value: Any, ids: Callable[[Any], object] | None) -> str:
    named = ids(value) if ids else None
    return str(named) if named is not None else repr(value)[:200]
