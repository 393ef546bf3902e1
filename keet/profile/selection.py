"""Selects launches of a profile by number and by kernel name (`--launch`, `--kernel`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from keet.errors import UsageError
from keet.profile.launch import Launch
from keet.profile.profile import Profile


def select_launches(
    profile: Profile,
    numbers: Collection[int] | None,
    kernel: re.Pattern[str] | None,
    *,
    names: tuple[str, str] = ("launch", "kernel"),
) -> tuple[Launch, ...]:
    """The launches that match both filters, in the order of the report. A filter that is None
    matches all. Raises if a number is not in the report, or if nothing matches.

    `names`: the names of the two filters in messages.
    """
    see = f"see: keet show {profile.provenance.file}"
    search = kernel.search if kernel else None
    chosen = launches_with(profile, numbers, search, name=names[0], see=f"; {see}")
    if not chosen and kernel is None:
        raise UsageError(f"no {names[0]} was named; leave the choice out to take all of them")
    if not chosen and kernel is not None:
        raise UsageError(f"{names[1]} {kernel.pattern!r} matches no launch; {see}")
    return chosen


def launches_with(
    profile: Profile,
    numbers: Collection[int] | None,
    matches: Callable[[str], object] | None,
    *,
    name: str = "launch",
    see: str = "",
) -> tuple[Launch, ...]:
    """The launches with these numbers of which a form of the kernel name matches; may be empty.
    Raises if a number is not in the report; `see` is the end of that message."""
    count = len(profile.launches)
    if beyond := [number for number in sorted(numbers or ()) if not 0 <= number < count]:
        has = f"launches 0 to {count - 1}" if count != 1 else "one launch, number 0"
        raise UsageError(f"{name} {beyond[0]}: the report has {has}{see}")
    wanted = None if numbers is None else frozenset(numbers)
    return tuple(
        launch
        for launch in profile.launches
        if (wanted is None or launch.id in wanted)
        and (matches is None or any(map(matches, _forms(launch))))
    )


def _forms(launch: Launch) -> tuple[str, ...]:
    name = launch.name
    return name.short, name.full, name.function, name.mangled
