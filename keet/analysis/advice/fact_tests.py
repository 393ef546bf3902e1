"""Facts: statements about a launch that are true, false or unknown, each decided by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keet.analysis.advice.fact_inputs import FactInputs

Answer = bool | Sequence[int] | None
"""`None`: the report does not say. Addresses of the instructions that show it stand for true."""
Test = Callable[[FactInputs], Answer]

TESTS: dict[str, Test] = {}
"""By the fact's id in the catalog."""


def fact(test: Test) -> Test:
    """Register a function as the test of the fact that it is named after."""
    TESTS[test.__name__] = test
    return test


def more_than(value: float | None, limit: float) -> bool | None:
    return None if value is None else value > limit


def at_least(value: float | None, limit: float) -> bool | None:
    return None if value is None else value >= limit
