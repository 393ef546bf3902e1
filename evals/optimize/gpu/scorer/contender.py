"""A program of a contest, with its times and its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .common import Verdict
from .processes import Program
from .verdicts import Pace


@dataclass
class Contender:
    """The baseline, the empty program or a candidate, with its times."""

    name: str
    binary: Path
    program: Program | None = None
    verdict: Verdict | None = None
    first_us: float | None = None
    rounds: list[list[float]] = field(default_factory=list)
    """Times on new data, including the time of an empty program."""
    seen: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)
    """By the digest of a result: the input set for which it was first returned."""

    @property
    def alive(self) -> bool:
        return self.verdict is None

    @property
    def pace(self) -> Pace:
        return Pace([value for turn in self.rounds for value in turn], self.seen, self.after)

    def attempt(self, step: Callable[..., None], *arguments: Any) -> None:
        """Runs a step; a verdict ends this contender only."""
        if not self.alive:
            return
        try:
            step(self, *arguments)
        except Verdict as verdict:
            self.verdict = verdict
        except OSError as problem:  # of this machine: no pipe, no process, no room
            self.verdict = Verdict(None, f"this machine could not run it: {problem}")

    def running(self) -> Program:
        assert self.program is not None
        return self.program
