"""What is written is what is read, and of contents only the newest, once."""

import math
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keet
from keet.corpus.store.part_writer import FileRecord, remove_abandoned, write_part
from keet.corpus.store.reader import Store, open_store
from keet.corpus.store.report_rows import FileRows, Row
from keet.corpus.store.schema import (
    ACCOUNT,
    FILE_COLUMNS,
    FINDINGS,
    LAUNCH_COLUMNS,
    LAUNCHES,
    METRICS,
    PARTS,
    TABLES,
    UNFINISHED,
    mark_of,
    part_folders,
    storable,
)
from keet.corpus.store.views import views_of
from keet.errors import DamagedReport, UnsupportedVersion, UsageError
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.corpus.store_rows import asked, launch_row, record, report, resume_state

SHA = "a" * 64

# --- what is written is what is read

VALUES = {
    "VARCHAR": st.text(st.characters(exclude_categories=["Cs"])),
    "BOOLEAN": st.booleans(),
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
    "TIMESTAMP": st.datetimes(),
}


def rows_like(columns: tuple) -> st.SearchStrategy[Row]:
    return st.tuples(*(st.none() | VALUES[column.type] for column in columns))


EVERY = "SELECT * EXCLUDE (filename, file_row_number) FROM parts.{} ORDER BY file_row_number"


def written(*tables: list[Row]) -> list[list[Row]]:
    """Launches, findings and the account: through a store and back, in the order of writing."""
    with tempfile.TemporaryDirectory() as folder:
        given = map(tuple, (*tables, (), ())[:3])
        write_part(Path(folder), [record("p", SHA)], [FileRows(*given)])
        with open_store(folder) as store:
            names = ("launches", "findings", "account")
            return [store.query(EVERY.format(name)).rows for name in names]


@settings(max_examples=6, deadline=None)
@given(
    st.lists(rows_like(LAUNCHES), min_size=1, max_size=3),
    st.lists(rows_like(FINDINGS), max_size=4),
    st.lists(rows_like(ACCOUNT), max_size=4),
)
@pytest.mark.slow
def test_rows_come_back_as_they_were(
    launches: list[Row], findings: list[Row], account: list[Row]
) -> None:
    assert written(launches, findings, account) == [launches, findings, account]


def test_only_numbers_that_fit_are_kept() -> None:
    """Zero is not NULL."""
    rows: list[tuple[dict[str, object], float | None]] = [
        ({"dram_bytes_read": math.nan}, None),
        ({"dram_bytes_read": math.inf}, None),
        ({"dram_bytes_read": -math.inf}, None),
        ({"dram_bytes_read": 0.0, "launch_id": 0}, 0.0),
        ({"dram_bytes_written": None}, None),
        ({"grid_x": 2**31, "threads": 2**63}, None),
    ]
    found, *_ = written([launch_row(report_sha256=SHA, **cells) for cells, _ in rows])
    for row, (cells, expected) in zip(found, rows, strict=True):
        assert {row[LAUNCH_COLUMNS.index(name)] for name in cells} == {expected}


def test_names_with_line_breaks_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    """Of reports, and of the store."""
    name = os.fsdecode(b"run\n\xff'; DROP.ncu-rep")
    place = tmp_path / "a b" / "it's" / "x[1]*?" / "ümlaut" / "semi;colon--"
    resume_state(place, report(name, SHA))
    with open_store(place) as store:
        assert [each.path for each in store.files()] == [storable(name)]
        assert store.query("SELECT path FROM launches").rows == [(storable(name),)]


def test_the_record_of_a_file_comes_back(tmp_path: Path) -> None:
    cells = {"reason": "cut short", "launches": None, "seconds": None, "mtime_ns": 2**62}
    failed = record("b", None, "failed", **cells)
    write_part(tmp_path, [record("a", SHA), failed], [report("a", SHA)])
    with open_store(tmp_path) as store:
        assert store.files()[1] == failed


# --- the newest content of each path, once


