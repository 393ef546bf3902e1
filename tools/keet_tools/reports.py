"""Reports that tools read: those that the MCP server opens, or those that the agent explains; and
name patterns in arguments, with the launches that they select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from keet.errors import UsageError, one_line
from keet.profile import Launch, Profile
from keet.profile.profile import launches_with
from keet.safe_text import shortened

if TYPE_CHECKING:
    from keet.comparison.compare import Difference
    from keet.explanation.explanation_types import Explanation
    from keet_tools.arguments import DiffArguments
    from keet_tools.calls import ToolCall


class ReadReport(Protocol):
    name: str
    focus: Launch | None
    """The launch that is meant if none is named; None: `main_launch`."""
    scope: str
    """Prefix of its launches in evidence ids."""
    reads_code: bool
    """Whether machine code may be analysed."""

    @property
    def profile(self) -> Profile: ...

    def chosen(
        self, launch: int | None, kernel: str | None, argument: str = "kernel"
    ) -> tuple[Launch, ...]:
        """The launches that arguments select; raises `UsageError` if there are none. `argument`:
        the name of `kernel` in messages."""

    def explained(self, launches: Sequence[Launch], top: int, call: ToolCall) -> Explanation:
        """With up to `top` findings per launch."""


class Reports(Protocol):
    def reading(
        self, name: str, call: ToolCall, *, source: str | None = None
    ) -> AbstractContextManager[ReadReport]: ...

    def reading_two(
        self, before: str, after: str, call: ToolCall
    ) -> AbstractContextManager[tuple[ReadReport, ReadReport]]: ...

    def difference_of(
        self, sides: tuple[ReadReport, ReadReport], asked: DiffArguments, call: ToolCall
    ) -> Difference: ...


_LONGEST_NAME = 200
"""Characters of a name that a message repeats."""
_OF_REGEXES = frozenset("^$[]()+?\\{}")


def quoted(name: str) -> str:
    """A name from a client, safe to repeat in a message."""
    return shortened(one_line(name), _LONGEST_NAME)


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

    def has_in_order(text: str, parts: Sequence[str]) -> bool:
        at = 0
        for part in parts:
            if (place := text.find(part, at)) < 0:
                return False
            at = place + len(part)
        return True

    return lambda text: any(has_in_order(text.casefold(), parts) for parts in alternatives)


def about_regexes(pattern: str) -> str:
    """The end of a message about a pattern that matches nothing."""
    if _OF_REGEXES.isdisjoint(pattern):
        return ""
    return "; regular expressions are not supported: * is any text, | separates alternatives"


def selected_launches(
    profile: Profile, launch: int | None, kernel: str | None, argument: str = "kernel"
) -> tuple[Launch, ...]:
    """The launches that the arguments of a call select; raises `UsageError` if there are none.
    `argument`: the name of the argument `kernel` in messages."""
    matches = None if kernel is None else matcher(kernel, argument)
    launches = launches_with(profile, None if launch is None else {launch}, matches)
    if kernel is not None and not launches:
        without = "" if argument == "kernel" else f" without {argument}"
        raise UsageError(
            f"{argument} {quoted(kernel)} matches no launch; list_reports with this "
            f"report{without} lists them{about_regexes(kernel)}"
        )
    return launches


def about_launch(report: ReadReport, launch: Launch) -> dict[str, Any]:
    """The fields of `OfLaunch`."""
    return {"report": report.name, "launch": launch.id, "kernel": launch.kernel}


def main_launch(report: ReadReport, launches: Sequence[Launch]) -> Launch:
    """The one in focus, or the representative of the kernel that takes most time."""
    if report.focus is not None and report.focus in launches:
        return report.focus
    return report.profile.representatives(launches)[0]
