"""Finds source files in the folder of `--source`, for reports that do not embed them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath

from keet.errors import UnreadableFile, UsageError
from keet.ingest.input.files import open_regular

_MAX_FILES = 100_000
_MAX_SIZE = 8 << 20


_SUFFIXES = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".hcu", ".hip"),
        *(".inl", ".inc", ".ipp", ".tpp", ".tcc", ".def", ".cl", ".f", ".for", ".f90", ".f95"),
        *(".cuf", ".py", ".pyx", ".jl", ".rs", ".mojo", ".mlir", ".ttir", ".ptx"),
    )
)


def is_source(name: str) -> bool:
    """By its name: a report must not make keet read keys or settings beside the sources."""
    return not name.startswith(".") and Path(name).suffix.lower() in _SUFFIXES


class SourceFolder:
    """Finds a file by the end of the path that the compiler recorded.

    `/build/proj/src/a/k.cu` is found as `DIR/src/a/k.cu`: the candidate with the longest common end
    is taken. If two are equally good, neither is taken, since one of them would be wrong.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UsageError(f"--source {root}: there is no such folder; name the sources' root")
        self.root = root

    @cached_property
    def _files(self) -> Mapping[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        count = 0
        for folder, subfolders, names in os.walk(self.root):
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            for name in sorted(filter(is_source, names)):
                found.setdefault(name, []).append(Path(folder, name))
            count += len(names)
            if count > _MAX_FILES:
                raise UsageError(
                    f"--source {self.root}: more than {_MAX_FILES:,} files; name a smaller folder"
                )
        return found

    def text_of(self, recorded: str) -> str | None:
        parts = _parts(recorded)
        candidates = self._files.get(parts[-1], []) if parts else []
        scored = sorted(((_shared_tail(parts, path), path) for path in candidates), reverse=True)
        if not scored or (len(scored) > 1 and scored[0][0] == scored[1][0]):
            return None
        return _text(scored[0][1])


def _parts(recorded: str) -> tuple[str, ...]:
    windows = "\\" in recorded
    return (PureWindowsPath(recorded) if windows else PurePosixPath(recorded)).parts


def _shared_tail(parts: tuple[str, ...], path: Path) -> int:
    shared = 0
    for recorded, here in zip(reversed(parts), reversed(path.parts)):
        if recorded != here:
            break
        shared += 1
    return shared


def _text(path: Path) -> str | None:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_SIZE:
            return None
        with open_regular(path) as file:
            text = file.read().decode("utf-8", errors="replace")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, UnreadableFile):
        return None
