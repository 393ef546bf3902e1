"""Recognises files with equal content within a batch, so that each content is analysed once.

Content is the bytes of a file, never what a snapshot states about its report: anybody can write
that. Equal bytes have equal sizes, so only files that share their size with another one are
checked: first a sample of three places of each file, then the hash if samples are equal.
Decisions are made in the order of the files. So the first of several equal files is always the one
whose rows are stored, however many workers there are and whichever is faster.

The rows also depend on the run table beside the report. Equal reports count as one report: keet
uses the run table of the file whose rows are stored, or if it has none, that of the first copy that
has one.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.corpus.batch.gone_files import is_gone
from keet.corpus.batch.messages import ContentSample, Step
from keet.corpus.batch.resume import Owner, StoredContent
from keet.corpus.discovery import NO_TABLE, ReportFile
from keet.corpus.store.report_rows import RunTotals
from keet.corpus.store.schema import storable

Number = int
"""Position of a file in the batch."""
ContentKey = ContentSample | str
"""What is known about the content of a file: a sample, or its SHA-256."""
QueueKey = int | ContentSample
"""Files of one size, or with one sample, wait in the same queue."""


class NextStep(NamedTuple):
    """Perform this step for the file."""

    number: Number
    step: Step


class Duplicate(NamedTuple):
    number: Number
    sha256: str
    of: Owner


Decision = NextStep | Duplicate


class DuplicateTracker:
    """Decides for each file whether it is analysed or a duplicate.

    Files wait in queues, in their order: one queue per size, and one per sample. The first file of
    a queue is decided when its answer has come; answers for later files wait.
    """

    def __init__(self, files: Sequence[ReportFile], stored: StoredContent) -> None:
        self._files = files
        self._stored = dict(stored.owners)
        counts = Counter(file.size for file in files)
        self._shared = {size for size, count in counts.items() if count > 1} | stored.sizes
        self._by_hash = stored.sizes  # the store has hashes, which can't be compared with samples
        self._queues: defaultdict[QueueKey, deque[Number]] = defaultdict(deque)
        self._queue_of: dict[Number, QueueKey] = {}
        self._answers: dict[Number, ContentKey | None] = {}
        self._samples: set[ContentSample] = set()
        self._hashes: dict[Number, str] = {}
        self._waiting: dict[str, deque[Number]] = {}
        """By the hash of content that is being analysed: other files with this content."""

    def first_step(self, number: Number) -> Step:
        size = self._files[number].size
        if size not in self._shared:
            return "analyse"
        self._enqueue(size, number)
        return "hash" if size in self._by_hash else "sample"

    def answered(self, number: Number, answer: ContentKey | None) -> Iterator[Decision]:
        """All decisions that are possible now. `answer` None: the file can't be read."""
        self._answers[number] = answer
        key = self._queue_of[number]
        queue = self._queues[key]
        while queue and queue[0] in self._answers:
            first = queue.popleft()
            del self._queue_of[first]
            known = self._answers.pop(first)
            if known is not None:
                yield from self._decide(first, known)
        if not queue:
            self._queues.pop(key, None)

    def _enqueue(self, key: QueueKey, number: Number) -> None:
        self._queues[key].append(number)
        self._queue_of[number] = key

    def _decide(self, number: Number, known: ContentKey) -> Iterator[Decision]:
        if isinstance(known, ContentSample):
            self._enqueue(known, number)
            yield NextStep(number, "hash" if known in self._samples else "analyse")
            self._samples.add(known)
            return
        self._hashes[number] = known
        owner = self._stored.get(known)
        if owner is not None and not self._may_add_run(number, owner):
            yield Duplicate(number, known, owner)
        elif known in self._waiting:
            self._waiting[known].append(number)
        else:
            self._waiting[known] = deque()
            yield NextStep(number, "analyse")

    def _may_add_run(self, number: Number, owner: Owner) -> bool:
        """Whether its run table may have times that the stored rows lack."""
        table = self._files[number].table
        if self.is_successor(number, owner):
            return table != owner.table
        return owner.run is None and table != NO_TABLE

    def adds_run(self, number: Number, owner: Owner, run: RunTotals | None) -> bool:
        """Whether its rows replace the stored rows of equal content."""
        if self.is_successor(number, owner):
            return self._files[number].table != owner.table
        return owner.run is None and run is not None

    def is_successor(self, number: Number, owner: Owner) -> bool:
        """It has the path of the owner, or the owner no longer exists: it may have been moved."""
        return owner.path == storable(self._files[number].path) or is_gone(owner.path)

    def set_owner(self, sha256: str, owner: Owner) -> None:
        """The content was analysed, or has another path now."""
        self._stored[sha256] = owner

    def owner(self, sha256: str) -> Owner | None:
        return self._stored.get(sha256)

    def hash_of(self, number: Number) -> str | None:
        """None if the hash was not needed."""
        return self._hashes.get(number)

    def finished(self, number: Number) -> Iterator[Decision]:
        """Decide about files with equal content that waited for this one: they are duplicates, or
        if this one failed, the next one is analysed."""
        if number in self._queue_of:  # the first with its sample, which was not hashed
            yield from self.answered(number, None)
        sha256 = self._hashes.pop(number, "")
        for other in self._waiting.pop(sha256, ()):
            yield from self._decide(other, sha256)
