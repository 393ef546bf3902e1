"""Edits that a model proposes: patches with a button that copies them, and whether they apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keet.documents.model_explanation import EditDocument
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.markup import Content, Html, element, joined
from keet.formats.html.model_texts import ModelWords, lead_in
from keet.formatting import capitalized
from keet.pages.model_words import aim_of, code_lines, edit_status, is_diff, ranked_edits
from keet.pages.short_diff import HUNK
from keet.safe_text import flat

_SIGNS = {"+": "added", "-": "removed"}


def edits_section(each: LaunchExplanation, words: ModelWords) -> Iterator[Html]:
    """The edit for the first finding first."""
    for number, edit in enumerate(ranked_edits(each), 1):
        yield element(
            "article",
            element("h4", _head(number, edit, each, words)),
            element("p", words.of(edit.what)) if edit.what else None,
            _code(edit, words.id_of(f"edit-{number}-code"), number),
            [lead_in("Risk", words.of(edit.risk))] if edit.risk else None,
            [lead_in("Check", words.of(edit.check))] if edit.check else None,
            class_="edit",
            id=words.id_of(f"edit-{number}"),
        )


def _head(
    number: int, edit: EditDocument, each: LaunchExplanation, words: ModelWords
) -> Iterator[Content]:
    yield f"Edit {number}"
    if edit.places:
        yield [" at ", joined([words.place(flat(place)) for place in edit.places], ", ")]
    if aim := aim_of(edit, each):
        yield f" {aim}"
    if edit.instead_of:
        yield f", instead of edit {edit.instead_of}"


def _code(edit: EditDocument, key: str, number: int) -> Iterator[Html]:
    """The unchanged patch, so that the copy applies; a sketch if there is no patch."""
    if edit.diff:
        lines = edit.diff.removesuffix("\n").split("\n")
        code = _block(zip(lines, _kinds(lines)), key, f"Patch of edit {number}")
        yield from (_bar(edit, _copier("Copy patch", key)), code)
    elif edit.sketch.strip():
        lines = code_lines(edit.sketch)
        signs = _SIGNS if is_diff(edit.sketch) else {}
        kinds = [signs.get(line[:1]) for line in lines]
        code = _block(zip(lines, kinds), key, f"Code of edit {number}")
        yield from (_bar(edit, _copier("Copy code", key)), code)
    else:
        yield _bar(edit)


def _bar(edit: EditDocument, button: Html | None = None) -> Html:
    """Whether it applies and compiles, and the button."""
    status = edit_status(edit) if edit.diff or edit.problem else ""
    good = bool(edit.diff) and edit.build != "fails"
    said = element("span", capitalized(status), class_="good" if good else "warn")
    return element("div", said, button, class_="patch-bar")


def _copier(label: str, key: str) -> Html:
    return element("button", label, type="button", data_copy=key, hidden=True)


def _kinds(lines: Sequence[str]) -> Iterator[str | None]:
    """Lines of a hunk are counted, because `--- x` may be a removed line."""
    old = new = 0
    for line in lines:
        sign = line[:1]
        if head := HUNK.match(line):
            old, new = (int(count or 1) for count in head.group(2, 3))
            yield "hunk"
        elif old > 0 or new > 0:
            old -= sign not in ("+", "\\")
            new -= sign not in ("-", "\\")
            yield _SIGNS.get(sign)
        else:
            yield "file"


def _block(lines: Iterable[tuple[str, str | None]], key: str, name: str) -> Html:
    """`lines`: each with its kind."""
    spans = [element("span", f"{line}\n", class_=kind) for line, kind in lines]
    code = element("code", spans, id=key)
    return element("pre", code, class_="patch", tabindex="0", role="region", aria_label=name)
