"""What is done already: in the store, and in this run. Equal content is analysed once.

Equal bytes have equal sizes: only files that share their size with another need a second look. That
is a glance at three places of each; those that look the same are hashed. They are decided in their
order, so that it is always the first of several equal ones whose rows are kept, however many
workers there are and whichever is fast.

The rows also depend on the table of the run beside the report. Equal reports are one report: the
table of the file whose rows are kept is used, and where it has none, that of the first copy that
has one.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keet.corpus.discovery import NO_TABLE, Found, TableFile
from keet.corpus.gone import is_gone
from keet.corpus.layout import part_folders, storable
from keet.corpus.messages import Look, Step
from keet.corpus.rows import RunTimes
from keet.corpus.store import Store, open_manifest
from keet.records import NamedTuple

Number = int
"""A file of this run, by its place in the order."""


class Owner(NamedTuple):
    """The file whose rows are kept for its content."""

    path: str
    launches: int
    table: TableFile = NO_TABLE
    """That lay beside it when it was analysed."""
    run: RunTimes | None = None
    """None: the rows do not know the run."""


class Kept(NamedTuple):
    """Content whose rows the store has."""

    owners: dict[str, Owner]
    """By content."""
    sizes: frozenset[int]


NOTHING_KEPT = Kept({}, frozenset())


class Settled(NamedTuple):
    """What the store says of the files of this run."""

    open: tuple[Found, ...]
    done: int
    failed: int
    kept: Kept


class _Last(NamedTuple):
    """The newest record of a path."""

    size: int | None
    mtime_ns: int | None
    run_table_size: int | None
    run_table_mtime_ns: int | None
    status: str


# --- the store


def settle(out: Path, files: Sequence[Found], *, retry_failed: bool = False) -> Settled:
    """Compare with the manifest: a path with the size and time of its record, and with the same
    table of its run, is not read again."""
    if not files or not part_folders(out):
        return Settled(tuple(files), 0, 0, NOTHING_KEPT)
    with open_manifest(out) as store:
        last = _last_records(store, files)
        said = [_settled_as(file, last, retry_failed=retry_failed) for file in files]
        left = tuple(file for file, status in zip(files, said) if status is None)
        kept = _kept(store, left) if left else NOTHING_KEPT
    counts = Counter(said)
    return Settled(left, counts["done"] + counts["duplicate"], counts["failed"], kept)


def _settled_as(file: Found, last: dict[str, _Last], *, retry_failed: bool) -> str | None:
    record = last.get(storable(file.path))
    if record is None or record[:-1] != (file.size, file.mtime_ns, *file.table):
        return None
    return None if retry_failed and record.status == "failed" else record.status


def _last_records(store: Store, files: Sequence[Found]) -> dict[str, _Last]:
    """Of these files alone: a shard need not hold what the others did."""
    import numpy as np

    paths = np.empty(len(files), dtype=object)
    paths[:] = [storable(file.path) for file in files]
    store.connection.register("mine", {"path": paths})
    rows = store.stream(
        "SELECT path, size, mtime_ns, run_table_size, run_table_mtime_ns, status FROM files "
        "WHERE path IN (SELECT path FROM mine)"
    )
    return {path: _Last(*rest) for path, *rest in rows}


def _kept(store: Store, files: Sequence[Found]) -> Kept:
    """Content that one of these files may be equal to, by the first that was analysed."""
    import numpy as np

    sizes = np.array(sorted({file.content_size for file in files}), dtype=np.int64)
    store.connection.register("wanted", {"size": sizes})
    of_run = (
        "run_table_size, run_table_mtime_ns, run_total_us, run_unprofiled_us, run_overlap_known"
    )
    columns = f"SELECT sha256, size, path, launches, {of_run}"
    chosen = "status = 'done' AND sha256 IS NOT NULL"
    rows = store.query(
        f"SELECT sha256, size, path, launches, {of_run} FROM ("
        f"{columns}, 0 AS now, filename, file_row_number FROM parts.files WHERE {chosen} "
        f"UNION ALL {columns}, 1, NULL, NULL FROM files WHERE {chosen}) "
        "WHERE size IN (SELECT size FROM wanted) OR path LIKE '%.json' "
        "ORDER BY now, filename DESC, file_row_number DESC"
    ).rows
    return Kept(_owners(rows), frozenset(size for _, size, *_ in rows))


def _owners(rows: Iterable[Sequence[Any]]) -> dict[str, Owner]:
    """By content. The last path wins: the one that it goes by now, where it has one, else its
    first. The rows that are shown are the newest, and the first record tells of their run."""
    owners: dict[str, Owner] = {}
    newest: dict[str, Sequence[Any]] = {}
    for sha256, _, path, launches, *state in rows:
        size, mtime_ns, total, unprofiled, overlap = newest.setdefault(sha256, state)
        run = None if total is None else RunTimes(total, unprofiled or 0.0, overlap)
        owners[sha256] = Owner(path, launches, TableFile(size, mtime_ns), run)
    return owners


class Failure(NamedTuple):
    path: str
    reason: str


def failures(out: Path) -> list[Failure]:
    """Every file of the store that failed when it was last tried, by name."""
    with open_manifest(out) as store:
        rows = store.query("SELECT path, reason FROM files WHERE status = 'failed' ORDER BY path")
        return [Failure(*row) for row in rows.rows]


# --- this run


Known = Look | str
"""How a file looks, or its hash."""
Line = int | Look
"""Files of one size, or of one look."""


class Do(NamedTuple):
    """A file goes on to its next step."""

    number: Number
    step: Step


class Duplicate(NamedTuple):
    number: Number
    sha256: str
    of: Owner


Decision = Do | Duplicate


class Claims:
    """Who analyses what, where files may be equal.

    Files stand in lines, in their order: one for each size, and one for each look. The first of a
    line is decided when its answer is there; whoever answers before its turn waits.
    """

    def __init__(self, files: Sequence[Found], kept: Kept) -> None:
        self._files = files
        self._kept = dict(kept.owners)
        counts = Counter(file.content_size for file in files)
        self._shared = {size for size, count in counts.items() if count > 1} | kept.sizes
        # The store knows hashes, and so does a snapshot: a glance can't be compared with those.
        self._by_hash = kept.sizes | {f.content_size for f in files if f.behind is not None}
        self._lines: defaultdict[Line, deque[Number]] = defaultdict(deque)
        self._stands: dict[Number, Line] = {}
        self._answers: dict[Number, Known | None] = {}
        self._looks: set[Look] = set()
        self._hashes: dict[Number, str] = {}
        self._waiting: dict[str, deque[Number]] = {}
        """By hash of what is being analysed: the files that turned out to have it too."""

    def first_step(self, number: Number) -> Step:
        size = self._files[number].content_size
        if size not in self._shared:
            return "analyse"
        self._join(size, number)
        return "hash" if size in self._by_hash else "glance"

    def answered(self, number: Number, answer: Known | None) -> Iterator[Decision]:
        """What can be decided now; `None`: it can't be read, and stands in nobody's way."""
        self._answers[number] = answer
        name = self._stands[number]
        line = self._lines[name]
        while line and line[0] in self._answers:
            first = line.popleft()
            del self._stands[first]
            known = self._answers.pop(first)
            if known is not None:
                yield from self._decide(first, known)
        if not line:
            self._lines.pop(name, None)

    def _join(self, name: Line, number: Number) -> None:
        self._lines[name].append(number)
        self._stands[number] = name

    def _decide(self, number: Number, known: Known) -> Iterator[Decision]:
        if isinstance(known, Look):
            self._join(known, number)
            yield Do(number, "hash" if known in self._looks else "analyse")
            self._looks.add(known)
            return
        self._hashes[number] = known
        owner = self._kept.get(known)
        if owner is not None and not self._may_add(number, owner):
            yield Duplicate(number, known, owner)
        elif known in self._waiting:
            self._waiting[known].append(number)
        else:
            self._waiting[known] = deque()
            yield Do(number, "analyse")

    def _may_add(self, number: Number, owner: Owner) -> bool:
        """Whether the table of its run may tell what the rows that are kept do not know."""
        table = self._files[number].table
        if self.is_successor(number, owner):
            return table != owner.table
        return owner.run is None and table != NO_TABLE

    def adds(self, number: Number, owner: Owner, run: RunTimes | None) -> bool:
        """Whether its rows take the place of those that are kept for equal content."""
        if self.is_successor(number, owner):
            return self._files[number].table != owner.table
        return owner.run is None and run is not None

    def is_successor(self, number: Number, owner: Owner) -> bool:
        """It is the owner's own file, or the owner is gone: it may have been moved."""
        return owner.path == storable(self._files[number].path) or is_gone(owner.path)

    def keep(self, sha256: str, owner: Owner) -> None:
        """It has been analysed, or goes by another path from now on."""
        self._kept[sha256] = owner

    def owner(self, sha256: str) -> Owner | None:
        return self._kept.get(sha256)

    def hash_of(self, number: Number) -> str | None:
        """Where it had to be taken."""
        return self._hashes.get(number)

    def finished(self, number: Number) -> Iterator[Decision]:
        """It is through. Those that waited for it are duplicates; where it failed, the next takes
        its place: each file answers for itself."""
        if number in self._stands:  # the first of its look, which did not need to be hashed
            yield from self.answered(number, None)
        sha256 = self._hashes.pop(number, "")
        for other in self._waiting.pop(sha256, ()):
            yield from self._decide(other, sha256)
