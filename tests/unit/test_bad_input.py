"""Unreadable input gives one line with the problem and what to do, and the right exit code."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests import encode
from tests.conftest import REPORTS, Keet, corpus_files, needs_corpus
from tests.rows import each_row

COMMANDS = ["show", "metrics", "hotspots", "snapshot"]


def assert_refused(result, path: object, *says: str, code: int = 4) -> None:
    assert result.code == code, result
    assert result.out == ""
    lines = result.err.splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith(f"keet: {path}: ")
    assert "; " in lines[0], "what to do is missing"
    for text in says:
        assert text in lines[0]


@pytest.fixture
def bad(tmp_path: Path):
    def write(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_file_is_refused(command: str, keet: Keet) -> None:
    assert_refused(keet(command, "/no/such.ncu-rep"), "/no/such.ncu-rep", "no such file")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_is_refused(command: str, keet: Keet, tmp_path: Path) -> None:
    assert_refused(keet(command, tmp_path), tmp_path, "directory")


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("empty.ncu-rep", b"", "empty"),
        ("empty.keet.json", b"", "empty"),
        ("random.ncu-rep", bytes(range(256)) * 40, "not an Nsight Compute report"),
        ("text.ncu-rep", b"hello world\n", "text file"),
        ("notes.csv", b"a,b\n1,2\n", "no ncu table"),
        ("zeros.ncu-rep", bytes(10_000), "not an Nsight Compute report"),
        ("magic.ncu-rep", b"NVR\0", "cut short"),
        ("latin1.csv", "naïve".encode("latin-1"), "not an Nsight Compute report"),
        ("other.json", b'{"a": 1}', "not a keet snapshot"),
        ("pointer.ncu-rep", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("packed.ncu-rep", b"\x1f\x8b\x08rest", "gunzip"),
        ("trace.nsys-rep", b"QDSTRM rest", "Nsight Systems"),
        ("trace.sqlite", b"SQLite format 3\0rest", "Nsight Systems"),
        ("cut.ncu-repz", b"\x28\xb5\x2f\xfd\x04", "cut short"),
        ("bad.ncu-repz", b"\x28\xb5\x2f\xfd" + b"\xff" * 100, "damaged"),
        ("new.ncu-rep", encode.report([encode.Kernel()], version=9), "update keet"),
        ("none.ncu-rep", encode.report([]), "no launch"),
    ],
)
def test_other_files_are_refused(name: str, data: bytes, says: str, keet: Keet, bad) -> None:
    path = bad(name, data)
    assert_refused(keet("show", path), path, says)


@pytest.mark.parametrize("name", ["a b.ncu-rep", "π-größe.ncu-rep", "quote'\".ncu-rep"])
def test_unusual_file_names_are_printed_safely(name: str, keet: Keet, bad) -> None:
    path = bad(name, (REPORTS / "range.ncu-rep").read_bytes())
    assert keet("show", path).code == 0
    path = bad(name, b"hello")
    assert_refused(keet("show", path), path)


def test_a_name_with_a_newline_stays_on_one_line(keet: Keet, bad) -> None:
    path = bad("two\nlines\x1b[31m.ncu-rep", b"hello")
    result = keet("show", path)
    assert result.code == 4
    assert len(result.err.splitlines()) == 1
    assert "\x1b" not in result.err


def test_a_pipe_does_not_hang(keet: Keet, tmp_path: Path) -> None:
    path = tmp_path / "pipe.ncu-rep"
    os.mkfifo(path)
    assert_refused(keet("show", path), path, "pipe")


def test_sockets_and_devices_are_refused(keet: Keet, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert_refused(keet("show", path), path, "socket")
    assert_refused(keet("show", "/dev/zero"), "/dev/zero", "device")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_refused(keet: Keet, bad) -> None:
    path = bad("secret.ncu-rep", b"NVR\0")
    path.chmod(0)
    assert_refused(keet("show", path), path, "permission")


def test_an_unreadable_file_is_refused_as_root_too(
    keet: Keet, bad, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read everything, so the error is simulated."""
    path = bad("secret.ncu-rep", b"NVR\0")

    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("keet.ingest.input.files.os.open", refuse)
    assert_refused(keet("show", path), path, "permission denied")


