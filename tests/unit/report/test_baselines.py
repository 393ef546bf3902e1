"""Baselines: a killed or concurrent save always leaves one complete version."""

import errno
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from keet.errors import NotAvailable
from keet.files import put_in_place, replacing
from keet.profile import Profile
from keet.report import baselines, read_profile
from keet.report.baselines import find_baseline, remove_baseline, save_baseline
from keet.report.snapshot import write_snapshot
from tests.rows import each_row
from tests.unit.report.test_snapshot import a_profile

STEPS = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "open", "os.chmod", "os.chown"}
"""What a save asks of the system, as Python's audit hooks name it."""
KILLED = 9


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def runs_of(count: int) -> list[Profile]:
    """That many runs, each with the number of runs in it."""
    return [a_profile(count)] * count


def saved() -> int:
    """The number of runs of the baseline, checked against the number in each run."""
    for _ in range(1000):
        try:
            told = [_count_in(path) for path in find_baseline("main").runs]
        except FileNotFoundError:  # replaced after it was found
            continue
        assert set(told) == {len(told)}
        return len(told)
    raise AssertionError("it is replaced faster than it can be read")


def _count_in(path: Path) -> int:
    path.stat()
    try:
        return int(read_profile(path).launches[0].data.metric("m").value)  # type: ignore[union-attr, arg-type]
    except Exception:
        path.stat()  # gone meanwhile, or damaged
        raise


def in_child(work: Callable[[], object]) -> int:
    """Run in a separate process, and return its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - told here, or nowhere
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def replaced(path: Path, content: bytes = b"new") -> tuple[str, int]:
    """Content and mode afterwards."""
    with replacing(path) as file:
        file.write(content)
    return path.read_text(), path.stat().st_mode & 0o777


def killed_at(step: int, work: Callable[[], object]) -> Callable[[], object]:
    """Run the work and end it before its n-th system call, like kill -9."""

    def until_killed() -> object:
        left = step

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event in STEPS:
                left -= 1
                if left < 0:
                    os._exit(KILLED)

        sys.addaudithook(count)
        return work()

    return until_killed


@pytest.mark.slow
@pytest.mark.parametrize("old", ["version", "older keet"])
def test_a_killed_save_leaves_the_old_or_the_new_baseline(
    old: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = project / ".keet" / "baselines" / "main"
    steps, code, seen = -1, KILLED, set()
    while code == KILLED:
        steps += 1
        shutil.rmtree(project / ".keet", ignore_errors=True)
        if old == "version":
            save_baseline("main", runs_of(2))
        else:
            place.mkdir(parents=True)
            for number in (1, 2):
                write_snapshot(a_profile(2), place / f"run_{number:02}.keet.json")
        code = ended(in_child(killed_at(steps, lambda: save_baseline("main", runs_of(3)))))
        seen.add((code, saved()))
        save_baseline("main", runs_of(1))
        assert saved() == 1
    assert seen == {(KILLED, 2), (KILLED, 3), (0, 3)}
    assert steps > 10
    monkeypatch.setattr(baselines, "_STALE", -1.0)
    for count in (4, 1):
        save_baseline("main", runs_of(count))
    left = [path.name for path in place.parent.rglob("*") if path.is_file()]
    assert sorted(left) == ["current", "run_01.keet.json"], "what was left behind is removed"


@pytest.mark.parametrize("name", ["0123456789abcdef", "current"])
def test_baselines_may_be_named_like_internal_files(
    name: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved by an older keet, then saved again, then cleaned up next to other baselines."""
    place = project / ".keet" / "baselines" / name
    place.mkdir(parents=True)
    write_snapshot(a_profile(1), place / "run_01.keet.json")
    monkeypatch.setattr(baselines, "_STALE", -1.0)
    save_baseline("main", runs_of(2))
    assert len(find_baseline(name).runs) == 1
    save_baseline(name, runs_of(3))
    save_baseline("main", runs_of(2))
    assert [len(find_baseline(each).runs) for each in (name, "main")] == [3, 2]


