"""Commands on reports with many launches: each launch is decoded a few times, then released."""

import gc
import tracemalloc
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from keet.profile import run_link
from keet.report import read_profile
from keet.report.ncu_rep import reader
from keet.report.ncu_rep.decoded_launch import DecodedLaunch
from tests.conftest import Keet
from tests.giant_reports import write_giant
from tests.rows import each_row

LAUNCHES, MOST_DECODED = 200, 100


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More launches than are kept here: 14 kB each."""
    path = tmp_path_factory.mktemp("giant") / "many.ncu-rep"
    assert write_giant(path, launches=LAUNCHES, kernels=12) == LAUNCHES
    return path


@pytest.mark.slow
def test_an_undecoded_launch_takes_about_a_kilobyte(many: Path) -> None:
    """Of reports on disk: what is in memory has its bytes, too."""
    read_profile(many)  # what is loaded once is loaded
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("keet.report.LARGE", 1000)
            profile = read_profile(many)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    fixed = 100_000  # names of metrics, the session
    assert held - fixed < 1024 * len(profile)


@pytest.mark.slow
@each_row("command, times", [
    ("show", 1),
    ("show --format json", 2),
    ("metrics --format csv", 1),
    ("metrics --format json", 1),
    ("hotspots --no-sass", 3),
    ("hotspots --no-sass --format csv", 1),
    ("snapshot -o -", 1),
])  # fmt: skip
def test_each_command_decodes_each_launch_a_few_times_only(
    command: str, times: int, many: Path, keet: Keet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the cost is linear in launches, and stays what it is."""
    monkeypatch.setattr(reader, "_KEPT_BYTES", 100_000)
    monkeypatch.setattr(run_link, "MAX_DECODED", MOST_DECODED)
    name, *options = command.split()
    made: dict[str, Any] = {"autospec": True, "side_effect": DecodedLaunch.__init__}
    with mock.patch.object(DecodedLaunch, "__init__", **made) as decoded:
        assert keet(name, many, *options).code == 0
    shown = 40
    assert LAUNCHES <= decoded.call_count <= times * LAUNCHES + 2 * shown
