"""What the machine code adds to explanations, and how to switch it off."""

import json
from pathlib import Path

import pytest

from tests.conftest import Keet

STREAMS = Path("evals/sass/streams/streams.keet.json.zst")
HEALTHY = Path("kernels_samples/field_axpy/fast.ncu-repz")
UNEVEN = Path("kernels_samples/sparse_apply/slow.ncu-repz")


def launch_of(keet: Keet, report: Path, *options: str) -> dict:
    told = keet("explain", report, "--no-model", "--format", "json", *options)
    return json.loads(told.out)["launches"][0]


@pytest.mark.slow
def test_reading_the_same_bytes_again_is_a_finding(keet: Keet) -> None:
    """Three passes over rows of 1 MB: DRAM reads 805 MB for 268 MB."""
    launch = launch_of(keet, STREAMS, "--launch", "0")
    first = launch["findings"][0]
    assert first["id"] == "redundant_traffic"
    assert launch["machine_code"] == "analysed"
    factors = [launch["evidence"][each]["value"] for each in first["evidence"]]
    assert any(value == pytest.approx(3.0, rel=0.02) for value in factors)
    assert {place["line"] for place in first["locations"]}


def test_reading_every_byte_once_is_said_only_with_a_bound(keet: Keet, wording) -> None:
    wording(launch_of(keet, HEALTHY)["verdict"]["headline"])
    without = launch_of(keet, HEALTHY, "--no-sass")["verdict"]["headline"]
    assert "once" not in without


def test_the_line_to_change_comes_first(keet: Keet) -> None:
    """The loop whose length differs between warps, before the line where they wait."""
    text = "k < end"
    lines = (UNEVEN.parent / "slow.cu").read_text(encoding="utf-8").splitlines()
    loop = next(number for number, line in enumerate(lines, 1) if text in line)
    first, without = (
        launch_of(keet, UNEVEN, *options)["findings"][0] for options in ((), ("--no-sass",))
    )
    assert first["id"] == without["id"] == "load_imbalance"
    assert first["locations"][0]["line"] == loop
    assert loop not in [place["line"] for place in without["locations"]]


@pytest.mark.slow
def test_the_code_of_the_longest_launches_is_analysed_and_explain_says_so(keet: Keet) -> None:
    told = keet("explain", STREAMS, "--no-model", "--launch", "0-11", width=120)
    assert "was not analysed" in " ".join(told.out.split())
    states = [
        launch["machine_code"]
        for launch in json.loads(
            keet("explain", STREAMS, "--no-model", "--launch", "0-11", "--format", "json").out
        )["launches"]
    ]
    assert states.count("off") == 4


@pytest.mark.parametrize(("options", "expected"), [([], {"off"}), (["--sass"], {"analysed"})])
@pytest.mark.slow
def test_batch_analyses_machine_code_on_request(
    keet: Keet, tmp_path: Path, options: list[str], expected: set[str]
) -> None:
    report = tmp_path / "in" / HEALTHY.name
    report.parent.mkdir()
    report.symlink_to(HEALTHY.absolute())
    assert keet("batch", report.parent, "-o", tmp_path / "out", "--jobs", "1", *options).code == 0
    asked = keet("query", tmp_path / "out", "SELECT explanation FROM launches", "--format", "json")
    rows = json.loads(asked.out)["rows"]
    found = {json.loads(next(iter(row.values() if isinstance(row, dict) else row)))["machine_code"]
             for row in rows}  # fmt: skip
    assert found == expected