def shown(out: Path) -> list[tuple[str, str, int]]:
    with open_store(out) as store:
        sql = "SELECT path, report_sha256[1], launch_id FROM launches ORDER BY ALL"
        rows = store.query(sql).rows
        for view in ("findings", "account"):
            assert len(store.query(f"FROM {view}").rows) == len(rows)
        return [tuple(row) for row in rows]


def sha(letter: str) -> str:
    return letter * 64


TIMES = "SELECT duration_us FROM launches"


@pytest.mark.slow
def test_equal_content_counts_once_with_its_newest_rows(tmp_path: Path) -> None:
    """Whether two machines analysed it or it is in one part. The table of the run may have changed,
    which is no part of the content."""
    machines, part, changed = tmp_path / "machines", tmp_path / "part", tmp_path / "changed"
    first, copy = (report(path, sha("a"), (1.0, 2.0)) for path in ("p", "copy of p"))
    resume_state(machines, first)
    resume_state(machines, copy)
    assert shown(machines) == [("copy of p", "a", 0), ("copy of p", "a", 1)]
    assert told(machines) == {"copy of p": ("done", None, 1), "p": ("duplicate", "copy of p", None)}
    resume_state(part, report("p", sha("a"), (1.0,)), report("copy of p", sha("a"), (2.0,)))
    assert (shown(part), asked(part, TIMES)) == ([("copy of p", "a", 0)], [(2.0,)])
    resume_state(changed, first)
    resume_state(changed, report("p", sha("a"), (3.0,)))
    assert (shown(changed), asked(changed, TIMES)) == ([("p", "a", 0)], [(3.0,)])


@pytest.mark.parametrize("now", [None, 7.0], ids=["forgotten", "known"])
@pytest.mark.slow
def test_the_run_of_a_file_is_that_of_its_newest_rows(tmp_path: Path, now: float | None) -> None:
    write_part(tmp_path, [record("p", SHA, run_total_us=5.0, run_unprofiled_us=1.0)], [])
    write_part(tmp_path, [record("q", SHA, run_total_us=now, run_unprofiled_us=now)], [])
    write_part(tmp_path, [copy_of("q", "r")], [])
    assert runs(tmp_path) == {"p": (None, None), "q": (now, now), "r": (None, None)}
    write_part(tmp_path, [gone("p"), gone("q")], [])
    assert runs(tmp_path) == {"p": (None, None), "q": (None, None), "r": (now, now)}


def runs(out: Path) -> dict[str, tuple[object, ...]]:
    rows = asked(out, "SELECT path, run_total_us, run_unprofiled_us FROM files")
    return {path: tuple(rest) for path, *rest in rows}


def told(out: Path) -> dict[str, tuple[object, ...]]:
    """What the store says of each file now."""
    rows = asked(out, "SELECT path, status, duplicate_of, launches FROM files")
    return {path: tuple(rest) for path, *rest in rows}


def copy_of(path: str, copy: str) -> FileRecord:
    reason = f"it is equal to {path}"
    return record(copy, SHA, "duplicate", duplicate_of=path, launches=None, reason=reason)


def gone(path: str) -> FileRecord:
    return record(path, None, "gone", size=None, mtime_ns=None, launches=None)


Step = FileRecord | str
"""A record, or the new content of p."""
A, COPY = record("p", sha("a")), record("q", sha("a"), "duplicate", duplicate_of="p")
MOVED = "moved, and nobody said yet that the old one is gone"
LATER: dict[str, tuple[list[Step], list[tuple[str, str, int]]]] = {
    "changed": (["b"], [("p", "b", 0)]),
    "touched": ([record("p", sha("a"), mtime_ns=2)], [("p", "a", 0)]),
    "a duplicate adds nothing": ([COPY], [("p", "a", 0)]),
    "its path has other content": ([COPY, "b"], [("p", "b", 0), ("q", "a", 0)]),
    "gone": ([gone("p")], []),
    "gone, but there is a copy": ([COPY, gone("p")], [("q", "a", 0)]),
    "a file came back": ([gone("p"), A], [("p", "a", 0)]),
    "content came back": (["b", A], [("p", "a", 0)]),
    "damaged since": ([record("p", sha("b"), "failed", reason="cut short")], []),
    MOVED: ([record("r", sha("a"))], [("r", "a", 0)]),
}  # fmt: skip


