"""The setup of cuRAND's generators, in reports whose line table is edited: the lines of a real
kernel count as those of curand_kernel.h."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from keet.analysis.kernel.archetype import skipped_ahead
from keet.analysis.launch_view import LaunchView
from keet.diagnosis.diagnosis import diagnose
from keet.profile import Launch, Location
from tests.unit.analysis.real_launches import launch_of

HEADER = "/usr/local/cuda/targets/x86_64-linux/include/curand_kernel.h"


def in_header(monkeypatch: pytest.MonkeyPatch, launch: Launch, line: int) -> Launch:
    """All code at this line of the header."""

    def locate(self: Launch, addresses: Sequence[int]) -> dict[int, Location]:
        return dict.fromkeys(addresses, Location(HEADER, line))

    monkeypatch.setattr(Launch, "locate", locate)
    return launch


def test_skip_ahead_leads_with_the_gain_of_its_samples(monkeypatch, wording) -> None:
    launch = in_header(monkeypatch, launch_of("series_eval"), 326)
    assert skipped_ahead(LaunchView(launch)) == 1.0
    first, *others = diagnose(launch).findings
    assert (first.id, first.variant) == ("pipe_saturated", "curand")
    wording(first.label)
    assert first.forecast.likely > 5
    wording(first.action)
    # The same advice is not given twice.
    assert not any("sequence number" in each.action for each in others)


def test_generating_numbers_is_not_skipping_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = in_header(monkeypatch, launch_of("series_eval"), 871)
    assert skipped_ahead(LaunchView(launch)) == 0.0
    assert all(each.variant != "curand" for each in diagnose(launch).findings)
