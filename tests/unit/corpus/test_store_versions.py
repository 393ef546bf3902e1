"""Stores of the first version: what is read of them, and that nothing is added to them.

`tests/data/stores/version_1` was made by the last keet that wrote such stores.
"""

import json
import shlex
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keet.corpus.store import schema
from keet.corpus.store.damage import read_version
from keet.corpus.store.part_writer import make_store, write_part
from keet.corpus.store.reader import open_store
from keet.errors import IngestError, UsageError
from tests.conftest import REPORTS, Keet
from tests.rows import each_row
from tests.unit.corpus.store_rows import record, report, resume_state

VERSION_1 = Path("tests/data/stores/version_1")
NOTE = (
    "this store has version 1 (keet 0.1.0): its findings and forecasts come from an older analysis, "
    "and it has no account of the time; to analyse the reports again: keet batch DIR -o NEW\n"
)
VIEWS = {"launches", "findings", "metrics", "files"}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """To be changed."""
    return Path(shutil.copytree(VERSION_1, tmp_path / "store"))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- reading


@pytest.mark.slow
def test_an_old_store_is_read() -> None:
    with open_store(VERSION_1) as store:
        assert {name for (name,) in store.query("SHOW TABLES").rows} == VIEWS == set(store.views)
        assert store.query("FROM launches LIMIT 0").columns == schema.LAUNCH_COLUMNS
        columns = "top_finding, limiter, round(top_forecast, 1), top_part, unknown_share"
        flip = store.query(f"SELECT {columns} FROM launches WHERE kernel = 'flip'").rows
        assert flip == [("uncoalesced_global", "L2", 4.5, None, None)]
        counts = [
            len(store.query(f"FROM {view}").rows) for view in ("launches", "findings", "files")
        ]
        assert counts == [14, 10, 4]
        assert len(store.to_pandas("findings")) == 10


@each_row("arguments", [["top", "--format", "json"], ["insights"], ["query"]])
@pytest.mark.slow
def test_commands_that_read_an_old_store_say_what_it_lacks(arguments: list[str], keet) -> None:
    command, *rest = arguments
    result = keet(command, VERSION_1, *rest)
    assert (result.code, result.err) == (0, f"keet: {NOTE}")
    assert result.out


@pytest.mark.slow
def test_views_missing_in_an_old_store_are_refused_with_a_command(keet: Keet, wording) -> None:
    """Other wrong names are not blamed on the age."""
    for sql in ("FROM account", "SELECT sum(us) FROM launches JOIN account USING (launch_id)"):
        result = keet("query", VERSION_1, sql)
        assert (result.code, result.out) == (2, "")
        wording(result.err, case=sql)
    result = keet("query", VERSION_1, "FROM accounts")
    assert result.code == 2
    assert "version 1" not in result.err
    with open_store(VERSION_1) as store:
        for name, said in (("account", "this store has version 1"), ("nope", "the views are lau")):
            with pytest.raises(UsageError, match=f"no view '{name}'; {said}"):
                store.to_pandas(name)


# --- writing


def test_a_batch_does_not_go_on_in_an_old_store(old: Path, batch: Keet, wording) -> None:
    before = contents(old)
    for more in ([], ["--prune"], ["--retry-failed"], ["--shard", "0/2"]):
        result = batch(REPORTS / "metrics_only.ncu-repz", "-o", old, *more)
        assert (result.code, result.out, contents(old)) == (2, "", before)
        wording(result.err, case=more)


@pytest.mark.slow
def test_the_command_that_makes_it_again_can_be_pasted(old: Path, batch: Keet, keet: Keet) -> None:
    reports = (REPORTS / "metrics_only.ncu-repz", REPORTS / "range.ncu-rep")
    refused = batch(*reports, "-o", old, "--jobs", 1).err
    again = shlex.split(refused.split("Make a new store with: keet batch ")[1])
    assert batch(*again).code == 0
    new = old.with_name("store_v2")
    assert read_version(new).number == schema.SCHEMA_VERSION
    assert keet("query", new, "FROM account LIMIT 1", "--format", "csv").err == ""
    assert "2 unchanged since" in batch(*again).out


def test_no_writer_mixes_versions(old: Path) -> None:
    """A worker of a cluster writes without the checks of the command."""
    before = contents(old)
    with pytest.raises(UsageError, match=r"keet batch DIR -o \S+store_v2$"):
        write_part(old, [record("p", "a" * 64)], [report("p", "a" * 64)])
    assert contents(old) == before


def test_a_store_that_lost_its_file_keeps_its_version(old: Path, tmp_path: Path) -> None:
    (old / schema.STORE_FILE).unlink()
    with pytest.raises(UsageError, match="this store has version 1, and this keet writes"):
        make_store(old)
    new = tmp_path / "new"
    resume_state(new, report("p", "a" * 64))
    (new / schema.STORE_FILE).unlink()
    make_store(new)
    assert read_version(new).number == schema.SCHEMA_VERSION
    with open_store(new) as store:
        assert store.query("SELECT count(*) FROM account").rows == [(1,)]


# --- any text in the file of a store

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None)
@example(b'{"schema_version": 1e999}')
@example(b'{"schema_version": [2], "keet": 7}')
@given(
    st.binary(max_size=40)
    | st.fixed_dictionaries({"schema_version": JSON}, optional={"keet": JSON}).map(
        lambda document: json.dumps(document).encode()
    )
)
@pytest.mark.slow
def test_a_version_is_read_or_refused(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / schema.STORE_FILE).write_bytes(text)
        try:
            version = read_version(Path(folder))
        except IngestError as refused:
            assert "\n" not in str(refused)  # noqa: PT017 - either outcome is right
        else:
            assert 1 <= version.number <= schema.SCHEMA_VERSION