def test_broken_links_are_refused(keet: Keet, tmp_path: Path) -> None:
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "gone")
    assert_refused(keet("show", dangling), dangling, "no such file")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert_refused(keet("show", loop), loop)


def test_a_large_sparse_file_is_refused(keet: Keet, tmp_path: Path) -> None:
    path = tmp_path / "giant.ncu-rep"
    with path.open("wb") as file:
        file.write((REPORTS / "range.ncu-rep").read_bytes())
        file.truncate(1 << 30)
    assert_refused(keet("show", path), path, "damaged")
    with path.open("r+b") as file:
        file.truncate(9 << 30)
    assert_refused(keet("show", path), path, "damaged")
    assert stat.S_ISREG(path.stat().st_mode)


def test_a_decompression_bomb_is_refused(keet: Keet, bad) -> None:
    from keet.ingest.input.zstd import zstd

    path = bad("bomb.ncu-repz", zstd.compress(b"NVR\0" + bytes(200 << 20), 3))
    assert path.stat().st_size < 100_000
    assert_refused(keet("show", path), path, "unpacks to more than")


def test_the_format_is_recognised_by_content_not_by_name(keet: Keet, bad) -> None:
    plain = bad("plain.ncu-repz", (REPORTS / "range.ncu-rep").read_bytes())
    packed = bad("packed.ncu-rep", (REPORTS / "zoo.ncu-repz").read_bytes())
    assert keet("show", plain).code == 0
    assert keet("show", packed).code == 0


@needs_corpus
@each_row("path", corpus_files(), ids=lambda path: path.name[:40], few=3, may_be_empty=True)
def test_every_public_file_is_read_or_refused(path: Path, keet: Keet) -> None:
    result = keet("show", path)
    assert result.code == 0, result.err
    assert keet("metrics", path).code == 0
    assert keet("hotspots", path, "--by", "line").code == 0


def run_program(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "keet", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


def test_the_program_exits_with_the_documented_code(wording) -> None:
    done = run_program("show", "/no/such.ncu-rep")
    assert (done.returncode, done.stdout) == (4, "")
    wording(done.stderr)


@pytest.mark.slow
def test_a_closed_pipe_is_no_error() -> None:
    """`keet metrics REPORT --all | head -1`"""
    command = f"{sys.executable} -m keet metrics {REPORTS / 'tour_full.ncu-repz'} --all | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout
    assert done.stderr == ""


def test_a_full_disk_is_reported() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "keet", "show", str(REPORTS / "range.ncu-rep")]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "no space left" in done.stderr.lower()


DETAILS = (
    '"ID","Kernel Name","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    '"0","k","(1, 1, 1)","S","Duration","us","{}"\n'
)
RAW = '"ID","Kernel Name","a__b"\n"","","us"\n"0","k","{}"\n'


@pytest.mark.parametrize("table", [DETAILS, RAW])
@pytest.mark.parametrize("cell", ["1" * (9 << 20), '","' * (3 << 20)], ids=["digits", "cells"])
def test_an_export_with_a_giant_row_is_refused(table: str, cell: str, keet: Keet, bad) -> None:
    """A row of 200 MB took 2 GB of memory."""
    path = bad("giant.csv", table.format(cell).encode())
    assert_refused(keet("show", path), path, "a line has more than 4 MB")


def test_an_export_that_is_too_large_is_refused_unread(keet: Keet, bad) -> None:
    path = bad("giant.csv", DETAILS.format("1").encode() * 100)
    os.truncate(path, 65 << 20)
    assert_refused(keet("show", path), path, "68 MB of text, and keet reads at most 67 MB")


def test_an_export_with_too_many_launches_is_refused(keet: Keet, bad, monkeypatch) -> None:
    monkeypatch.setattr("keet.ingest.printed.details_page.MOST_LAUNCHES", 3)
    launch = "  k (1, 1, 1)x(1, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n    Section: S\n"
    details = DETAILS.format("1")
    for text in (
        details
        + "".join(details.splitlines()[1].replace('"0"', f'"{n}"', 1) + "\n" for n in range(1, 5)),
        RAW.format("1") + '"1","k","1"\n' * 4,
        launch * 5,
    ):
        path = bad("many.csv", text.encode())
        assert_refused(keet("show", path), path, "more than 3 launches")
