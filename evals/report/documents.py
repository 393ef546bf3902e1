"""Parts of the document of `keet eval report`."""

from __future__ import annotations

from evals.bootstrap import Interval
from evals.runs import Condition, Record


class RunDocument(Record):
    """Where the scores come from."""

    path: str
    created: str | None = None
    keet: str | None = None
    prompt_version: str | None = None
    """None: only the scores are available."""


class FailureDocument(Record):
    id: str
    model: str
    status: str
    why: str


class PairDocument(Record):
    """One prompt in two runs."""

    id: str
    model: str
    before: str
    after: str


class AgainstDocument(Record):
    """This run compared with an earlier one, by prompt."""

    earlier: RunDocument
    notes: tuple[str, ...]
    """Other differences between the runs."""
    pairs: int
    rule: str
    """When a prompt counts as a regression; the reverse is a gain."""
    change: dict[Condition, Interval]
    """Share of right answers minus that of the earlier run."""
    regressions: tuple[PairDocument, ...]
    gains: tuple[PairDocument, ...]
    only_here: int
    only_earlier: int
