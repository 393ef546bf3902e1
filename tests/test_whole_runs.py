"""Programs made for it, profiled by `keet profile` on an H200 (tests/data/programs/runs): each thing
that single launches hide is seen in the stored files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from keet.ingest import read_profile
from tests.conftest import REPORTS, Keet

RUNS = REPORTS.parent / "runs"
WHERE = "tests/data/runs"


def report(name: str) -> Path:
    return Path(WHERE, f"{name}.ncu-repz")


@pytest.mark.parametrize("name", ["managed", "streams_together", "waits", "waits_range"])
def test_explain(name: str, keet: Keet, golden: Callable[[str, str], None]) -> None:
    golden(f"explain.runs.{name}.100.txt", keet("explain", report(name), width=100).out)


@pytest.mark.parametrize("name", ["growing", "waits"])
def test_show(name: str, keet: Keet, golden: Callable[[str, str], None]) -> None:
    golden(f"show.runs.{name}.100.txt", keet("show", report(name), width=100).out)


@pytest.mark.parametrize("pair", ["steps_many steps_one", "streams_serial streams_together"])
def test_diff(pair: str, keet: Keet, golden: Callable[[str, str], None]) -> None:
    before, after = map(report, pair.split())
    name = pair.replace(" ", ".")
    golden(f"diff.runs.{name}.100.txt", keet("diff", before, after, width=100).out)


def test_the_large_launches_that_come_later_are_profiled() -> None:
    profile = read_profile(RUNS / "growing.ncu-repz")
    assert profile.run is not None
    assert profile.in_run is not None
    (launch,) = profile.launches
    assert launch.grid == (65536, 1, 1)
    first = profile.run.launches[2]
    assert profile.run.kernels[first.kernel].short == "expand"
    assert first.ns < launch.rank_time / 1000
    position = profile.in_run.of(0)
    assert position is not None
    assert (position.launches, position.shapes) == (68, 17)


@pytest.mark.slow
def test_a_store_weights_launches_by_the_runs(keet: Keet, tmp_path: Path) -> None:
    """The kernel with 128 ms of a run leads; by single launches it would be `expand`."""
    assert keet("batch", WHERE, "-o", tmp_path / "store", "--jobs", 1).code == 0
    top = json.loads(keet("top", tmp_path / "store", "--format", "json").out)
    assert top["opportunities"][0]["kernel"] == "scale_part"


@pytest.mark.parametrize("name", ["managed", "streams_together", "waits", "growing"])
@pytest.mark.slow
def test_verify_does_not_contradict_explain_about_a_run(name: str, keet: Keet, tmp_path) -> None:
    for form in ("terminal", "markdown"):
        said = tmp_path / "said.txt"
        keet("explain", report(name), "--no-model", "--format", form, "-o", said)
        assert keet("verify", said, "--report", report(name)).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reason"), [("managed", "managed_or_host_memory"), ("streams_together", "concurrency")]
)
def test_the_first_reason_of_a_gap(name: str, reason: str, keet: Keet) -> None:
    told = json.loads(keet("explain", report(name), "--no-model", "--format", "json").out)
    first = told["launches"][0]["replay"]["reasons"][0]
    assert (first["id"], first["status"]) == (reason, "likely")


@pytest.mark.slow
def test_without_tables_fused_launches_get_no_speedup(keet: Keet, tmp_path: Path) -> None:
    """A single launch takes 22 times as long, and the program is 8 times faster."""
    alone = [shutil.copy(report(name), tmp_path) for name in ("steps_many", "steps_one")]
    for force in ([], ["--force"]):
        done = json.loads(keet("diff", *alone, *force, "--format", "json").out or "{}")
        assert done.get("verdict", {"speedup": None})["speedup"] is None
