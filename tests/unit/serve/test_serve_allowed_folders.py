"""Nothing outside the folders of the server can be read, whatever way it is named."""

import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keet_tools.calls import ToolCall

from keet.errors import UsageError
from keet.serve.reports import AllowedFolders, ReportCache
from tests.conftest import REPORTS

REFUSED = "no such report in the folders of this server"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`in/` is served; `out/` has a report, and links in `in/` lead to it."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    for place in (inside / "a.ncu-rep", outside / "b.ncu-rep", tmp_path / "inner.ncu-rep"):
        shutil.copy(REPORTS / "range.ncu-rep", place)
    (inside / "link.ncu-rep").symlink_to(outside / "b.ncu-rep")
    (inside / "dir").symlink_to(outside)
    (inside / "loop").symlink_to(inside / "loop")
    (inside / "good.ncu-rep").symlink_to(inside / "a.ncu-rep")
    os.mkfifo(inside / "pipe.ncu-rep")
    return inside


def test_a_report_is_found_by_its_relative_and_absolute_name(folder: Path) -> None:
    roots = AllowedFolders([folder])
    real = folder.resolve() / "a.ncu-rep"
    names = ("a.ncu-rep", "./a.ncu-rep", "x/../a.ncu-rep", str(real), "good.ncu-rep")
    assert {roots.report(name) for name in names} == {real}
    assert roots.name_of(real) == "a.ncu-rep"


def test_outside_and_missing_files_get_the_same_error(folder: Path, monkeypatch) -> None:
    """A file that is there and one that is not can't be told apart."""
    roots = AllowedFolders([folder])
    monkeypatch.chdir(folder)  # the path of a socket has at most 108 characters
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.ncu-rep")
    names = [
        "../out/b.ncu-rep", "../out/missing.ncu-rep", "../inner.ncu-rep",
        str(folder.parent / "out" / "b.ncu-rep"), str(folder.parent / "in2" / "b.ncu-rep"),
        "link.ncu-rep", "dir/b.ncu-rep", "loop", "missing.ncu-rep", "", ".", "A.NCU-REP",
        "a.ncu-rep\0", "\ud800", "x" * 5_000, "/etc/passwd", "/dev/zero", "/dev/stdin",
        "/proc/self/environ", f"/proc/self/root{folder.parent}/out/b.ncu-rep",
        f"/proc/{os.getpid()}/cwd/../out/b.ncu-rep", "~/a.ncu-rep", "pipe.ncu-rep",
        "socket.ncu-rep", "file://a.ncu-rep",
    ]  # fmt: skip
    if os.path.exists(folder / "A.NCU-REP"):  # noqa: PTH110 - a disk that ignores case
        names.remove("A.NCU-REP")
    said = set()
    for name in names:
        with pytest.raises(UsageError) as refused:
            roots.report(name)
        message = str(refused.value)
        assert REFUSED in message, name
        assert "\n" not in message
        assert len(message) < 400
        said.add(message[message.index(": no such report") :])
    assert len(said) == 1


@given(st.text(max_size=60))
def test_no_name_reaches_a_file_outside_the_folders(name: str) -> None:
    """Whatever is returned lies in the folder."""
    with suppress(UsageError):
        found = AllowedFolders([REPORTS]).report(name)
        assert found.is_relative_to(REPORTS.resolve())


def test_several_folders_with_equal_names(folder: Path, tmp_path: Path) -> None:
    """A short name means the first; the other keeps its whole path."""
    shutil.copy(folder / "a.ncu-rep", tmp_path / "out" / "a.ncu-rep")
    roots = AllowedFolders([folder, tmp_path / "out"])
    other = (tmp_path / "out" / "a.ncu-rep").resolve()
    assert roots.report("a.ncu-rep").parent.name == "in"
    assert roots.name_of(other) == str(other)
    assert roots.report(roots.name_of(other)) == other
    assert roots.report("b.ncu-rep").parent.name == "out"
    assert roots.report("link.ncu-rep").name == "b.ncu-rep"


def test_names_are_one_line_and_find_their_file(folder: Path) -> None:
    """A newline would forge a line of the list; bytes that are no text could not be sent back."""
    odd = [b"x\ny.ncu-rep", b"bad\xff.ncu-rep", b"bad\\xff.ncu-rep", b"n" * 240 + b".ncu-rep"]
    paths = [folder.resolve() / os.fsdecode(each) for each in odd]
    deep = folder.resolve().joinpath(*["d" * 200] * 3, "deep.ncu-rep")
    deep.parent.mkdir(parents=True)
    for path in (*paths, deep):
        shutil.copy(folder / "a.ncu-rep", path)
    roots = AllowedFolders([folder])
    names = [roots.name_of(path) for path in (*paths, deep)]
    assert [roots.report(name) for name in names] == [*paths, deep]
    assert len(set(names)) == len(names)
    assert all(name.isprintable() and len(name) <= 401 for name in names)
    assert names[0] == "x\\ny.ncu-rep"


@pytest.mark.parametrize("swapped", ["folder", "table"])
def test_a_path_that_becomes_a_link_to_outside_is_refused(folder: Path, swapped: str) -> None:
    """Between the check and the opening, somebody puts a link in the place of a folder."""
    sub, out = folder / "sub", folder.parent / "out"
    sub.mkdir()
    shutil.copy(folder / "a.ncu-rep", sub / "b.ncu-rep")
    (out / "b.run.json").write_text("{}")

    def swap(*_: object) -> None:
        if swapped == "folder" and not sub.is_symlink():
            sub.rename(folder / "moved")
            sub.symlink_to(out)
        if swapped == "table" and not (sub / "b.run.json").is_symlink():
            (sub / "b.run.json").symlink_to(out / "b.run.json")

    cache = ReportCache(AllowedFolders([folder]))
    refused = pytest.raises(UsageError, match=r"sub/b\.ncu-rep: no such report in the folders")
    with refused, cache.reading("sub/b.ncu-rep", ToolCall(progress=swap)):
        pass


def test_source_files_are_checked_when_they_are_opened(folder: Path) -> None:
    from keet.report.input.files import SourceFolder

    (folder / "src").mkdir()
    (folder / "src" / "k.cu").write_text("inside")
    (folder.parent / "out" / "k.cu").write_text("outside")
    source = SourceFolder(folder / "src")
    roots = AllowedFolders([folder])
    with roots.only("a.ncu-rep"):
        assert source.text_of("k.cu") == "inside"
        (folder / "src").rename(folder / "moved")
        (folder / "src").symlink_to(folder.parent / "out")
        with pytest.raises(UsageError, match=REFUSED):
            source.text_of("k.cu")


def test_folders_that_can_not_be_served(folder: Path) -> None:
    refused = {"must not be served": (Path("/"), Path("/proc/self"), Path("/dev"))}
    refused["no such folder"] = (folder / "missing", folder / "a.ncu-rep", folder / "loop")
    for message, paths in refused.items():
        for path in paths:
            with pytest.raises(UsageError, match=message):
                AllowedFolders([path])
    roots = AllowedFolders([folder])
    (folder / "src").mkdir()
    assert roots.source("src") == folder.resolve() / "src"
    for name in ("..", "dir", "/", "a.ncu-rep", "missing"):
        with pytest.raises(UsageError, match="no such folder in the folders of this server"):
            roots.source(name)
    (folder / "a.run.json").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="outside the folders"):
        AllowedFolders([folder]).report("a.ncu-rep")
