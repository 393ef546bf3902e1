"""Ids of the parts of a page, so that a finding links to its source line and back."""

from __future__ import annotations


class Anchors:
    """Ids for one report, or one side of a diff. `prefix` keeps several on a page apart."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = f"{prefix}-" if prefix else ""
        self._files: dict[str, int] = {}

    def top(self, name: str) -> str:
        """A part of the page that belongs to no launch: `program`, `capture`."""
        return f"{self._prefix}{name}"

    def launch(self, launch: int, part: str = "") -> str:
        """A launch by its number in the report, or a part of it: `account`, `source`."""
        return f"{self._prefix}launch-{launch}" + (f"-{part}" if part else "")

    def finding(self, launch: int, number: int) -> str:
        """A finding of a launch by its rank, from 1."""
        return self.launch(launch, f"finding-{number}")

    def line(self, launch: int, file: str, line: int) -> str:
        """A source line in the listing of a launch; `file` as the report has it."""
        number = self._files.setdefault(file, len(self._files))
        return self.launch(launch, f"file-{number}-L{line}")
