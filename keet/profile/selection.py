"""Which launches of a profile are meant: by number, and by a regular expression of the kernel."""

from __future__ import annotations

import re
from collections.abc import Collection

from keet.errors import UsageError
from keet.profile.launch import Launch
from keet.profile.model import Profile


def select_launches(
    profile: Profile,
    numbers: Collection[int] | None,
    kernel: re.Pattern[str] | None,
    *,
    names: tuple[str, str] = ("launch", "kernel"),
) -> tuple[Launch, ...]:
    """The launches that pass both filters, in the order of the report; None lets all through.
    Raises if a number is not in the report, or if nothing matches.

    `names`: what the user calls the two filters, for messages.
    """
    count = len(profile.launches)
    see = f"see: keet show {profile.provenance.path}"
    if beyond := [number for number in sorted(numbers or ()) if not 0 <= number < count]:
        raise UsageError(f"{names[0]} {beyond[0]}: the report has launches 0 to {count - 1}; {see}")
    chosen = tuple(
        launch
        for launch in profile.launches
        if (numbers is None or launch.id in numbers)
        and (kernel is None or _matches(launch, kernel))
    )
    if not chosen and kernel is None:
        raise UsageError(f"no {names[0]} was named; leave the choice out to take all of them")
    if not chosen and kernel is not None:
        raise UsageError(f"{names[1]} {kernel.pattern!r} matches no launch; {see}")
    return chosen


def _matches(launch: Launch, pattern: re.Pattern[str]) -> bool:
    name = launch.name
    return any(
        pattern.search(form) for form in (name.short, name.full, name.function, name.mangled)
    )
