"""Finds numbers in names that may be knobs: `BLOCK_0128.ncu-rep`, `--tile=64`, `gemm<128>`.

A name with a number is a candidate; it is a knob if it varies in the set and nothing else does.
Names that count captures (`run3`) or are not parameters (`seed`) are not knobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

_VALUE = r"\d+(?:\.\d+)?"
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9])([A-Za-z]+(?:[_-][A-Za-z]+)*)(=|_|-)?({_VALUE})(?![A-Za-z0-9.]*[A-Za-z0-9])"
)
"""In a name: `BLOCK_0128`, `tile=64`, `M128`, and all of `M_128_N_64`."""
_OPTION = re.compile(rf"-{{1,2}}D?([A-Za-z][\w.-]*)[=:]({_VALUE})$|([A-Za-z_][\w.-]*)=({_VALUE})$")
_BARE_OPTION = re.compile(r"-{1,2}([A-Za-z][\w-]*)$")
_BARE_VALUE = re.compile(rf"{_VALUE}$")
_DIGITS = re.compile(r"\d+")
_ENDINGS = re.compile(
    r"\.(?:ncu-repz?|keet\.json|csv|txt|log|nsight-cuprof-report)$", re.IGNORECASE
)
_CAPTURES = """
run runs rep reps repeat repeats repetition iteration iterations iter iters trial trials try attempt
round capture profile profiles report reports ncu output out file test case sample id seed device
gpu gpus rank node job task part shard pid tid process stream warmup warmups sm cc v rtx gtx
sxm cuda driver version ver rev build commit day date time night nightly week month year release pr
issue step chapter page pg exercise ex hw lab
"""
_NO_KNOBS = frozenset(_CAPTURES.split())
_GPUS = frozenset(("a", "b", "gb", "gh", "h", "l", "t", "v"))
"""Letters that name a GPU if a number follows directly: `H200`, `T4`."""
CONTROL_OPTIONS = r"--(?:clock-control|cache-control)[= ]\S+"
LONGEST_COMMAND = 2000
"""Characters at the end of a command line that are searched for the program."""
_CONTROL = re.compile(r"--(clock-control|cache-control)[= ](\S+)")
_DEFAULTS = {"clock-control": "base", "cache-control": "all"}


class NamedNumber(NamedTuple):
    """A name with a number, from a file name or a command line."""

    name: str
    value: float
    source: str
    """`file name` or `command line`."""


class Naming(NamedTuple):
    """The named numbers of a file and its command line, and both without the numbers."""

    named: tuple[NamedNumber, ...]
    skeleton: str
    """The command line without numbers: equal for the same program with other numbers."""
    folder: str
    """The folder without the values of knobs; empty if the path has no knob."""


@lru_cache(maxsize=256)
def naming_of(path: str, process: str | None, command_line: str | None) -> Naming:
    command = program_part(process, command_line)
    from_command = list(_from_command(command))
    known = {named.name.lower(): named for named in from_command}
    known |= {named.name.lower(): named for named in _from_path(path)}
    # Without numbers, which are knobs or count captures.
    words = [_file_name(command[0]), *command[1:]] if command else [_file_name(process or "")]
    skeleton = _DIGITS.sub("#", " ".join(words))
    return Naming(tuple(sorted(known.values())), skeleton, _folder(path))


def capture_control(options: str | None) -> str:
    """Clock and cache control: times with different control can't be compared. `options`: of ncu;
    None: not recorded."""
    if options is None:
        return "unknown"
    held = _DEFAULTS | dict(_CONTROL.findall(options))
    return ", ".join(f"{name} {value}" for name, value in sorted(held.items()))


def program_part(process: str | None, command_line: str | None) -> list[str]:
    """The profiled program and its arguments; ncu's own options come before it."""
    words = (command_line or "").split()
    program = _file_name(process or "")
    for place, word in enumerate(words[1:], 1):
        name = _file_name(word.strip("\"'"))
        # `python3` starts a process whose file is `python3.12`.
        is_python = name.startswith("python") and "python" in program
        if program and (name == program or is_python):
            return words[place:]
    return []


def _file_name(path: str) -> str:
    return path.strip().replace("\\", "/").rpartition("/")[2]


def _from_path(path: str) -> Iterator[NamedNumber]:
    """From the file name and the two folders above it."""
    for part in re.split(r"[/\\]", path)[-3:]:
        yield from _in_name(_ENDINGS.sub("", part), "file name")


def _in_name(text: str, source: str) -> Iterator[NamedNumber]:
    for name, separator, value in _NAMED.findall(text):
        if _may_be_knob(name) and (separator or name.lower() not in _GPUS):
            yield NamedNumber(name, float(value), source)


def _from_command(words: list[str]) -> Iterator[NamedNumber]:
    if not words:
        return
    yield from _in_name(_file_name(words[0]), "command line")
    position = 0
    for before, word in pairwise(words):
        option, is_value = _BARE_OPTION.match(before), _BARE_VALUE.match(word)
        if match := _OPTION.match(word):
            name, value = match[1] or match[3], match[2] or match[4]
        elif option and is_value:
            name, value = option[1], word
        else:
            name, value = "", word
        if name and _may_be_knob(name):
            yield NamedNumber(name, float(value), "command line")
        elif is_value and not name:
            position += 1
            yield NamedNumber(f"argument #{position}", float(word), "command line")


def _may_be_knob(name: str) -> bool:
    """Decided by the last word of the name: `report_v` is a version."""
    return re.split(r"[_.-]", name.lower())[-1] not in _NO_KNOBS


def _folder(path: str) -> str:
    parts = re.split(r"[/\\]", path)
    if not any(True for _ in _from_path(path)):
        return ""
    return "/".join([*parts[:-3], *(_NAMED.sub(r"\1=#", part) for part in parts[-3:-1])])


_NUMBER = re.compile(
    r"(?<![\w.])(?:\((?:unsigned |signed |long |short )*(?:int|long|char|short|bool|size_t)\))?"
    r"(-?\d+)(?:[uUlL]*)(?![\w.])"
)
_ARGUMENTS = re.compile(r"<.*>", re.DOTALL)


class Family(NamedTuple):
    """A function, and the numbers in the template arguments of one instance."""

    name: str
    numbers: tuple[int, ...]


def family_of(kernel_full: str) -> Family:
    """`void gemm<(int)128, float>(T1 *)` is `void gemm<#, float>(T1 *)` with 128.

    Types stay in the name: another type is different work, not a point of the same curve.
    """
    numbers: list[int] = []

    def take(match: re.Match[str]) -> str:
        numbers.append(int(match[1]))
        return "#"

    name = _ARGUMENTS.sub(lambda arguments: _NUMBER.sub(take, arguments[0]), kernel_full)
    return Family(name, tuple(numbers))


def function_of(kernel_full: str) -> str:
    """The name without parameters: an edit may add one."""
    return family_of(kernel_full.replace("(anonymous namespace)::", "")).name.partition("(")[0]
