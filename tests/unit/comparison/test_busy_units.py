"""The time that a unit was busy, from its share of peak."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from keet.analysis.hardware.ceilings import Ceiling
from keet.comparison.causes.explained_pair import _busy_share
from keet.evidence import Evidence
from tests.rows import each_row


def part(**reached: float) -> Any:
    """A launch, of which only the units are looked at."""
    units = [
        Ceiling(name.lower(), name, "memory", Evidence("E1", name, value, "%", name), "report")
        for name, value in reached.items()
    ]
    return SimpleNamespace(
        explanation=SimpleNamespace(view=SimpleNamespace(ceilings=SimpleNamespace(ranked=units)))
    )


@each_row(("reached", "busy"), [(0.0, 0.0), (42.0, 0.42), (103.0, 1.0)])
def test_no_unit_is_busy_for_longer_than_the_launch(reached: float, busy: float) -> None:
    share, sources = _busy_share("L2")(part(L2=reached)) or (None, ())
    assert share == pytest.approx(busy)
    assert [source.value for source in sources] == [reached]  # what is shown is as measured


def test_a_unit_that_was_not_measured_has_no_time() -> None:
    assert _busy_share("DRAM")(part(L2=50.0)) is None
