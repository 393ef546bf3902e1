"""`keet optimize --format json`."""

from __future__ import annotations

from typing import Literal

from keet.documents.document import Document
from keet.documents.model_explanation import UsageDocument
from keet.documents.shared_types import CommandResult, JsonSentence

RoundOutcome = Literal[
    "kept",
    "no_gain",
    "slower",
    "wrong",
    "failed",
    "too_long",
    "no_build",
    "refused",
    "no_change",
    "no_proposal",
    "not_measured",
]
StopReason = Literal["rounds", "little_left", "minutes", "tokens", "cost", "model", "interrupted"]


class TimesDocument(Document):
    """Two programs, measured in turns. Times are medians in microseconds."""

    before_us: float
    after_us: float
    speedup: float
    """Time before over time after: the mean of the ratios of neighbouring runs."""
    noise: float | None
    """Half of the 95 % interval of the speed-up, as a share of it: 0.05 means 5 %. Null if there is
    only one run."""


class RoundDocument(Document):
    number: int
    outcome: RoundOutcome
    """`kept`: faster by more than the noise, and right. `refused`: it changes what may not change,
    or its gain is not one of the program. `no_change`: nothing, or the same as an earlier round."""
    reason: JsonSentence
    summary: str
    """The proposer's words."""
    files: list[str]
    """That differ from the program before this round."""
    lines_added: int
    lines_removed: int
    times: TimesDocument | None
    """Null if it was not timed."""
    of_original: float | None
    """Time after this round's change as a share of the original's, over the rounds that were kept
    before it."""
    usage: UsageDocument
    seconds: float
    """Of all steps of the round, without waiting."""
    folder: str


class BestDocument(Document):
    round: int
    """The last one that was kept."""
    patch: str
    """Path of the patch from the original."""
    times: TimesDocument
    """Original and best, measured in turns. After an interrupt, or if that measurement failed: the
    product of the rounds that were kept."""
    is_faster: bool
    """Whether the gain of all rounds together is above the noise."""


class LeftDocument(Document):
    percent: float
    """Of the time: what fixing all findings would save, or what is above the least time that the
    work needs, whichever is more."""
    is_bounded: bool
    """Whether the least time is known; if not, a redesign may gain more."""
    text: JsonSentence


class OptimizeDocument(CommandResult):
    """`keet optimize --format json`"""

    source: str
    folder: str
    """Where every round is kept."""
    goal: Literal["gpu", "wall"]
    """`gpu`: time in which the GPU runs kernels. `wall`: time of the whole program."""
    kernel: str | None
    """A regular expression, if only the time of some kernels is the goal."""
    proposer: str
    runner: str
    gpu: str | None
    original_us: float | None
    """Median time of the original at the start; null if its kernels were not recorded."""
    stopped: StopReason
    stopped_text: JsonSentence
    rounds: list[RoundDocument]
    best: BestDocument | None
    """Null if nothing was kept."""
    left: LeftDocument | None
    """Of the best program; null without a profile."""
    applied: bool
    """Whether the best patch was applied to the source folder (--apply)."""
    usage: UsageDocument
    seconds: float
