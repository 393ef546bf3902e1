"""A batch with everything that can go wrong at once: nothing is lost, nothing is stored twice."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from keet.corpus.store.reader import open_store
from tests.conftest import REPORTS
from tests.kept_reports import unpacked
from tests.unit.corpus.fake_analyses import hand_out
from tests.varied import LAUNCHES, write_varied

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="kills by what /proc tells"),
]

GOOD = 24
BAD = {
    "empty.ncu-rep": "the file is empty",
    "text.ncu-rep": "this is a text file, not a report",
    "cut.ncu-rep": "the report is cut short",
    "flipped.ncu-rep": "the report is damaged",
    "zeros.ncu-rep": "this is not an Nsight Compute report",
    "giant.ncu-rep": "this is not an Nsight Compute report",
    "pipe.ncu-rep": "this is a pipe, not a report",
    "folder.ncu-rep": "this is a directory, not a report",
    "round.ncu-rep": "too many levels of symbolic links",
    "dangling.ncu-rep": "there is no such file",
    "table.csv": "line 3 has",
    "half.keet.json": "damaged",
}
DUPLICATES = 4


def make_chaos(folder: Path) -> None:
    paths = write_varied(folder / "deep" / "er", GOOD)
    for number in range(DUPLICATES):
        shutil.copy(paths[7 * number], folder / f"same_{number}.ncu-rep")
    if os.geteuid() != 0:
        (folder / "secret.ncu-rep").write_bytes(paths[1].read_bytes() + b"x")
        (folder / "secret.ncu-rep").chmod(0)
    whole = unpacked(REPORTS / "tour_basic.ncu-repz")
    table = (REPORTS / "tour_lines.csv").read_text().splitlines()
    for name, content in {
        "strangers.csv": b"ID,name\n1,Ada\n",
        "empty.ncu-rep": b"",
        "text.ncu-rep": b"no report",
        "cut.ncu-rep": whole[: len(whole) // 2],
        "flipped.ncu-rep": whole[:200] + bytes(60) + whole[260:],
        "zeros.ncu-rep": bytes(10_000),
        "table.csv": "\n".join([*table[:2], table[2][:900]]).encode(),
        "half.keet.json": b'{"keet_snapshot": 1, "provenance": {',
    }.items():
        (folder / name).write_bytes(content)
    with (folder / "giant.ncu-rep").open("wb") as file:
        file.truncate(3_200_000_000)
    os.mkfifo(folder / "pipe.ncu-rep")
    (folder / "folder.ncu-rep").mkdir()
    (folder / "round.ncu-rep").symlink_to("round.ncu-rep")
    (folder / "dangling.ncu-rep").symlink_to("nowhere")
    (folder / "again.ncu-rep").symlink_to(paths[0])
    (folder / "deep" / "up").symlink_to(folder)


def start(tree: Path, out: Path, tickets: int) -> subprocess.Popen[bytes]:
    command = ["batch", str(tree), "-o", str(out), "--jobs", "2", "--timeout", "3600"]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.corpus.fake_analyses", "with_a_ticket", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=hand_out(out.with_name("tickets"), tickets),
    )


def children(pid: int) -> list[int]:
    with suppress(OSError):
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(c) for task in tasks for c in (task / "children").read_text().split()]
    return []


def kill_workers(process: subprocess.Popen[bytes], chance: random.Random, seconds: float) -> None:
    """Two of them, some time or other: a third death of one file would be that file's own."""
    end = time.monotonic() + seconds
    for _ in range(2):
        time.sleep(chance.uniform(0.1, seconds / 2))
        if workers := children(process.pid):
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
    time.sleep(max(0.0, end - time.monotonic()))


def wait_for_new_part(process: subprocess.Popen[bytes], out: Path, before: int) -> None:
    """A run that is killed before it has done anything proves nothing."""
    while process.poll() is None and len(part_names(out)) <= before:
        time.sleep(0.02)


def part_names(out: Path) -> list[str]:
    parts = out / "parts"
    return [path.name for path in parts.iterdir()] if parts.is_dir() else []


def asked(out: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_store(out) as store:
        return store.query(sql).rows


def check_half_way(out: Path) -> int:
    """A store is whole at any moment: what it says is done has its rows, each once."""
    assert asked(out, "SELECT path FROM files GROUP BY path HAVING count(*) > 1") == []
    promised = asked(out, "SELECT sha256, launches FROM files WHERE status = 'done' ORDER BY 1")
    counted = "SELECT report_sha256, count(*)::INTEGER FROM launches GROUP BY 1 ORDER BY 1"
    assert asked(out, counted) == promised
    return len(promised)


def test_chaos(tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    chance = random.Random(7)
    make_chaos(tree)
    done = []
    for _ in range(2):
        before = len(part_names(out))
        process = start(tree, out, tickets=GOOD // 4)
        kill_workers(process, chance, 0.6)
        wait_for_new_part(process, out, before)
        process.kill()
        process.wait()
        done.append(check_half_way(out))
    assert done[-1] < GOOD, "the last kill came too late to prove anything"
    last = start(tree, out, tickets=1000)
    kill_workers(last, chance, 0.8)
    assert last.wait() == 5
    check_half_way(out)
    check_good(out)
    check_bad(tree, out)


def check_good(out: Path) -> None:
    ((rows, reports),) = asked(out, "SELECT count(*), count(DISTINCT report_sha256) FROM launches")
    assert (rows, reports) == (GOOD // 4 * LAUNCHES, GOOD)
    statuses = dict(asked(out, "SELECT status, count(*) FROM files GROUP BY status"))
    unreadable = 0 if os.geteuid() == 0 else 1
    assert statuses == {"done": GOOD, "duplicate": DUPLICATES, "failed": len(BAD) + unreadable}
    equal = asked(
        out,
        "SELECT d.path FROM files d JOIN files o ON o.path = d.duplicate_of "
        "WHERE d.status = 'duplicate' AND o.status = 'done' AND o.sha256 = d.sha256",
    )
    assert len(equal) == DUPLICATES
    assert not list(out.glob(".making-*"))


def check_bad(tree: Path, out: Path) -> None:
    failed = asked(out, "SELECT path, reason FROM files WHERE status = 'failed'")
    reasons = {Path(path).name: reason for path, reason in failed}
    for name, reason in BAD.items():
        assert reason in reasons[name], f"{name}: {reasons[name]}"
    if os.geteuid() != 0:
        assert "permission denied" in reasons["secret.ncu-rep"]
    quarantine = (out / "quarantine.txt").read_text().splitlines()
    assert quarantine == [f"{path}\t{reason}" for path, reason in sorted(failed)]
    assert all(line.startswith(f"{tree}/") for line in quarantine)
