"""`keet explain --patch FILE`: write a model's edits as a patch, those not confirmed as another."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import same_file
from keet.cli.stderr import print_problem, print_progress
from keet.errors import ExitCode, UsageError, reason_of
from keet.files import replacing

if TYPE_CHECKING:
    from keet.agent.edits.patches import PatchFile
    from keet.explanation.explanation_types import Explanation

_PATCH_STARTS = (b"--- ", b"diff ")


def check_patch(path: Path, *reports: Path) -> None:
    """Called before a model is asked. A file that is not a patch is never overwritten: it may be
    the source."""
    for file in (path, unconfirmed(path)):
        if file.is_dir():
            raise UsageError(f"--patch {path}: {file} is a folder; name a file in it")
        if any(same_file(file, report) for report in reports):
            raise UsageError(f"--patch {path}: {file} is the report itself; name another file")
        try:
            if file.is_file() and not _may_overwrite(file):
                raise UsageError(f"--patch {path}: {file} exists and is not a patch; name another")
        except OSError as problem:
            raise _unwritable(path, problem) from None


def unconfirmed(path: Path) -> Path:
    """`fix.unconfirmed.patch` for `fix.patch`."""
    return path.with_name(f"{path.stem}.unconfirmed{path.suffix}")


def _may_overwrite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(5).startswith(_PATCH_STARTS) or path.stat().st_size == 0


def _unwritable(path: Path, problem: OSError) -> UsageError:
    return UsageError(f"--patch {path}: can't be written ({reason_of(problem)}); name another file")


def write_patch(path: Path, explanation: Explanation) -> int:
    """Writes edits whose cause is confirmed to `path`, and the others beside it. Returns the exit
    code: 3 if there is nothing for `path`."""
    from keet.agent.edits.patches import patch_file

    patch, others = (patch_file(explanation, confirmed=is_sure) for is_sure in (True, False))
    if patch.edits:
        _write(path, patch, "")
    else:
        what = "edit that applies" if not others.edits else "edit whose cause the report confirms"
        print_problem(f"--patch {path}: not written: no model suggested an {what}")
    if others.edits:
        _write(unconfirmed(path), others, " whose cause the report does not confirm")
    for edit, reason in (*patch.left_out, *others.left_out):
        places = f" at {', '.join(edit.places)}" if edit.places else ""
        print_progress(f"not in the patch: the edit{places}: {reason}")
    return 0 if patch.edits else ExitCode.NOT_AVAILABLE


def _write(path: Path, written: PatchFile, which: str) -> None:
    from keet.agent.edits.patches import encoded

    try:
        with replacing(path) as file:
            file.write(encoded(written.patch.diff))
    except OSError as problem:
        raise _unwritable(path, problem) from None
    edits = "1 edit" if written.edits == 1 else f"{written.edits} edits"
    where = f"in {written.patch.root}" if written.patch.root else "in the folder of the source"
    command = f"git apply {shlex.quote(str(path.absolute()))}"
    print_progress(f"wrote {edits}{which} to {path}; to apply, {where}: {command}")
