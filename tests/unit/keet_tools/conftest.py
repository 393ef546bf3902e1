"""Cases of real reports, explained once a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from keet_tools.case import Case

from keet.explanation.analyst import Explanation, explain
from keet.ingest import read_profile
from tests.conftest import REPORTS, TESTS

SAMPLES = TESTS.parent / "kernels_samples"
_NUMBERS: Iterator[int] = count(1)
"""Of evidence ids: unique over all cases, as they are within one."""


@cache
def explained(path: Path) -> Explanation:
    profile = read_profile(path)
    return explain(profile, profile.launches, 5, _NUMBERS)


def sample(name: str) -> Path:
    """`matrix_flip/slow`, or a report of tests/data."""
    return SAMPLES / f"{name}.ncu-rep" if "/" in name else REPORTS / name


@pytest.fixture(scope="session")
def case_of() -> Callable[..., Case]:
    def make(*names: str, show_source: bool = True) -> Case:
        return Case([explained(sample(name)) for name in names], show_source=show_source)

    return make
