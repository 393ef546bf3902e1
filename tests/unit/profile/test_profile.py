"""Profiles: several devices, absence, and numbers by launch."""

import math
from pathlib import Path

import pytest

from keet.errors import MetricNotCollected
from keet.profile import Profile, Workload
from keet.report import read_profile
from tests import encode
from tests.conftest import CORPUS, REPORTS, Keet, needs_corpus
from tests.many_launches import Changed, copied
from tests.rows import each_row


def on_device(name: str, index: int, **metrics: object) -> encode.Kernel:
    attributes = {
        "display_name": name,
        "compute_capability_major": 9,
        "compute_capability_minor": 0,
        "multiprocessor_count": 132.0,  # a double in some versions of ncu
        "device_index": index,
    }
    found = {f"device__attribute_{key}": value for key, value in attributes.items()}
    return encode.Kernel("k", {**found, **metrics})  # type: ignore[arg-type]


@pytest.fixture
def two_gpus(tmp_path: Path) -> Path:
    kernels = [on_device("GPU A", 0), on_device("GPU B", 1), on_device("GPU A", 0)]
    path = tmp_path / "two.ncu-rep"
    path.write_bytes(encode.report(kernels))
    return path


def test_a_profile_may_have_several_gpus(two_gpus: Path, keet: Keet) -> None:
    profile = read_profile(two_gpus)
    assert [device.name for device in profile.devices] == ["GPU A", "GPU B"]
    assert [launch.device.index for launch in profile.launches] == [0, 1, 0]
    assert [launch.id for launch in profile.launches] == [0, 1, 2]
    assert {launch.workload for launch in profile.launches} == {Workload.KERNEL}
    with pytest.raises(ValueError, match="numbered from 0"):
        Profile(profile.launches[1:], profile.provenance)
    out = keet("show", two_gpus).out
    assert "GPU A (cc 9.0, 132 SMs), GPU B (cc 9.0, 132 SMs)" in out.replace("\n", " ")
    assert "several GPUs" in out


def test_a_metric_has_other_names_or_no_value_or_is_missing(two_gpus: Path, tmp_path: Path) -> None:
    """Blackwell calls the bytes read from DRAM something else. No value is not zero."""
    launch = read_profile(two_gpus).launches[1]
    assert launch.get("duration") is None
    with pytest.raises(MetricNotCollected, match=r"launch 1 .*--section SpeedOfLight"):
        launch.require("duration")
    with pytest.raises(KeyError):
        launch.get("a_metric_that_nobody_knows")
    path, metrics = tmp_path / "x.ncu-rep", {"gpu__time_duration.sum": None}
    path.write_bytes(
        encode.report([encode.Kernel("k", {**metrics, "dram__bytes_op_read.sum": 64.0})])
    )
    launch = read_profile(path).launches[0]
    metric = launch.metric("gpu__time_duration.sum")
    assert metric is not None
    assert metric.value is None
    assert launch.get("duration") is None
    assert launch.require("dram_bytes_read").to("Kbyte").value == pytest.approx(0.064)


def test_a_frame_has_units_and_missing_values(two_gpus: Path, profile_of) -> None:
    frame = profile_of("tour_full.ncu-repz").to_pandas(["duration", "dram_throughput_pct"])
    assert list(frame["duration"]) == [69344.0, 12256.0, 14688.0]
    assert frame.attrs["units"] == {"duration": "ns", "dram_throughput_pct": "%"}
    assert read_profile(two_gpus).to_pandas(["duration"])["duration"].isna().all()


@needs_corpus
@each_row("name, launch, grid", [
    ("skycs97__darknet--profile.nsight-cuprof-report", 0, (9216, 1, 1)),
    ("BrennenTaylor__Twisty--profile.nsight-cuprof-report", 1, (10, 1, 1)),
    ("chia7__ece408_project--analysis_file.ncu-rep", 1, (4, 9, 1)),
    ("lk-spec__CUDA-Convulutional-Layer--analysis_file.ncu-rep", 5, (10000, 4, 25)),
    ("thedavidchu__speedy_scan--profile.ncu-rep", 0, None),  # 2020.3: in blocks already
])  # fmt: skip
def test_grids_are_in_blocks(name: str, launch: int, grid: tuple[int, int, int] | None) -> None:
    """Up to ncu 2020.2 the file has them in threads."""
    found = read_profile(CORPUS / name).launches[launch]
    assert found.grid is not None
    count = found.metric("launch__grid_size")
    assert count is not None
    assert math.prod(found.grid) == count.value
    assert grid in (None, found.grid)


def test_is_printed_is_computed_once() -> None:
    """It is asked for each number of a text and each launch, which are released meanwhile."""
    asked = []

    class Counting(Changed):
        def metric_names(self) -> tuple[str, ...]:
            asked.append(1)
            return ("sm__cycles_active.avg",)

    launch = copied(read_profile(REPORTS / "tour_full.ncu-repz").launches[0], 0)
    launch.data = Counting(launch.data, {})  # type: ignore[assignment]
    for _ in range(3):
        assert not launch.is_printed
        launch.release()
    assert len(asked) == 1
