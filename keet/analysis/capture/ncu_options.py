"""The options that ncu was called with, and its defaults."""

from __future__ import annotations

import re
from typing import NamedTuple

from keet.profile import Profile

_BOOST_SINCE = (2026, 1)
"""From NVIDIA's manual: the default of --clock-control is `boost` from 2026.1 on, and `base`
before."""
_DEFAULTS = {"cache-control": "all", "replay-mode": "kernel"}
"""Defaults of all versions; that of clock-control depends on the version."""


class NcuSetting(NamedTuple):
    """The value of an ncu option."""

    value: str
    is_default: bool
    """It was not on the command line."""


def setting_of(profile: Profile, option: str) -> NcuSetting | None:
    """None where the command line is not recorded, or the default of that ncu is not known."""
    arguments = ncu_arguments(profile)
    if arguments is None:
        return None
    options, _ = split_options(arguments)
    for each in options:
        name, _, value = re.sub(r"[\s=]+", " ", each, count=1).partition(" ")
        if name == f"--{option}" and value:
            return NcuSetting(value.strip("\"'"), is_default=False)
    default = _default(option, profile.provenance.ncu_version)
    return NcuSetting(default, is_default=True) if default else None


def _default(option: str, ncu_version: str | None) -> str | None:
    if option != "clock-control":
        return _DEFAULTS[option]
    known = re.match(r"(\d+)\.(\d+)", ncu_version or "")
    if known is None:
        return None
    return "boost" if (int(known[1]), int(known[2])) >= _BOOST_SINCE else "base"


def ncu_arguments(profile: Profile) -> str | None:
    """The part of the command line after the ncu executable: ncu's options, then the program."""
    match = re.match(_NCU, profile.provenance.command_line or "")
    return match["rest"].strip() if match else None


def split_options(arguments: str) -> tuple[list[str], str]:
    """ncu's options, each with its value, and the program with its arguments."""
    options: list[str] = []
    words = list(re.finditer(_SHELL_WORD, arguments))
    place = 0
    while place < len(words) and words[place][0].startswith("-"):
        word, behind = words[place][0], words[place + 1 : place + 2]
        is_pair = "=" not in word and word not in _SWITCHES
        last = place + (is_pair and any(not value[0].startswith("-") for value in behind))
        options.append(arguments[words[place].start() : words[last].end()])
        place = last + 1
    return options, arguments[words[place].start() :] if place < len(words) else ""


# Patterns are compiled on use: most commands need none of them.
_SHELL_WORD = r"""(?:"[^"]*"|'[^']*'|[^\s"'])+|\S+"""
_SWITCHES = frozenset(
    (
        *("-f", "--force-overwrite", "-q", "--quiet", "--nvtx", "--verbose", "--csv"),
        *("--open-in-ui", "--details-all", "--call-stack", "--print-fp"),
        *("--disable-extra-suffixes", "--disable-profiler-start-stop"),
    )
)
"""Options of ncu without a value."""
_NCU = r'(?s)^\s*(?:"[^"]*[\\/]ncu(?:\.exe)?"|\S*ncu(?:\.exe)?)\s+(?P<rest>.+)$'
