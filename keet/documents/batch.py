"""What `keet.batch` returns: counts of a batch, and the files that failed."""

from __future__ import annotations

from keet.documents.document import Document
from keet.documents.shared_types import KEET, Producer


class FailedFile(Document):
    path: str
    reason: str


class BatchDocument(Document):
    producer: Producer = KEET
    store: str
    files: int
    """Reports that were found: the sum of the next four."""
    done: int
    duplicates: int
    """Files that are equal to another one, whose rows are stored."""
    failed: int
    unchanged: int
    """Files that an earlier batch finished."""
    launches: int
    """Of the files that this batch analysed."""
    gpu_seconds: float
    """Duration of these launches, as far as it was measured."""
    seconds: float
    """Time that the batch took."""
    gone: int
    """Files of the store that no longer exist; with `prune` they were removed from the store."""
    failures: list[FailedFile]
    """All files of the store that failed at the last attempt, also of earlier batches."""
    notes: list[str]
    """Problems that did not stop the batch, such as folders that can't be read."""
