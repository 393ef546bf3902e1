"""The container: damaged reports are detected, byte by byte."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.errors import DamagedReport, EmptyReport, IngestError, UnsupportedVersion
from keet.report import read_profile
from keet.report.ncu_rep.container import blocks_of, read_blocks
from keet.report.ncu_rep.reader import Report
from keet.report.protobuf import Malformed
from keet.safe_text import bounded_line
from tests import encode
from tests.conftest import REPORTS
from tests.kept_reports import unpacked
from tests.rows import each_row

SMALL = encode.report([encode.Kernel("a", {"gpu__time_duration.sum": 5.0})])
REAL = (REPORTS / "range.ncu-rep").read_bytes()


def write(folder: Path, data: bytes) -> Path:
    path = folder / "report.ncu-rep"
    path.write_bytes(data)
    return path


def test_a_report_cut_anywhere_is_refused_or_ends_at_a_block(tmp_path: Path) -> None:
    """It ends where a block ends and says no launch."""
    for length in range(len(SMALL)):
        path = write(tmp_path, SMALL[:length])
        with pytest.raises(IngestError) as caught:
            read_profile(path)
        assert caught.value.exit_code == 4
        assert str(path) in str(caught.value)


@each_row("share", [0.001, 0.5, 0.999])
def test_a_real_report_cut_short(share: float, tmp_path: Path) -> None:
    data = unpacked(REPORTS / "tour_full.ncu-repz")
    with pytest.raises(DamagedReport, match="cut short"):
        read_profile(write(tmp_path, data[: int(len(data) * share)]))


@each_row("data, error, says", [
    (encode.report([encode.Kernel()], version=8), UnsupportedVersion, "version 8.*update keet"),
    (encode.report([]), EmptyReport, "no launch"),
    *((SMALL + t, DamagedReport, None) for t in (b"\0", b"\0" * 4096, b"garbage", REAL[:50])),
])  # fmt: skip
def test_other_containers_are_refused(
    data: bytes, error: type[Exception], says: str | None, tmp_path: Path
) -> None:
    """A newer one, one without launches, and bytes after the last block."""
    with pytest.raises(error, match=says):
        read_profile(write(tmp_path, data))


def test_a_large_sparse_file_is_refused_quickly() -> None:
    """A sparse file of 3 GB must not be read byte by byte."""

    class Sparse:
        size = 3 << 30
        reads = 0

        def piece(self, start: int, stop: int) -> tuple[bytes, int]:
            self.reads += 1
            return SMALL[start:stop].ljust(stop - start, b"\0"), 0

    file = Sparse()
    with pytest.raises(DamagedReport, match="no block"):
        read_blocks(file, Path("sparse"))
    assert file.reads < 50


@settings(max_examples=60)
@given(st.integers(0, len(REAL) - 1), st.integers(1, 255))
@pytest.mark.slow
def test_a_changed_byte_gives_a_readable_launch_or_an_error(position: int, change: int) -> None:
    """Whatever byte is wrong: a launch with all its parts, or an error that names the file."""
    data = bytearray(REAL)
    data[position] ^= change
    with suppress(IngestError, Malformed):
        blocks = blocks_of(bytes(data), Path("x.ncu-rep"))
        for launch in Report(Path("x.ncu-rep"), bytes(data), blocks).launches():
            touch(launch)


def touch(launch) -> None:
    """Read all of a launch."""
    for name in launch.metric_names():
        launch.metric(name)
        launch.instances(name)
    parts = ("device", "rules", "markers", "nvtx", "sections", "source_files")
    assert all(getattr(launch, part) is not None for part in parts)


values = st.integers(0, 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=20) | st.none()
characters = st.characters(codec="utf-8", exclude_characters="\0")
metric_names = st.text(characters, min_size=1, max_size=20)
pairs = st.lists(st.tuples(st.integers(0, 2**64 - 1), values), min_size=1, max_size=5)
kernels = st.builds(
    encode.Kernel,
    name=st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    metrics=st.dictionaries(metric_names, values, max_size=8),
    instances=st.dictionaries(metric_names, pairs, max_size=3),
)


@settings(max_examples=40)
@given(st.lists(kernels, min_size=1, max_size=4))
@pytest.mark.slow
def test_written_reports_are_read_back(kernels: list[encode.Kernel]) -> None:
    data = encode.report(kernels)
    launches = Report(Path("x"), data, blocks_of(data, Path("x"))).launches()
    for launch, kernel in zip(launches, kernels, strict=True):
        assert launch.name.function == as_read(kernel.name)
        names = {*kernel.metrics, *kernel.instances}
        assert set(launch.metric_names()) == set(map(as_read, names))
        for name, value in kernel.metrics.items():
            assert launch.metric(as_read(name)).value == as_read(value)
        for name, parts in kernel.instances.items():
            expected = [tuple(map(as_read, pair)) for pair in parts]
            assert list(launch.instances(as_read(name)).pairs()) == expected


def as_read(value: encode.Scalar) -> encode.Scalar:
    """Texts are read as one line, with control characters shown as escapes."""
    return bounded_line(value.rstrip("\0")) if isinstance(value, str) else value
