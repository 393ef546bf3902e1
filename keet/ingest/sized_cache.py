"""Results that are kept by the content that they were made of, up to a total size.

Launches of one kernel have the same code, and often the same counts: a batch and a report with
thousands of launches read them again and again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class SizedCache(Generic[_Result]):
    """What was not used for longest goes first."""

    def __init__(self, room: int) -> None:
        """`room`: the sum of the sizes that is kept, in a unit of the caller's."""
        self._room = room
        self._used = 0
        self._results: dict[Hashable, tuple[_Result, int]] = {}

    def get(self, key: Hashable) -> _Result | None:
        found = self._results.pop(key, None)
        if found is None:
            return None
        self._results[key] = found  # the last one now
        return found[0]

    def put(self, key: Hashable, result: _Result, size: int) -> _Result:
        """Returns the result. One that is larger than all the room is not kept."""
        if size > self._room:
            return result
        self._used += size
        self._results[key] = result, size
        while self._used > self._room:
            _, freed = self._results.pop(next(iter(self._results)))
            self._used -= freed
        return result