def test_a_save_lists_its_runs_even_if_another_save_replaces_them(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another save replaced the version, and removed its files, before this one listed them."""
    publish = baselines._remove

    def overtaken(version: Path, place: Path) -> None:
        monkeypatch.setattr(baselines, "_remove", publish)
        save_baseline("main", runs_of(3))
        publish(version, place)

    monkeypatch.setattr(baselines, "_remove", overtaken)
    assert len(save_baseline("main", runs_of(2)).runs) == 2
    assert saved() == 3


@pytest.mark.parametrize("damage", ["<<<<<<< HEAD\n0123456789abcdef\n", "", None])
def test_versions_are_kept_while_the_current_one_is_unknown(
    damage: str | None, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge of two branches leaves conflict marks in `current`, or its version was removed."""
    (run,) = save_baseline("main", runs_of(1)).runs
    monkeypatch.setattr(baselines, "_STALE", -1.0)
    current = run.parent.parent / "current"
    current.unlink() if damage is None else current.write_text(damage)
    save_baseline("other", runs_of(1))
    assert run.exists()
    with pytest.raises(NotAvailable, match="no baseline 'main'" if damage is None else "damaged"):
        find_baseline("main")


@pytest.mark.slow
def test_a_killed_removal_leaves_all_or_nothing(project: Path) -> None:
    steps, code = 0, KILLED
    while code == KILLED:
        save_baseline("main", runs_of(2))
        code = ended(in_child(killed_at(steps, lambda: remove_baseline("main"))))
        try:
            assert saved() == 2
        except NotAvailable:
            assert steps > 0
        steps += 1
    with pytest.raises(NotAvailable):
        find_baseline("main")


@pytest.mark.slow
def test_concurrent_saves_always_leave_a_complete_baseline(project: Path) -> None:
    """Four processes save as fast as they can: there is a complete baseline at every moment."""

    def save_often(count: int) -> None:
        for _ in range(4):
            save_baseline("main", runs_of(count))

    save_baseline("main", runs_of(1))
    children = [in_child(partial(save_often, count)) for count in (2, 3, 4, 5)]
    seen = set()
    while children:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            assert os.waitstatus_to_exitcode(status) == 0
            children.remove(child)
        seen.add(saved())
    assert saved() in (2, 3, 4, 5)
    assert seen <= {1, 2, 3, 4, 5}


# --- output files


@each_row("mode", [0o600, 0o664, 0o444])
def test_a_file_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.unlink(missing_ok=True)
    path.write_text("old")
    path.chmod(mode)
    with replacing(path) as file:
        (partial,) = tmp_path.glob(".*.partial")
        assert partial.stat().st_mode & 0o777 & ~mode == 0, "nobody else may read it meanwhile"
        file.write(b"new")
    assert (path.read_text(), oct(path.stat().st_mode & 0o7777)) == ("new", oct(mode))


def test_a_new_file_has_the_mode_of_the_umask_and_one_that_was_made_that_of_the_old(
    tmp_path: Path,
) -> None:
    before, made, path = os.umask(0o027), tmp_path / "made", tmp_path / "out"
    try:
        assert replaced(path) == ("new", 0o640)
    finally:
        os.umask(before)
    path.chmod(0o604)
    made.write_text("second")
    put_in_place(made, path)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("second", 0o604)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    assert replaced(path) == ("new", 0o640)
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def refuse(*_: object) -> None:
    raise OSError(errno.EINVAL, "Invalid argument")


def test_a_file_is_written_even_if_owner_and_mode_cannot_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container without the owner's number `fchown` fails with EINVAL; some mounts know neither.
    Another group does not get the rights of the old one."""
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o660)
    values = list(path.stat())
    values[5] += 1
    monkeypatch.setattr(os, "fchown", refuse)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", lambda self, **_: os.stat_result(values))
        replaced(path)
    assert path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(os, "fchmod", refuse)
    assert replaced(path, b"newer")[0] == "newer"


def test_a_hard_link_keeps_the_old_content_and_a_symbolic_link_shows_the_new(
    tmp_path: Path,
) -> None:
    path, hard, soft = tmp_path / "out", tmp_path / "hard", tmp_path / "soft"
    path.write_text("old")
    hard.hardlink_to(path)
    soft.symlink_to(path)
    replaced(soft)
    assert (path.read_text(), hard.read_text(), soft.is_symlink()) == ("new", "old", True)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o600)

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fail()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("old", 0o600)
