"""The reports that keet's agent explains, as tools read them; and texts with names of evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from keet.comparison.compare import Difference, compare_explanations
from keet.diagnosis.finding import Finding
from keet.errors import KeetError, one_line
from keet.evidence import Evidence, Reference, Sentence
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.profile import Launch, Profile
from keet_tools.calls import EvidenceNames, ReadReport, ToolCall, selected_launches
from keet_tools.results import DiffArguments

MAX_CHARACTERS = 3000


class Answer(NamedTuple):
    """Short text for the model, and the evidence that it may cite from now on."""

    text: str
    evidence: tuple[Evidence, ...] = ()
    abstained: bool = False
    """The report does not have the answer; the text says why, and what would help."""


class Abstention(KeetError):
    """Raised by a tool that can't answer; the message is for the model."""


def scope_of(report: int) -> str:
    """The scope of a report in evidence ids: its number; empty for the first."""
    return str(report) if report else ""


class ExplainedReport:
    """One report of the agent, for tools."""

    def __init__(self, explanation: Explanation, number: int, tool_input: ToolInput) -> None:
        self.name, self.number = f"report {number}", number
        self._explanation, self._tool_input = explanation, tool_input
        self.focus = tool_input.launch(None, number).launch if explanation.launches else None
        self.scope = explanation.report_scope
        self.reads_code = explanation.reads_code

    @property
    def profile(self) -> Profile:
        return self._explanation.profile

    def chosen(
        self, launch: int | None, kernel: str | None, argument: str = "kernel"
    ) -> tuple[Launch, ...]:
        if launch is not None:
            return (self._tool_input.launch(launch, self.number).launch,)
        known = [each.launch for each in self._explanation.launches]
        if not known:
            raise Abstention("the report has no launch")
        if kernel is None:
            return tuple(known)
        named = selected_launches(self.profile, None, kernel, argument)
        return tuple(each for each in named if each in known) or tuple(known)

    def explained(self, launches: Sequence[Launch], top: int, call: ToolCall) -> Explanation:
        """Without quotations of the source, if it is not shown."""
        call.check()
        known = [launch for launch in self._explanation.launches if launch.launch in launches]
        cut = [
            replace(each, findings=tuple(map(self._tool_input.shown, each.findings[:top])))
            for each in known
        ]
        return self._explanation.only(*cut)


class ToolInput:
    """Explained reports. Evidence ids are unique among them: the reports were explained with
    different scopes (see `scope_of`)."""

    def __init__(
        self, explanations: Sequence[Explanation], *, focus: int = 0, show_source: bool = True
    ) -> None:
        self.explanations = tuple(explanations)
        if len({explanation.report_scope for explanation in explanations}) < len(explanations):
            raise ValueError("reports of one ToolInput need different scopes; see scope_of")
        self.focus = focus
        """Position of the launch, within the first report, that a tool means by default."""
        self.show_source = show_source
        launches = self.explanations[0].launches if explanations else ()
        scope = self.launch().view.ledger.scope if launches else ""
        self.names = EvidenceNames(scope, shows_code=show_source)
        self._differences: dict[tuple[int | None, ...], Difference] = {}

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
        known = next((each for each in launches if each.launch.id == launch), None)
        if known is None:
            ids = ", ".join(str(each.launch.id) for each in launches[:20]) or "none"
            raise Abstention(f"there is no launch {launch} here; there are launches {ids}")
        return known

    # --- the protocol `Reports`

    @contextmanager
    def reading(
        self, name: str, call: ToolCall, *, source: str | None = None
    ) -> Iterator[ExplainedReport]:
        call.check()
        if source is not None:
            raise Abstention("other folders are not read in this session")
        number = int(name) if name.isascii() and name.isdigit() and len(name) < 9 else -1
        yield ExplainedReport(self.report(number), number, self)

    @contextmanager
    def reading_two(
        self, before: str, after: str, call: ToolCall
    ) -> Iterator[tuple[ExplainedReport, ExplainedReport]]:
        with self.reading(before, call) as one, self.reading(after, call) as other:
            yield one, other

    def difference_of(
        self, _: tuple[ReadReport, ReadReport], asked: DiffArguments, call: ToolCall
    ) -> Difference:
        call.check()
        launches = (asked.before_launch, asked.after_launch)
        if asked.before == asked.after and launches[0] == launches[1]:
            raise Abstention("one report is compared with another, or two launches of one")
        return self.difference(int(asked.before), int(asked.after), launches)

    def difference(
        self, before: int, after: int, launches: tuple[int | None, int | None]
    ) -> Difference:
        """The comparison of two reports, or of a launch of each; cached."""
        key = (before, after, *launches)
        if key not in self._differences:
            chosen = list(zip((before, after), launches, strict=True))
            # `0-1` for two reports, `0.3-1.5` for a launch of each
            scope = "-".join(f"{n}" if launch is None else f"{n}.{launch}" for n, launch in chosen)
            sides = [
                self.report(n) if launch is None else self.report(n).only(self.launch(launch, n))
                for n, launch in chosen
            ]
            self._differences[key] = compare_explanations(
                *sides, scope=scope, guess=None not in launches
            )
        return self._differences[key]

    # --- evidence

    def shown(self, finding: Finding) -> Finding:
        """Without code in its advice, if the source is not shown."""
        if self.show_source:
            return finding
        here = f" at {finding.locations[0].where}" if finding.here and finding.locations else ""
        return replace(finding, here=here)

    def with_short_names(self, text: str) -> str:
        """Drop the scope from ids of the launch in focus: `{duration#0}` becomes `{duration}`."""
        return text.replace(f"#{self.launch().view.ledger.scope}}}", "}")

    def find(self, name: str) -> Evidence | None:
        """Evidence by its id, with or without scope; looked up in the report if necessary."""
        slug, _, scope = name.partition("#")
        scope = scope or self.launch().view.ledger.scope
        for explanation in self.explanations:
            for launch in explanation.launches:
                ledger = launch.view.ledger
                if ledger.scope == scope and (known := ledger.look_up(slug)):
                    return known
        wanted = (name, f"{slug}#{scope}")
        return next((piece for piece in self.evidence() if piece.id in wanted), None)

    def evidence(self) -> Iterator[Evidence]:
        """All evidence that was used so far."""
        used = {
            piece.id: piece
            for explanation in self.explanations
            for launch in explanation.launches
            for piece in launch.view.ledger
        }
        for difference in self._differences.values():
            used |= difference.evidence
        yield from (self.names.known | used).values()


