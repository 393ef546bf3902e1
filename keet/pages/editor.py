"""Links that open a source line in an editor, where page and sources are on one machine."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import quote

from keet.ingest.input.files import SourceFolder, is_source
from keet.pages.anchors import EDITOR


class EditorLinks:
    """Links of VS Code to files that are on this machine. `source`: a folder with the sources."""

    def __init__(self, source: Path | None = None) -> None:
        self._folder = SourceFolder(source) if source else None
        self.path_of = cache(self._path_of)

    def link(self, file: str, line: int) -> str:
        """`file`: as the report has it. Empty if it is not here."""
        path = self.path_of(file)
        return f"{EDITOR}{quote(path)}:{line}" if path else ""

    def _path_of(self, file: str) -> str:
        path = self._folder.path_of(file) if self._folder else Path(file)
        if path is None or not is_source(path.name) or not path.is_file():
            return ""
        whole = path.resolve().as_posix()
        return whole if whole.startswith("/") else f"/{whole}"  # C:/...
