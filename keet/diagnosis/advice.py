"""Chooses the remedy for a finding, with the evidence for the choice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from keet.analysis.facts.fact import Answer, Fact
from keet.analysis.facts.inputs import FactInputs
from keet.analysis.launch_view import LaunchView
from keet.analysis.place import Place
from keet.diagnosis.finding import Advice, Because, Finding
from keet.evidence import Evidence
from keet.findings import Condition, findings
from keet.units import Quantity

_MAX_PLACES = 3


class FindingFacts:
    """The facts about one finding, each decided once, on demand."""

    def __init__(self, finding: Finding, view: LaunchView) -> None:
        self.inputs = FactInputs(finding, view)
        self._answers: dict[Fact, Answer] = {}

    def answer(self, fact: Fact) -> Answer:
        if fact not in self._answers:
            self._answers[fact] = fact.test(self.inputs)
        return self._answers[fact]

    def fits(self, condition: Condition) -> bool:
        """Whether all needed facts are known to be true, and no excluding fact is."""
        needed, excluding = condition.needs, condition.excludes
        return all(map(self.answer, needed)) and not any(map(self.answer, excluding))

    def filled(self, text: str) -> str:
        return text.replace("{library}", self.inputs.library or "the library")


def advice_for(finding: Finding, view: LaunchView) -> Advice:
    """The first remedy that fits. The finding must already have its places."""
    decided = FindingFacts(finding, view)
    remedies = findings()[finding.id].remedies
    chosen = next(condition for condition in remedies if decided.fits(condition))
    because = tuple(_because(decided, fact) for fact in chosen.needs)
    text = decided.filled(remedies[chosen])
    if not finding.places:
        text = text.replace("{here}", _at_address(decided, chosen))
    return Advice(text, because or (_general(finding),), chosen.name)


def _at_address(decided: FindingFacts, chosen: Condition) -> str:
    """` at 0x0a90`: the first instruction that shows a fact, in code without source lines."""
    code = decided.inputs.code
    shown = [found for each in chosen.needs if isinstance(found := decided.answer(each), Sequence)]
    if code is None or not shown or decided.inputs.launch.locate(shown[0][:1]):
        return ""
    return f" at 0x{shown[0][0] - code.program.code[0].address:04x}"


def _general(finding: Finding) -> Because:
    words = "the finding itself: nothing in the report selects a more specific remedy"
    return Because("general", words, finding.evidence, finding.places)


def _because(decided: FindingFacts, fact: Fact) -> Because:
    inputs = decided.inputs
    answer = decided.answer(fact)
    places = _places(inputs, answer) if isinstance(answer, Sequence) else ()
    measured = (piece for metric in fact.metrics if (piece := inputs.view.get(metric)) is not None)
    evidence = (*fact.evidence(inputs), *measured, *_executed(inputs, fact.opcodes))
    if not evidence and not places and not fact.is_by_name:
        evidence, places = inputs.finding.evidence, inputs.finding.places[:1]
    return Because(fact.id, decided.filled(fact.words), evidence, places)


def _executed(inputs: FactInputs, opcodes: Sequence[str]) -> Iterable[Evidence]:
    """Executed warp instructions by opcode, if any."""
    source = inputs.view.get("inst_by_opcode") if opcodes and inputs.view.opcodes else None
    if source is None:
        return
    for opcode in opcodes:
        count = inputs.count(opcode)
        if count and math.isfinite(count):
            yield inputs.view.ledger.derived(
                f"executed_{opcode}",
                Quantity(int(count), "inst"),
                f"executed {opcode} instructions",
                source,
            )


def _places(inputs: FactInputs, addresses: Sequence[int]) -> tuple[Place, ...]:
    """Source lines of the instructions that show a fact, by number of instructions."""
    located = inputs.launch.locate(addresses)
    lines = Counter(located[address] for address in addresses if address in located)
    return tuple(
        Place(*line, count / len(addresses), "these instructions")
        for line, count in lines.most_common(_MAX_PLACES)
    )
