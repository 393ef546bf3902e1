"""`keet batch` from end to end, on real reports: rows, resuming, stopping, other machines."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from keet.corpus.batch import worker
from keet.corpus.store.schema import part_folders
from keet.report.input.zstd import zstd
from tests.conftest import REPORTS, Keet
from tests.unit.corpus import fake_analyses
from tests.unit.corpus.conftest import folder_of
from tests.unit.corpus.fake_analyses import hand_out
from tests.unit.corpus.store_rows import asked, everything
from tests.varied import LAUNCHES, varied, write_varied

KEET = [sys.executable, "-m", "keet"]
WITH = [sys.executable, "-m", "tests.unit.corpus.fake_analyses"]
"""The same with another analysis, which is named first."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three formats, a duplicate, a report that was cut, and a file that is none."""
    folder = tmp_path / "tree"
    folder_of(folder, "graph.ncu-repz", "nvtx.ncu-repz", "tour_lines.csv")
    packed = zstd.compress(varied((REPORTS / "range.ncu-rep").read_bytes(), 1))
    (folder / "packed.ncu-repz").write_bytes(packed)
    folder_of(folder / "more", cut="cut.ncu-rep")
    shutil.copy(REPORTS / "nvtx.ncu-repz", folder / "more" / "same.ncu-rep")
    (folder / "more" / "prices.csv").write_text("a,b\n1,2\n")
    return folder


def statuses(out: Path) -> dict[str, str]:
    return {Path(path).name: s for path, s in asked(out, "SELECT path, status FROM files")}


def test_batch_of_a_folder_records_every_file(tree: Path, out: Path, keet: Keet, wording) -> None:
    result = keet("batch", tree, "-o", out, "--jobs", 2)
    assert result.code == 5
    done = ("graph.ncu-repz", "nvtx.ncu-repz", "packed.ncu-repz", "tour_lines.csv")
    others = {"same.ncu-rep": "duplicate", "cut.ncu-rep": "failed"}
    assert statuses(out) == dict.fromkeys(done, "done") | others
    ((path, of),) = asked(out, "SELECT path, duplicate_of FROM files WHERE status = 'duplicate'")
    assert (path, of) == (str(tree / "more" / "same.ncu-rep"), str(tree / "nvtx.ncu-repz"))
    wording(result.out, result.err)
    line = (out / "quarantine.txt").read_text()
    wording(line)
    assert line.count("\n") == 1


@pytest.mark.slow
def test_names_that_are_not_utf8_and_snapshots(tmp_path, out: Path, batch: Keet, keet) -> None:
    tree = folder_of(tmp_path / "tree", "graph.ncu-repz")
    (tree / "graph.ncu-repz").rename(tree / os.fsdecode(b"\xff'[*].ncu-rep"))
    keet("snapshot", REPORTS / "range.ncu-rep", "-o", tree / "range.keet.json")
    for _ in range(2):
        assert batch(tree, "-o", out).code == 0
    assert len(part_folders(out)) == 1, "the second run had nothing to do"
    join = "l.path = f.path AND l.report_sha256 = f.sha256 AND f.status = 'done'"
    assert len(asked(out, f"SELECT l.kernel FROM launches l JOIN files f ON {join}")) == 2


@pytest.mark.slow
def test_the_same_rows_with_one_worker_and_with_three(tmp_path, batch: Keet, keet: Keet) -> None:
    """In this process and in others."""
    tree = tmp_path / "tree"
    paths = write_varied(tree, 6)
    for number in (1, 4):
        shutil.copy(paths[number], tree / f"copy_{number}.ncu-rep")
    one, three = tmp_path / "1", tmp_path / "3"
    assert batch(tree, "-o", one).code == 0
    assert keet("batch", tree, "-o", three, "--jobs", 3).code == 0
    assert everything(one) == everything(three)
    assert len(asked(one, "FROM files WHERE status = 'duplicate'")) == 2


@pytest.mark.slow
def test_unchanged_files_are_not_read_again(tree: Path, out: Path, batch: Keet, wording) -> None:
    """Changed, touched and repaired ones are."""
    batch(tree, "-o", out)
    before, parts = everything(out), part_folders(out)
    result = batch(tree, "-o", out)
    assert result.code == 5, "it is still so that a file failed"
    wording(result.out)
    assert (everything(out), part_folders(out)) == (before, parts)
    wording(batch(tree, "-o", out, "--retry-failed").out)
    os.utime(tree / "graph.ncu-repz", ns=(1, 1))
    shutil.copy(REPORTS / "metrics_only.ncu-repz", tree / "nvtx.ncu-repz")
    shutil.copy(REPORTS / "range.ncu-rep", tree / "more" / "cut.ncu-rep")
    result = batch(tree, "-o", out)
    assert result.code == 0
    wording(result.out)
    assert not (out / "quarantine.txt").exists()
    fresh = out.with_name("fresh")
    batch(tree, "-o", fresh)
    columns = "SELECT report_sha256, path, launch_id, kernel FROM launches ORDER BY 1, 3"
    assert asked(out, columns) == asked(fresh, columns)


