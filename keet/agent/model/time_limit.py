"""The time limit of a run for waiting for its model, over all calls and retries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONGEST_WAIT_S = 30.0
"""Between two tries. If a server asks for a longer wait, keet gives up."""
_SHORTEST_S = 0.01
_HOSTED_SHARE = 0.25
"""Assumed average duration of a call of a hosted model, as a share of its timeout. Recorded calls
took 19 s (median) and at most 66 s; a quarter of the timeout is 60 s."""
_FEWEST_TIMEOUTS = 4
"""The limit is at least this many timeouts, because a few calls may be slow."""


def default_limit(timeout_s: float, calls: int, *, is_own: bool) -> float:
    """Seconds for `calls` calls. A model on the user's own machine (`is_own`) may need the whole
    timeout for every answer."""
    if is_own:
        return calls * timeout_s
    return max(_FEWEST_TIMEOUTS, calls * _HOSTED_SHARE) * timeout_s


class TimeLimit:
    """Counts only the time spent waiting for the model: keet's analysis, the compiler and the start
    of the client have their own limits and do not depend on the server."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._used = 0.0

    @property
    def left(self) -> float:
        """Seconds; 0 if too short for a request."""
        left = self.seconds - self._used
        return left if left > _SHORTEST_S else 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        finally:
            self._used += self._clock() - began
