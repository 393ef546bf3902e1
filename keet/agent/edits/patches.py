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
from typing import NamedTuple

from keet.documents.model_explanation import EditDocument, ModelEdit, ModelExplanation
from keet.errors import one_line
from keet.explanation.explanation_types import Explanation

_CONTEXT = 3
_NO_END = "\\ No newline at end of file\n"
_MOST_PAIRS = 4_000_000
"""Old lines x new lines that are compared; beyond, all of them are replaced."""


class Span(NamedTuple):
    """Lines start..end (from 0, end excluded) of a file, replaced by others."""

    start: int
    end: int
    lines: tuple[str, ...]

    def overlaps(self, other: Span) -> bool:
        """Insertions at the edges of replaced lines do not overlap with them."""
        return self.start < other.end and other.start < self.end


class Patch(NamedTuple):
    """Edited lines of some files; `diff` applies to them by construction."""

    before: Mapping[str, str]
    """Original text of each changed file, by its path in the report."""
    spans: Mapping[str, tuple[Span, ...]]
    """In order, without overlap."""

    @property
    def files(self) -> dict[str, str]:
        """New text of each changed file."""
        return {path: "".join(_after(split_lines(self.before[path]), spans))
                for path, spans in self.spans.items()}  # fmt: skip

    @property
    def root(self) -> str:
        """Folder that the paths in the diff are relative to; empty if not known."""
        return diff_names(list(self.spans))[0]

    @property
    def diff(self) -> str:
        """For `git apply` or `patch -p1` in `root`, with the line ends of the files: to be written
        as `encoded(diff)`."""
        _, names = diff_names(list(self.spans))
        return "".join(
            row
            for path, spans in self.spans.items()
            for row in _diff(names[path], split_lines(self.before[path]), spans)
        )

    @property
    def places(self) -> tuple[str, ...]:
        """Lines of the original that change: `slow.cu:31-34`. Near ones are one place."""
        places: list[str] = []
        for path, spans in self.spans.items():
            name = one_line(plain_path(path).rsplit("/", 1)[-1])
            for group in _groups(spans, 3):
                first, last = group[0].start + 1, group[-1].end
                places.append(f"{name}:{first}" + (f"-{last}" if last > first else ""))
        return tuple(places)


def patch_of(before: Mapping[str, str], spans: Mapping[str, Iterable[Span]]) -> Patch:
    """Without lines that stay. A missing line end at the end of a file stays missing."""
    changed: dict[str, tuple[Span, ...]] = {}
    for path, some in spans.items():
        old = split_lines(before[path])
        new = _after(old, sorted(some, key=lambda span: span[:2]))
        if old and new and not old[-1].endswith("\n"):
            end = line_end(before[path])
            new = [line if line.endswith("\n") else line + end for line in new]
            new[-1] = new[-1].rstrip("\r\n")
        if minimal := tuple(_changes(old, new)):
            changed[path] = minimal
    return Patch({path: before[path] for path in changed}, changed)


def _after(lines: Sequence[str], spans: Iterable[Span]) -> list[str]:
    result: list[str] = []
    done = 0
    for span in spans:
        result += [*lines[done : span.start], *span.lines]
        done = span.end
    return [*result, *lines[done:]]


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[Span]:
    first, shorter = 0, min(len(old), len(new))
    while first < shorter and old[first] == new[first]:
        first += 1
    same = 0
    while same < shorter - first and old[-1 - same] == new[-1 - same]:
        same += 1
    a, b = old[first : len(old) - same], tuple(new[first : len(new) - same])
    if len(a) * len(b) > _MOST_PAIRS:
        yield Span(first, first + len(a), b)
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, False).get_opcodes():
        if tag != "equal":
            yield Span(first + i1, first + i2, b[j1:j2])


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


# --- unified diffs


def _diff(name: str, lines: Sequence[str], spans: Sequence[Span]) -> Iterator[str]:
    """Without a `diff --git` line, so that `git apply` in a subfolder of a repository resolves the
    name from there."""
    yield f"--- {_quoted('a/' + name)}\n"
    yield f"+++ {_quoted('b/' + name)}\n"
    shift = 0
    for hunk in _groups(spans, 2 * _CONTEXT):
        first, last = max(hunk[0].start - _CONTEXT, 0), min(hunk[-1].end + _CONTEXT, len(lines))
        growth = sum(len(span.lines) - (span.end - span.start) for span in hunk)
        old, new = last - first, last - first + growth
        yield f"@@ -{first + (old > 0)},{old} +{first + shift + (new > 0)},{new} @@\n"
        shift += growth
        done = first
        for span in [*hunk, Span(last, last, ())]:
            signed = ((" ", lines[done : span.start]), ("-", lines[span.start : span.end]))
            for sign, rows in (*signed, ("+", span.lines)):
                for row in rows:
                    yield sign + row if row.endswith("\n") else f"{sign}{row}\n{_NO_END}"
            done = span.end


def _groups(spans: Sequence[Span], gap: int) -> list[list[Span]]:
    """Spans with at most `gap` lines between them are one group."""
    groups: list[list[Span]] = []
    for span in spans:
        if groups and span.start - groups[-1][-1].end <= gap:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


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
    }
    edits = [replace(edit, cause_confirmed=edit.finding in confirmed) for edit in told.edits]
    reasons = _left_out([edit if edit.cause_confirmed else None for edit in edits])[1]
    return replace(
        told,
        edits=tuple(
            replace(edit, not_in_patch=reason if edit.cause_confirmed else UNCONFIRMED)
            for edit, reason in zip(edits, reasons)
        ),
    )


def patch_file(explanation: Explanation, *, confirmed: bool = True) -> PatchFile:
    """Every edit that applies and does not fail to compile, earlier ones first. `confirmed`: of the
    edits whose cause is confirmed, or of the others."""
    told = [each.model_explanation for each in explanation.launches]
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
        reasons.append(_obstacle(edit, before, spans) if edit else "")
        patch = edit.patch if isinstance(edit, ModelEdit) and reasons[-1] is None else None
        if isinstance(patch, Patch):
            before |= patch.before
            for path, mine in patch.spans.items():
                known = spans.setdefault(path, [])
                known += [span for span in mine if span not in known]
    return patch_of(before, spans), reasons


def _obstacle(
    edit: EditDocument, before: Mapping[str, str], spans: Mapping[str, Sequence[Span]]
) -> str | None:
    patch = edit.patch if isinstance(edit, ModelEdit) else None
    if not isinstance(patch, Patch):
        return edit.problem or "it is not a patch"
    if edit.build == "fails":
        return f"it does not build: {edit.build_text}" if edit.build_text else "it does not compile"
    if edit.instead_of is not None:
        return f"it is an alternative to edit {edit.instead_of}"
    is_other = any(before.get(path, text) != text for path, text in patch.before.items())
    pairs = (
        (a, b) for path, mine in patch.spans.items() for a in mine for b in spans.get(path, ())
    )
    if is_other or any(a != b and a.overlaps(b) for a, b in pairs):
        return "it changes the same lines as an edit before it"
    return None