@pytest.mark.slow
def test_what_is_shown_after_later_parts(tmp_path: Path) -> None:
    """Each row is a folder of its own, with contents of its own, in one store."""

    def placed(n: int, step: Step) -> tuple[FileRecord, list[FileRows]]:
        path = lambda name: name and f"{n}/{name}"  # noqa: E731
        own = lambda sha256: sha256 and sha256[:-1] + str(n)  # noqa: E731
        if isinstance(step, str):
            return record(f"{n}/p", own(sha(step))), [report(f"{n}/p", own(sha(step)))]
        changed = {"path": path(step.path), "duplicate_of": path(step.duplicate_of)}
        return step._replace(**changed, sha256=own(step.sha256)), []

    rows = [["a", *steps] for steps, _ in LATER.values()]
    for number in range(max(map(len, rows))):
        part = [placed(n, steps[number]) for n, steps in enumerate(rows) if number < len(steps)]
        write_part(tmp_path, [record for record, _ in part], [r for _, rows in part for r in rows])
    expected = [
        (f"{n}/{p}", *rest) for n, (_, told) in enumerate(LATER.values()) for p, *rest in told
    ]
    assert shown(tmp_path) == expected
    names, files = list(LATER), told(tmp_path)
    moved, copied = names.index(MOVED), names.index("gone, but there is a copy")
    assert files[f"{moved}/p"] == ("duplicate", f"{moved}/r", None)
    assert files[f"{copied}/q"] == ("done", None, 1)
    assert files[f"{names.index('gone')}/p"] == ("gone", None, None)


@pytest.mark.slow
def test_a_copy_of_a_changed_file_is_not_a_duplicate(tmp_path: Path) -> None:
    resume_state(tmp_path, report("p", sha("a")))
    for copy in ("q", "r"):
        write_part(tmp_path, [copy_of("p", copy)], [])
    resume_state(tmp_path, report("p", sha("b")))
    done = ("done", None, 1)
    assert told(tmp_path) == {"p": done, "q": done, "r": ("duplicate", "q", None)}
    with open_store(tmp_path) as store:
        reasons = store.query("SELECT reason FROM files ORDER BY path").rows
        assert store.query("FROM files").columns == FILE_COLUMNS
        assert {name for (name,) in store.query("SHOW TABLES").rows} == set(views_of())
    assert reasons == [(None,), (None,), ("it is equal to q",)]


CONTENT = st.tuples(st.sampled_from("pqr"), st.sampled_from("abc"), st.booleans())


@settings(max_examples=6, deadline=None)
@given(st.lists(st.lists(CONTENT, min_size=1, max_size=3), min_size=2, max_size=3))
@pytest.mark.slow
def test_views_are_what_a_plain_reading_of_the_manifest_gives(parts: list) -> None:
    """Paths get contents in any order; some are told by hash alone where the rows are there."""
    with tempfile.TemporaryDirectory() as folder:
        analysed: set[str] = set()
        newest: dict[str, str] = {}
        for part in parts:
            rows, records = [], []
            for path, content, again in dict.fromkeys(part):
                if again or content not in analysed:
                    rows.append(report(path, sha(content)))
                    analysed.add(content)
                records.append(record(path, sha(content)))
                newest[path] = content
            write_part(Path(folder), records, rows)
        seen = shown(Path(folder))
        assert sorted(content for _, content, _ in seen) == sorted(set(newest.values()))
        assert all(newest[path] == content for path, content, _ in seen)


# --- parts


def test_unfinished_parts_are_not_read(tmp_path: Path) -> None:
    """Those of dead processes are removed."""
    resume_state(tmp_path, report("p", sha("a")))
    host = socket.gethostname()
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    who = (f"{host}-{child.pid}", f"{host}-{os.getpid()}", "far-away-1", "old-1")
    folders = [tmp_path / f"{UNFINISHED}{each}-t-r-m" for each in who]
    for folder in folders:
        shutil.copytree(part_folders(tmp_path)[0], folder)
        (folder / "findings.parquet").unlink()
    os.utime(folders[3], (1, 1))
    assert shown(tmp_path) == [("p", "a", 0)]
    assert remove_abandoned(tmp_path) == 2
    assert {*tmp_path.glob(f"{UNFINISHED}*")} == {folders[1], folders[2]}


