"""The page's section about the capture: ncu settings by version, clocks, limits of ranges."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.formats.html.blocks import reader
from keet.ingest import read_profile
from keet.pages.anchors import Anchors
from keet.pages.blocks import Command, Part
from keet.pages.capture import capture_part, clock_warning, facts_blocks, range_text
from keet.pages.explain import _not_checked
from keet.profile import Launch, Profile
from keet.units import Quantity
from tests.kept_reports import sample_report
from tests.page_blocks import every_block, facts_of, texts_of
from tests.rows import each_row

FLIP = Path("kernels_samples/matrix_flip/slow.ncu-rep")
ProfileOf = Callable[[str], Profile]


def capture_of(explanation: Explanation) -> Part:
    lacking = [*_not_checked(explanation, reader())]
    return capture_part(explanation, explanation.launches, Anchors(), lacking)


def captured(profile: Profile, **origin: Any) -> dict[str, str]:
    profile = replace(profile, provenance=profile.provenance._replace(**origin))
    return facts_of([capture_of(explain(profile, profile.launches, 1, sass=False))])


def test_the_page_says_how_the_report_was_captured(profile_of: ProfileOf) -> None:
    facts = captured(read_profile(FLIP))
    wanted = {"CUDA": "13.0", "Captured": "2026-11-15 08:50 UTC", "Replay passes": "24"}
    assert wanted.items() <= facts.items()
    assert "SourceCounters" in facts["Sections"].split(", ")
    bare = profile_of("metrics_only.ncu-repz")
    lacking = [*every_block([capture_of(explain(bare, bare.launches, 5))])]
    assert any(isinstance(each, Command) and each.command.startswith("ncu --") for each in lacking)


DEFAULT = "ncu -o x ./app"


@each_row(
    ("command", "version", "name", "setting"),
    [
        (DEFAULT, "2025.4.1.0", "Clock control", "base (ncu's default; ncu asks for the base clock; "),
        (DEFAULT, "2026.1.0.0", "Clock control", "boost (ncu's default; ncu asks for the boost clock, or"),
        (DEFAULT, "2027.1.0.0", "Clock control", "boost (ncu's default; "),
        (DEFAULT, None, "Clock control", None),
        (DEFAULT, None, "Cache control", "all (ncu's default; "),
        ("ncu --clock-control=force-boost ./app", "2026.1", "Clock control", "force-boost (ncu asks "),
        ("ncu --cache-control none ./app", "2026.1", "Cache control", "none (caches as they were left)"),
        ("ncu --nvtx ./app --clock-control none", "2025.3.1.0", "Clock control", "base (ncu's default; "),
        ("ncu --nvtx ./app --replay-mode range", "2025.3.1.0", "Replay mode", "kernel (ncu's default)"),
        (None, "2025.3.1.0", "Clock control", None),
    ],
)  # fmt: skip
def test_settings_of_ncu(
    command: str | None, version: str | None, name: str, setting: str | None
) -> None:
    """Defaults depend on the version; options of the program are not those of ncu; without a
    command line, or without the version that a default depends on, nothing is said."""
    facts = captured(read_profile(FLIP), command_line=command, ncu_version=version)
    assert (version or "not recorded") in facts["Nsight Compute"]
    found = facts.get(name)
    assert found == setting if setting is None or found is None else found.startswith(setting)


def with_clock(launch: Launch, ghz: float, us: float) -> Launch:
    found = copy(launch)
    amounts = {"sm_frequency": Quantity(ghz * 1e9, "hz"), "duration": Quantity(us * 1e3, "ns")}
    found.get = amounts.get  # type: ignore[assignment,method-assign]
    found.__dict__["rank_time"] = us * 1e3
    return found


def test_launches_at_different_clocks_are_not_compared_by_time(wording) -> None:
    (launch,) = read_profile(FLIP).launches
    alike = [with_clock(launch, 1.95, 100), with_clock(launch, 1.98, 100)]
    assert clock_warning(alike) == ""
    apart = [with_clock(launch, 1.29, 100), with_clock(launch, 0.645, 100)]
    wording(clock_warning(apart))
    short = [with_clock(launch, 1.29, 100), with_clock(launch, 0.554, 2.2)]
    assert "not exact" in clock_warning(short)


def test_clocks_that_differ_are_printed_as_a_range() -> None:
    clocks = [Quantity(1.2e9, "hz"), None, Quantity(5.54e8, "hz")]
    assert range_text(clocks) == "554 MHz to 1.20 GHz"
    assert range_text([None]) == ""


def test_the_launch_in_a_few_facts() -> None:
    assert facts_of(facts_blocks(read_profile(FLIP).launches[0])) == {
        "Grid": "256×1024",
        "Block": "32×8",
        "Waves per SM": "248.2",
        "Registers per thread": "16",
        "Shared memory per block": "0 B static, 0 B dynamic",
        "Occupancy": "100% theoretical, 74.78% achieved",
        "SM clock": "1.98 GHz",
        "DRAM clock": "3.20 GHz",
    }


def test_what_limits_the_occupancy_is_named() -> None:
    (launch, *_) = read_profile(sample_report("window_median")).launches
    assert "shared memory allow" in facts_of(facts_blocks(launch))["Occupancy"]


def test_what_the_report_lacks_is_left_out(profile_of: ProfileOf) -> None:
    """Ranges have no shape."""
    bare = facts_of(facts_blocks(profile_of("metrics_only.ncu-repz").launches[0]))
    assert bare["Occupancy"] == "100% theoretical"
    assert not {"SM clock", "DRAM clock"} & {*bare}
    blocks = [*facts_blocks(profile_of("range.ncu-rep").launches[0])]
    assert texts_of(blocks)[0] == "Range"
    assert {*facts_of(blocks)} <= {"SM clock", "DRAM clock"}


@each_row("name", ["range.ncu-rep", "graph.ncu-repz"])
def test_numbers_that_ranges_lack_are_not_requested(
    name: str, profile_of: ProfileOf, wording
) -> None:
    profile = profile_of(name)
    told = texts_of([capture_of(explain(profile, profile.launches, 5))])
    (samples,) = [text for text in told if text.startswith("warp samples: ")]
    assert "not collected" not in samples
    wording([text for text in told if text.startswith("machine code: ")], case=name)
