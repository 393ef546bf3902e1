"""Every command on pages that ncu printed: it says what is missing, and does not guess."""

from pathlib import Path

import pytest

from tests.conftest import REPORTS, Keet
from tests.printed_pages import Advice, Cell, Shown, csv_page, text_page
from tests.unit.report.test_details_page import TABLES, launches_and_page

LAUNCHES = 3
"""Of the report's four: the table has the first ones."""
TABLE = next(path for path in TABLES if path.name == "tour_basic.csv.xz")


@pytest.fixture(scope="module", params=["csv", "txt"])
def page(request, tmp_path_factory) -> Path:
    """The details page of tour_basic.ncu-repz."""
    _, shown = launches_and_page(TABLE)
    path = tmp_path_factory.mktemp("pages") / f"page.{request.param}"
    write = csv_page if request.param == "csv" else text_page
    path.write_text(write(shown), encoding="utf-8")
    return path


def test_show_says_what_is_missing_and_how_to_capture_it(page: Path, keet: Keet) -> None:
    shown = keet("show", page)
    assert shown.code == 0
    assert "two decimals" in " ".join(shown.out.split())
    assert "Missing" in shown.out
    assert "ncu --section SpeedOfLight" in shown.out
    document = keet("show", page, "--format", "json").json
    assert document["report"]["format"] == ("ncu-csv" if page.suffix == ".csv" else "ncu-text")


def test_explain_names_what_is_unknown(page: Path, keet: Keet) -> None:
    options = ("--format", "json", "--all", "--no-sass")
    told = keet("explain", page, *options).json
    same = keet("explain", REPORTS / "tour_basic.ncu-repz", *options).json
    for ours, theirs in zip(told["launches"], same["launches"]):
        assert ours["verdict"]["headline"]
        assert ours["duration"]["value"] == pytest.approx(theirs["duration"]["value"], rel=1e-3)
        assert ours["skipped"]
    assert len(told["launches"]) == LAUNCHES
    assert told["grounding"]["unchecked"] == []


QUOTED = "This kernel launch results in 1 full waves and a partial wave of 40 thread blocks."


@pytest.mark.parametrize(
    ("command", "first"),
    [(["explain"], "1. "), (["explain", "--format", "markdown"], "#### 1. "), (["context"], "1. ")],
)
def test_ncus_rule_comes_before_uncertain_causes(
    tmp_path: Path, keet: Keet, command: list[str], first: str
) -> None:
    rule = Advice("LaunchStats", "LaunchConfiguration", "OPT", QUOTED, "global", "50")
    of_light, page = "GPU Speed Of Light Throughput", tmp_path / "page.csv"
    cells = [
        Cell(of_light, "Compute (SM) Throughput", "%", "24.00"),
        Cell(of_light, "DRAM Throughput", "%", "20.00"),
        Cell(of_light, "Duration", "ns", "406,200"),
    ]
    page.write_text(csv_page([Shown("k()", cells, advice=[rule])]), encoding="utf-8")
    told = " ".join(keet(*command, page).out.split())
    assert told.count(QUOTED) == 1
    assert f'gain of 50% of the time and reports: "{QUOTED}' in told
    assert told.index(QUOTED) < told.index(f"{first}Exposed latency")


def test_rounding_of_a_page_does_not_refute_a_text_about_the_report(page, keet, tmp_path) -> None:
    """The page has 76.26 %, the report more digits. A wrong number is told all the same."""
    from keet.report import read_profile

    launch = read_profile(REPORTS / "tour_basic.ncu-repz").launches[0]
    memory = launch.require("memory_throughput_pct").value
    text = tmp_path / "text.md"
    text.write_text(f"The memory throughput of launch 0 is {memory:.5f} %.\n")
    assert keet("verify", text, "--report", page).code == 0
    text.write_text(f"The memory throughput of launch 0 is {memory + 0.1:.5f} %.\n")
    assert keet("verify", text, "--report", page).code == 1


@pytest.mark.slow
def test_other_commands_read_a_page(page: Path, keet: Keet, tmp_path: Path) -> None:
    for command in ("roofline", "hotspots", "context"):
        assert keet(command, page).out, command
    same = ("diff", REPORTS / "tour_basic.ncu-repz", page, "--launch", "0:0", "--format", "json")
    assert keet(*same).json["verdict"]["word"] == "unchanged"
    snapshot, store = tmp_path / "page.keet.json", tmp_path / "store"
    assert keet("snapshot", page, "-o", snapshot).code == 0
    listed = keet("metrics", page, "--all", "--format", "csv").out
    assert "SM: Issue Active" in listed
    assert keet("metrics", snapshot, "--all", "--format", "csv").out == listed
    assert keet("batch", page, "-o", store, "--jobs", "1").code == 0
    counted = keet("query", store, "SELECT count(*) AS n FROM launches", "--format", "csv").out
    assert counted.split() == ["n", str(LAUNCHES)]
