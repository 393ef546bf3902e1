"""Builds the questions from the samples' reports: always the same ones in the same order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from evals.mcq.answer_sources import Source, answerable_from
from evals.mcq.kinds import (
    launch_shape,
    measured_values,
    pairs_and_edits,
    two_versions,
    unanswerable,
    units_stalls_lines,
)
from evals.mcq.option_design import LETTERS, Draft
from evals.mcq.report_facts import Facts, facts_of
from evals.runs import Record, read_lines, write_lines
from keet.errors import UsageError

Letter = Literal["A", "B", "C", "D"]

KINDS: dict[str, tuple[str, Callable[[Sequence[Facts]], list[Draft]]]] = {
    "unit": ("which unit came nearest to its peak", units_stalls_lines.unit_drafts),
    "line": ("which line got the most warp samples", units_stalls_lines.line_drafts),
    "stall": ("what its warps waited for the most", units_stalls_lines.stall_drafts),
    "busy": ("how near to its peak a unit came", measured_values.busy_drafts),
    "cache": ("what caches held, and sectors without need", measured_values.cache_drafts),
    "warps": ("how many warps there were, and could issue", measured_values.warps_drafts),
    "occupancy": ("what limits the blocks of an SM", launch_shape.occupancy_drafts),
    "waves": ("how many waves of blocks its grid is", launch_shape.wave_drafts),
    "traffic": ("how many bytes DRAM moved", launch_shape.traffic_drafts),
    "speed": ("how much faster another version is", two_versions.speed_drafts),
    "change": ("what differs in another version's profile", two_versions.change_drafts),
    "pair": ("which of two is faster, and why", pairs_and_edits.pair_drafts),
    "edit": ("which edit helps most", pairs_and_edits.edit_drafts),
    "unknown": ("what the report can't tell", unanswerable.unknown_drafts),
}
_SEED = "places"


class Question(Record):
    """One question, with the reason why each option is right or wrong."""

    id: str
    kind: str
    sample: str
    reports: tuple[str, ...]
    """The reports shown, such as `matrix_flip/slow`; for a pair, P and Q in this order."""
    source_only: str | None = None
    """Q, if its source is shown but not its report."""
    text: str
    options: tuple[str, str, str, str]
    correct: Letter
    why: str
    """How the answer was computed: metrics and values."""
    why_wrong: dict[str, str]
    answerable_from: tuple[Source, ...]
    """Texts that contain the needed number. Others may still allow to infer it."""

    @property
    def answer(self) -> str:
        return self.options[LETTERS.index(self.correct)]


@cache
def _all() -> tuple[Question, ...]:
    reports = list(facts_of().values())
    drafts = {kind: make(reports) for kind, (_, make) in KINDS.items()}
    return tuple(_placed(drafts))


def all_questions() -> list[Question]:
    return list(_all())


def _placed(drafts: dict[str, list[Draft]]) -> Iterable[Question]:
    """Right answers rotate over the four positions, kind by kind; wrong ones are shuffled."""
    draws = random.Random(_SEED)
    turn = 0
    for of_kind in drafts.values():
        mixed = draws.sample(of_kind, len(of_kind))
        places = {draft.name: (turn + number) % 4 for number, draft in enumerate(mixed)}
        turn += len(mixed)
        yield from (_question(draft, places[draft.name], draws) for draft in of_kind)


def _question(draft: Draft, place: int, draws: random.Random) -> Question:
    wrong = list(zip(draft.options[1:], draft.why_wrong))
    draws.shuffle(wrong)
    options = [text for text, _ in wrong]
    options.insert(place, draft.options[0])
    first, second, third, fourth = options
    reasons = dict(wrong)
    return Question(
        id=f"q-{draft.kind}-{draft.name}",
        kind=draft.kind,
        sample=draft.facts[0].sample.name,
        reports=tuple(facts.name for facts in draft.facts),
        source_only=draft.later.name if draft.later is not None else None,
        text=draft.text,
        options=(first, second, third, fourth),
        correct=LETTERS[place],  # type: ignore[arg-type]
        why=draft.why,
        why_wrong={LETTERS[i]: reasons[text] for i, text in enumerate(options) if i != place},
        answerable_from=answerable_from(draft),
    )


def chosen(count: int, seed: int = 1) -> list[Question]:
    """This many questions, balanced over kinds, samples and positions of the answer."""
    every = all_questions()
    if not 0 < count <= len(every):
        raise UsageError(f"{count} questions of {len(every)} cannot be chosen; ask for fewer")
    draws = random.Random(seed)
    left = draws.sample(every, len(every))
    kept: list[Question] = []
    seen: Counter[tuple[str, str]] = Counter()
    while len(kept) < count:
        best = min(left, key=lambda question: _crowding(question, seen))
        left.remove(best)
        kept.append(best)
        seen.update(_traits(best))
    return sorted(kept, key=every.index)


def _traits(question: Question) -> list[tuple[str, str]]:
    return [
        ("kind", question.kind),
        ("place", question.correct),
        ("kind and place", question.kind + question.correct),
        ("sample", question.sample),
    ]


def _crowding(question: Question, seen: Counter[tuple[str, str]]) -> tuple[int, ...]:
    return tuple(seen[trait] for trait in _traits(question))


def write_key(path: Path, questions: Iterable[Question]) -> None:
    write_lines(path, questions)


def read_key(path: Path) -> dict[str, Question]:
    """By id."""
    if not path.is_file():
        raise UsageError(f"there is no {path}; make the run again: keet eval prompts --help")
    return {question.id: question for question in read_lines(path, Question)}
