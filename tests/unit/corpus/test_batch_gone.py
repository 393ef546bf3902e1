"""`keet batch` where files are deleted, moved and copied between runs, and where it is stopped early."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from keet.corpus.batch.stored_files import find_gone, is_gone
from keet.corpus.discovery import Shard
from tests.conftest import REPORTS, Keet
from tests.unit.corpus.conftest import folder_of
from tests.unit.corpus.store_rows import asked

pytestmark = pytest.mark.slow


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "tree", "graph.ncu-repz", "nvtx.ncu-repz", cut="cut.ncu-rep")


@pytest.fixture
def out(tree: Path, tmp_path: Path, batch: Keet) -> Path:
    assert batch(tree, "-o", tmp_path / "out").code == 5
    return tmp_path / "out"


def files(out: Path) -> dict[str, tuple[str, str | None]]:
    rows = asked(out, "SELECT path, status, duplicate_of FROM files")
    return {Path(path).name: (status, of and Path(of).name) for path, status, of in rows}


def shown(out: Path) -> set[str]:
    return {Path(path).name for (path,) in asked(out, "SELECT path FROM launches")}


def test_gone_files_are_reported_and_kept_until_prune(tree, out: Path, batch, wording) -> None:
    """One that comes back is not analysed again."""
    kept = (tree / "nvtx.ncu-repz").rename(tree.parent / "kept.ncu-rep")
    (tree / "cut.ncu-rep").unlink()
    wording(batch(tree, "-o", out).err)
    assert shown(out) == {"graph.ncu-repz", "nvtx.ncu-repz"}
    pruned = batch(tree, "-o", out, "--prune")
    wording(pruned.out)
    assert (pruned.code, pruned.err) == (0, "")
    assert shown(out) == {"graph.ncu-repz"}
    statuses = {name: status for name, (status, _) in files(out).items()}
    assert statuses == {"graph.ncu-repz": "done", "nvtx.ncu-repz": "gone", "cut.ncu-rep": "gone"}
    assert not (out / "quarantine.txt").exists()
    assert batch(tree, "-o", out).err == "", "what was pruned is not told again"
    kept.rename(tree / "nvtx.ncu-repz")
    assert "0 launches" in batch(tree, "-o", out).out
    assert shown(out) == {"graph.ncu-repz", "nvtx.ncu-repz"}
    assert files(out)["nvtx.ncu-repz"] == ("done", None)


@pytest.mark.parametrize("options", [(), ("--prune",)])
def test_a_moved_file_gets_its_new_path(tree, out: Path, batch, options: tuple[str, ...]) -> None:
    (tree / "nvtx.ncu-repz").rename(tree / "a.ncu-rep")
    shutil.copy(tree / "a.ncu-rep", tree / "b.ncu-rep")
    batch(tree, "-o", out, *options)
    assert shown(out) == {"graph.ncu-repz", "a.ncu-rep"}
    known = files(out)
    assert (known["a.ncu-rep"], known["b.ncu-rep"]) == (("done", None), ("duplicate", "a.ncu-rep"))
    assert known["nvtx.ncu-repz"] == (("gone", None) if options else ("duplicate", "a.ncu-rep"))


def test_a_copy_of_a_file_that_changed(tree: Path, out: Path, batch: Keet) -> None:
    shutil.copy(tree / "nvtx.ncu-repz", tree / "copy.ncu-rep")
    batch(tree, "-o", out)
    shutil.copy(REPORTS / "metrics_only.ncu-repz", tree / "nvtx.ncu-repz")
    batch(tree, "-o", out)
    shutil.copy(tree / "copy.ncu-rep", tree / "again.ncu-rep")
    batch(tree, "-o", out)
    assert files(out)["copy.ncu-rep"] == ("done", None)
    assert files(out)["again.ncu-rep"] == ("duplicate", "copy.ncu-rep")


def test_only_files_below_the_given_folders_are_pruned(tree, out: Path, batch, tmp_path) -> None:
    other = folder_of(tmp_path / "tree2", "metrics_only.ncu-repz")
    batch(other, "-o", out)
    shutil.rmtree(other)
    (tree / "nvtx.ncu-repz").unlink()
    batch(tree, "-o", out, "--prune")
    assert shown(out) == {"graph.ncu-repz", "metrics_only.ncu-repz"}
    assert batch(other, "-o", out).code == 2, "without --prune it is a mistake"
    assert batch(other, "-o", out, "--prune").code == 0
    assert shown(out) == {"graph.ncu-repz"}
    assert batch(tmp_path / "never", "-o", out, "--prune").code == 2


def test_a_folder_may_be_empty_when_it_is_pruned(tree: Path, out: Path, batch, wording) -> None:
    for path in tree.iterdir():
        path.unlink()
    gone = find_gone(out, [tree], ())
    assert len(gone) == 3
    shards = [find_gone(out, [tree], (), Shard(n, 3)) for n in range(3)]
    assert sorted(path for shard in shards for path in shard) == gone, "they share it"
    wording(batch(tree, "-o", out).err)
    assert batch(tree, "-o", out, "--prune").code == 0
    assert shown(out) == set()


def test_files_that_can_not_be_reached_are_not_gone(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff.ncu-rep")
    odd.write_bytes(b"")
    assert not is_gone(str(tmp_path / r"\udcff.ncu-rep"))
    assert is_gone(str(tmp_path / r"\udcfe.ncu-rep"))
    assert is_gone(str(tmp_path / "x"))
    assert not is_gone(str(tmp_path / ("x" * 5000))), "the system does not say"


# --- stopped early


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        ("discovery.find_reports", signal.SIGINT),
        ("batch.stored_files.resume_state", signal.SIGTERM),
        ("batch.coordinator.Batch._feed", signal.SIGINT),
        ("batch.coordinator.write_quarantine", signal.SIGTERM),
    ],
)
def test_a_stopped_batch_prints_the_resume_command(
    tree: Path, tmp_path: Path, batch: Keet, monkeypatch: pytest.MonkeyPatch,
    stage: str, number: int, wording,
) -> None:  # fmt: skip
    monkeypatch.setattr(f"keet.corpus.{stage}", lambda *_, **__: signal.raise_signal(number))
    result = batch(tree, "-o", tmp_path / "new")
    assert (result.code, result.out) == (130, "")
    wording(result.err.splitlines(), case=stage)
