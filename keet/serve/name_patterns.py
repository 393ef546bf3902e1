"""Which launches, kernels and metrics a call means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keet.errors import UsageError
from keet.profile import Launch, Profile
from keet.profile.selection import launches_with
from keet.serve.allowed_folders import quoted

_OF_REGEXES = frozenset("^$[]()+?\\{}")


def matcher(pattern: str, argument: str) -> Callable[[str], bool]:
    """Whether a text contains the pattern, in any case: `*` is any text, `|` separates
    alternatives. Raises `UsageError` for a pattern that names nothing.

    No regular expressions: a bad one takes for ever, and nothing can stop it.
    """
    alternatives = [
        [part for part in each.replace(".*", "*").split("*") if part]
        for each in pattern.casefold().split("|")
        if each.strip()
    ]
    if not alternatives:
        raise UsageError(f"{argument} {quoted(pattern)}: it names nothing; leave it out for all")

    def matches(text: str) -> bool:
        text = text.casefold()
        return any(_in_order(parts, text) for parts in alternatives)

    return matches


def about_regexes(pattern: str) -> str:
    """The end of a message about a pattern that matches nothing."""
    if _OF_REGEXES.isdisjoint(pattern):
        return ""
    return "; regular expressions are not supported: * is any text, | separates alternatives"


def _in_order(parts: Sequence[str], text: str) -> bool:
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def selected_launches(
    profile: Profile, launch: int | None, kernel: str | None, argument: str = "kernel"
) -> tuple[Launch, ...]:
    """The launches that a call means. Raises `UsageError` if there is none. `argument`: what
    `kernel` is called."""
    matches = None if kernel is None else matcher(kernel, argument)
    found = launches_with(profile, None if launch is None else {launch}, matches)
    if kernel is not None and not found:
        without = "" if argument == "kernel" else f" without {argument}"
        raise UsageError(
            f"{argument} {quoted(kernel)}: no launch has such a name; list_reports with this "
            f"report{without} lists them{about_regexes(kernel)}"
        )
    return found


def longest(launches: Sequence[Launch], profile: Profile) -> Launch:
    """The launch that stands for the most time."""
    if profile.run:
        return profile.by_run_time(launches)[0]
    return max(launches, key=lambda launch: launch.rank_time)
