"""What a tool of the agent reads, and how it answers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from keet.comparison.compare import Difference, compare_explanations
from keet.errors import one_line
from keet.evidence import Evidence, Sentence
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.profile import Absent

if TYPE_CHECKING:
    from keet.analysis.sass import MachineCode


MAX_CHARACTERS = 3000


class Answer(NamedTuple):
    """Short text for the model, and the evidence that it may cite from now on."""

    text: str
    evidence: tuple[Evidence, ...] = ()
    abstained: bool = False
    """The report does not have the answer; the text says why, and what would help."""


class Abstention(Exception):
    """Raised by a tool that can't answer; the message is for the model."""


def scope_of(report: int) -> str:
    """The scope of a report in evidence ids: its number; empty for the first."""
    return str(report) if report else ""


class ToolInput:
    """Explained reports. Evidence ids are unique among them: the reports were explained with
    different scopes (see `scope_of`)."""

    def __init__(
        self, explanations: Sequence[Explanation], *, focus: int = 0, show_source: bool = True
    ) -> None:
        self.explanations = tuple(explanations)
        if len({each.report_scope for each in explanations}) < len(explanations):
            raise ValueError("reports of one ToolInput need different scopes; see scope_of")
        self.focus = focus
        """Position of the launch, within the first report, that a tool means by default."""
        self.show_source = show_source
        self._differences: dict[tuple[int | None, ...], Difference] = {}
        self._machine_code: dict[int, MachineCode | Absent] = {}

    def report(self, report: int = 0) -> Explanation:
        if not 0 <= report < len(self.explanations):
            last = len(self.explanations) - 1
            raise Abstention(f"there is no `report={report}`; they are `0` to `{last}`")
        return self.explanations[report]

    def launch(self, launch: int | None = None, report: int = 0) -> LaunchExplanation:
        """By its id in the report; without an id, the launch in focus, else the longest."""
        launches = self.report(report).launches
        if launch is None and report == 0 and self.focus < len(launches):
            return launches[self.focus]
        if launch is None and any(each.in_run for each in launches):
            return launches[0]  # it accounts for the most time of the run
        if launch is None and launches:
            return max(launches, key=lambda each: each.launch.rank_time)
        found = next((each for each in launches if each.launch.id == launch), None)
        if found is None:
            ids = ", ".join(str(each.launch.id) for each in launches[:20]) or "none"
            raise Abstention(f"there is no launch {launch} here; there are launches {ids}")
        return found

    def machine_code(self, each: LaunchExplanation) -> MachineCode | Absent:
        """The analysis of a launch's machine code; its parts are computed once per `ToolInput`."""
        if not all(explanation.reads_code for explanation in self.explanations):
            return Absent("the machine code is not analysed in this run", "leave out --no-sass")
        from keet.analysis.sass import machine_code

        key = id(each.launch)
        if key not in self._machine_code:
            self._machine_code[key] = each.view.code or machine_code(each.launch)
        return self._machine_code[key]

    def difference(
        self, before: int, after: int, launches: tuple[int | None, int | None]
    ) -> Difference:
        """The comparison of two reports, or of a launch of each; cached."""
        key = (before, after, *launches)
        if key not in self._differences:
            chosen = list(zip((before, after), launches, strict=True))
            sides = [self._some(*each) for each in chosen]
            self._differences[key] = compare_explanations(
                *sides, scope=_scope_between(chosen), guess=None not in launches
            )
        return self._differences[key]

    def _some(self, report: int, launch: int | None) -> Explanation:
        explanation = self.report(report)
        return explanation if launch is None else explanation.only(self.launch(launch, report))

    def with_short_names(self, text: str) -> str:
        """Drop the scope from ids of the launch in focus: `{duration#0}` becomes `{duration}`."""
        return text.replace(f"#{self.launch().view.ledger.scope}}}", "}")

    def find(self, name: str) -> Evidence | None:
        """Evidence by its id, with or without scope; looked up in the report if necessary."""
        slug, _, scope = name.partition("#")
        for explanation in self.explanations:
            for each in explanation.launches:
                ledger = each.view.ledger
                if ledger.scope == (scope or self.launch().view.ledger.scope):
                    return ledger.look_up(slug)
        return next((piece for piece in self.evidence() if name in (piece.id, piece.slug)), None)

    def evidence(self) -> Iterator[Evidence]:
        """All evidence that was used so far."""
        found = {
            piece.id: piece
            for explanation in self.explanations
            for each in explanation.launches
            for piece in each.view.ledger
        }
        for difference in self._differences.values():
            found |= difference.evidence
        yield from found.values()


