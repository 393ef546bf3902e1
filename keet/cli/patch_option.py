"""`keet explain --patch FILE`: write a model's edits as one patch."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import same_file
from keet.cli.stderr import print_problem, print_progress
from keet.errors import ExitCode, UsageError
from keet.files import replacing

if TYPE_CHECKING:
    from keet.agent.edits.patch_making import PatchFile
    from keet.explanation.explanation_types import Explanation

_PATCH_STARTS = (b"--- ", b"diff ")


def check_patch(path: Path, *reports: Path) -> None:
    """Called before a model is asked. A file that is not a patch is never overwritten: it may be
    the source."""
    if path.is_dir():
        raise UsageError(f"--patch {path}: this is a folder; name a file in it")
    if any(same_file(path, report) for report in reports):
        raise UsageError(f"--patch {path}: that is the report itself; name another file")
    try:
        if path.is_file() and not _may_overwrite(path):
            raise UsageError(f"--patch {path}: the file exists and is not a patch; name another")
    except OSError as problem:
        raise _unwritable(path, problem) from None


def _may_overwrite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(5).startswith(_PATCH_STARTS) or path.stat().st_size == 0


def _unwritable(path: Path, problem: OSError) -> UsageError:
    reason = (problem.strerror or str(problem)).lower()
    return UsageError(f"--patch {path}: can't be written ({reason}); name another file")


def write_patch(path: Path, explanation: Explanation) -> int:
    """Returns the exit code: 3 if there is nothing to write."""
    from keet.agent.edits.patch_making import patch_file

    patch = patch_file(explanation)
    if not patch.diff:
        print_problem(f"--patch {path}: not written: no model suggested an edit that applies")
    else:
        _write(path, patch)
        print_progress(_written(path, patch))
    for edit, reason in patch.left_out:
        places = f" at {', '.join(edit.places)}" if edit.places else ""
        print_progress(f"not in the patch: the edit{places}: {reason}")
    return 0 if patch.diff else ExitCode.NOT_AVAILABLE


def _write(path: Path, patch: PatchFile) -> None:
    from keet.agent.edits.patch_making import encoded

    try:
        with replacing(path) as file:
            file.write(encoded(patch.diff))
    except OSError as problem:
        raise _unwritable(path, problem) from None


def _written(path: Path, patch: PatchFile) -> str:
    edits = "1 edit" if patch.edits == 1 else f"{patch.edits} edits"
    where = f"in {patch.root}" if patch.root else "in the folder of the source"
    command = f"git apply {shlex.quote(str(path.absolute()))}"
    return f"wrote {edits} to {path}; to apply, {where}: {command}"
