"""Equal content is analysed once, by the first file that has it, whoever answers first."""

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from keet.corpus.batch.coordinator import Batch, BatchProgress
from keet.corpus.batch.stored_files import NOTHING_STORED, Owner, StoredContent
from keet.corpus.batch.worker import Analysed, ContentSample, Failed, Hashed, Task, WorkerAnswer
from keet.corpus.discovery import NO_TABLE, ReportFile, RunTableFile
from keet.corpus.store.part_writer import FileRecord, PartQueue
from keet.corpus.store.report_rows import FileRows, RunTotals
from tests.unit.corpus.fake_analyses import rows


class Notes(PartQueue):
    """Keeps what would be written."""

    def __init__(self) -> None:
        self.records: dict[str, FileRecord] = {}
        self.analysed: list[str] = []

    def add(self, record: FileRecord, rows: FileRows | None = None) -> None:
        assert record.path not in self.records, "recorded twice"
        self.records[record.path] = record
        if rows is not None:
            self.analysed.append(record.path)

    def write_when_due(self) -> None:
        pass


class Shuffled:
    """Workers that answer in any order; a file holds its own hash, and `!` is not to be read."""

    started = most_memory = 0

    def __init__(self, seed: int, jobs: int) -> None:
        self._random, self._jobs = random.Random(seed), jobs
        self._tasks: list[Task] = []
        self.performed: list[Task] = []

    def room(self) -> int:
        return self._jobs - len(self._tasks)

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def wait(self, seconds: float) -> list[WorkerAnswer]:
        task = self._tasks.pop(self._random.randrange(len(self._tasks)))
        self.performed.append(task)
        return [WorkerAnswer(task, self._result(task), None, 0.0, 0)]

    def _result(self, task: Task) -> ContentSample | Hashed | Analysed | Failed:
        content = Path(task.path).read_text()
        if content.startswith("!"):
            return Failed("it can't be read; try again")
        if task.step == "sample":
            return ContentSample(len(content), content[:1].encode())
        if task.step == "hash":
            return Hashed(content)
        return Failed("damaged") if content.startswith("?") else Analysed(rows(task.path))


def found(folder: Path, contents: list[str]) -> list[ReportFile]:
    paths = [folder / f"{number:03}" for number in range(len(contents))]
    for path, content in zip(paths, contents):
        path.write_text(content)
    sized = enumerate(zip(paths, contents))
    return [ReportFile(str(path), path.name, len(text), n) for n, (path, text) in sized]


def run(
    files: list[ReportFile], workers: Shuffled, kept: StoredContent = NOTHING_STORED
) -> tuple[Notes, BatchProgress]:
    notes = Notes()
    return notes, Batch(files, kept, workers, notes).run(lambda _: None)


CONTENTS = ["a", "b", "cc", "cd", "dd", "eee", "!", "!2", "?", "?x"]


@given(st.lists(st.sampled_from(CONTENTS), max_size=14), st.integers(0, 999), st.integers(1, 6))
def test_the_first_of_equal_files_is_analysed(
    tmp_path_factory, contents: list[str], seed: int, jobs: int
) -> None:
    files = found(tmp_path_factory.mktemp("files"), contents)
    notes, tally = run(files, Shuffled(seed, jobs))
    first: dict[str, str] = {}
    for file, content in zip(files, contents):
        first.setdefault(content, file.path)
    assert set(notes.records) == {file.path for file in files}
    for file, content in zip(files, contents):
        record = notes.records[file.path]
        if content[0] in "!?":
            assert record.status == "failed"
        elif file.path == first[content]:
            assert (record.status, record.launches) == ("done", 1)
        else:
            assert (record.status, record.duplicate_of) == ("duplicate", first[content])
    assert sorted(notes.analysed) == sorted(p for c, p in first.items() if c[0] not in "!?")
    assert tally.finished == len(files)


TABLE = RunTableFile(7, 7)
"""`+`: it belongs to the report; `-`: it does not, and the rows know no run."""


class WithTables(Shuffled):
    """A file's content ends with what its table is; only what is before that is hashed."""

    def _result(self, task: Task) -> ContentSample | Hashed | Analysed | Failed:
        result = super()._result(task)
        content, which = Path(task.path).read_text()
        if isinstance(result, Analysed):
            ((row,), _, *_) = result.rows
            run = RunTotals(5.0, 1.0) if which == "+" else None
            return Analysed(FileRows(((content, *row[1:]),), (), run=run))
        return Hashed(content) if isinstance(result, Hashed) else result


@given(
    st.lists(st.sampled_from(["a ", "a+", "a-", "b ", "b+", "b-"]), max_size=12),
    st.integers(0, 999),
    st.integers(1, 6),
)
def test_the_first_valid_run_table_is_used(
    tmp_path_factory, contents: list[str], seed: int, jobs: int
) -> None:
    plain = found(tmp_path_factory.mktemp("files"), contents)
    tables = (NO_TABLE if content[1] == " " else TABLE for content in contents)
    files = [file._replace(table=table) for file, table in zip(plain, tables)]
    notes, tally = run(files, WithTables(seed, jobs))
    assert tally.finished == len(files)
    for letter in "ab":
        mine = [file.path for file, content in zip(files, contents) if content[0] == letter]
        known = [file.path for file, each in zip(files, contents) if each == f"{letter}+"]
        done = [path for path in mine if notes.records[path].status == "done"]
        assert done == list(dict.fromkeys([*mine[:1], *known[:1]])), "the last of them is shown"
        assert sorted(path for path in notes.analysed if path in mine) == sorted(done)
        totals = [notes.records[path].run_total_us for path in done[-1:]]
        assert totals == ([5.0] if known else [None] if mine else [])


def test_only_files_with_equal_samples_are_hashed(tmp_path: Path) -> None:
    workers = Shuffled(0, 2)
    run(found(tmp_path, ["a", "bb", "cc", "cd", "ddd"]), workers)
    steps = [(Path(task.path).name, task.step) for task in workers.performed]
    assert sorted(name for name, step in steps if step == "sample") == ["001", "002", "003"]
    assert [name for name, step in steps if step == "hash"] == ["003"]


def test_content_in_the_store_is_not_analysed_again(tmp_path: Path) -> None:
    files = found(tmp_path, ["aa", "b"])
    there = str(tmp_path / "before")
    Path(there).write_text("aa")
    kept = StoredContent({"aa": Owner(there, 3)}, frozenset({2}))
    notes, tally = run(files, Shuffled(0, 1), kept)
    assert notes.records[files[0].path].duplicate_of == there
    assert notes.analysed == [files[1].path]
    assert (tally.done, tally.duplicates, tally.launches) == (1, 1, 1)
    touched = StoredContent({"aa": Owner(files[0].path, 3)}, frozenset({2}))
    notes, tally = run(files[:1], Shuffled(0, 1), touched)
    record = notes.records[files[0].path]
    assert (record.status, record.launches, notes.analysed, tally.done) == ("done", 3, [], 1)
