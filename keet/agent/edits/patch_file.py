"""`keet explain --patch FILE`: all edits of an explanation as one patch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import NamedTuple

from keet.agent.edits.patch_making import Patch, combined, git_apply_check
from keet.agent.edits.unified_diff import Span, applied, diff_names, plain_path, split_lines
from keet.agent.source.source_listing import kernel_files
from keet.documents.model_explanation import EditDocument
from keet.explanation.explanation_types import Explanation
from keet.profile import Launch


class SkippedEdit(NamedTuple):
    """An edit that is not in the patch."""

    edit: EditDocument
    reason: str


class PatchFile(NamedTuple):
    diff: str
    """Empty if no edit can be written."""
    root: str
    """Folder that its paths are relative to; empty if not known."""
    edits: int
    """Number of edits in it."""
    left_out: tuple[SkippedEdit, ...]


def patch_file(explanation: Explanation) -> PatchFile:
    """Every edit that applies and does not fail to compile, earlier ones first."""
    files: dict[str, str] = {}
    placed: list[tuple[EditDocument, Patch]] = []
    left_out: list[SkippedEdit] = []
    for launch, edit in _edits(explanation):
        sources = {path: launch.source_files[path] or "" for path in kernel_files(launch)}
        files |= sources
        is_written = edit.build != "fails" and edit.instead_of is None
        patch = _patch_of(edit.diff, sources) if is_written else None
        if patch:
            placed.append((edit, patch))
        else:
            left_out.append(SkippedEdit(edit, _why_not(edit)))
    together = combined([patch for _, patch in placed])
    overlaps = "it changes the same lines as an edit before it"
    left_out += [SkippedEdit(placed[index][0], overlaps) for index in together.left_out]
    if together.patch is None:
        return PatchFile("", "", 0, tuple(left_out))
    if problem := git_apply_check(together.patch, files):
        reason = f"together with the others it does not apply: {problem}"
        left_out += [SkippedEdit(placed[index][0], reason) for index in together.used]
        return PatchFile("", "", 0, tuple(left_out))
    patch = together.patch
    return PatchFile(patch.diff, patch.root, len(together.used), tuple(left_out))


def _edits(explanation: Explanation) -> Iterator[tuple[Launch, EditDocument]]:
    for each in explanation.launches:
        for edit in each.model_explanation.edits if each.model_explanation else ():
            yield each.launch, edit


def _why_not(edit: EditDocument) -> str:
    if not edit.diff:
        return edit.problem or "it is not a patch"
    if edit.build == "fails":
        return f"it does not build: {edit.build_text}" if edit.build_text else "it does not compile"
    if edit.instead_of is not None:
        return f"it is an alternative to edit {edit.instead_of}"
    return "it does not apply to the source"


def _patch_of(diff: str, sources: Mapping[str, str]) -> Patch | None:
    """The edit's diff as a patch; None if there is none, or it does not apply."""
    every = [(name, path) for path in sources for name in _names(path)] if diff else []
    for named in (every, every[::-1]):  # two files may have the same name
        paths = dict(named)
        after = applied(diff, {name: sources[path] for name, path in named})
        if named and not isinstance(after, str):
            return _placed(diff, {paths[name]: text for name, text in after.items()}, sources)
    return None


def _placed(diff: str, files: dict[str, str], sources: Mapping[str, str]) -> Patch:
    before = {path: sources[path] for path in files}
    spans = {path: _spans(before[path], text) for path, text in files.items()}
    return Patch(diff, diff_names(list(files))[0], files, (), before, spans)


def _names(path: str) -> list[str]:
    """Names that a diff may use for a file: each end of its path."""
    parts = PurePosixPath(plain_path(path)).parts
    return ["/".join(parts[begin:]) for begin in range(len(parts))]


def _spans(before: str, after: str) -> tuple[Span, ...]:
    old, new = split_lines(before), split_lines(after)
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return tuple(
        Span(i1, i2, tuple(new[j1:j2])) for tag, i1, i2, j1, j2 in opcodes if tag != "equal"
    )
