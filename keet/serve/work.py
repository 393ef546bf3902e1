"""How long work tells that it goes on, and notices that nobody waits for it any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from time import monotonic
from typing import TypeVar

from keet.profile import Launch, Profile

_PAUSE = 0.2
"""Seconds between two messages of one stage: a client needs no more."""
_Item = TypeVar("_Item")


class Work:
    """One call of a tool. `progress` is called with a number that only grows, and a message;
    `check` raises where the call was cancelled."""

    def __init__(
        self,
        progress: Callable[[float, str], None] = lambda *_: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._progress, self.check = progress, check
        self._stage = 0
        self._last = 0.0

    def begin(self, message: str) -> None:
        """A new stage."""
        self.check()
        self._stage += 1
        self._last = monotonic()
        self._progress(float(self._stage), message)

    def each(self, items: Iterable[_Item], message: str, total: int) -> Iterator[_Item]:
        """The items, with a message such as `explaining launch 12 of 300` before some of them."""
        self._stage += 1
        for done, item in enumerate(items):
            self.check()
            if monotonic() - self._last >= _PAUSE:
                self._last = monotonic()
                self._progress(self._stage + done / total, f"{message} {done + 1} of {total}")
            yield item


class _Watched(list[Launch]):
    """Launches that tell when they are gone through."""

    work: Work

    def __iter__(self) -> Iterator[Launch]:
        return self.work.each(super().__iter__(), "explaining launch", len(self))


@dataclass(frozen=True, repr=False)
class WatchedProfile(Profile):
    """A profile whose launches tell how far their explanation is.

    `keet.explanation.analyst.explain` goes through the launches in the order of `by_run_time`: that
    is where the work can be watched and stopped.
    """

    work: Work | None = None

    def by_run_time(self, launches: Iterable[Launch]) -> list[Launch]:
        ordered = super().by_run_time(launches)
        if self.work is None:
            return ordered
        launches = _Watched(ordered)
        launches.work = self.work
        return launches


def watched(profile: Profile, work: Work) -> WatchedProfile:
    own = {field.name: getattr(profile, field.name) for field in fields(profile)}
    return WatchedProfile(**own, work=work)
