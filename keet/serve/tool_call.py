"""A running call of a tool: reports its progress, and stops if the client cancelled it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TypeVar

_PAUSE = 0.2
"""Seconds between two messages of one stage."""
_Item = TypeVar("_Item")


class ToolCall:
    """`progress` is called with an increasing number and a message; `check` raises if the call was
    cancelled."""

    def __init__(
        self,
        progress: Callable[[float, str], None] = lambda *_: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._progress, self.check = progress, check
        self._stage = 0
        self._last = 0.0

    def begin(self, message: str) -> None:
        """Start a new stage."""
        self.check()
        self._stage += 1
        self._last = monotonic()
        self._progress(float(self._stage), message)

    def each(self, items: Iterable[_Item], message: str, total: int) -> Iterator[_Item]:
        """The items, with a message such as `looking at launch 12 of 300` before some of them."""
        step = self.steps(message)
        for done, item in enumerate(items):
            step(done, total)
            yield item

    def steps(self, message: str) -> Callable[[int, int], None]:
        """For a stage of many steps: returns a function to call before each step, with the number
        of finished steps and of all steps."""

        def step(done: int, total: int) -> None:
            self.check()
            self._stage += not done
            if monotonic() - self._last >= _PAUSE:
                self._last = monotonic()
                self._progress(self._stage + done / total, f"{message} {done + 1} of {total}")

        return step
