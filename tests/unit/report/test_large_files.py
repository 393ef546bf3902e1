"""Reports that stay on disk give the same data as reports in memory."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.errors import DamagedReport, IngestError, UnreadableFile
from keet.files import STDIN
from keet.profile import Absent, Profile
from keet.report import disassembler, read_profile
from keet.report.disassembler import partial_report
from keet.report.input import files
from keet.report.input.files import DiskBytes, ForwardBytes, HeldBytes, SizedCache
from keet.report.input.zstd import zstd
from keet.report.ncu_rep import container, reader
from keet.report.ncu_rep.reader import FileLaunch
from keet.report.ncu_rep.report_file import NcuRepFile
from keet.report.snapshot import snapshot_text
from tests import encode
from tests.conftest import REPORTS
from tests.giant_reports import write_giant
from tests.kept_reports import unpacked
from tests.many_launches import DURATION
from tests.rows import each_row
from tests.unit.report.test_disassembler import needs_reader


def let_all_be_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("keet.report", "keet.report.input.files"):
        monkeypatch.setattr(f"{module}.LARGE", 100)


all_are_large = pytest.fixture(let_all_be_large)


def report_of(profile: Profile) -> Any:
    data = profile.launches[0].data
    assert isinstance(data, FileLaunch)
    return data._report


def source_of(profile: Profile) -> object:
    return report_of(profile).file.source


def text_of(profile: Profile) -> str:
    return "".join(snapshot_text(profile))


@each_row("name", ["graph.ncu-repz", "range.ncu-rep", "nvtx.ncu-repz"])
def test_a_report_on_disk_or_standard_input_gives_the_same_as_in_memory(name: str) -> None:
    in_memory = read_profile(REPORTS / name)
    assert isinstance(source_of(in_memory), HeldBytes)
    with pytest.MonkeyPatch.context() as patch:
        let_all_be_large(patch)
        on_disk = read_profile(REPORTS / name)
        given = io.TextIOWrapper(io.BytesIO((REPORTS / name).read_bytes()))
        patch.setattr(sys, "stdin", given)
        piped = read_profile(STDIN)
    for profile in (on_disk, piped):
        assert isinstance(source_of(profile), DiskBytes)
        assert profile.provenance.sha256 == in_memory.provenance.sha256
    assert text_of(on_disk) == text_of(in_memory)
    assert [x.rank_time for x in piped] == [x.rank_time for x in in_memory]


def test_a_temporary_file_has_no_name_and_a_full_disk_is_reported(
    all_are_large: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    profile = read_profile(REPORTS / "nvtx.ncu-repz")
    assert list(tmp_path.iterdir()) == []
    assert profile.launches[0].metric_names()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(UnreadableFile, match=r"can't be written to a temporary file.*TMPDIR"):
        read_profile(REPORTS / "nvtx.ncu-repz")


@pytest.fixture
def copied(tmp_path: Path, all_are_large: None) -> Path:
    path = tmp_path / "report.ncu-rep"
    path.write_bytes(unpacked(REPORTS / "tour_basic.ncu-repz"))
    return path


@pytest.mark.parametrize("shrinks", [True, False])
def test_a_file_that_changes_later_raises(shrinks: bool, copied: Path) -> None:
    """With mmap, one that shrinks would kill the process."""
    profile = read_profile(copied)
    if shrinks:
        os.truncate(copied, 1000)
    else:
        copied.write_bytes(copied.read_bytes()[:-1] + b"x")
        os.utime(copied, ns=(1, 1))
    with pytest.raises(DamagedReport, match="changed while it was read"):
        profile.launches[3].metric_names()


def test_a_replaced_file_is_still_read_and_a_later_read_error_raises(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = read_profile(copied)
    other = copied.with_name("other")
    other.write_bytes(b"another report")
    other.replace(copied)
    assert profile.launches[3].rank_time > 0
    fail = Mock(side_effect=OSError(5, "Input/output error"))
    monkeypatch.setattr(files, "_read_at", fail)
    with pytest.raises(UnreadableFile, match="input/output error"):
        profile.launches[2].metric_names()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_the_descriptor_is_closed_with_the_profile(copied: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    profile = read_profile(copied)
    assert count() == before + 1
    del profile
    assert count() == before


def test_short_reads_are_continued_and_pread_is_not_needed(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows."""
    whole = text_of(read_profile(copied))
    short = lambda fd, count, at: os.pread(fd, min(count, 700), at)  # noqa: E731
    for read in (short, files._seek_and_read):
        monkeypatch.setattr(files, "_read_at", read)
        assert text_of(read_profile(copied)) == whole


# --- what is kept of launches


def test_opening_decodes_no_launch_and_a_released_one_is_decoded_again() -> None:
    profile = read_profile(REPORTS / "tour_basic.ncu-repz")
    assert profile.launches[0].kernel == "transpose_rows"
    assert profile.launches[0].grid == (64, 256, 1)
    assert list(report_of(profile).kept) == []
    launch = profile.launches[1]
    before = launch.data.metric(DURATION), launch.rules, launch.stream
    assert list(report_of(profile).kept) == [1]
    launch.release()
    assert list(report_of(profile).kept) == []
    assert (launch.data.metric(DURATION), launch.rules, launch.stream) == before