def test_a_part_that_fails_leaves_nothing(tmp_path: Path) -> None:
    wrong = FileRows((("too", "short"),), ())
    with pytest.raises(ValueError, match="shorter"):
        write_part(tmp_path, [record("p", SHA)], [wrong])
    assert part_folders(tmp_path) == []
    assert list(tmp_path.glob(f"{UNFINISHED}*")) == []


@pytest.mark.slow
def test_parts_of_another_version_have_other_columns(tmp_path: Path, monkeypatch) -> None:
    """An older keet knew fewer metrics: NULL there, and no row in `metrics`."""
    gone = METRICS[-1].id
    with monkeypatch.context() as patch:
        patch.setitem(TABLES, "launches", tuple(c for c in LAUNCHES if c.name != gone))
        old = FileRows(tuple(row[:-1] for row in report("old", sha("a")).launches), ())
        write_part(tmp_path, [record("old", sha("a"))], [old])
    new = launch_row(report_sha256=sha("b"), path="new", launch_id=0, **{gone: 7.0})
    write_part(tmp_path, [record("new", sha("b"))], [FileRows((new,), ())])
    assert len({mark_of(part) for part in part_folders(tmp_path)}) == 2
    with open_store(tmp_path) as store:
        rows = store.query(f"SELECT path, {gone} FROM launches ORDER BY 1").rows
        assert rows == [("new", 7.0), ("old", None)]
        assert store.query(f"SELECT value FROM metrics WHERE metric = '{gone}'").rows == [(7.0,)]
        assert store.query("FROM launches").columns == LAUNCH_COLUMNS


@pytest.mark.slow
def test_an_empty_store_has_views_without_rows(tmp_path: Path) -> None:
    resume_state(tmp_path, report("p", SHA))
    shutil.rmtree(part_folders(tmp_path)[0])
    with open_store(tmp_path) as store:
        assert (store.files(), store.query("FROM metrics").rows) == ([], [])
        assert store.query("FROM launches") == (LAUNCH_COLUMNS, [])


