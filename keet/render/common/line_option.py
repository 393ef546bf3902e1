"""Resolves `--line FILE:LINE` to a source line, and to the launches that have code for it."""

from __future__ import annotations

from collections.abc import Iterable

from keet.errors import UsageError, one_line
from keet.evidence import Sentence
from keet.profile import Launch, Location
from keet.profile.names import file_name
from keet.render.common.hotspots import with_more
from keet.render.common.machine_code import line_text

_NEAREST = 4
"""Number of lines or files that an error message suggests."""


class NoSuchLine(UsageError):
    """`--line` matches no line, or several."""

    def __init__(self, wanted: tuple[str, int], problem: str, *, is_empty: bool) -> None:
        self.place = f"{one_line(wanted[0])}:{wanted[1]}"
        self.problem = problem
        self.is_empty = is_empty
        """The file has code, but not at this line."""
        super().__init__(f"--line {self.place}: {problem}")


def place_of(launches: Iterable[Launch], wanted: tuple[str, int]) -> tuple[Location, list[Launch]]:
    """Raises `NoSuchLine` if the line has no code in any of the launches, or is not one line."""
    name, number = wanted
    lines = {launch: set(launch.locations.values()) for launch in launches}
    every = set().union(*lines.values())
    in_file = {each for each in every if _is_file(each.file, name)}
    found = {each for each in in_file if each.line == number}
    if len(found) == 1:
        (place,) = found
        return place, [launch for launch, own in lines.items() if place in own]
    problem = _problem(every, in_file, found, number)
    raise NoSuchLine(wanted, problem, is_empty=bool(in_file) and not found)


def _is_file(path: str, name: str) -> bool:
    plain, wanted = path.replace("\\", "/"), name.replace("\\", "/")
    return plain == wanted or plain.endswith(f"/{wanted.lstrip('/')}")


def _problem(
    every: set[Location], in_file: set[Location], found: set[Location], number: int
) -> str:
    if not every:
        return "the code has no source lines; build with nvcc -lineinfo and profile again"
    if found:
        paths = ", ".join(sorted(each.file for each in found)[:_NEAREST])
        return f"several files have this name; give more of the path: {one_line(paths)}"
    if not in_file:
        names = sorted({file_name(each.file) for each in every})
        files = with_more(", ".join(names[:_NEAREST]), len(names) - _NEAREST)
        return Sentence("no code comes from this file; files with code: {files}", files=files)
    nearest = sorted(in_file, key=lambda each: (abs(each.line - number), each.line))[:_NEAREST]
    names = [line_text(each) for each in sorted(nearest, key=lambda each: each.line)]
    return f"no instruction comes from this line; the nearest with code: {', '.join(names)}"
