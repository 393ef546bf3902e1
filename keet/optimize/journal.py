"""The state of an optimization on disk: one file per finished step, written atomically; and what
the rounds had as their results, read from it.

A step whose file is there is not done again. So a run that was killed at any moment continues with
the first step that has no file, and ends with the same result.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from keet.documents.model_explanation import UsageDocument
from keet.documents.optimize import RoundDocument, TimesDocument
from keet.errors import NotAvailable, UsageError, reason_of
from keet.evidence import Reference, Sentence, constant
from keet.files import replacing
from keet.optimize.judging import Times
from keet.optimize.task import Overlay, Waiting

Document = dict[str, Any]
_LARGEST = 64 * 2**20


class Journal:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For the time of a run: two runs in one folder would do the same steps. The lock ends with
        the process, however it ends."""
        with _writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / "lock").open("a")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(
                    f"{self.folder}: another keet optimize works in it; wait for it, or name "
                    "another folder with --folder"
                ) from None
            with _writing(self.folder):
                yield

    def step(self, name: str, make: Callable[[], Document]) -> Document:
        """What the step had as its result, or has now. `name` is a path: `rounds/01/proposal`."""
        known = self.read(name)
        if known is not None:
            return known
        began = time.monotonic()
        document = make()
        document.setdefault("seconds", round(time.monotonic() - began, 3))
        self.write(name, document)
        return self.read(name) or document

    def read(self, name: str) -> Document | None:
        """Raises UsageError for a file that is not the journal's."""
        path = self._path(name)
        try:
            if path.stat().st_size > _LARGEST:
                raise ValueError
            document = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(document, dict):
                raise ValueError
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            raise UsageError(
                f"{path}: it is damaged; remove it to repeat this step, then run the command again"
            ) from None
        return document

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        self.write_file(f"{name}.json", json.dumps(document, indent=1) + "\n")

    def write_file(self, name: str, text: str | bytes) -> None:
        """A file for people, or for the next step; it appears when it is complete."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        with replacing(path) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def forget(self, name: str) -> None:
        """The step is done again."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def written_sentence(sentence: Sentence) -> list[Any]:
    """Its parts: words, and numbers with their evidence."""
    return [
        [part.text, *part.evidence[2:5]] if isinstance(part, Reference) and part.evidence else part
        for part in sentence.parts
    ]


def read_sentence(parts: list[Any]) -> Sentence:
    return Sentence.of(
        part if isinstance(part, str) else Reference(part[0], (), evidence=constant(*part[1:4]))
        for part in parts
    )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turns a full disk into one line; nothing that was finished is lost."""
    try:
        yield
    except (Waiting, NotAvailable, UsageError):
        raise
    except OSError as problem:
        raise NotAvailable(
            f"{problem.filename or folder}: it can't be written or read ({reason_of(problem)}); "
            "finished steps are kept: remove the cause, for example by freeing disk space, and run "
            "the same command again"
        ) from None


# --- the rounds


class State(NamedTuple):
    """After some rounds."""

    overlay: Overlay
    """What was kept, against the original."""
    best: int
    """The round that it comes from; 0: the original."""
    speedup: float
    """Product of what was kept."""
    rounds: tuple[RoundDocument, ...]


STEPS = ("prompt", "proposal", "request_made", "measured", "outcome")
"""Of a round. A proposal that has an outcome already is not measured."""


def missing_step(journal: Journal, number: int) -> str | None:
    """The first one that is not done."""
    proposal = journal.read(f"rounds/{number:02}/proposal") or {}
    skipped = STEPS[2:4] if proposal.get("outcome") else ()
    steps = (step for step in STEPS if step not in skipped)
    return next((s for s in steps if journal.read(f"rounds/{number:02}/{s}") is None), None)


def read_state(journal: Journal) -> State:
    """What the journal has."""
    state = State({}, 0, 1.0, ())
    number = 1
    while missing_step(journal, number) is None:
        outcome = journal.read(f"rounds/{number:02}/outcome") or {}
        proposal = journal.read(f"rounds/{number:02}/proposal") or {}
        done = _round_document(journal, number, proposal, outcome)
        state = state._replace(rounds=(*state.rounds, done))
        if done.outcome == "kept" and done.times:
            speedup = state.speedup * done.times.speedup
            state = State(proposal["overlay"], number, speedup, state.rounds)
        number += 1
    return state


def _round_document(
    journal: Journal, number: int, proposal: Document, outcome: Document
) -> RoundDocument:
    name = f"rounds/{number:02}"
    steps = (journal.read(f"{name}/{step}") or {} for step in STEPS)
    return RoundDocument(
        number=number,
        outcome=outcome["outcome"],
        reason=read_sentence(outcome["reason"]),
        summary=proposal["summary"],
        files=outcome["files"],
        lines_added=outcome["lines"][0],
        lines_removed=outcome["lines"][1],
        times=times_document(Times(**outcome["times"])) if outcome["times"] else None,
        of_original=outcome["of_original"],
        usage=UsageDocument(**proposal["usage"]),
        seconds=sum(step.get("seconds", 0.0) for step in steps),
        folder=str(journal.folder / name),
    )


def changed_files(before: Overlay, after: Overlay) -> list[str]:
    missing = object()
    every = sorted({*before, *after})
    return [path for path in every if before.get(path, missing) != after.get(path, missing)]


def times_document(times: Times) -> TimesDocument:
    noise = times.noise if math.isfinite(times.noise) else None
    return TimesDocument(
        before_us=times.before, after_us=times.after, speedup=times.speedup, noise=noise
    )


def product(every: Sequence[TimesDocument]) -> TimesDocument:
    """Of rounds one after the other, where original and best were not measured together."""
    noises = [each.noise for each in every]
    known = [noise for noise in noises if noise is not None]
    return TimesDocument(
        before_us=every[0].before_us,
        after_us=every[-1].after_us,
        speedup=math.prod(each.speedup for each in every),
        noise=math.hypot(*known) if len(known) == len(noises) else None,
    )


def total_usage(rounds: Sequence[RoundDocument]) -> UsageDocument:
    every = [each.usage for each in rounds]
    costs = [usage.cost for usage in every if usage.cost != "unknown"]
    return UsageDocument(
        calls=sum(usage.calls for usage in every),
        cached=sum(usage.cached for usage in every),
        input_tokens=sum(usage.input_tokens for usage in every),
        output_tokens=sum(usage.output_tokens for usage in every),
        cost=sum(costs) if costs else "unknown",
        seconds=sum(usage.seconds for usage in every),
        estimated=any(usage.estimated for usage in every),
    )
