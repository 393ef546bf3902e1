"""How long one run may wait for its model, over all calls, retries and waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONGEST_WAIT_S = 30.0
"""Between two tries. A server that asks for more is given up: the user can come back later."""
_SHORTEST_S = 0.01
_HOSTED_SHARE = 0.25
"""Of its timeout that a call of a hosted model takes on average, at most. A judgement: recorded
calls took 19 s in the median and 66 s at most, a quarter of the timeout is 60 s."""
_FEWEST_TIMEOUTS = 4
"""However few calls there are to be: a few of them may be slow."""


def default_limit(timeout_s: float, calls: int, *, is_own: bool) -> float:
    """Seconds, for `calls` calls. A model on the user's own processor (`is_own`) may honestly take
    its timeout for every answer; nothing but the timeout of a call ends it by default."""
    if is_own:
        return calls * timeout_s
    return max(_FEWEST_TIMEOUTS, calls * _HOSTED_SHARE) * timeout_s


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