# --- reading


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is only read, beside something that is none of its business."""
    folder = tmp_path_factory.mktemp("kept")
    resume_state(folder, report("p", SHA, (1.0, None)))
    (folder / "secret").write_text("{'a': [1]}")
    return folder


@pytest.fixture(scope="module")
def opened(kept: Path) -> Iterator[Store]:
    with open_store(kept) as store:
        yield store


@pytest.fixture
def small(kept: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(kept, tmp_path / "small"))


@pytest.mark.slow
def test_pandas(kept: Path, wording) -> None:
    store = keet.open_store(kept)
    frame = store.to_pandas()
    assert list(frame.columns) == list(LAUNCH_COLUMNS)
    assert frame["duration_us"].isna().tolist() == [False, True]
    assert len(store.to_pandas("findings")) == 2
    columns = store.query("SELECT 1 AS a, 'x' AS b").to_pandas().to_dict("list")
    assert columns == {"a": [1], "b": ["x"]}
    wording(repr(store))
    with pytest.raises(UsageError, match="no view 'nope'; the views are launches, findings, acc"):
        store.to_pandas("nope")


def test_a_notebook_shows_what_a_store_is(small: Path) -> None:
    folder = small.rename(small.with_name("<b>"))
    with open_store(folder) as store:
        reading = iter(store.stream("FROM launches"))
        first = next(reading)
        shown = store._repr_html_()
        assert [first, *reading] == store.query("FROM launches").rows, "it asks the store nothing"
    assert "<b><b>" not in shown
    for words in ("&lt;b&gt;", "1 part", "version ", "<td>launches", 'store.to_pandas("'):
        assert words in shown, words


def test_a_closed_store_says_so(kept: Path) -> None:
    store = open_store(kept)
    stream = store.stream("FROM launches")
    store.close()
    store.close()
    uses = (lambda: store.query("SELECT 1"), store.to_pandas, lambda: list(stream), store.files)
    for use in uses:
        with pytest.raises(UsageError, match="store is closed; open it again") as caught:
            use()
        assert repr(str(kept)) in str(caught.value)
    assert "closed" in repr(store)
    assert "closed" in store._repr_html_()


@pytest.mark.slow
def test_the_metrics_view_has_a_row_for_what_was_measured(tmp_path: Path) -> None:
    cells = {"path": "p", "launch_id": 3, "kernel": "k", "device": "d", "dram_bytes_read": 0.0}
    row = launch_row(report_sha256=SHA, **cells)
    write_part(tmp_path, [record("p", SHA)], [FileRows((row,), ())])
    assert asked(tmp_path, "FROM metrics") == [(SHA, 3, "k", "d", "dram_bytes_read", 0.0, "byte")]


WRITES = [
    "COPY launches TO '{0}/stolen.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{0}/parts/x.parquet'",
    "EXPORT DATABASE '{0}/parts/x'",
    "ATTACH '{0}/parts/x.db'",
    *("INSTALL httpfs", "CREATE TABLE x AS SELECT 1", "DROP VIEW launches"),
    *("SET enable_external_access = true", "SET VARIABLE x = 1"),
    *("PRAGMA database_list; SELECT 1", "SELECT 1; SELECT 2", "", "-- nothing"),
    "PIVOT launches ON kernel USING sum(duration_us)",
]
READS = [
    "FROM read_text('{0}/secret')",
    "FROM read_csv('{0}/parts/../secret')",
    "FROM '{0}/secret'",
    "FROM glob('{0}/*')",
    "FROM read_parquet('https://example.com/x.parquet')",
    "SELECT * FROM python_variable",
    "SELECT getenv('HOME')",
]


@each_row("sql", [*WRITES, *READS])
def test_queries_can_not_write_and_read_only_the_store(kept: Path, opened: Store, sql: str) -> None:
    python_variable = {"a": [1]}
    assert (kept / "secret").read_text() == str(python_variable)
    before = sorted(path.name for path in kept.rglob("*"))
    with pytest.raises(UsageError, match="give one SELECT" if sql in WRITES else None):
        opened.query(sql.format(kept))
    assert sorted(path.name for path in kept.rglob("*")) == before


def test_temporary_files_are_removed(kept: Path, tmp_path: Path) -> None:
    with open_store(kept) as store, (tmp_path / "x.parquet").open("wb") as file:
        store.write_parquet("SELECT kernel FROM launches -- all;", file)
        scratch = store._scratch
        assert scratch.exists()
    assert not scratch.exists()


# --- stores that can't be read


def test_what_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording) -> None:
    """A path that is not there, an empty folder, a store that lost its file, other folders, files.
    The path is the one that was given: the commands can be pasted."""
    monkeypatch.chdir(tmp_path)
    (Path("lost") / PARTS).mkdir(parents=True)
    for name in ("empty", "store", "my runs", "reports"):
        Path(name).mkdir()
    for name in ("store/notes.txt", "my runs/notes.txt", "reports/a.ncu-rep", "notes.txt"):
        Path(name).touch()
    places = ("no where", "empty", "lost", "store", "my runs", "reports", "notes.txt")
    files = (REPORTS / name for name in ("nvtx.ncu-repz", "tour_basic.live.csv"))
    for place in (*places, *files):
        with pytest.raises(UsageError) as caught:
            open_store(place)
        if place in places[:3]:
            assert str(caught.value).endswith(f" keet batch DIR -o {shlex.quote(place)}")
        wording(str(caught.value), case=Path(place).name)


def test_a_damaged_or_a_newer_store_file(small: Path) -> None:
    for text in ("", "[]", "{}", '{"schema_version": "x"}', "\xff"):
        (small / "keet_store.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(DamagedReport, match="is damaged"):
            open_store(small)
    (small / "keet_store.json").write_text('{"schema_version": 3, "keet": "9.0"}')
    said = r"version 3 \(keet 9.0\), this keet reads up to version 2; upgrade"
    with pytest.raises(UnsupportedVersion, match=said):
        open_store(small)
