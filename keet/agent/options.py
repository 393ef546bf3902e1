"""How a model is asked in one run of a command: which model, limits, redaction, files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from keet.agent.model.settings import ModelSpec, TimeLimit, default_limit
from keet.agent.redaction import Redaction

MOST_LAUNCHES = 3
"""Launches that a model explains by default: each costs some thousand tokens."""


class ModelLimits(NamedTuple):
    """For one kernel, question or insight."""

    calls: int = 4
    input_tokens: int = 14_000
    rounds: int = 1
    """Rounds in which the model may call tools."""
    output_tokens: int = 2_500
    """Of one reply."""


class ModelOptions(NamedTuple):
    """The model options of `explain`, `ask` and `insights`."""

    spec: ModelSpec
    limits: ModelLimits = ModelLimits()
    redact: Redaction | None = None
    transcript: Path | None = None
    """None: a file in the cache folder, named by report and time."""
    replay: Path | None = None
    """A transcript to take the replies from; no model is asked."""
    cache: bool = True
    launches: int = MOST_LAUNCHES
    compile: bool = True
    """Whether edits are compiled if a compiler is found."""
    include: tuple[str, ...] = ()
    """Folders with headers that the report does not contain."""
    time_limit: TimeLimit | None = None
    """One limit for the whole command if it explains several reports; None: one per report."""

    def limit(self, parts: int | None = None) -> TimeLimit:
        """`parts`: number of launches or insights to ask about; None: `launches`."""
        if self.time_limit is not None:
            return self.time_limit
        return shared_limit(self.spec, (parts or self.launches) * self.limits.calls)


def shared_limit(spec: ModelSpec, calls: int) -> TimeLimit:
    """One limit for all calls of a command."""
    by_default = default_limit(spec.timeout_s, calls, is_own=spec.base_url is not None)
    return TimeLimit(spec.time_limit_s or by_default)
