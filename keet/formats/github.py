"""`keet diff --format github`: annotations on the lines of a pull request that got slower."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from keet.comparison.result import Difference
from keet.errors import one_line
from keet.profile.launch import Location

MOST_ANNOTATIONS = 10
"""What GitHub shows of one step, of each kind."""
_WALKED = 50_000
"""Files of a checkout that are looked through for a source."""


def github_annotations(difference: Difference) -> list[str]:
    """At most ten: the verdict of a failed gate, then lines that got slower."""
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    annotations: list[str] = []
    if (gate := difference.gate) and gate.failed:
        text = "; ".join(regression.text for regression in gate.regressions[:3])
        title = _property(f"keet: {gate.verdict}")
        annotations.append(f"::error title={title}::{_data(text)}")
    for pair in difference.worst:
        for each in pair.attribution:
            code = each.code or ""
            if each.after and (each.share or 0) > 0 and not code.startswith("}"):
                # Without a place where the checkout has no such line: GitHub shows it all the same.
                place = in_checkout(each.after, code, root)
                where = f"file={_property(place.file)},line={place.line}," if place else ""
                text = f"{pair.kernel}: {each.what}, {each.percent:.0f} of the time lost"
                annotations.append(f"::warning {where}title=keet::{_data(text)}")
    return annotations[:MOST_ANNOTATIONS]


def github_error(message: str) -> str:
    """What keeps a step from judging anything."""
    return f"::error title=keet::{_data(message)}"


def in_checkout(place: Location, code: str, root: Path) -> Location | None:
    """The line as the repository has it: the compiler may have seen the file anywhere. Of several
    files with its name, the one whose folders agree for longest and that says the same there."""
    wanted = re.split(r"[\\/]", place.file)

    def agreeing(path: str) -> int:
        pairs = zip(reversed(path.split("/")), reversed(wanted))
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    for file in sorted(_named(wanted[-1], root), key=lambda path: (-agreeing(path), len(path))):
        lines = (root / file).read_text(encoding="utf-8", errors="replace").splitlines()
        if 1 <= place.line <= len(lines) and lines[place.line - 1].strip() == code:
            return Location(file, place.line)
    return None


def _named(name: str, root: Path) -> Iterator[str]:
    left = _WALKED
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        if name in files:
            yield (Path(folder) / name).relative_to(root).as_posix()
        left -= len(files)
        if left < 0:
            return


def _data(text: str) -> str:
    """GitHub's own escapes: a line break would end the command."""
    return one_line(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