_PLACE = re.compile(r"(?:(?:fn\d+\+)?0x[0-9a-f]+ ?)?(?:[\w./+-]*\w\.[A-Za-z]\w{0,9}:\d+)?")


class AnswerText:
    """Formats numbers for a text, and collects the evidence that it cites."""

    def __init__(self, names: EvidenceNames | None = None, scope: str = "") -> None:
        """`names`: where names of evidence that is in no ledger are kept. `scope`: of its launch,
        for pages that do not know of several reports."""
        self._names, self._scope = names or EvidenceNames(""), scope
        self._cited: dict[str, Evidence] = {}

    def __call__(self, evidence: Evidence, spec: str = "") -> str:
        """`76.6% {l2_hit_rate_pct#0}`: the value and its evidence id."""
        self._cited[evidence.id] = evidence
        shown = format(evidence, spec or (".1f" if evidence.unit in ("%", "x") else ""))
        if evidence.unit == "x":
            shown = shown.replace(" x", "x")
        return f"{shown} {{{evidence.id}}}"

    def sentence(self, text: str) -> str:
        """A sentence of keet with the evidence id after each number."""
        if not isinstance(text, Sentence):
            return text
        if not self._scope:  # numbers without an id stay without one
            text = Sentence.of(p if isinstance(p, str) or p.ids else p.text for p in text.parts)
        self._names.cited.clear()
        named = self._names.back(self._names.marked(text, "", self._scope))
        self._cited |= self._names.cited
        return named

    def answer(self, *lines: str) -> Answer:
        kept = [one_line(line) for line in lines if line]
        text = "\n".join(kept)
        while len(text) > MAX_CHARACTERS and len(kept) > 1:
            kept = kept[:-1]
            text = "\n".join([*kept, "(cut)"])
        return Answer(text[:MAX_CHARACTERS], tuple(self._cited.values()))


def quote(text: str, limit: int = 80) -> str:
    """Text from a report as code: without control characters and backquotes, so that it can't be
    read as an instruction or as keet's own words."""
    plain = one_line(" ".join(text.split())).replace("`", "'")
    return f"`{plain if len(plain) <= limit else plain[: limit - 1] + '…'}`"


def place_name(name: str) -> str:
    """`file.cu:31` unchanged; anything else is quoted."""
    return name if _PLACE.fullmatch(name) else quote(name, 120)


def shorten(text: str, limit: int) -> str:
    """Cut after a whole word, and never between a number and its unit. A sentence keeps the
    evidence of what is left of it."""
    if len(text) <= limit:
        return text
    parts: list[str | Reference] = []
    room = limit - 2
    for part in text.parts if isinstance(text, Sentence) else (text,):
        if len(str(part)) > room:
            parts.append(part[:room].rpartition(" ")[0] if isinstance(part, str) else "")
            break
        parts.append(part)
        room -= len(str(part))
    cut = "".join(map(str, parts))
    ends = "`" * (cut.count("`") % 2)
    return Sentence.of([*parts, f"{ends}{'' if cut.endswith(' ') else ' '}…"])
