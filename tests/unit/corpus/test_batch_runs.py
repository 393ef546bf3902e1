"""`keet batch` with tables of runs beside the reports: used, and noticed when they change."""

import shutil
from itertools import compress
from pathlib import Path
from typing import Any

import pytest

from keet.corpus.discovery import NO_TABLE, find_reports
from keet.corpus.store import part_writer
from keet.corpus.store.schema import FILES, LAUNCHES, TABLES
from keet.report import read_profile
from tests.conftest import REPORTS, Keet
from tests.kept_reports import unpacked
from tests.unit.corpus.conftest import folder_of
from tests.unit.corpus.store_rows import OTHER, asked, write_table
from tests.varied import varied

pytestmark = pytest.mark.slow


RUNS = REPORTS.parent / "runs"
RUN = {"normalise": (60, 600.0), "transpose_rows": (20, 1400.0), OTHER: (5, 500.0)}
"""A run of 2.5 ms; `transpose_tiles`, which the report has, is not in it."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = folder_of(tmp_path / "tree", "tour_full.ncu-repz")
    (folder / "tour_full.ncu-repz").rename(folder / "tour.ncu-rep")
    return folder


@pytest.fixture
def with_table(tree: Path) -> Path:
    """The table of its report."""
    return write_table(tree / "tour.ncu-rep", RUN)


def in_run(out: Path) -> list[tuple[Any, ...]]:
    columns = "kernel.split('<')[1], run_launches, run_time_us, run_share, plain_us"
    return asked(out, f"SELECT {columns} FROM launches ORDER BY launch_id")


def manifest(out: Path) -> dict[str, tuple[Any, ...]]:
    columns = "path, status, run_total_us, run_unprofiled_us, launches"
    rows = asked(out, f"SELECT {columns} FROM files ORDER BY 1")
    return {Path(path).name: tuple(rest) for path, *rest in rows}


RECORDED = """
SELECT DISTINCT run_alike_us, run_overlap_known FROM launches, files WHERE status = 'done'
"""
NOT_KNOWN = (None, None, None, None)
KNOWN = [
    ("transpose_rows", 20.0, 1400.0, 0.56, 70.0),
    ("transpose_tiles", *NOT_KNOWN),
    ("normalise", 60.0, 600.0, 0.24, 10.0),
]
UNKNOWN = [(name, *NOT_KNOWN) for name, *_ in KNOWN]


def test_rows_have_times_of_the_run(tree, with_table: Path, out: Path, batch, wording) -> None:
    """The table has nothing but durations. A report that was touched or moved is compared by its
    hash: its record is made from that of before."""
    result = batch(tree, "-o", out)
    assert (result.code, result.err) == (0, "")
    wording(result.out)
    report, moved = tree / "tour.ncu-rep", tree / "moved.ncu-rep"
    for name, change in (
        ("tour", report.touch),
        ("tour", lambda: (report.rename(moved), with_table.rename(tree / "moved.run.json"))),
        ("moved", (tree / "moved.run.json").unlink),
    ):
        assert in_run(out) == KNOWN
        assert manifest(out)[f"{name}.ncu-rep"] == ("done", 2500.0, 500.0, 3)
        assert asked(out, RECORDED) == [(None, False)]
        change()
        again = batch(tree, "-o", out).out
        assert ("0 launches" in again) == (name == "tour")
    assert in_run(out) == UNKNOWN


def test_a_run_table_without_times_of_launches_is_reported(tree, out, batch, keet, wording) -> None:
    """By `keet batch` and `keet top` alike; also after it was touched, and not analysed again."""
    (tree / "tour.ncu-rep").unlink()
    for name in ("waits", "waits_range"):
        for ending in ("ncu-repz", "run.json"):
            shutil.copy(RUNS / f"{name}.{ending}", tree)
    told = "2 of 2 {} have a run table, 1 of them with times of the profiled launches"
    assert f"{told.format('files')}\n" in batch(tree, "-o", out).out
    assert f"{told.format('reports')}. " in keet("top", out, width=200).out
    (tree / "waits_range.ncu-repz").touch()
    wording(batch(tree, "-o", out).out)


def test_rows_have_the_time_in_launches_of_similar_length(tmp_path, out: Path, batch: Keet) -> None:
    """`expand` was profiled at its largest grid, which makes two thirds of its time."""
    for name in ("growing.ncu-repz", "growing.run.json"):
        shutil.copy(RUNS / name, tmp_path)
    batch(tmp_path / "growing.ncu-repz", "-o", out)
    sql = "SELECT run_time_us, run_alike_us FROM launches WHERE launch_id = 0"
    ((time, alike),) = asked(out, sql)
    position = read_profile(RUNS / "growing.ncu-repz").in_run.of(0)  # type: ignore[union-attr]
    assert position.alike_ns is not None
    assert (time, alike) == (position.busy_ns / 1e3, position.alike_ns / 1e3)
    assert 0.6 < alike / time < 0.7
    assert asked(out, "SELECT run_overlap_known FROM files") == [(True,)]


# --- resuming


def test_a_table_that_appears_changes_or_disappears(tree: Path, out: Path, batch, wording) -> None:
    report = tree / "tour.ncu-rep"
    assert "whole run" not in batch(tree, "-o", out).out
    without = {"tour.ncu-rep": ("done", None, None, 3)}
    assert (in_run(out), manifest(out)) == (UNKNOWN, without)
    table = write_table(report, RUN)
    wording(batch(tree, "-o", out).out)
    assert in_run(out) == KNOWN
    write_table(report, {"normalise": (7, 70.0)}, age_s=60)
    assert "3 launches" in batch(tree, "-o", out).out
    assert in_run(out)[2] == ("normalise", 7.0, 70.0, 1.0, 10.0)
    assert manifest(out) == {"tour.ncu-rep": ("done", 70.0, 0.0, 3)}
    table.unlink()
    batch(tree, "-o", out)
    assert (in_run(out), manifest(out)) == (UNKNOWN, without)
    counts = "SELECT count(*) FROM findings"
    shown = f"{counts} SEMI JOIN launches USING (report_sha256, launch_id)"
    assert asked(out, counts) == asked(out, shown)
    wording(batch(tree, "-o", out).out)


def test_stores_of_an_older_keet_are_resumed(tree, out: Path, batch, monkeypatch, wording) -> None:
    """A part of an older keet has no column of the run: only reports with a table are read again."""
    shutil.copy(REPORTS / "nvtx.ncu-repz", tree)
    names = {column.name for column in (*LAUNCHES, *FILES)}
    new = {name for name in names if name.startswith("run_") or name == "plain_us"}
    assert len(new) == 10
    kept = {name: [c.name not in new for c in columns] for name, columns in TABLES.items()}
    write = part_writer.write_part

    def cut(row: tuple[Any, ...], table: str) -> tuple[Any, ...]:
        return tuple(compress(row, kept[table]))

    def write_old(out: Path, records: Any, rows: Any) -> Path:
        old = [e._replace(launches=tuple(cut(row, "launches") for row in e.launches)) for e in rows]
        return write(out, [cut(record, "files") for record in records], old)  # type: ignore[misc]

    with monkeypatch.context() as patch:
        for name, columns in list(TABLES.items()):
            patch.setitem(TABLES, name, cut(columns, name))
        patch.setattr(part_writer, "write_part", write_old)
        assert batch(tree, "-o", out).code == 0
    wording(batch(tree, "-o", out).out)
    assert in_run(out)[0][1:] == NOT_KNOWN
    write_table(tree / "tour.ncu-rep", RUN)
    wording(batch(tree, "-o", out).out)
    assert [row for row in in_run(out) if row[1] is not None] == [KNOWN[0], KNOWN[2]]
    assert manifest(out)["tour.ncu-rep"] == ("done", 2500.0, 500.0, 3)


# --- equal reports


def copied(tree: Path, name: str) -> Path:
    return Path(shutil.copy(tree / "tour.ncu-rep", tree / name))


def test_the_table_of_a_copy_is_used_where_the_first_has_none(tree: Path, out: Path, batch) -> None:
    """Whether the copy came in the same run or later; then that of the first is used."""
    write_table(copied(tree, "x.ncu-rep"), RUN)
    batch(tree / "tour.ncu-rep", "-o", out)
    nothing = ("duplicate", None, None, None)
    files = {"tour.ncu-rep": nothing, "x.ncu-rep": ("done", 2500.0, 500.0, 3)}
    for store in (out, out.with_name("at once")):
        batch(tree, "-o", store)
        assert (in_run(store), manifest(store)) == (KNOWN, files)
        paths = {Path(path).name for (path,) in asked(store, "SELECT path FROM launches")}
        assert paths == {"x.ncu-rep"}
        assert "2 unchanged since" in batch(tree, "-o", store).out


def test_the_run_table_of_the_first_copy_that_fits_is_used(
    tree: Path, with_table: Path, out: Path, batch: Keet
) -> None:
    write_table(copied(tree, "x.ncu-rep"), {"normalise": (1, 1.0)})
    batch(tree, "-o", out)
    assert in_run(out) == KNOWN
    assert manifest(out)["x.ncu-rep"][0] == "duplicate"
    with_table.unlink()
    write_table(tree / "x.ncu-rep", RUN, created="2001-01-01T00:00:00Z")
    batch(tree, "-o", out.with_name("other"))
    assert in_run(out.with_name("other")) == UNKNOWN
    statuses = [status for status, *_ in manifest(out.with_name("other")).values()]
    assert statuses == ["done", "duplicate"]


def test_a_snapshot_has_the_run_of_its_report(
    tree: Path, with_table: Path, out: Path, batch: Keet, keet: Keet, wording
) -> None:
    assert keet("snapshot", tree / "tour.ncu-rep", "-o", tree / "x.keet.json").code == 0
    batch(tree / "x.keet.json", "-o", out)
    assert in_run(out) == KNOWN
    assert manifest(out) == {"x.keet.json": ("done", 2500.0, 500.0, 3)}
    wording(batch(tree / "x.keet.json", "-o", out).out)


# --- tables that can't be used


def test_a_run_table_that_can_not_be_used_is_reported_and_the_report_analysed(
    tree: Path, out: Path, batch: Keet, wording
) -> None:
    """Damaged, or of another profile."""
    damages = [b"{}", b'{"keet_run": 99}', b'{"keet_run": 1', None]
    for number, damage in enumerate(damages):
        folder = folder_of(tree / str(number), "tour_full.ncu-repz")
        report = folder / "tour_full.ncu-repz"
        report.write_bytes(varied(unpacked(report), number))
        table = write_table(report, RUN, created="2001-01-01T00:00:00Z")
        if damage is not None:
            table.write_bytes(damage)
    (tree / "tour.ncu-rep").unlink()
    result = batch(tree, "-o", out)
    assert (result.code, in_run(out)) == (0, sorted(UNKNOWN * 4, key=UNKNOWN.index))
    files = asked(out, "SELECT status, reason FROM files ORDER BY path")
    assert {status for status, _ in files} == {"done"}
    wording(result.out, [reason for _, reason in files])


# --- finding reports


def test_run_tables_are_skipped_without_a_message(tree, with_table: Path, out, batch, keet) -> None:
    survey = find_reports([tree], out)
    assert ([file.relative for file in survey.reports], survey.other_files) == (["tour.ncu-rep"], 0)
    status = with_table.stat()
    assert survey.reports[0].table == (status.st_size, status.st_mtime_ns)
    named = find_reports(sorted(tree.iterdir()), out)
    assert [file.relative for file in named.reports] == ["tour.ncu-rep"], "as from a shell's *"
    assert batch(with_table, "-o", out).code == 2
    assert keet("explain", tree, "--no-model", "--no-sass").code == 0
    with_table.unlink()
    assert find_reports([tree], out).reports[0].table == NO_TABLE


def test_a_snapshot_may_be_called_like_a_table(tree: Path, out: Path, keet: Keet) -> None:
    keet("snapshot", tree / "tour.ncu-rep", "-o", tree / "x.keet.json")
    (tree / "x.keet.json").rename(tree / "other.run.json")
    names = [file.relative for file in find_reports([tree], out).reports]
    assert names == ["other.run.json", "tour.ncu-rep"]
