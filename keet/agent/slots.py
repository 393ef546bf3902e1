"""The texts of an answer, each in its place: held to the evidence, mended once, or dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keet.evidence import CITED, Evidence
from keet.explanation.statement import Dropped
from keet.verification.held import Held
from keet.verification.holding import PROMISE, Holder, Stage


class Stray(NamedTuple):
    """A sentence that can't stand: where it is, and why."""

    where: str
    at: int
    text: str
    reason: str


class Slots:
    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        self._held: dict[str, Held] = {}
        self._cited: dict[str, list[str]] = {}
        self._more: list[Dropped] = []
        self._gone: set[str] = set()
        self._stages: dict[str, Stage] = {}

    def put(
        self, where: str, text: str, evidence: Iterable[str] = (), stage: Stage = "judging"
    ) -> None:
        self._cited[where] = [found for found in evidence if found in self._holder.pieces]
        self._stages[where] = stage
        self._held[where] = self._holder.hold(text, self._cited[where], stage=stage)

    def mend(self, strays: Sequence[Stray], mended: Iterable[tuple[int, str]]) -> None:
        """Other words for some strays, by their number from 1: kept as far as they hold."""
        texts = {number: text for number, text in mended if text.strip()}
        # From the end: a sentence that becomes two must not move those before it.
        for number, stray in reversed(list(enumerate(strays, 1))):
            if number in texts:
                where = stray.where
                held = self._holder.hold(
                    texts[number], self._cited[where], stage=self._stages[where]
                )
                self._held[stray.where] = self._held[stray.where].mended(stray.at, held)

    def text(self, where: str) -> str:
        held = self._held.get(where)
        return held.text if held and where not in self._gone else ""

    def ids(self, where: str) -> tuple[str, ...]:
        """Evidence that the text rests on: named in it, or beside it."""
        held = self._held.get(where)
        if held is None:
            return ()
        return tuple(dict.fromkeys((*self._holder.ids(held), *self._cited[where])))

    def drop(self, where: str, text: str, reason: str) -> None:
        """A text that holds by itself, and can't stand where it is."""
        self._gone.add(where)
        self._more.append(Dropped(where, text, reason))

    @property
    def strays(self) -> list[Stray]:
        """What another try may mend: a promise of speed is discarded for good, and for what was
        said before any measurement there was no evidence to cite."""
        return [
            stray
            for stray in self._let_go()
            if stray.reason != PROMISE and self._stages[stray.where] != "predicting"
        ]

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        gone = (Dropped(stray.where, stray.text, stray.reason) for stray in self._let_go())
        return (*gone, *self._more)

    @property
    def numbers(self) -> int:
        kept = [held for where, held in self._held.items() if where not in self._gone]
        return sum(map(self._holder.count, kept))

    def relevant(self, strays: Iterable[Stray], most: int) -> list[Evidence]:
        """What the strays may have meant: cited, named by the check, or alike in words."""
        said = " ".join(f"{stray.text} {stray.reason}" for stray in strays).lower()
        cited = {found for ids in self._cited.values() for found in ids} | set(
            CITED.findall(said.upper())
        )
        words = set(re.findall(r"[a-z]{3,}", said))

        def distance(piece: Evidence) -> tuple[bool, int]:
            alike = words & set(re.findall(r"[a-z]{3,}", piece.label.lower()))
            return piece.id not in cited, -len(alike)

        return sorted(self._holder.pieces.values(), key=distance)[:most]

    def _let_go(self) -> list[Stray]:
        return [
            Stray(where, at, part.text, part.reason)
            for where, held in self._held.items()
            for at, part in enumerate(held.parts)
            if part.reason
        ]
