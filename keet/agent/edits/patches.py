"""Patches: replaced lines of files, written as a unified diff; all edits of an explanation as one.

Lines carry their line ends. A line ends with a line feed alone, as for git: form feeds and Unicode
separators are part of a line.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import chain
from typing import NamedTuple

from keet.documents.model_explanation import EditDocument, ModelEdit, ModelExplanation
from keet.errors import one_line
from keet.explanation.explanation_types import Explanation

_NO_END = "\\ No newline at end of file\n"
_LONG = 5_000
"""Lines of a file from which on common lines are not compared: that would take too long."""


class Span(NamedTuple):
    """Lines start..end (from 0, end excluded) of a file, replaced by others."""

    start: int
    end: int
    lines: tuple[str, ...]

    def overlaps(self, other: Span) -> bool:
        """Insertions at the edges of replaced lines do not overlap with them."""
        return self.start < other.end and other.start < self.end


class Patch(NamedTuple):
    """Edited files; `diff` applies to the originals by construction."""

    before: Mapping[str, str]
    """Original text of each changed file, by its path in the report."""
    files: Mapping[str, str]
    """New text of each changed file."""

    @property
    def root(self) -> str:
        """Folder that the paths in the diff are relative to; empty if not known."""
        return diff_names(list(self.files))[0]

    @property
    def diff(self) -> str:
        """For `git apply` or `patch -p1` in `root`, with the line ends of the files: to be written
        as `encoded(diff)`. Without `diff --git` lines, so that `git apply` in a subfolder of a
        repository resolves the names from there."""
        names = diff_names(list(self.files))[1]
        files = (chain(file_header(names[path]), self.hunks(path)) for path in self.files)
        return "".join(chain.from_iterable(files))

    def hunks(self, path: str) -> Iterator[str]:
        """The lines below the names of the file."""
        old, new, changes = self._changes(path)
        for hunk in changes.get_grouped_opcodes(3):
            (_, a1, _, b1, _), (_, _, a2, _, b2) = hunk[0], hunk[-1]
            yield f"@@ -{a1 + (a2 > a1)},{a2 - a1} +{b1 + (b2 > b1)},{b2 - b1} @@\n"
            for tag, i1, i2, j1, j2 in hunk:
                signed = [("-", old[i1:i2]), ("+", new[j1:j2])]
                for sign, rows in [(" ", old[i1:i2])] if tag == "equal" else signed:
                    yield from (sign + (r if r[-1] == "\n" else f"{r}\n{_NO_END}") for r in rows)

    def _changes(self, path: str) -> tuple[list[str], list[str], SequenceMatcher[str]]:
        old, new = split_lines(self.before[path]), split_lines(self.files[path])
        return old, new, SequenceMatcher(None, old, new, autojunk=len(old) > _LONG)

    def spans(self, path: str) -> list[Span]:
        _, new, changes = self._changes(path)
        codes = (code for code in changes.get_opcodes() if code[0] != "equal")
        return [Span(i1, i2, tuple(new[j1:j2])) for _, i1, i2, j1, j2 in codes]

    @property
    def places(self) -> tuple[str, ...]:
        """Lines of the original that change: `slow.cu:31-34`. Near ones are one place."""
        places: list[str] = []
        for path in self.files:
            name = one_line(plain_path(path).rsplit("/", 1)[-1])
            for group in self._changes(path)[2].get_grouped_opcodes(2):
                changed = [code for code in group if code[0] != "equal"]
                first, last = changed[0][1] + 1, changed[-1][2]
                places.append(f"{name}:{first}" + (f"-{last}" if last > first else ""))
        return tuple(places)


def patch_of(before: Mapping[str, str], spans: Mapping[str, Iterable[Span]]) -> Patch:
    """Without files that stay the same. A missing line end at the end of a file stays missing."""
    files: dict[str, str] = {}
    for path, some in spans.items():
        old = split_lines(before[path])
        new: list[str] = []
        done = 0
        for span in sorted(some, key=lambda span: span[:2]):
            new += [*old[done : span.start], *span.lines]
            done = span.end
        new += old[done:]
        if old and new and not old[-1].endswith("\n"):
            end = line_end(before[path])
            new = [line if line.endswith("\n") else line + end for line in new]
            new[-1] = new[-1].rstrip("\r\n")
        if new != old:
            files[path] = "".join(new)
    return Patch({path: before[path] for path in files}, files)


def file_header(name: str, *, is_new: bool = False, is_removed: bool = False) -> Iterator[str]:
    """The two lines with the names before the hunks of a file."""
    yield f"--- {'/dev/null' if is_new else _quoted('a/' + name)}\n"
    yield f"+++ {'/dev/null' if is_removed else _quoted('b/' + name)}\n"


def split_lines(text: str) -> list[str]:
    """With their line ends."""
    lines = text.split("\n")
    kept = [f"{line}\n" for line in lines[:-1]]
    return [*kept, lines[-1]] if lines[-1] else kept


def line_end(text: str) -> str:
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def encoded(text: str) -> bytes:
    """The original bytes: bytes that are not UTF-8 were read as surrogates."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _quoted(name: str) -> str:
    """As git writes names: in quotes with escapes, or with a tab behind a name with spaces."""
    if not re.search(r'["\\\x00-\x1f\x7f]', name):
        return f"{name}\t" if " " in name else name
    escaped = re.sub(r'["\\]', r"\\\g<0>", name)
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\{ord(c[0]):03o}", escaped) + '"'


