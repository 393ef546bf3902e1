"""A model's texts on a page: numbers link to their table, unchecked sentences are marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from keet.evidence import UNCHECKED, Evidence, Prose, Reference, Sentence
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.finding import Lines
from keet.formats.html.markup import Content, Html, element, fragment, joined, prose
from keet.pages.anchors import Anchors
from keet.pages.model_words import cited, computations, reason_text
from keet.safe_text import flat, one_line

_BLANKS = re.compile(r"\s+")
_PLACE = re.compile(r"(?P<file>.+):(?P<first>\d+)(?:-(?P<last>\d+))?")
_FAR = 100
"""Lines of a place that are looked for in the listing."""


class ModelWords:
    """Writes a model's texts about one launch as HTML."""

    def __init__(
        self, each: LaunchExplanation, anchors: Anchors, lines: Lines | None = None
    ) -> None:
        self._each, self._anchors = each, anchors
        said = each.model_explanation
        self._cited = cited(each)
        self._computed = computations(text for _, text in said.texts) if said else {}
        self._rows = {piece.id: self._row_id(n) for n, piece in enumerate(self._cited, 1)}
        self._computed_rows = {
            reference.text: self._row_id(n)
            for n, reference in enumerate(self._computed.values(), len(self._cited) + 1)
        }
        self._places = _by_name(lines) if lines else {}
        self._listing = lines.launch if lines else -1

    def _row_id(self, number: int) -> str:
        return self._anchors.launch(self._each.launch.id, f"model-number-{number}")

    def id_of(self, part: str) -> str:
        """The HTML id of a part of the model's explanation."""
        return self._anchors.launch(self._each.launch.id, part)

    # --- texts

    def of(self, text: Prose) -> Html:
        """Sentence by sentence; each unchecked one with the mark and the reason."""
        shown = (each for each in text.sentences if each.strip())
        return joined(map(self._sentence, shown), " ")

    def _sentence(self, sentence: Sentence) -> Html:
        words = fragment(self._parts(sentence))
        if not sentence.problem:
            return words
        reason = element("small", " (", prose(reason_text(sentence.problem)), ")")
        return element("span", element("b", UNCHECKED), " ", words, reason, class_="unchecked")

    def _parts(self, sentence: Sentence) -> Iterator[Html]:
        last = len(sentence.parts) - 1
        for place, part in enumerate(sentence.parts):
            if not isinstance(part, str):
                yield self.reference(part, short=True)
                continue
            text = _BLANKS.sub(" ", part)
            text = text.lstrip() if place == 0 else text
            yield prose(text.rstrip() if place == last else text)

    def reference(self, reference: Reference, *, short: bool = False) -> Html:
        """A number that keet prints. `short`: the result of arithmetic without its computation."""
        text = flat((reference.result if short else "") or reference.text)
        row = self._computed_rows.get(reference.text)
        row = row or next((self._rows[i] for i in reference.ids if i in self._rows), None)
        if row is None:
            return element("span", text, class_="cited")
        return element("a", text, href=f"#{row}", class_="cited")

    def finding(self, finding: str, title: str) -> Html:
        """The name of a finding, with a link where it is listed."""
        numbers = (n for n, found in enumerate(self._each.findings, 1) if found.id == finding)
        number = next(numbers, None)
        if number is None:
            return fragment(title)
        return element("a", title, href=f"#{self._anchors.finding(self._each.launch.id, number)}")

    def place(self, where: str) -> Html:
        """`slow.cu:31-34`, as a link to the first of its lines that the listing has."""
        shown = element("code", one_line(where))
        found = next((line for line in _lines_of(where) if line in self._places), None)
        if found is None:
            return shown
        target = self._anchors.line(self._listing, self._places[found], found[1])
        return element("a", shown, href=f"#{target}")

    # --- the numbers that they refer to

    def numbers(self) -> Html | None:
        """Closed at first; None if the texts refer to no number."""
        rows = [*map(self._number, self._cited), *self._computations()]
        if not rows:
            return None
        heads = ("Value", "What it is", "Metric", "Id")
        table = element(
            "table",
            element("thead", element("tr", [element("th", name, scope="col") for name in heads])),
            element("tbody", rows),
        )
        title = "Numbers that the model refers to"
        box = element(
            "div", table, class_="scroll", tabindex="0", role="region", aria_label=title
        )  # fmt: skip
        summary = element("summary", f"{title}: {len(rows)}")
        return element("details", summary, box, class_="fold evidence", data_print=True)

    def _number(self, piece: Evidence) -> Html:
        at = [" at ", self.place(flat(piece.line))] if piece.line else None
        return element(
            "tr",
            element("td", str(piece), class_="number"),
            element("td", flat(piece.label), at),
            element("td", element("code", flat(piece.metric), class_="break")),
            element("td", element("code", flat(piece.id)), class_="break"),
            id=self._rows[piece.id],
        )

    def _computations(self) -> Iterator[Html]:
        for how, found in self._computed.items():
            ids = joined([element("code", flat(name)) for name in found.ids], ", ")
            yield element(
                "tr",
                element("td", flat(found.result), class_="number"),
                element("td", prose(how)),
                element("td", "computed"),
                element("td", ids, class_="break"),
                id=self._computed_rows[found.text],
            )


def _lines_of(where: str) -> Iterator[tuple[str, int]]:
    """The name of the file with each line."""
    if match := _PLACE.fullmatch(where):
        first = int(match["first"])
        last = min(int(match["last"] or first), first + _FAR)
        yield from ((match["file"], line) for line in range(first, last + 1))


def _by_name(lines: Lines) -> Mapping[tuple[str, int], str]:
    """Files by their names, as a model names them, and lines; without names of several files."""
    files: dict[str, set[str]] = {}
    for file, _ in lines.anchored:
        files.setdefault(PurePosixPath(file.replace("\\", "/")).name, set()).add(file)
    names = {file: name for name, found in files.items() if len(found) == 1 for file in found}
    return {(names[file], line): file for file, line in lines.anchored if file in names}


def lead_in(name: str, text: Content) -> Html:
    """`Risk: ...`"""
    return element("p", element("b", f"{name}: "), text)