@pytest.mark.slow
def test_shards_make_one_store(tree: Path, tmp_path: Path, batch: Keet) -> None:
    """At the same time. A shard without files succeeds."""
    whole, sharded = tmp_path / "whole", tmp_path / "sharded"
    batch(tree, "-o", whole)
    shards = [(tree, "-o", sharded, "--jobs", 1, "--shard", f"{n}/2") for n in range(2)]
    other = subprocess.Popen(
        [*KEET, "batch", *map(str, shards[1])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert {batch(*shards[0]).code, other.wait()} <= {0, 5}
    columns = "SELECT report_sha256, launch_id, headline FROM launches ORDER BY 1, 2"
    assert asked(sharded, columns) == asked(whole, columns)
    assert set(statuses(sharded)) == set(statuses(whole))
    one = [tree / "graph.ncu-repz", "-o", tmp_path / "one", "--shard"]
    assert [batch(*one, f"{n}/2").code for n in (0, 1)] == [0, 0]
    assert len(statuses(tmp_path / "one")) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.slow
def test_a_signal_leaves_a_store_and_prints_the_resume_command(
    tmp_path: Path, out: Path, batch: Keet, wording
) -> None:
    """Other signals and stages are in test_batch_gone.py."""
    tree = tmp_path / "tree"
    write_varied(tree, 12)
    process = subprocess.Popen(
        [*WITH, "with_a_ticket", "batch", str(tree), "-o", str(out), "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=hand_out(tmp_path / "tickets", 4),
    )
    while not (out / "parts").is_dir() or not any((out / "parts").iterdir()):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 130
    wording(err.splitlines()[-1])
    done = len(statuses(out))
    assert 0 < done < 12
    assert not list(out.glob(".making-*"))
    again = batch(tree, "-o", out)
    assert f"12 files: {12 - done} done, {done} unchanged since the last time" in again.out
    counted = asked(out, "SELECT count(*), count(DISTINCT report_sha256) FROM launches")
    assert counted == [(3 * LAUNCHES, 12)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{tmp}/missing -o {tmp}/out", "there is no such file or folder"),
        ("{tmp}/empty -o {tmp}/out", "no report found in"),
        ("{tmp} -o {tmp}/file", "this is a file; name a folder"),
        ("{tmp} -o {tmp}/full", "this folder is not a store and is not empty"),
        ("{tmp} -o {tmp}/out --shard 2/2", "shards are counted from 0"),
        ("{tmp} -o {tmp}/out --jobs 0", "must be a positive integer"),
        ("{tmp} -o {tmp}/out --timeout -1", "must be a positive number of seconds"),
        ("{tmp}", "required: -o"),
    ],
)
def test_wrong_usage(tmp_path: Path, keet: Keet, arguments: str, message: str) -> None:
    for folder in ("empty", "full"):
        (tmp_path / folder).mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    result = keet("batch", *(word.format(tmp=tmp_path) for word in arguments.split()))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err


# --- Dask


needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="pip install distributed")


@contextmanager
def cluster() -> Iterator[str]:
    """In a process of its own, as it would be: two workers, which give up on nothing at once."""
    code = (
        "import sys, dask; from distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    dask.config.set({'distributed.scheduler.allowed-failures': 0})\n"
        "    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as c:\n"
        "        print(c.scheduler_address, flush=True); sys.stdin.read()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.getcwd()}  # noqa: PTH109
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@needs_dask
@pytest.mark.slow
def test_a_dask_cluster(tree: Path, tmp_path: Path, batch: Keet, monkeypatch) -> None:
    """One for all: it takes seconds to start, and tests that run apart would have one each."""
    local, remote, dead = tmp_path / "local", tmp_path / "remote", tmp_path / "dead"
    write_varied(tmp_path / "one", 1)
    with cluster() as address:
        assert batch(tree, "-o", local).code == 5
        done = batch(tree, "-o", remote, "--dask", address)
        assert done.code == 5, done.err
        assert "6 files: 4 done, 1 duplicate, 1 failed" in done.out
        assert everything(remote) == everything(local)
        monkeypatch.setattr(worker, "analyse", fake_analyses.kill_dask_worker)
        assert batch(tmp_path / "one", "-o", dead, "--dask", address).code == 5
        ((reason,),) = asked(dead, "SELECT reason FROM files")
        assert re.match("its Dask workers died 3 times", reason)
    monkeypatch.setattr("keet.corpus.batch.dask_cluster._CONNECT_SECONDS", 0.2)
    none = batch(REPORTS / "graph.ncu-repz", "-o", tmp_path / "x", "--dask", "tcp://127.0.0.1:9")
    assert none.code == 3
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in none.err
