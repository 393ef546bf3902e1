"""Makes patches that apply from a model's changes: exact context, right line numbers.

`patch_file` makes one patch of all edits of an explanation (`keet explain --patch FILE`). Only
`git_apply_check` has side effects; it works in a temporary folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from keet.agent.edits.change_location import MATCHES, LocatedChange, NotLocated, locate_change
from keet.agent.edits.code_blocks import damage
from keet.agent.edits.edit_text import LineReplacement, expanded, parse_diff
from keet.agent.edits.line_search import SourceText
from keet.agent.edits.unified_diff import (
    Span,
    applied,
    apply_spans,
    diff_names,
    diff_text,
    minimal,
    plain_path,
    split_lines,
)
from keet.agent.source.source_listing import kernel_files
from keet.documents.model_explanation import EditDocument
from keet.errors import one_line
from keet.explanation.explanation_types import Explanation
from keet.profile import Launch

__all__ = [
    "Combined",
    "EditedLines",
    "LineReplacement",
    "Misfit",
    "Patch",
    "PatchFile",
    "SkippedEdit",
    "combined",
    "encoded",
    "git_apply_check",
    "parse_diff",
    "patch_file",
    "place_changes",
]

_MOST_CHANGES = 40
_LONGEST_MESSAGE = 1500


class EditedLines(NamedTuple):
    """Lines of the original file that one change replaces, from 1."""

    file: str
    first: int
    last: int
    """Less than `first` for an insertion, which goes before `first`."""
    match: str
    """How the old lines were found: "exact", "white space" or "similar"."""

    def __str__(self) -> str:
        """`slow.cu:31-34`"""
        name = one_line(plain_path(self.file).rsplit("/", 1)[-1])
        return f"{name}:{self.first}" + (f"-{self.last}" if self.last > self.first else "")


class Patch(NamedTuple):
    """One edit, placed against the original files."""

    diff: str
    """Unified, with `a/` and `b/` paths relative to `root`; for `git apply` or `patch -p1` there.
    Write it as `encoded(diff)`: it has the line ends of the files."""
    root: str
    """Folder that the paths in the diff are relative to; empty if not known."""
    files: Mapping[str, str]
    """New text of each changed file, by its path in the files that were given."""
    places: tuple[EditedLines, ...]
    before: Mapping[str, str]
    """Original text of each changed file."""
    spans: Mapping[str, tuple[Span, ...]]
    """Replaced lines of each changed file."""


class Misfit(NamedTuple):
    """Why the changes cannot be placed, and what the model has to write instead."""

    message: str
    change: int = 0
    """Index of the change that does not fit."""


class Combined(NamedTuple):
    patch: Patch | None
    """None if no patches were given."""
    used: tuple[int, ...]
    left_out: tuple[int, ...]
    """Indices of patches that change the same lines as an earlier one."""


class _PlacedChange(NamedTuple):
    """One change in one file, and its index."""

    path: str
    placed: LocatedChange
    change: int


def place_changes(files: Mapping[str, str], changes: Sequence[LineReplacement]) -> Patch | Misfit:
    """Places all changes of one edit in the original text of `files` (path -> text).

    Old lines are searched exactly, then ignoring white space, line numbers, diff signs and "...",
    then by similarity (similar_lines.LIMIT) if only one place fits.
    """
    if not changes or len(changes) > _MOST_CHANGES:
        return Misfit(f"Give 1 to {_MOST_CHANGES} changes, each with `file`, `old` and `new`.")
    sources = {path: SourceText(path, text) for path, text in files.items()}
    parts: list[_PlacedChange] = []
    for index, given in enumerate(changes):
        for change in expanded(given):
            part = _place_one(sources, change, index)
            if isinstance(part, Misfit):
                return _naming_change(part, len(changes))
            parts.append(part)
    return _checked(sources, parts)


def _naming_change(misfit: Misfit, count: int) -> Misfit:
    if count == 1:
        return misfit
    return misfit._replace(message=f"Change {misfit.change + 1} of {count}: {misfit.message}")


def _place_one(
    sources: Mapping[str, SourceText], change: LineReplacement, index: int
) -> _PlacedChange | Misfit:
    named = _named(sources, change.file)
    placed = {path: locate_change(sources[path], change) for path in named or sources}
    good = {path: found for path, found in placed.items() if isinstance(found, LocatedChange)}
    sure = {path: found for path, found in good.items() if found.match != MATCHES[-1]}
    if sure or named:  # similar lines alone do not identify a file
        good = sure or good
        for path, found in list(good.items())[:1]:
            if len({sources[path].text for path in good}) == 1 and _may_guess(named, change):
                return _PlacedChange(path, found, index)
    return _misfit(_why(sources, change, placed, list(good)), index)


def _may_guess(named: Sequence[str], change: LineReplacement) -> bool:
    """An insertion has only a line number, so it needs a file name."""
    return bool(named) or bool(change.old.strip())


def _misfit(message: str, index: int) -> Misfit:
    return Misfit(message[:_LONGEST_MESSAGE], index)


def _named(sources: Mapping[str, SourceText], name: str) -> list[str]:
    """Files that match a name: by path, by the end of a path, by base name."""
    if name in sources:
        return [name]
    wanted = [part for part in plain_path(name.strip()).split("/") if part not in ("", ".", "..")]
    if not wanted:
        return list(sources) if not name.strip() and len(sources) == 1 else []
    ends = (wanted, wanted[1:] if wanted[0] in ("a", "b") else [], wanted[-1:])
    for end in filter(None, ends):
        found = [path for path in sources if plain_path(path).split("/")[-len(end) :] == end]
        if found:
            return found
    return []


def _why(
    sources: Mapping[str, SourceText],
    change: LineReplacement,
    placed: Mapping[str, LocatedChange | NotLocated],
    good: Sequence[str],
) -> str:
    names = diff_names(list(sources))[1].values()
    known = ", ".join(one_line(name) for name in list(names)[:8]) or "none"
    if len(good) > 1:
        return f"The old lines are in several files ({known}): name one of them in `file`."
    problems = [found.message for found in placed.values() if isinstance(found, NotLocated)]
    if len(placed) == 1 and problems and _named(sources, change.file):
        return problems[0]
    return f"No file {one_line(change.file)[:100]!r} with the old lines. Files at hand: {known}."


def _checked(sources: Mapping[str, SourceText], parts: Sequence[_PlacedChange]) -> Patch | Misfit:
    """The patch, if changes do not overlap, change something, and keep blocks complete."""
    spans: dict[str, list[Span]] = {}
    for part in parts:
        mine = minimal(sources[part.path].lines, part.placed.spans)
        taken = spans.setdefault(part.path, [])
        if any(_overlap(a, b) for a in mine for b in taken):
            return _misfit("Two changes replace the same lines: make them one change.", part.change)
        taken += mine
    patch = _patch({path: source.text for path, source in sources.items()}, spans, parts)
    if patch is None:
        return Misfit("The new lines are the old ones: this changes nothing.")
    for part in parts:
        source = sources[part.path]
        if part.path in patch.files:
            after = patch.files[part.path]
            if problem := damage(part.path, source.lines, part.placed.spans, after):
                return _misfit(problem, part.change)
    return patch


def _overlap(a: Span, b: Span) -> bool:
    """Insertions at the edges of replaced lines do not overlap with them."""
    return a.start < b.end and b.start < a.end


def _patch(
    files: Mapping[str, str],
    spans: Mapping[str, Iterable[Span]],
    parts: Sequence[_PlacedChange] = (),
) -> Patch | None:
    """None if nothing changes."""
    ordered = {path: tuple(sorted(some, key=_order)) for path, some in spans.items()}
    ordered = {path: some for path, some in ordered.items() if some}
    if not ordered:
        return None
    root, names = diff_names(list(ordered))
    lines = {path: split_lines(files[path]) for path in ordered}
    diff = "".join(diff_text(names[path], lines[path], ordered[path]) for path in ordered)
    return Patch(
        diff=diff,
        root=root,
        files={path: apply_spans(lines[path], ordered[path]) for path in ordered},
        places=tuple(place for part in parts for place in _places(lines, part)),
        before={path: files[path] for path in ordered},
        spans=ordered,
    )


def _order(span: Span) -> tuple[int, int]:
    return span.start, span.end


def _places(lines: Mapping[str, Sequence[str]], part: _PlacedChange) -> Iterable[EditedLines]:
    """One entry per range of changed lines."""
    joined: list[tuple[int, int]] = []
    for span in minimal(lines.get(part.path, ()), part.placed.spans):
        if joined and span.start - joined[-1][1] <= 3:
            joined[-1] = (joined[-1][0], span.end)
        else:
            joined.append((span.start, span.end))
    return [EditedLines(part.path, a + 1, b, part.placed.match) for a, b in joined]


def combined(patches: Sequence[Patch]) -> Combined:
    """One patch of all patches that do not overlap; earlier ones win."""
    files: dict[str, str] = {}
    spans: dict[str, list[Span]] = {}
    used: list[int] = []
    for index, patch in enumerate(patches):
        if not _conflict(files, spans, patch):
            used.append(index)
            files |= patch.before
            for path, mine in patch.spans.items():
                known = spans.setdefault(path, [])
                known += [span for span in mine if span not in known]
    left_out = tuple(index for index in range(len(patches)) if index not in used)
    merged = _patch(files, spans)
    places = tuple(place for index in used for place in patches[index].places)
    return Combined(merged and merged._replace(places=places), tuple(used), left_out)


def _conflict(files: Mapping[str, str], spans: Mapping[str, Sequence[Span]], patch: Patch) -> bool:
    """The same hunk in both is not a conflict."""
    if any(files.get(path, text) != text for path, text in patch.before.items()):
        return True
    return any(
        a != b and (_overlap(a, b) or (a.start == b.start and a.end > a.start and b.end > b.start))
        for path, mine in patch.spans.items()
        for a in mine
        for b in spans.get(path, ())
    )


def encoded(text: str) -> bytes:
    """The original bytes: bytes that are not UTF-8 were read as surrogates."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def git_apply_check(patch: Patch, files: Mapping[str, str]) -> str | None:
    """The problem that `git apply --check` reports for these files, or None. Without git, the hunks
    are applied strictly in Python."""
    _, names = diff_names(list(patch.files))
    texts = {names[path]: files[path] for path in patch.files if path in files}
    git = shutil.which("git")
    if git is None:
        result = applied(patch.diff, texts)
        return result if isinstance(result, str) else None
    try:
        with tempfile.TemporaryDirectory(prefix="keet-patch-") as folder:
            return _git_check(git, Path(folder).resolve(), patch.diff, texts)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        return one_line(f"the patch could not be checked: {problem}")[:300]


def _git_check(git: str, folder: Path, diff: str, texts: Mapping[str, str]) -> str | None:
    tree = folder / "tree"
    for name, text in texts.items():
        path = tree / name
        if ".." in path.parts or not path.is_relative_to(tree):
            return one_line(f"{name}: outside the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(text))
    (folder / "edit.patch").write_bytes(encoded(diff))
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder),  # a repository around it would hide the files
    }
    command = [git, "apply", "--check", "--whitespace=nowarn", "../edit.patch"]
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, timeout=30, check=False
    )
    said = done.stderr.decode("utf-8", "replace").strip()
    return (
        one_line(said.replace("\n", "; "))[:300] or "git apply failed" if done.returncode else None
    )


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
