"""The prompt of a round.

It says first how much work is needed, and only then what limits the present way of doing it: models
that see a profile alone tune the present design, and models without one redesign it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keet.errors import one_line
from keet.masking.keys import scrub
from keet.optimize.facts import Facts, short_diff_text
from keet.optimize.measure import paths_in
from keet.optimize.protocol import ProfileOutcome, shown_output
from keet.optimize.task import OutputRule, Task
from keet.optimize.workspace import Overlay, text_of
from keet.pages.source_text import language, longest_run
from keet.token_count import guess_tokens

_HOST_COUNTS = (
    "- Work that only moves to the host is no gain: a change is refused if the whole program, with "
    "its start and its allocations, clearly takes longer than before, or if it does not become "
    "faster by a good part of what the kernels save."
)
_OUTPUT_CHARS = 1500
_DIFF_CHARS = 4000
_SOURCE_TOKENS = 24_000
_LISTED_FILES = 200


class Tried(NamedTuple):
    """An earlier round, as the next prompt tells it."""

    number: int
    outcome: str
    reason: str
    summary: str
    """The proposer's words."""
    output: str
    patch: str
    diff: str
    """What it did, by the profiles; empty if it was not measured."""


class PromptFacts(NamedTuple):
    """All that a prompt may carry."""

    task: Task
    number: int
    gpu: str | None
    folder: Path
    """The source as it is now."""
    overlay: Overlay
    """What earlier rounds changed."""
    now: Facts
    """Of the source as it is now."""
    speedup: float
    """Of the source as it is now, compared with the original."""
    tried: Sequence[Tried]
    answer: str
    """How the proposer has to answer."""
    profile: ProfileOutcome | None
    """Of the source as it is now; None: it was not profiled."""
    files: Path
    """What its files of the measurement begin with: `.details.txt` and others follow."""


def build_prompt(facts: PromptFacts) -> str:
    return prompt_with(facts, _limits(facts.now))


def prompt_with(facts: PromptFacts, profile: str) -> str:
    """`profile`: the part about the profile; may be empty. Without keys: outputs of programs may
    contain what is in the environment."""
    parts = [
        _task(facts.task, facts.gpu),
        _work(facts),
        _time(facts),
        *_history(facts),
        profile,
        _source(facts),
        facts.answer,
    ]
    return scrub("\n\n".join(part for part in parts if part)) + "\n"


def _task(task: Task, gpu: str | None) -> str:
    goal = "the whole program takes as little time as possible"
    if task.goal == "gpu":
        goal = "the GPU kernels of the whole program take as little time as possible together"
    if task.goal == "gpu" and task.kernel:
        goal = f"the kernels that match `{task.kernel}` take as little time as possible"
        goal += " (new kernels count, too, and all kernels together must not become slower)"
    lines = [
        "# Task",
        "",
        f"Change this program so that {goal}{f' on {gpu}' if gpu else ''}, and stays correct.",
        "",
        f"- Build: `{task.build}`",
        f"- Run: `{task.run}`",
        *([f"- Check: `{task.check}` has to exit with 0 after every run"] if task.check else []),
        *(f"- Output {_named(rule)}" for rule in task.outputs),
        f"- Only these files may change: {', '.join(f'`{each}`' for each in task.may_change)}",
        "- Every run is checked and starts in a fresh copy of the folder. The times come from a "
        "recorder outside of the program. Keep doing all of the work in every run: results that "
        "are stored for a later run, changed inputs or checks, and anything that works around "
        "the measurement are refused.",
        *([_HOST_COUNTS] if task.goal == "gpu" and task.wall_check else []),
    ]
    return "\n".join(lines)


def _named(rule: OutputRule) -> str:
    name = "on standard output" if rule.file == "-" else f"`{rule.file}`"
    if rule.type == "bytes" or not (rule.relative or rule.absolute):
        return f"{name} ({rule.type}): exactly as before"
    return f"{name} ({rule.type}): within {rule.absolute:g} + {rule.relative:g} * |value|"