def _scope_between(chosen: Iterable[tuple[int, int | None]]) -> str:
    """`0-1` for two reports, `0.3-1.5` for a launch of each."""
    sides = (f"{report}" if launch is None else f"{report}.{launch}" for report, launch in chosen)
    return "-".join(sides)


Item = TypeVar("Item")
_CUT = "(cut)"
_PLACE = re.compile(r"(?:(?:fn\d+\+)?0x[0-9a-f]+ ?)?(?:[\w./+-]*\w\.[A-Za-z]\w{0,9}:\d+)?")


class AnswerText:
    """Formats numbers for an answer, and collects the evidence that the answer cites."""

    def __init__(self) -> None:
        self._cited: dict[str, Evidence] = {}

    def __call__(self, evidence: Evidence, spec: str = "") -> str:
        """`76.6% {l2_hit_rate_pct#0}`: the value and its evidence id."""
        self._cited[evidence.id] = evidence
        shown = format(evidence, spec or (".1f" if evidence.unit in ("%", "x") else ""))
        if evidence.unit == "x":
            shown = shown.replace(" x", "x")
        return f"{shown} {{{evidence.id}}}"

    def with_names(self, text: str, evidence: Iterable[Evidence]) -> str:
        """A text of keet with the evidence id after each number: `83% {l2_busy#0} of peak`."""
        forms = _by_number(evidence)
        named: list[str] = []
        used: set[str] = set()
        place = 0
        for match in _NUMBER.finditer(text):
            after = text[match.end() :]
            fitting = [form for form in forms.get(match[0], ()) if form.fits(match[0], after)]
            if not fitting or text.count("`", 0, match.start()) % 2:  # code is quoted unchanged
                continue
            around = _clause(text[: match.start()], after)
            # Equal numbers: use each id once before one is used again.
            fresh = [form for form in fitting if form.piece.id not in used] or fitting
            best = max(fresh, key=lambda form: form.likeness(around))
            used.add(best.piece.id)
            self._cited[best.piece.id] = best.piece
            end = match.end() + best.length_in(after)
            named.append(f"{text[place:end]} {{{best.piece.id}}}")
            place = end
        return "".join([*named, text[place:]])

    def sentence(self, text: Sentence) -> str:
        """A sentence of keet with the evidence id after each number."""
        self._cited |= text.evidence
        return "".join(
            part
            if isinstance(part, str)
            else " ".join((part.text, *(f"{{{i}}}" for i in part.ids)))
            for part in text.parts
        )

    def headline(self, each: LaunchExplanation, limit: int) -> str:
        units = [ceiling.reached for ceiling in each.ceilings]
        own = [p for p in each.view.ledger if p.metric.startswith(("left.", "account."))]
        return self.with_names(shorten(each.verdict.headline, limit), [*own, *units])

    def answer(self, *lines: str) -> Answer:
        return Answer(
            _bounded([one_line(line) for line in lines if line]), tuple(self._cited.values())
        )


class _Form(NamedTuple):
    """One way to write a number in a text."""

    piece: Evidence
    unit: str
    """Including the separator before it: ` us`, `%`."""

    def fits(self, digits: str, after: str) -> bool:
        """Whether the unit follows; a number with many digits needs none."""
        return bool(self.length_in(after)) or not self.unit.strip() or len(digits) >= _UNMISTAKABLE

    def length_in(self, after: str) -> int:
        """Characters of the unit after the digits; a plain number may be a factor: `1.2x`."""
        unit = "x" if not self.unit and re.match(r"x\b", after) else self.unit
        rest = re.match(rf"{re.escape(unit)}(?:es|s)?(?!\w)", after) if unit else None
        return len(rest[0]) if rest else 0

    def likeness(self, around: str) -> int:
        words = set(re.findall(r"[a-z]\w+", around.lower()))
        return len(
            words & set(re.findall(r"[a-z]\w+", f"{self.piece.label} {self.piece.line}".lower()))
        )


