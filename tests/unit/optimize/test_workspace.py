"""Copies, changes of an edited folder, patches."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from keet.errors import UsageError
from keet.optimize.task import (
    OutputRule,
    Task,
    copy_source,
    copy_with,
    digests,
    matches,
    output_rule,
    patch_text,
    read_changes,
    safe_path,
    write_text,
)

FILES = {
    "a.cu": "one\ntwo\n",
    "sub dir/b.cu": "x\n" * 30,
    "empty.cu": "",
    "end.cu": "no line end",
    "c.py": "pass\n",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def task_of(source: Path, **values: object) -> Task:
    return Task(source, "make", "./app", ("*.cu", "*.cuh"), check="true", **values)  # type: ignore[arg-type]


def test_patches_apply(source: Path, tmp_path: Path) -> None:
    """In a folder of a repository, and in one without."""
    overlays: tuple[dict[str, str | None], ...] = (
        {"a.cu": "one\n2\n"},
        {"a.cu": ""},
        {"a.cu": None},
        {"end.cu": "no line end\nmore"},
        {"sub dir/b.cu": "y\n" + "x\n" * 28, "new dir/n.cuh": "new\n", "end.cu": None},
        {"a.cu": "one\r\ntwo\r\n"},
        {"n.cu": "form\x0cfeed\u2028separator\n", "end.cu": "Latin-1: \udcb5s\n"},
    )
    task, patch = task_of(source), tmp_path / "p.patch"
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    for number, overlay in enumerate(overlays):
        patch.write_bytes(patch_text(source, {}, overlay).encode("utf-8", "surrogateescape"))
        wanted = tmp_path / f"wanted_{number}"
        copy_with(task, source, overlay, wanted)
        for folder in (tmp_path / f"plain_{number}", tmp_path / f"repo/inner_{number}"):
            copy_with(task, source, {}, folder)
            subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True)
            assert digests(folder) == digests(wanted), overlay


def test_a_patch_from_one_overlay_to_another(source: Path) -> None:
    first = {"a.cu": "1\ntwo\n", "n.cu": "n\n"}
    assert patch_text(source, first, first) == ""
    other = patch_text(source, first, {**first, "n.cu": "m\n"})
    assert other.startswith("--- a/n.cu\n+++ b/n.cu\n")
    assert "+++ /dev/null" in patch_text(source, first, {"a.cu": "1\ntwo\n"})


def test_what_is_copied(source: Path, tmp_path: Path) -> None:
    """The copies can be edited."""
    (source / ".git").mkdir()
    (source / ".git/config").write_text("secret")
    (source / "data.bin").write_bytes(b"1")
    (source / "link").symlink_to("a.cu")
    (source / "a.cu").chmod(0o555)
    copy_source(task_of(source, exclude=("*.bin",)), tmp_path / "copy")
    found = digests(tmp_path / "copy")
    assert (set(found), found["link"]) == ({*FILES, "link"}, "link:a.cu")
    assert (tmp_path / "copy/a.cu").stat().st_mode & 0o777 == 0o755


def test_changes(source: Path, tmp_path: Path) -> None:
    task, known, edited = task_of(source), digests(source), tmp_path / "edited"
    copy_with(task, source, {}, edited)
    assert read_changes(task, known, edited).overlay == {}
    (edited / "a.cu").write_text("three\n")
    (edited / "end.cu").unlink()
    (edited / "app.o").write_bytes(b"\0")
    found = read_changes(task, known, edited)
    assert found == ({"a.cu": "three\n", "end.cu": None}, "", ("app.o",))
    (edited / "c.py").write_text("exit()\n")
    assert "c.py" in read_changes(task, known, edited).problem


def test_a_comment_that_is_not_utf_8(source: Path, tmp_path: Path) -> None:
    task, edited = task_of(source), tmp_path / "edited"
    (source / "a.cu").write_bytes(b"// 3 \xb5s\n")
    known = digests(source)
    copy_with(task, source, {}, edited)
    (edited / "a.cu").write_bytes(b"// 3 \xb5s\nfast\n")
    found = read_changes(task, known, edited)
    copy_with(task, source, found.overlay, tmp_path / "again")
    assert (tmp_path / "again/a.cu").read_bytes() == (edited / "a.cu").read_bytes()


def test_changes_that_could_not_be_written_again(source: Path, tmp_path: Path) -> None:
    """Or that no patch can hold. They are refused, so that the next step does not fail for ever."""
    (source / "link.cu").symlink_to("a.cu")
    edits: tuple[Callable[[Path], object], ...] = (
        lambda folder: (folder / "new\nline.cu").write_text("x\n"),
        lambda folder: (folder / "link.cu").unlink(),
        lambda folder: (folder / "a.cu").replace(folder / "link.cu"),
        lambda folder: (folder / "empty.cu").unlink(),
        lambda folder: (folder / "new.cuh").touch(),
    )
    for number, edit in enumerate(edits):
        known, edited = digests(source), tmp_path / f"edited_{number}"
        copy_with(task_of(source), source, {}, edited)
        edit(edited)
        assert read_changes(task_of(source), known, edited).problem, number


def test_paths_outside_are_refused_and_links_are_not_followed(source: Path, tmp_path: Path) -> None:
    outside = ("/etc/passwd", "../a.cu", "a/../../b.cu")
    for path in (*outside, "", ".", "a\nb.cu", "a\\b.cu", "x" * 500):
        with pytest.raises(UsageError):
            safe_path(path)
    (tmp_path / "outside").mkdir()
    (source / "out").symlink_to(tmp_path / "outside")
    (source / "file.cu").symlink_to(tmp_path / "outside/file.cu")
    for path in ("out/new.cu", "file.cu"):
        with pytest.raises(UsageError):
            write_text(source, path, "x")
    assert list((tmp_path / "outside").iterdir()) == []


def test_patterns() -> None:
    matching = {"a.cu": "*.cu", "src/a.cu": "*.cu src/*.cu src src/ ./src/a.cu"}
    other = {"a.cu": "src/*.cu", "srcs/a.cu": "src", "a.cuh": "*.cu"}
    for table, expected in ((matching, True), (other, False)):
        for path, patterns in table.items():
            for pattern in patterns.split():
                assert matches(path, pattern) is expected, (path, pattern)


def test_rules_of_outputs_and_names_of_tasks() -> None:
    assert output_rule("out.bin:float32", 1e-5, 0) == OutputRule("out.bin", "float32", 1e-5, 0)
    assert output_rule("-", 0, 0).file == "-"
    with pytest.raises(UsageError):
        output_rule("out.bin:double", 0, 0)
    names = {"/work/waves/src": "waves-src", "/work/waves": "waves", "/src": "-src"}
    assert {folder: task_of(Path(folder)).name for folder in names} == names


def test_tasks_that_make_no_sense(source: Path) -> None:
    task = task_of(source)
    task.check_valid()
    for wrong in (
        *(task._replace(outputs=(OutputRule(file),)) for file in ("../x", "/x", "a.cu")),
        *(task._replace(check=None), task._replace(may_change=())),
        task._replace(source=Path("/nowhere")),
    ):
        with pytest.raises(UsageError):
            wrong.check_valid()
