"""The reports that the tools may read (`ToolInput`), and the type of a tool's answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.comparison.compare import Difference, compare_explanations
from keet.evidence import Evidence
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
