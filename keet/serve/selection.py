"""Which launches, kernels and metrics a call means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keet.errors import UsageError
from keet.profile import Launch, Profile
from keet.serve.roots import quoted


def matcher(pattern: str, *, any_case: bool = False) -> Callable[[str], bool]:
    """Whether a text contains the pattern: `*` is any text, `|` separates alternatives.

    No regular expressions: a bad one takes for ever, and nothing can stop it.
    """
    folded = pattern.casefold() if any_case else pattern
    alternatives = [
        [part for part in each.replace(".*", "*").split("*") if part] for each in folded.split("|")
    ]

    def matches(text: str) -> bool:
        text = text.casefold() if any_case else text
        return any(_in_order(parts, text) for parts in alternatives)

    return matches


def _in_order(parts: Sequence[str], text: str) -> bool:
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def chosen(profile: Profile, launch: int | None, kernel: str | None) -> tuple[Launch, ...]:
    """The launches that a call means. Raises `UsageError` if there is none."""
    count = len(profile.launches)
    if launch is not None and launch >= count:
        raise UsageError(f"launch {launch}: the report has launches 0 to {count - 1}")
    launches = profile.launches if launch is None else (profile.launches[launch],)
    if kernel is None:
        return launches
    matches = matcher(kernel)
    found = tuple(each for each in launches if any(map(matches, _names(each))))
    if not found:
        raise UsageError(
            f"kernel {quoted(kernel)}: no launch has such a name; list_reports with this report "
            "lists them"
        )
    return found


def _names(launch: Launch) -> tuple[str, ...]:
    name = launch.name
    return name.short, name.full, name.function, name.mangled


def longest(launches: Sequence[Launch], profile: Profile) -> Launch:
    """The launch that stands for the most time."""
    if profile.run:
        return profile.by_run_time(launches)[0]
    return max(launches, key=lambda launch: launch.rank_time)
