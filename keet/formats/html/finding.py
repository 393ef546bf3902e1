"""One finding on a page: gain, certainty of the cause, source lines, advice, evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.evidence import evidence_fold
from keet.formats.html.markup import Content, Html, element, prose
from keet.pages.anchors import Anchors
from keet.pages.launch import (
    certainty_of,
    forecast_of,
    is_disputed,
    nearest_changes,
    new_remarks,
    place_shares,
    unplaced_shares,
)
from keet.safe_text import line_at, one_line, shortened

_BADGES = {"certain": "badge good", "likely": "badge warn", "possible": "badge"}
_LONGEST_CODE = 160
"""Characters of a source line beside its place: the listing has the whole line."""
_COMPILERS_OWN = "} (end of the function, or a routine of the compiler)"
"""The compiler counts subroutines of its own at the last line of a function."""


class Lines(NamedTuple):
    """Where the source lines of a launch are on the page."""

    launch: int
    """The launch whose listing has them: launches of the same code share one."""
    anchored: Collection[tuple[str, int]] = frozenset()
    """Files and lines that have an anchor."""


class FindingWriter:
    """Writes the findings of one launch."""

    def __init__(self, each: LaunchExplanation, anchors: Anchors, lines: Lines) -> None:
        self._each, self._anchors, self._lines = each, anchors, lines
        self._said: set[str] = set()
        """Remarks that were printed for this launch: none is printed twice."""

    def whole(self, number: int, finding: Finding) -> Html:
        """With its evidence one click away."""
        key = self._anchors.finding(self._each.launch.id, number)
        remarks = new_remarks(finding, self._each, self._said)
        changes = nearest_changes(finding, self._each)
        return element(
            "article",
            element("h4", element("span", str(number), class_="rank"), " ", finding.title),
            self.gain(finding),
            element("p", self.why(finding)),
            self.places(finding),
            self._action(finding),
            [element("p", prose(text), class_="muted") for text in remarks],
            _scrolling("\n".join(changes), "what the fix of the nearest case changed")
            if changes
            else None,
            evidence_fold(finding.evidence, self._each.evidence, f"{key}-evidence"),
            class_="finding",
            id=key,
        )

    def brief(self, number: int, finding: Finding) -> Html:
        """For a launch that does not matter: without remarks and evidence."""
        title = element("strong", f"{number}. {finding.title}")
        return element(
            "div",
            element("p", title, ": ", self.gain_words(finding)),
            element("p", self.why(finding)),
            self.places(finding, 1),
            self._action(finding),
            class_="finding",
            id=self._anchors.finding(self._each.launch.id, number),
        )

    def gain(self, finding: Finding) -> Html:
        return element("p", self.gain_words(finding), class_="gain")

    def gain_words(self, finding: Finding) -> Iterator[Content]:
        """The forecast and how sure it is."""
        yield element("strong", forecast_of(self._each, finding), class_="number")
        yield " "
        sure = f"cause: {certainty_of(self._each, finding)}"
        yield element("span", sure, class_=_BADGES[finding.cause_certainty])
        if finding.origin == "model":
            yield [" ", element("span", "found by the model", class_="badge")]
        if is_disputed(finding, self._each):
            yield [" ", element("span", "the model objects", class_="badge warn")]

    def why(self, finding: Finding) -> Html:
        """Always in full, because links lead here and skip the section about the program."""
        return prose(finding.text)

    def places(self, finding: Finding, most: int | None = None) -> Html | None:
        """The source lines, and how much of the effect has none."""
        shown = finding.places[:most]
        rows = [
            element("li", self.place(place), _share(share))
            for place, share in zip(shown, place_shares(shown))
        ]
        rows += [element("li", "no source line", _share(s)) for s in unplaced_shares(shown)]
        return element("ul", rows, class_="places") if rows else None

    def place(self, place: Place) -> Content:
        """`FILE:LINE` as a link to the listing, and the code of that line."""
        where = element("code", one_line(place.where))
        if (place.file, place.line) in self._lines.anchored:
            target = self._anchors.line(self._lines.launch, place.file, place.line)
            where = element("a", where, href=f"#{target}")
        code = self._code(place)
        return [where, " ", element("code", code, class_="code")] if code else where

    def _code(self, place: Place) -> str:
        text = self._each.launch.source_files.get(place.file) or ""
        code = line_at(text, place.line).strip()
        return _COMPILERS_OWN if code == "}" else shortened(code, _LONGEST_CODE)

    def _action(self, finding: Finding) -> Html | None:
        """None if an edit by the model replaces the advice."""
        if self._each.model_explanation:
            from keet.pages.model_words import edit_replaces_advice

            if edit_replaces_advice(self._each, finding.id):
                return None
        return element("p", element("b", "Do: "), prose(finding.action), class_="do")


def _share(text: str) -> Content:
    return [" ", element("span", text, class_="muted share")] if text else None


def _scrolling(code: str, name: str) -> Html:
    return element("pre", code, tabindex="0", role="region", aria_label=name)
