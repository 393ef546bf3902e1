"""Name patterns in tool arguments, and the launches that they select."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keet.errors import UsageError
from keet.profile import Launch, Profile
from keet.profile.launch_sequences import longest
from keet.profile.profile import launches_with
from keet.serve.allowed_folders import quoted

_OF_REGEXES = frozenset("^$[]()+?\\{}")


def matcher(pattern: str, argument: str) -> Callable[[str], bool]:
    """A function that checks whether a text contains the pattern. Case is ignored, `*` is any text,
    `|` separates alternatives. Raises `UsageError` for an empty pattern.

    Not a regular expression: a bad one can run without end and can't be stopped.
    """
    alternatives = [
        [part for part in each.replace(".*", "*").split("*") if part]
        for each in pattern.casefold().split("|")
        if each.strip()
    ]
    if not alternatives:
        raise UsageError(
            f"{argument} {quoted(pattern)}: the pattern is empty; leave it out to select all"
        )

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
    """The launches that the arguments of a call select; raises `UsageError` if there are none.
    `argument`: the name of the argument `kernel` in messages."""
    matches = None if kernel is None else matcher(kernel, argument)
    found = launches_with(profile, None if launch is None else {launch}, matches)
    if kernel is not None and not found:
        without = "" if argument == "kernel" else f" without {argument}"
        raise UsageError(
            f"{argument} {quoted(kernel)} matches no launch; list_reports with this "
            f"report{without} lists them{about_regexes(kernel)}"
        )
    return found


def longest_in(profile: Profile, launches: Sequence[Launch]) -> Launch:
    """The launch that accounts for the most time."""
    if profile.run:
        return profile.by_run_time(launches)[0]
    return longest(launches)
