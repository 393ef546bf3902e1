"""Recognises files with equal content within a batch, so that each content is analysed once.

Equal bytes have equal sizes, so only files that share their size with another one are checked:
first a sample of three places of each file, then the hash of those whose samples are equal.
Decisions are made in the order of the files. So the first of several equal files is always the one
whose rows are kept, however many workers there are and whichever is faster.

The rows also depend on the run table beside the report. Equal reports count as one report: keet
uses the run table of the file whose rows are kept, or if it has none, that of the first copy that
has one.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence

from keet.corpus.batch.gone_files import is_gone
from keet.corpus.batch.messages import ContentSample, Step
from keet.corpus.batch.resume import Owner, StoredContent
from keet.corpus.discovery import NO_TABLE, ReportFile
from keet.corpus.store.report_rows import RunTotals
from keet.corpus.store.schema import storable
from keet.records import NamedTuple

Number = int
"""A file of this batch, by its place in the order."""
ContentKey = ContentSample | str
"""How a file looks, or its hash."""
QueueKey = int | ContentSample
"""Files of one size, or of one look."""


class NextStep(NamedTuple):
    """A file goes on to its next step."""

    number: Number
    step: Step


class Duplicate(NamedTuple):
    number: Number
    sha256: str
    of: Owner


Decision = NextStep | Duplicate


class DuplicateTracker:
    """Who analyses what, where files may be equal.

    Files stand in lines, in their order: one for each size, and one for each look. The first of a
    line is decided when its answer is there; whoever answers before its turn waits.
    """

    def __init__(self, files: Sequence[ReportFile], kept: StoredContent) -> None:
        self._files = files
        self._kept = dict(kept.owners)
        counts = Counter(file.content_size for file in files)
        self._shared = {size for size, count in counts.items() if count > 1} | kept.sizes
        # The store knows hashes, and so does a snapshot: a glance can't be compared with those.
        self._by_hash = kept.sizes | {f.content_size for f in files if f.behind is not None}
        self._lines: defaultdict[QueueKey, deque[Number]] = defaultdict(deque)
        self._stands: dict[Number, QueueKey] = {}
        self._answers: dict[Number, ContentKey | None] = {}
        self._looks: set[ContentSample] = set()
        self._hashes: dict[Number, str] = {}
        self._waiting: dict[str, deque[Number]] = {}
        """By hash of what is being analysed: the files that turned out to have it too."""

    def first_step(self, number: Number) -> Step:
        size = self._files[number].content_size
        if size not in self._shared:
            return "analyse"
        self._join(size, number)
        return "hash" if size in self._by_hash else "glance"

    def answered(self, number: Number, answer: ContentKey | None) -> Iterator[Decision]:
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

    def _join(self, name: QueueKey, number: Number) -> None:
        self._lines[name].append(number)
        self._stands[number] = name

    def _decide(self, number: Number, known: ContentKey) -> Iterator[Decision]:
        if isinstance(known, ContentSample):
            self._join(known, number)
            yield NextStep(number, "hash" if known in self._looks else "analyse")
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
            yield NextStep(number, "analyse")

    def _may_add(self, number: Number, owner: Owner) -> bool:
        """Whether the table of its run may tell what the rows that are kept do not know."""
        table = self._files[number].table
        if self.is_successor(number, owner):
            return table != owner.table
        return owner.run is None and table != NO_TABLE

    def adds(self, number: Number, owner: Owner, run: RunTotals | None) -> bool:
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
