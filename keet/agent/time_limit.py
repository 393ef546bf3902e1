"""How long one run may wait for its model, over all calls, retries and waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONGEST_WAIT_S = 30.0
"""Between two tries. A server that asks for more is given up: the user can come back later."""
_SHORTEST_S = 0.01
_TIMEOUTS = 4
"""The default limit of a run, in timeouts of a call. A judgement: recorded calls of a hosted model
took 19 s in the median and 66 s at most, three calls per kernel, three kernels per run."""


def default_limit(timeout_s: float) -> float:
    return _TIMEOUTS * timeout_s


class TimeLimit:
    """Counts only the time in which the model is waited for: keet's own analysis, the compiler and
    the start of the client have limits of their own, and do not depend on the server."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._used = 0.0

    @property
    def left(self) -> float:
        """Seconds. What is too short to ask anything is nothing."""
        left = self.seconds - self._used
        return left if left > _SHORTEST_S else 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        finally:
            self._used += self._clock() - began
