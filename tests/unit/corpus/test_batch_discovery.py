"""Which files of a folder are reports, in which order, and each once."""

import os
from pathlib import Path

import pytest

from keet.corpus.discovery import (
    Shard,
    find_reports,
    looks_like_report,
    parse_shard,
    shard_of,
)
from keet.errors import UsageError
from tests.conftest import REPORTS


def filled(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"whatever")
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = ("b.ncu-rep", "a.NCU-REP", "sub/c.ncu-repz", "sub/d.keet.json")
    return filled(tmp_path / "tree", *files)


def names(*places: Path, out: Path | None = None) -> list[str]:
    return [file.relative for file in find_reports(places, out or Path("no-store")).reports]


def test_order_is_by_name_and_depth_and_paths_are_absolute(tree: Path, monkeypatch) -> None:
    assert names(tree) == ["a.NCU-REP", "b.ncu-rep", "sub/c.ncu-repz", "sub/d.keet.json"]
    monkeypatch.chdir(tree)
    found = find_reports([Path("sub")], Path("no-store")).reports
    paths = [Path(file.path) for file in found]
    assert paths == [tree / "sub" / "c.ncu-repz", tree / "sub" / "d.keet.json"]


def test_csv_and_json_files_are_recognised_by_content(tree: Path) -> None:
    for export in ("tour_lines.csv", "nvtx.live.csv"):
        (tree / export).write_bytes((REPORTS / export).read_bytes())
    (tree / "sales.csv").write_text("ID,Amount\n1,2\n")
    (tree / "details.csv").write_text('"ID","Kernel Name","Metric Name","Metric Value"\n')
    for printed in ("printed.csv", "printed.txt", "printed.LOG"):
        (tree / printed).write_text("  k, Context 1, Stream 7\n    Section: S\n    ------- -- --\n")
    (tree / "package.json").write_text('{"name": "keet_snapshot"}')
    (tree / "notes.txt").write_text("no report")
    survey = find_reports([tree], tree / "out")
    csv = [file.relative for file in survey.reports if file.relative.endswith(".csv")]
    assert csv == ["details.csv", "nvtx.live.csv", "printed.csv", "tour_lines.csv"]
    assert (survey.other_files, survey.skipped_exports) == (2, 2)
    assert names(tree / "printed.txt") == ["printed.txt"]


def test_odd_names_and_a_folder_named_like_a_report(tree: Path) -> None:
    """The first suffix is of 2019. The folder fails, and is searched."""
    odd = ("old.nsight-cuprof-report", os.fsdecode(b"\xff.ncu-rep"), "odd.ncu-rep/in.ncu-rep")
    assert {*odd, "odd.ncu-rep"} <= set(names(filled(tree, *odd)))


def test_links_lead_to_each_file_once(tree: Path, tmp_path: Path) -> None:
    elsewhere = filled(tmp_path / "elsewhere", "e.ncu-rep")
    for link, target in (
        (tree / "sub" / "up", tree),
        (tree / "again.ncu-rep", tree / "b.ncu-rep"),
        (tree / "dangling.ncu-rep", tree / "nothing"),
        (tree / "round.ncu-rep", tree / "round.ncu-rep"),
        (elsewhere / "back", tree),
        (tree / "linked", elsewhere),
    ):
        link.symlink_to(target)
    assert names(tree) == [
        "a.NCU-REP", "b.ncu-rep", "sub/c.ncu-repz", "sub/d.keet.json",
        "dangling.ncu-rep", "linked/e.ncu-rep", "round.ncu-rep",
    ]  # fmt: skip


def test_overlapping_places_and_files_by_name(tree: Path) -> None:
    assert names(tree / "sub", tree, tree / "b.ncu-rep") == [
        "c.ncu-repz", "d.keet.json", "a.NCU-REP", "b.ncu-rep",
    ]  # fmt: skip
    (tree / "odd.bin").write_bytes(b"x")
    assert names(tree / "odd.bin") == ["odd.bin"]


def test_the_store_itself_is_not_searched(tree: Path) -> None:
    filled(tree, "store/x.ncu-rep")
    assert "store/x.ncu-rep" not in names(tree, out=tree / "store")
    assert "store/x.ncu-rep" in names(tree)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_and_devices_are_not_opened(tree: Path) -> None:
    os.mkfifo(tree / "pipe.csv")
    os.mkfifo(tree / "pipe.ncu-rep")
    survey = find_reports([tree], tree / "out")
    assert survey.other_files == 1
    assert "pipe.ncu-rep" in [file.relative for file in survey.reports]
    assert not looks_like_report(tree), "nor folders, as in `keet verify . text.md`"


def test_deep_trees_and_missing_paths(tmp_path: Path) -> None:
    filled(tmp_path, f"{'d/' * 200}x.ncu-rep")
    assert len(names(tmp_path)) == 1
    with pytest.raises(UsageError, match="there is no such file or folder"):
        find_reports([tmp_path / "missing"], tmp_path)


# --- shards


def test_shards_are_even_never_change_and_cover_a_tree(tree: Path) -> None:
    counts = [0] * 16
    for number in range(16_000):
        counts[shard_of(f"run/{number:06}.ncu-rep", 16)] += 1
    assert 850 < min(counts) <= max(counts) < 1150
    # Shards that ran yesterday go on tomorrow: these numbers must not change.
    assert [shard_of(name, 1000) for name in ("a", "b/c.ncu-rep", "ä")] == [343, 444, 529]
    out = tree / "out"
    parts = [find_reports([tree], out, Shard(n, 3)) for n in range(3)]
    together = sorted(file.relative for part in parts for file in part.reports)
    assert together == sorted(names(tree))
    assert {len(part.reports) + part.in_other_shards for part in parts} == {4}


def test_shards_count_from_zero() -> None:
    assert parse_shard("0/4") == Shard(0, 4)
    with pytest.raises(UsageError, match="counted from 0; use 0/4 to 3/4"):
        parse_shard("4/4")
    for text in ("", "1", "3/3", "-1/2", "a/b", "0/0", "1/2/3", "1/99999999"):
        with pytest.raises(UsageError, match="--shard"):
            parse_shard(text)
