"""A cache that is limited by the total size of its entries and drops the least recently used.

Keys are the content that a result was computed from: launches of one kernel have the same code and
often the same counts, so a report with thousands of launches decodes them once.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class SizedCache(Generic[_Result]):
    def __init__(self, limit: int) -> None:
        """`limit`: the largest sum of sizes, in whatever unit the caller gives to `put`."""
        self._limit = limit
        self._used = 0
        self._results: dict[Hashable, tuple[_Result, int]] = {}

    def get(self, key: Hashable) -> _Result | None:
        entry = self._results.pop(key, None)
        if entry is None:
            return None
        self._results[key] = entry  # the most recently used one is last
        return entry[0]

    def put(self, key: Hashable, result: _Result, size: int) -> _Result:
        """Returns the result. One that is larger than the limit is not cached."""
        if size > self._limit:
            return result
        self._used += size
        self._results[key] = result, size
        while self._used > self._limit:
            _, freed = self._results.pop(next(iter(self._results)))
            self._used -= freed
        return result