def _clause(before: str, after: str) -> str:
    """The words around a number, up to the next number or semicolon."""
    left = re.split(r"\d;|;|\d ", before[-_AROUND:])[-1]
    right = re.split(r";|(?<!\w)\d", after[:_AROUND])[0]
    return f"{left} {right}"


_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\d)")
_AROUND = 60
"""Characters before and after a number that describe it."""
_UNMISTAKABLE = 6


def _by_number(evidence: Iterable[Evidence]) -> dict[str, list[_Form]]:
    """The forms of each number by their digits, for all roundings that texts use."""
    found: dict[str, list[_Form]] = {}
    for piece in {piece.id: piece for piece in evidence}.values():
        for shown in {format(piece, spec) for spec in ("", ".0f", ".1f", ".2f")}:
            digits = _NUMBER.match(shown)
            if digits:
                unit = shown[digits.end() :].replace(" x", "x")
                found.setdefault(digits[0], []).append(_Form(piece, unit))
    return found


def _bounded(lines: list[str]) -> str:
    """Callers limit the rows; if the text is still too long, the last rows are dropped."""
    text = "\n".join(lines)
    while len(text) > MAX_CHARACTERS and len(lines) > 1:
        lines = lines[:-1]
        text = "\n".join([*lines, _CUT])
    return text[:MAX_CHARACTERS]


def quote(text: str, limit: int = 80) -> str:
    """Text from a report as code: without control characters and backquotes, so that it can't be
    read as an instruction or as keet's own words."""
    plain = one_line(text.expandtabs(4).rstrip()).replace("`", "'")
    return f"`{plain if len(plain) <= limit else plain[: limit - 1] + '…'}`"


def place_name(name: str) -> str:
    """`file.cu:31` unchanged; anything else is quoted."""
    return name if _PLACE.fullmatch(name) else quote(name, 120)


def quote_prose(text: str, limit: int) -> str:
    """The same for prose; line breaks become spaces."""
    return quote(" ".join(text.split()), limit)


def shorten(text: str, limit: int) -> str:
    """Cut after a whole word, and never between a number and its unit."""
    if len(text) <= limit:
        return text
    words = text[: limit - 2].rsplit(" ", 1)[0].split(" ")
    while words and (re.search(r"\d", words[-1]) or "`" in words[-1]):
        words.pop()
    kept = " ".join(words)
    return (kept + "`" if kept.count("`") % 2 else kept) + " …"


def one_page(items: Sequence[Item], page: int, size: int) -> tuple[Sequence[Item], str]:
    """The items of a page, and a text about the other pages."""
    return choose_page([items[i : i + size] for i in range(0, len(items), size)], page)


def packed_page(items: Sequence[Item], costs: Sequence[int], page: int) -> tuple[list[Item], str]:
    """The same for items of different length: as many as fit. `costs`: characters per item."""
    room = MAX_CHARACTERS - 200
    pages: list[list[Item]] = []
    used = room
    for item, cost in zip(items, costs):
        if used + cost > room:
            pages.append([])
            used = 0
        pages[-1].append(item)
        used += cost
    return choose_page(pages, page)


Page = TypeVar("Page", bound=Sequence[object])


def choose_page(pages: Sequence[Page], page: int) -> tuple[Page, str]:
    last = len(pages)
    if not 1 <= page <= last:
        raise Abstention(f"there is no `page={page}`; the last is `page={last}`")
    if last == 1:
        return pages[0], ""
    more = f"; more: `page={page + 1}`" if page < last else ""
    return pages[page - 1], f"`page {page} of {last}`{more}"


def is_number(evidence: Evidence | None) -> bool:
    return evidence is not None and math.isfinite(evidence.value)
