"""A snapshot's statement about its report is never used to identify a file."""

import json
import os
from pathlib import Path

import pytest

from keet.corpus.store.part_writer import write_part
from keet.report import read_profile
from keet.report.snapshot import snapshot_text
from tests.conftest import REPORTS, Keet
from tests.unit.corpus.conftest import folder_of
from tests.unit.corpus.store_rows import asked, record

REPORT = REPORTS / "range.ncu-rep"
TIME = "gpu__time_duration.sum"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A report that comes last in the order of names."""
    folder = folder_of(tmp_path / "tree", REPORT.name)
    (folder / REPORT.name).rename(folder / "z.ncu-rep")
    return folder


def snapshot(path: Path, **changes: float) -> Path:
    """An edited snapshot, with the size and hash of the real report in it."""
    document = json.loads("".join(snapshot_text(read_profile(REPORT))))
    document["launches"][0]["metrics"] |= {TIME: 1000.0} | changes
    path.write_text(json.dumps(document))
    return path


def shown(out: Path) -> list[tuple[str, str, float]]:
    """Each file with its status and the time of its launch."""
    launches = "LEFT JOIN launches l ON l.path = f.path AND l.report_sha256 = f.sha256"
    rows = asked(out, f"SELECT f.path, status, duration_us FROM files f {launches} ORDER BY 1")
    return [(Path(path).name, status, time) for path, status, time in rows]


def true_time() -> float:
    return float(read_profile(REPORT).launches[0].require("duration").to("us").value)


def test_an_edited_snapshot_does_not_replace_the_report(tree: Path, out: Path, batch: Keet) -> None:
    """Also if it has the size of the report, which is added later, so that its hash is looked up in
    the store."""
    real, forged = tree / "z.ncu-rep", snapshot(tree / "a.keet.json")
    size = max(forged.stat().st_size, real.stat().st_size)
    for path, filler in ((forged, b" "), (real, b"")):
        path.write_bytes(path.read_bytes() + filler * (size - path.stat().st_size))
    for place in (forged, tree):
        batch(place, "-o", out)
    analysed = ("z.ncu-rep", "done", pytest.approx(true_time()))
    assert shown(out) == [("a.keet.json", "done", 1.0), analysed]


@pytest.mark.slow
def test_snapshots_with_one_stated_hash_have_a_row_each(tmp_path, out: Path, batch: Keet) -> None:
    """Equal ones are duplicates."""
    for number in range(4):
        snapshot(tmp_path / f"{number}.keet.json", **{TIME: 1000.0 * (min(number, 2) + 1)})
    batch(tmp_path, "-o", out)
    known = [("done", 1.0), ("done", 2.0), ("done", 3.0), ("duplicate", None)]
    assert [tuple(rest) for _, *rest in shown(out)] == known
    counts = "SELECT count(DISTINCT sha256), count(DISTINCT origin_sha256) FROM files"
    assert asked(out, counts) == [(3, 1)]


@pytest.mark.slow
def test_a_report_and_its_snapshot_are_two_files_and_the_summary_says_so(
    tree: Path, out: Path, batch: Keet, keet: Keet, wording
) -> None:
    keet("snapshot", REPORT, "-o", tree / "a.keet.json")
    wording(batch(tree, "-o", out).err)
    assert [status for _, status, _ in shown(out)] == ["done", "done"]
    os.utime(tree / "a.keet.json", (1, 1))  # a touched file keeps its origin
    assert "1 snapshot names" in batch(tree, "-o", out).err
    (tree / "a.keet.json").unlink()
    assert "snapshot" not in batch(tree, "-o", out, "--prune").err


@pytest.mark.slow
def test_a_duplicate_of_another_size_in_an_older_store_is_analysed_again(tree, out, batch) -> None:
    """As an older keet recorded a report beside a snapshot that stated its hash."""
    real, forged = tree / "z.ncu-rep", snapshot(tree / "a.keet.json")
    batch(forged, "-o", out)
    ((sha256,),) = asked(out, "SELECT sha256 FROM files")
    status = real.stat()
    cells = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "duplicate_of": str(forged)}
    write_part(out, [record(str(real), sha256, "duplicate", launches=None, **cells)], [])
    batch(tree, "-o", out)
    assert shown(out)[1] == ("z.ncu-rep", "done", pytest.approx(true_time()))