def diff_names(paths: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The common folder of all files, and each path relative to it. Paths come from reports:
    drives, `..` and mixed slashes become plain relative names."""
    plain = {path: plain_path(path) for path in paths}
    folders = [posixpath.dirname(path) for path in plain.values()]
    same_kind = len({path.startswith("/") for path in plain.values()}) == 1
    if same_kind and not any(".." in path.split("/") for path in plain.values()):
        root = posixpath.commonpath(folders) if all(folders) else ""
        return root, {path: posixpath.relpath(p, root or ".") for path, p in plain.items()}
    names = {path: posixpath.basename(p) for path, p in plain.items()}
    if len(set(names.values())) < len(names):
        names = {path: p.replace("../", "").lstrip("/") for path, p in plain.items()}
    return "", names


def plain_path(path: str) -> str:
    """`C:\\work\\slow.cu` as `/C/work/slow.cu`; `./`, `//` and inner `..` are resolved."""
    if re.match(r"^[A-Za-z]:[\\/]", path):
        path = f"/{path[0]}/{path[3:]}"
    return posixpath.normpath(re.sub(r"[\\/]+", "/", path)) if path else path


# --- the edits of an explanation

UNCONFIRMED = "its cause is neither a finding of keet nor a claim that the report supports"


class PatchFile(NamedTuple):
    patch: Patch
    """Without files if no edit can be written."""
    edits: int
    """Number of edits in it."""
    left_out: tuple[tuple[EditDocument, str], ...]
    """Other edits, with the reasons."""


def with_patch(told: ModelExplanation, findings: Iterable[str]) -> ModelExplanation:
    """Says of each edit whether it is in the patch. Its cause is confirmed by one of keet's own
    `findings`, or by a claim of the model that the report supports."""
    confirmed = {*findings}
    confirmed |= {
        cause.finding
        for cause in told.causes
        if cause.problem is None and cause.claim and cause.claim.supported
        if getattr(cause.claim, "may_lead", True)
    }
    edits = [replace(edit, cause_confirmed=edit.finding in confirmed) for edit in told.edits]
    reasons = _left_out([edit if edit.cause_confirmed else None for edit in edits])[1]
    marked = (
        replace(edit, not_in_patch=reason if edit.cause_confirmed else UNCONFIRMED)
        for edit, reason in zip(edits, reasons)
    )
    return replace(told, edits=tuple(marked))


def patch_file(explanation: Explanation, *, confirmed: bool = True) -> PatchFile:
    """Every edit that applies and does not fail to compile, earlier ones first. `confirmed`: of the
    edits whose cause is confirmed, or of the others."""
    told = [launch.model for launch in explanation.launches]
    edits = [e for said in told if said for e in said.edits if e.cause_confirmed is confirmed]
    patch, reasons = _left_out(edits)
    left_out = tuple((edit, reason) for edit, reason in zip(edits, reasons) if reason)
    return PatchFile(patch, len(edits) - len(left_out), left_out)


def _left_out(edits: Sequence[EditDocument | None]) -> tuple[Patch, list[str | None]]:
    """One patch of these edits, and why each is not in it."""
    before: dict[str, str] = {}
    spans: dict[str, list[Span]] = {}
    reasons: list[str | None] = []
    for edit in edits:
        patch = edit.patch if isinstance(edit, ModelEdit) else None
        own = patch if isinstance(patch, Patch) else Patch({}, {})
        mine = {path: own.spans(path) for path in own.files}
        # The same lines for the same ones are no conflict.
        pairs = ((a, b) for path in mine for a in mine[path] for b in spans.get(path, ()))
        is_other = any(before.get(path, text) != text for path, text in own.before.items())
        reason = _obstacle(edit, own) if edit else ""
        if reason is None and (is_other or any(a != b and a.overlaps(b) for a, b in pairs)):
            reason = "it changes the same lines as an edit before it"
        reasons.append(reason)
        if reason is None:
            before |= own.before
            for path, some in mine.items():
                spans[path] = list(dict.fromkeys([*spans.get(path, []), *some]))
    return patch_of(before, spans), reasons


def _obstacle(edit: EditDocument, patch: Patch) -> str | None:
    if not patch.files:
        return edit.problem or "it is not a patch"
    if edit.build == "fails":
        return f"it does not build: {edit.build_text}" if edit.build_text else "it does not compile"
    if edit.instead_of is not None:
        return f"it is an alternative to edit {edit.instead_of}"
    return None
