"""Cases of real reports, explained once a session."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from keet_tools.answers import ToolInput, scope_of

from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.report import read_profile
from kernels_samples.samples import report_of
from tests.conftest import REPORTS


@cache
def explained(path: Path, place: int) -> Explanation:
    profile = read_profile(path)
    return explain(profile, profile.launches, 5, report_scope=scope_of(place))


def sample(name: str) -> Path:
    """`matrix_flip/slow`, or a report of tests/data."""
    return report_of(*name.split("/")) if "/" in name else REPORTS / name


@pytest.fixture(scope="session")
def tool_input_of() -> Callable[..., ToolInput]:
    def make(*names: str, show_source: bool = True) -> ToolInput:
        return ToolInput(
            [explained(sample(name), place) for place, name in enumerate(names)],
            show_source=show_source,
        )

    return make
