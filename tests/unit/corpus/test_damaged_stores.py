"""Stores with damaged files: readers say so, and the next batch mends them."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from keet.cli import main
from keet.corpus.batch.stored_files import LOST, set_damaged_aside
from keet.corpus.store import reader
from keet.corpus.store.damage import CHECKSUMS, damaged_parts
from keet.corpus.store.reader import open_store
from keet.corpus.store.schema import DAMAGED, SCHEMA_VERSION, STORE_FILE, TABLES, part_folders
from keet.errors import DamagedReport, UsageError
from tests.conftest import REPORTS, Keet, Result
from tests.rows import each_row
from tests.unit.corpus.conftest import folder_of, in_process
from tests.unit.corpus.store_rows import asked, everything, report, resume_state

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage") / "tree"
    return folder_of(folder, "graph.ncu-repz", "nvtx.ncu-repz", cut="cut.ncu-rep")


@pytest.fixture(scope="module")
def base(tree: Path) -> Path:
    """Two parts: two reports and a failed file, then another report and a copy of the first."""
    out = tree.with_name("base")
    _run_batch(tree, "-o", out)
    shutil.copy(REPORTS / "range.ncu-rep", tree)
    shutil.copy(REPORTS / "nvtx.ncu-repz", tree / "same.ncu-rep")
    _run_batch(tree, "-o", out)
    assert len(part_folders(out)) == 2
    return out


@pytest.fixture(scope="module")
def whole(base: Path) -> list[list[tuple[Any, ...]]]:
    return everything(base)


@pytest.fixture
def out(base: Path, tmp_path: Path) -> Path:
    """To be damaged."""
    return Path(shutil.copytree(base, tmp_path / "out"))


def _run_batch(*arguments: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        in_process(patch)
        assert main(["batch", *map(str, arguments)]) == 5


# --- kinds of damage


def _put(data: Callable[[bytes], bytes]) -> Damage:
    return lambda path: path.write_bytes(data(path.read_bytes()))


def _instead(make: Damage) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def _flipped(raw: bytes) -> bytes:
    """A byte of a page: the footer is intact, and duckdb may not notice."""
    at = random.Random(7).randrange(4, len(raw) - 8 - int.from_bytes(raw[-8:-4], "little"))
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def _of_another_part(path: Path) -> None:
    other = next(each for each in path.parent.parent.iterdir() if each != path.parent)
    shutil.copy(other / path.name, path)


def _other_columns(path: Path) -> None:
    duckdb.connect().execute(f"COPY (SELECT 1 AS a, 'x' AS kernel) TO '{path}' (FORMAT parquet)")


def _selected(select: str) -> Damage:
    def damage(path: Path) -> None:
        whole = path.rename(path.with_suffix(".whole"))
        rows = select.format(f"read_parquet('{whole}')")
        duckdb.connect().execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
        whole.unlink()

    return damage


VISIBLE: dict[str, Damage] = {
    "empty": _put(lambda raw: b""),
    "half": _put(lambda raw: raw[: len(raw) // 2]),
    "text": _put(lambda raw: b"not a table\n"),
    "columns": _other_columns,
    "types": _selected("SELECT COLUMNS(*)::VARCHAR FROM {}"),
    "no rows": _selected("FROM {} LIMIT 0"),
    "another part": _of_another_part,
    "missing": Path.unlink,
    "folder": _instead(Path.mkdir),
    "link": _instead(lambda path: path.symlink_to("/etc/passwd")),
    "loop": _instead(lambda path: path.symlink_to(path.name)),
    "pipe": _instead(os.mkfifo),
    "endless": _instead(lambda path: path.symlink_to("/dev/zero")),
}
SAME_SIZE: dict[str, Damage] = {
    "flipped": _put(_flipped),
    "header": _put(lambda raw: bytes(64) + raw[64:]),
    "footer": _put(lambda raw: raw[:-40] + bytes(32) + raw[-8:]),
}
ALL = {**VISIBLE, **SAME_SIZE}


def check_set_aside(out: Path, name: str) -> None:
    """The damaged part is kept, and the rest of the store can be used."""
    (said,) = set_damaged_aside(out)
    assert f"{name}: " in said
    assert f"moved to {out / DAMAGED / name}" in said
    assert os.path.lexists(out / DAMAGED / name)
    assert list(set_damaged_aside(out)) == []


COMMANDS = (("query", "FROM {}"), ("top",), ("insights",))


@pytest.mark.slow
@each_row(("number", "kind"), enumerate(ALL))
def test_a_damaged_table(number: int, kind: str, base: Path, tmp_path_factory, keet) -> None:
    """Each kind of damage in one of the tables, as one of the commands sees it. Without checksums,
    as older versions of keet wrote parts, a batch reads the parts once."""
    out = Path(shutil.copytree(base, tmp_path_factory.mktemp("damaged") / "out"))
    part, table = part_folders(out)[0], [*TABLES][number % len(TABLES)]
    ALL[kind](part / f"{table}.parquet")
    command, *sql = COMMANDS[number % len(COMMANDS)]
    result = keet(command, out, *(each.format(table) for each in sql))
    if kind in VISIBLE:
        assert result.code == 4
        assert result.err.startswith(f"keet: {part}: {table}.parquet ")
        assert result.err.endswith(f": keet batch DIR -o {out}\n")
    assert result.code in (0, 4), "damage that no size shows may decode without an error"
    assert result.err.count("\n") == (result.code == 4)
    check_set_aside(out, part.name)
    if kind in VISIBLE:
        old = Path(shutil.copytree(base, out.with_name("old")))
        for each in part_folders(old):
            (each / CHECKSUMS).unlink()
        table = [*TABLES][(number + 1) % len(TABLES)]
        ALL[kind](part_folders(old)[0] / f"{table}.parquet")
        check_set_aside(old, part.name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "kind", "has_checksums"),
    [
        ("launches", "half", True),
        ("findings", "missing", False),
        ("account", "flipped", True),
        ("files", "loop", False),
    ],
)
def test_the_next_batch_mends_a_store(
    table: str, kind: str, has_checksums: bool, out: Path, tree: Path, batch: Keet, whole: list[Any]
) -> None:
    """It is as if nothing had happened; the damaged part is kept."""
    part = part_folders(out)[0]
    for each in part_folders(out) if not has_checksums else []:
        (each / CHECKSUMS).unlink()
    ALL[kind](part / f"{table}.parquet")
    done = batch(tree, "-o", out)
    said, *_ = done.err.splitlines()
    assert done.code == 5, "the file that was cut"
    assert f"{part.name}: " in said
    assert f"moved to {out / DAMAGED / part.name}" in said
    assert everything(out) == whole
    parts = part_folders(out)
    assert "moved to" not in batch(tree, "-o", out).err
    assert part_folders(out) == parts


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        lambda part: (shutil.rmtree(part), part.mkdir()),
        lambda part: (shutil.rmtree(part), part.write_text("x")),
        lambda part: (shutil.rmtree(part), part.symlink_to(part.name)),
        lambda part: part.symlink_to(part.rename(part.parent.parent / "elsewhere")),
    ],
    ids=["empty", "file", "loop", "link"],
)
def test_a_damaged_folder_of_a_part(damage: Damage, out: Path, keet: Keet) -> None:
    part = part_folders(out)[0]
    damage(part)
    assert keet("top", out).code == 4
    check_set_aside(out, part.name)


@pytest.mark.slow
def test_damaged_checksums_count_as_none(out: Path, whole: list[Any]) -> None:
    part = part_folders(out)[0]
    for text in (b"", b"\xff\x00", b"[" * 9000, b"[]", b'{"launches": 5}'):
        (part / CHECKSUMS).write_bytes(text)
        with open_store(out) as store:
            assert store.query("SELECT count(*) FROM launches").rows == [(len(whole[0]),)]
        assert list(set_damaged_aside(out)) == []
        assert set(json.loads((part / CHECKSUMS).read_text())) == set(TABLES)


MAKE: dict[str, Damage] = {
    "empty": Path.touch,
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "true": lambda path: path.write_bytes(b'{"schema_version": true}'),
    "folder": Path.mkdir,
    "loop": lambda path: path.symlink_to(path.name),
    "pipe": os.mkfifo,
}


@pytest.mark.slow
def test_a_damaged_store_file_is_written_again(out: Path, whole: list[Any]) -> None:
    for make in MAKE.values():
        _instead(make)(out / STORE_FILE)
        with pytest.raises((DamagedReport, UsageError), match=f"keet batch DIR -o {out}"):
            open_store(out)
        (said,) = set_damaged_aside(out)
        assert f"moved to {out / DAMAGED / STORE_FILE}" in said
        shutil.rmtree(out / DAMAGED)
    assert everything(out) == whole


def test_other_files_in_a_store_are_not_parts(out: Path, whole: list[Any], monkeypatch) -> None:
    """Nor are parts that are set aside while a store is opened."""
    part = part_folders(out)[0]
    (part.parent / "README").touch()
    (part.parent / "a-b'; x").mkdir()
    shutil.copytree(part, part.with_name(f"{part.name}-copy"))
    (part / "notes.txt").touch()
    assert list(set_damaged_aside(out)) == []
    name = "20200101T000000.000000Z-0123456789ab-abcdef"
    aside, opened = shutil.copytree(part, part.with_name(name)), reader.Store

    def slow(*arguments: Any, **options: Any) -> reader.Store:
        shutil.rmtree(aside, ignore_errors=True)
        return opened(*arguments, **options)

    monkeypatch.setattr(reader, "Store", slow)
    assert everything(out) == whole


@pytest.mark.slow
def test_a_name_that_is_taken(out: Path) -> None:
    """A file called `damaged`, and a part that was restored and is damaged again."""
    (out / DAMAGED).touch()
    part = part_folders(out)[1]
    copy = shutil.copytree(part, out / "copy")
    for _ in range(2):
        (part / "account.parquet").unlink()
        (said,) = set_damaged_aside(out)
        assert str(out / "damaged.2" / part.name) in said
        shutil.copytree(copy, part)
    assert {path.name for path in (out / "damaged.2").iterdir()} == {part.name, f"{part.name}.2"}


@pytest.mark.slow
def test_reports_of_other_folders_are_not_forgotten(
    out: Path, tree: Path, tmp_path: Path, batch: Keet, whole: list[Any]
) -> None:
    (part_folders(out)[0] / "findings.parquet").unlink()
    other = folder_of(tmp_path / "other", "triton.ncu-repz")
    done = batch(other, "-o", out)
    assert done.code == 0
    assert "2 reports of damaged parts are still missing from the store" in done.err
    lost = [(str(tree / f"{name}.ncu-repz"),) for name in ("graph", "nvtx")]
    assert asked(out, f"SELECT path FROM files WHERE reason = '{LOST}' ORDER BY 1") == lost
    quarantine = (out / "quarantine.txt").read_text()
    assert all(f"{name}\t{LOST}\n" in quarantine for (name,) in lost)
    assert batch(tree, "-o", out).code == 5
    (other / "triton.ncu-repz").unlink()
    batch(tree, other, "-o", out, "--prune")
    assert everything(out)[:-1] == whole[:-1]


@pytest.mark.slow
def test_a_moved_file_whose_rows_were_damaged(out: Path, tree: Path, tmp_path, batch: Keet) -> None:
    """Its record is in another part than its rows."""
    out, tree = tmp_path / "new", Path(shutil.copytree(tree, tmp_path / "tree"))
    batch(tree, "-o", out)
    (tree / "graph.ncu-repz").rename(tree / "moved.ncu-rep")
    batch(tree, "-o", out)
    before = everything(out)
    (part_folders(out)[0] / "launches.parquet").unlink()
    assert batch(tree, "-o", out).code == 5
    assert everything(out)[:-1] == before[:-1]


@pytest.mark.slow
def test_the_order_of_records_is_kept(tmp_path: Path) -> None:
    """An old record that was superseded stays superseded."""
    for sha256 in ("a" * 64, "b" * 64):
        resume_state(tmp_path, report("p", sha256))
    (part_folders(tmp_path)[0] / "account.parquet").unlink()
    assert len(list(set_damaged_aside(tmp_path))) == 1
    assert asked(tmp_path, "SELECT status, sha256 FROM files") == [("done", "b" * 64)]
    assert asked(tmp_path, "SELECT report_sha256 FROM launches") == [("b" * 64,)]


@pytest.mark.slow
def test_two_batches_set_the_same_part_aside(out: Path, base: Path, monkeypatch) -> None:
    part = part_folders(out)[0]
    (part / "account.parquet").unlink()
    found = damaged_parts(part_folders(out), SCHEMA_VERSION)
    assert len(list(set_damaged_aside(out))) == 1
    parts = part_folders(out)
    monkeypatch.setattr("keet.corpus.batch.stored_files.damaged_parts", lambda *_, **__: found)
    assert list(set_damaged_aside(out)) == []
    assert part_folders(out) == parts
    shutil.copytree(base / "parts" / part.name, part)  # not moved yet, but its records are kept
    assert len(list(set_damaged_aside(out))) == 1
    assert part_folders(out) == parts


def test_a_damaged_name_of_a_column_is_not_a_wrong_query(out: Path, keet: Keet) -> None:
    for each in part_folders(out):
        path = each / "launches.parquet"
        _put(lambda raw: raw.replace(b"elapsed_cycles", b"elapsed_cyclez"))(path)
    for command, *sql in (
        ("top",),
        ("insights",),
        ("query", "SELECT elapsed_cycles FROM launches"),
    ):
        check_changed(out, keet(command, out, *sql))


def check_changed(out: Path, result: Result) -> None:
    said = f"keet: {part_folders(out)[0]}: launches.parquet was changed"
    assert (result.code, result.err.count("\n")) == (4, 1)
    assert result.err.startswith(said)


def test_values_that_keet_never_writes(out: Path, keet: Keet, monkeypatch) -> None:
    """A flipped bit of a page makes them NULL; here, every value of every result is."""
    _put(_flipped)(part_folders(out)[0] / "launches.parquet")
    nothing = lambda stream: iter([(None,) * len(stream.columns)])  # noqa: E731
    monkeypatch.setattr(reader.QueryStream, "__iter__", nothing)
    for command in ("top", "insights"):
        check_changed(out, keet(command, out))


def test_a_mistake_of_keet_is_not_damage(out: Path) -> None:
    with open_store(out) as store, pytest.raises(TypeError), store.explaining_damage():
        raise TypeError


@pytest.mark.parametrize("is_damaged", [False, True])
def test_internal_errors_of_duckdb_are_one_line(is_damaged: bool, out: Path) -> None:
    def fail() -> None:
        raise duckdb.InternalException("INTERNAL Error: a cause\n\nStack Trace:\n0 duckdb::f")

    with open_store(out) as store:
        if is_damaged:
            (part_folders(out)[0] / "account.parquet").unlink()
        with pytest.raises(DamagedReport if is_damaged else UsageError) as raised:
            store.guarded(fail)
    text = str(raised.value)
    assert not any(part in text for part in ("\n", "INTERNAL", "Stack"))
    assert ("account.parquet is missing" if is_damaged else "a cause") in text
