"""How ncu was called, as the report recorded it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from keet.profile import Profile
from keet.profile.ncu_options import NcuOption

_BOOST_SINCE = (2026, 1)
"""From NVIDIA's manual: the default of --clock-control is `boost` from 2026.1 on, and `base`
before."""
_DEFAULTS = {"cache-control": "all", "replay-mode": "kernel"}
"""Defaults of all versions; that of clock-control depends on the version."""


class NcuCommandLine(NamedTuple):
    arguments: str | None
    """All that follows the ncu executable; None: not recorded."""
    options: tuple[NcuOption, ...] = ()
    program: str = ""
    """With its arguments."""

    def values(self, name: str) -> list[str]:
        """Of all options of this name."""
        return [option.value for option in self.options if option.name == name]


# Patterns are compiled on use: most commands need none of them.
_SHELL_WORD = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+"""
"""Of a shell. Windows paths contain backslashes."""
_WORD_OR_MORE = rf"{_SHELL_WORD}|\S+"
"""Also where quotes are not closed."""
_OPTION = r"(?s)([^\s=]+)([\s=]*)(.*)"
_NCU = r'(?s)^\s*(?:"[^"]*[\\/]ncu(?:\.exe)?"|\S*ncu(?:\.exe)?)\s+(?P<rest>.+)$'
_SWITCHES = frozenset(
    (
        *("-f", "--force-overwrite", "-q", "--quiet", "--nvtx", "--verbose", "--csv"),
        *("--open-in-ui", "--details-all", "--call-stack", "--print-fp"),
        *("--disable-extra-suffixes", "--disable-profiler-start-stop"),
    )
)
"""Options of ncu without a value."""


def recorded_command(profile: Profile) -> NcuCommandLine:
    return _parsed(profile.provenance.command_line or "")


@lru_cache(maxsize=8)
def _parsed(command: str) -> NcuCommandLine:
    match = re.match(_NCU, command)
    if match is None:
        return NcuCommandLine(None)
    arguments = match["rest"].strip()
    options: list[NcuOption] = []
    words = list(re.finditer(_WORD_OR_MORE, arguments))
    place = 0
    while place < len(words) and words[place][0].startswith("-"):
        word, behind = words[place][0], words[place + 1 : place + 2]
        is_pair = "=" not in word and word not in _SWITCHES
        has_value = is_pair and any(not value[0].startswith("-") for value in behind)
        last = place + 1 if has_value else place
        option = re.match(_OPTION, arguments[words[place].start() : words[last].end()])
        if option is not None:
            name, between, value = option.groups()
            options.append(NcuOption(name, value, between))
        place = last + 1
    program = arguments[words[place].start() :] if place < len(words) else ""
    return NcuCommandLine(arguments, tuple(options), program)


_SAFE_WORD = r"""(?:[\w@%+=:,./-]|\\(?=[\w.])|"(?:[^"$`!\\]|\\(?=[\w .]))*"|'[^']*')+"""
"""Words that need no quoting in a shell. Windows paths contain backslashes."""


def quoted(recorded: str) -> str | None:
    """Quote a recorded command for a shell; None if its quotes are not closed.

    Security: reports come from untrusted sources, and people and agents run the commands that keet
    prints. A recorded word must not be able to end the command and start another one.
    """
    if not recorded.isprintable() or re.sub(_SHELL_WORD, "", recorded).strip():
        return None
    return " ".join(map(_quoted_word, re.findall(_SHELL_WORD, recorded)))


def _quoted_word(word: str) -> str:
    import shlex

    return word if re.fullmatch(_SAFE_WORD, word) else shlex.join(shlex.split(word))


def first_word(text: str) -> str:
    match = re.match(_WORD_OR_MORE, text)
    return match[0] if match else ""


class NcuSetting(NamedTuple):
    """The value of an ncu option."""

    value: str
    is_default: bool
    """It was not on the command line."""


def setting_of(profile: Profile, option: str) -> NcuSetting | None:
    """None where the command line is not recorded, or the default of that ncu is not known."""
    command = recorded_command(profile)
    if command.arguments is None:
        return None
    for value in filter(None, command.values(f"--{option}")):
        return NcuSetting(value.strip("\"'"), is_default=False)
    default = _default(option, profile.provenance.ncu_version)
    return NcuSetting(default, is_default=True) if default else None


def _default(option: str, ncu_version: str | None) -> str | None:
    if option != "clock-control":
        return _DEFAULTS[option]
    version = re.match(r"(\d+)\.(\d+)", ncu_version or "")
    if version is None:
        return None
    return "boost" if (int(version[1]), int(version[2])) >= _BOOST_SINCE else "base"
