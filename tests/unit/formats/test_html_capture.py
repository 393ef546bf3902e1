"""The page's section about the capture: ncu settings by version, clocks, limits of ranges."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest

from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.formats.html.blocks import html_part, reader
from keet.ingest import read_profile
from keet.pages.anchors import Anchors
from keet.pages.capture import capture_part, clock_warning, facts_blocks, range_text
from keet.pages.explain import _not_checked
from keet.profile import Launch, Profile
from keet.units import Quantity
from tests.page_parts import PageParts

FLIP = Path("kernels_samples/matrix_flip/slow.ncu-rep")


@pytest.fixture(scope="module")
def flip() -> Profile:
    return read_profile(FLIP)


def captured_html(explanation: Explanation) -> str:
    lacking = [*_not_checked(explanation, reader())]
    return html_part([capture_part(explanation, explanation.launches, Anchors(), lacking)])


def facts_of(launch: Launch) -> str:
    return html_part(facts_blocks(launch))


def captured(profile: Profile, command: str | None, version: str | None) -> str:
    origin = profile.provenance._replace(command_line=command, ncu_version=version)
    explanation = explain(replace(profile, provenance=origin), profile.launches[:1], 1, sass=False)
    return PageParts(captured_html(explanation)).text_of("capture")


# --- settings


def test_default_clock_control_depends_on_the_ncu_version(flip: Profile) -> None:
    old = captured(flip, "ncu -o x ./app", "2025.4.1.0")
    assert "base (ncu's default; ncu asks for the base clock; power and temperature" in old
    assert "boost" not in old
    for version in ("2026.1.0.0", "2026.2.1.0", "2027.1.0.0"):
        new = captured(flip, "ncu -o x ./app", version)
        assert "boost (ncu's default; ncu asks for the boost clock, or for the base clock" in new
    assert "Clock control" not in captured(flip, "ncu -o x ./app", None)
    assert "Cache control all" in captured(flip, "ncu -o x ./app", None)


def test_settings_given_on_the_command_line(flip: Profile) -> None:
    text = captured(flip, "ncu --clock-control=force-boost --cache-control none ./app", "2026.1")
    assert "force-boost (ncu asks for the boost clock in any case; power" in text
    assert "none (caches as they were left)" in text
    assert "locked" not in text


def test_options_of_the_program_are_not_those_of_ncu(flip: Profile) -> None:
    command = "ncu --nvtx ./app --clock-control none --replay-mode application"
    text = captured(flip, command, "2025.3.1.0")
    assert "Clock control base (ncu's default" in text
    assert "Replay mode kernel (ncu's default)" in text


def test_no_settings_without_a_command_line(flip: Profile) -> None:
    text = captured(flip, None, "2025.3.1.0")
    assert "Clock control" not in text
    assert "Nsight Compute 2025.3.1.0" in text


# --- clocks


def with_clock(launch: Launch, ghz: float, us: float) -> Launch:
    found = copy(launch)
    amounts = {"sm_frequency": Quantity(ghz * 1e9, "hz"), "duration": Quantity(us * 1e3, "ns")}
    found.get = amounts.get  # type: ignore[assignment,method-assign]
    found.__dict__["rank_time"] = us * 1e3
    return found


def test_launches_at_different_clocks_are_not_compared_by_time(flip: Profile) -> None:
    (launch,) = flip.launches
    alike = [with_clock(launch, 1.95, 100), with_clock(launch, 1.98, 100)]
    assert clock_warning(alike) == ""
    apart = [with_clock(launch, 1.29, 100), with_clock(launch, 0.645, 100)]
    text = clock_warning(apart)
    assert "differ by a factor of 2.00: their times can't be compared directly" in text
    assert "10 us" not in text
    short = [with_clock(launch, 1.29, 100), with_clock(launch, 0.554, 2.2)]
    assert "elapsed cycles over duration" in clock_warning(short)


def test_clocks_that_differ_are_printed_as_a_range() -> None:
    clocks = [Quantity(1.2e9, "hz"), None, Quantity(5.54e8, "hz")]
    assert range_text(clocks) == "554 MHz to 1.20 GHz"
    assert range_text([None]) == ""


# --- how it was launched


def test_the_launch_in_a_few_facts(flip: Profile) -> None:
    launch = flip.launches[0]
    text = PageParts(facts_of(launch)).text
    for fact in (
        "Launch Grid 256×1024 Block 32×8 Waves per SM 248.2 Registers per thread 16",
        "Shared memory per block 0 B static, 0 B dynamic",
        "Occupancy 100% theoretical, 74.78% achieved",
        "SM clock 1.98 GHz DRAM clock 3.20 GHz",
    ):
        assert fact in text


def test_what_limits_the_occupancy_is_named() -> None:
    launch = read_profile(Path("kernels_samples/window_median/slow.ncu-repz")).launches[0]
    assert "shared memory allow" in PageParts(facts_of(launch)).text


def test_ranges_have_no_shape(profile_of: Callable[[str], Profile]) -> None:
    text = PageParts(facts_of(profile_of("range.ncu-rep").launches[0])).text
    assert text.startswith("Range SM clock")
    assert "Registers" not in text


def test_what_the_report_lacks_is_left_out(profile_of: Callable[[str], Profile]) -> None:
    facts = facts_of(profile_of("metrics_only.ncu-repz").launches[0])
    text = PageParts(facts).text
    assert "Occupancy 100% theoretical" in text
    assert "achieved" not in text
    assert "clock" not in text


# --- what ncu can't collect


@pytest.mark.parametrize("name", ["range.ncu-rep", "graph.ncu-repz"])
def test_numbers_that_ranges_lack_are_not_requested(
    name: str, profile_of: Callable[[str], Profile]
) -> None:
    profile = profile_of(name)
    explanation = explain(profile, profile.launches, 5)
    text = PageParts(captured_html(explanation)).text_of("capture")
    assert "warp samples: " in text
    assert "warp samples: not collected" not in text
    assert "machine code: a range or a graph has none of its own" in text
