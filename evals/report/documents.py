"""Records of `keet eval report`: the document of optimize, and parts that mcq's shares."""

from __future__ import annotations

from typing import Literal

from evals.bootstrap import Interval
from evals.optimize.compare_conditions import Difference, Saturation
from evals.optimize.measured_file import MeasuredOn
from evals.optimize.scoring import OptimizeScore
from evals.optimize.summary import ConditionSummary
from evals.runs import Condition, Record
from keet.version import __version__


class RunDocument(Record):
    """Where the scores come from."""

    path: str
    created: str | None = None
    keet: str | None = None
    prompt_version: str | None = None
    """None: only the scores are available."""
    machines: tuple[MeasuredOn, ...] = ()
    """The machines that measured; empty if nothing was measured or recorded."""


class SampleDocument(Record):
    """One sample under all conditions of one model."""

    model: str
    sample: str
    group: str
    best_known: float
    attempts: dict[Condition, tuple[float | str, ...]]
    """In the order of attempts: a speed-up, a status, or `unscored`."""


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
    """Mean log2 of the speed-up (mcq: share right) minus that of the earlier run."""
    regressions: tuple[PairDocument, ...]
    gains: tuple[PairDocument, ...]
    only_here: int
    only_earlier: int


class OptimizeReport(Record):
    """What `keet eval report --format json` prints for a run of optimize."""

    schema_version: int = 1
    task: Literal["optimize"] = "optimize"
    keet: str = __version__
    runs: tuple[RunDocument, ...]
    summaries: tuple[ConditionSummary, ...]
    differences: tuple[Difference, ...]
    saturation: tuple[Saturation, ...]
    samples: tuple[SampleDocument, ...]
    failures: tuple[FailureDocument, ...]
    unscored: tuple[FailureDocument, ...]
    scores: tuple[OptimizeScore, ...]
    against: AgainstDocument | None = None
