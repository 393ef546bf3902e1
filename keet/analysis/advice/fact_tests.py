"""The registry of facts: statements about a launch that are true, false or unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keet.analysis.advice.fact_inputs import FactInputs

Answer = bool | Sequence[int] | None
"""`None`: unknown. Addresses of instructions that show the fact count as true."""
Test = Callable[[FactInputs], Answer]

TESTS: dict[str, Test] = {}
"""Functions by the fact's id in the catalog."""


def fact(test: Test) -> Test:
    """Decorator: register the function that decides the fact of its name."""
    TESTS[test.__name__] = test
    return test


def more_than(value: float | None, limit: float) -> bool | None:
    return None if value is None else value > limit


def at_least(value: float | None, limit: float) -> bool | None:
    return None if value is None else value >= limit