def _work(facts: PromptFacts) -> str:
    known = facts.now.amounts or "Not measured: count it from the source."
    return (
        "# How much work is needed\n\n"
        "Before you look at what limits the program, ask how much work the result needs at all, "
        "and whether another algorithm, data layout, precision (within the tolerance), fusion of "
        "kernels or division of the work does less. A new design may gain more than any tuning of "
        f"the present one. What is done now:\n\n{known}"
    )


def _time(facts: PromptFacts) -> str:
    gained = facts.speedup
    so_far = f"It is {gained:.2f} times as fast as the original by now.\n\n" if gained != 1 else ""
    if not (facts.now.kernels or so_far):
        return ""
    return f"# Where the GPU time goes\n\n{so_far}{facts.now.kernels}".rstrip()


def _limits(now: Facts) -> str:
    if not now.limits:
        return ""
    left = f"\n\nIn short: {now.left.text}." if now.left else ""
    limits = re.sub("^(?=#+ )", "#", now.limits, flags=re.MULTILINE)
    return f"# What limits the present way of doing it\n\n{limits}{left}"


def _history(facts: PromptFacts) -> Iterator[str]:
    if not facts.tried:
        return
    last = facts.tried[-1]
    lines = [f"# What the last change did\n\nRound {last.number}, {_in_words(last)}"]
    if last.diff:
        lines.append(short_diff_text(last.diff))
    elif last.output:
        lines.append(block(shown_output(last.output, _OUTPUT_CHARS), "text"))
    if last.outcome != "kept" and last.patch:
        cut = "\n[...]" if len(last.patch) > _DIFF_CHARS else ""
        patch = block(last.patch[:_DIFF_CHARS] + cut, "diff")
        lines += ["The change, which was undone:", patch]
    yield "\n\n".join(lines)
    for is_kept in (True, False):
        rounds = [each for each in facts.tried[:-1] if (each.outcome == "kept") is is_kept]
        listed = "\n".join(f"- Round {each.number}: {_in_words(each)}" for each in rounds)
        if rounds:
            wish = "" if is_kept else "\n\nDo not propose these again as they are."
            yield f"# What was {'kept' if is_kept else 'dropped'} before\n\n{listed}{wish}"


def _in_words(tried: Tried) -> str:
    what = f" It was: {tried.summary}" if tried.summary else ""
    return f"{tried.outcome.replace('_', ' ')}: {tried.reason}.{what}"


def _source(facts: PromptFacts) -> str:
    """Files that may change in full, then others that fit; the names of all."""
    every = sorted(path for path in paths_in(facts.folder))
    changeable = [path for path in every if facts.task.is_changeable(path)]
    others = [path for path in every if path not in changeable]
    shown: dict[str, str] = {}
    left = _SOURCE_TOKENS
    for path in (*changeable, *others):
        text = text_of(facts.folder / path)
        if text is not None and (tokens := guess_tokens(text)) <= left:
            shown[path] = text
            left -= tokens
    parts = ["# Files"]
    for path, text in shown.items():
        aside = "" if path in changeable else " (may not change)"
        parts.append(f"`{one_line(path)}`{aside}:\n\n{block(text.rstrip(), language(path, ''))}")
    if names := [path for path in every if path not in shown]:
        more = f" and {len(names) - _LISTED_FILES} more" if len(names) > _LISTED_FILES else ""
        listed = ", ".join(f"`{one_line(name)}`" for name in names[:_LISTED_FILES])
        parts.append(f"Files that are not shown: {listed}{more}")
    return "\n\n".join(parts)


def block(text: str, language: str) -> str:
    """A code block that its text can't close. Tabs stay: they are part of the source."""
    ticks = "`" * max(3, 1 + longest_run(text))
    return f"{ticks}{language}\n{text}\n{ticks}"