@pytest.mark.parametrize(("limit", "kept"), [(120_000, [2, 3]), (10, [3])])
def test_the_most_recent_launches_stay_decoded(
    limit: int, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bytes: 100 kB are one launch of 54 kB. One that is larger than the limit stays."""
    monkeypatch.setattr(reader, "_KEPT_BYTES", limit)
    profile = read_profile(REPORTS / "tour_basic.ncu-repz")
    assert all(launch.metric_names() for launch in profile)
    assert list(report_of(profile).kept) == kept


def test_entries_used_least_recently_and_too_large_ones_are_not_kept() -> None:
    kept: SizedCache[str] = SizedCache(10)
    kept.put("a", "A", 4)
    kept.put("b", "B", 4)
    assert kept.get("a") == "A"
    kept.put("c", "C", 4)
    assert [kept.get(key) for key in "abc"] == ["A", None, "C"]
    assert kept.put("d", "D", 11) == "D"
    assert [kept.get(key) for key in "abcd"] == ["A", None, "C", None]
    for number in range(100):
        kept.put(str(number), "", 5)
    assert [number for number in range(100) if kept.get(str(number)) is not None] == [98, 99]


# --- parts of a large report


def file_of(path: Path) -> NcuRepFile:
    source = DiskBytes(os.open(path, os.O_RDONLY), path)
    return NcuRepFile(path, source, container.read_blocks(source, path))


def test_a_partial_report_has_the_requested_launches(tmp_path: Path) -> None:
    path = tmp_path / "many.ncu-rep"
    write_giant(path, launches=300, kernels=8)
    part = partial_report(file_of(path), [150, 299], [])
    assert len(part.data) < path.stat().st_size / 20
    small = tmp_path / "part.ncu-rep"
    small.write_bytes(part.data)
    whole, some = read_profile(path), read_profile(small)
    for number, place in part.numbers.items():
        assert some.launches[place].rank_time == whole.launches[number].rank_time
        assert some.launches[place].name == whole.launches[number].name


@needs_reader
@pytest.mark.slow
def test_the_code_of_a_partial_report_equals_that_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_are_large: None
) -> None:
    """The child gets a part of the file, and its answer is the same as for the whole file."""
    asked = Mock(side_effect=disassembler._start)
    monkeypatch.setattr(disassembler, "_start", asked)
    monkeypatch.setenv("KEET_CODE_CACHE", "0")
    path = tmp_path / "many.ncu-rep"
    write_giant(path, launches=24, kernels=4, kind="full")
    large = read_profile(path)
    found = large.launches[13].disassembly
    (call,) = asked.call_args_list
    assert len(call.args[0]) < path.stat().st_size / 5
    assert found
    assert not isinstance(found, Absent)
    assert found == disassembler.Disassembly(path.read_bytes(), {13: list(found)}).texts()[13]


# --- bounds


def test_too_many_tiny_launches_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would take more memory than it has bytes."""
    path = tmp_path / "tiny.ncu-rep"
    path.write_bytes(encode.report([encode.Kernel()] * 50))
    assert len(read_profile(path)) == 50
    monkeypatch.setattr("keet.report.ncu_rep.report_file._MANY", 40)
    with pytest.raises(DamagedReport, match="50 launches in"):
        read_profile(path)


def test_a_name_after_the_metrics_and_a_long_one_are_found(tmp_path: Path) -> None:
    """ncu writes it first; the format allows any order."""
    entry = encode.chunk(13, b"") + encode.chunk(5, "_Zlate") + encode.chunk(7, "late(int)")
    session = encode.chunk(3, encode.number(2, 1_700_000_000))
    late = b"NVR\0" + encode.sized(encode.number(1, 7)) + encode.block({2: [entry]}, session)
    names = []
    for data in (late, encode.report([encode.Kernel(name="k" * 9000)])):
        (tmp_path / "r.ncu-rep").write_bytes(data)
        names.append(read_profile(tmp_path / "r.ncu-rep").launches[0].name)
    assert names[0].demangled == "late(int)"
    assert len(names[1].mangled) > 4000


@given(st.data())
def test_forward_bytes_reads_pieces_in_order(data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=300))
    source = ForwardBytes(io.BytesIO(content), len(content))
    start = 0
    while start < len(content):
        start = data.draw(st.integers(start, len(content)))
        stop = data.draw(st.integers(start, len(content)))
        piece, at = source.piece(start, stop)
        assert piece[at : at + stop - start] == content[start:stop]
        start += data.draw(st.integers(1, 40))


def test_compressed_zeros_are_refused_before_they_fill_the_disk(
    tmp_path: Path, all_are_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "zeros.ncu-repz"
    path.write_bytes(zstd.compress((REPORTS / "range.ncu-rep").read_bytes() + bytes(1_000_000)))
    refuse = Mock(side_effect=AssertionError("nothing is written to disk"))
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(IngestError, match="there is no block"):
        read_profile(path)
