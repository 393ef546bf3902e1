"""Chooses the catalog's remedy for a finding, with the evidence for the choice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from keet.analysis.advice import (
    global_memory_facts,
    instruction_facts,
    kernel_origin,
    on_chip_facts,
    parallelism_facts,
    warp_facts,
)
from keet.analysis.advice.fact_inputs import FactInputs
from keet.analysis.advice.fact_tests import TESTS, Answer
from keet.analysis.findings import Advice, Because, Finding, Place
from keet.analysis.launch_view import LaunchView
from keet.catalog import FactSpec, Remedy, facts, findings
from keet.evidence import Evidence
from keet.units import Quantity

MODULES = (
    instruction_facts,
    global_memory_facts,
    on_chip_facts,
    kernel_origin,
    parallelism_facts,
    warp_facts,
)
"""Importing a module registers its facts."""
_MAX_PLACES = 3


class FindingFacts:
    """The facts about one finding, each decided once, on demand."""

    def __init__(self, finding: Finding, view: LaunchView) -> None:
        self.inputs = FactInputs(finding, view)
        self._answers: dict[str, Answer] = {}

    def answer(self, fact_id: str) -> Answer:
        if fact_id not in self._answers:
            self._answers[fact_id] = TESTS[fact_id](self.inputs)
        return self._answers[fact_id]

    def holds(self, fact_id: str) -> bool | None:
        """`None`: the report does not say."""
        found = self.answer(fact_id)
        return None if found is None else bool(found)

    def fits(self, remedy: Remedy) -> bool:
        """Whether all needed facts are known to be true, and no excluding fact is."""
        return all(map(self.answer, remedy.needs)) and not any(map(self.answer, remedy.excludes))

    def filled(self, text: str) -> str:
        return text.replace("{library}", self.inputs.library or "the library")


def advice_for(finding: Finding, view: LaunchView) -> Advice:
    """The first remedy of the catalog that fits. The finding must already have its places."""
    decided = FindingFacts(finding, view)
    remedies = findings()[finding.id].remedies
    chosen = next((each for each in remedies if decided.fits(each)), remedies[-1])
    because = tuple(_because(decided, facts()[each]) for each in chosen.needs)
    text = decided.filled(chosen.text)
    if not finding.places:
        text = text.replace("{here}", _at_address(decided, chosen))
    return Advice(text, because or (_general(finding),), chosen.name)


def _at_address(decided: FindingFacts, chosen: Remedy) -> str:
    """` at 0x0a90`: the first instruction that shows a fact, in code without source lines."""
    code = decided.inputs.code
    shown = [found for each in chosen.needs if isinstance(found := decided.answer(each), Sequence)]
    if code is None or not shown or decided.inputs.launch.locate(shown[0][:1]):
        return ""
    return f" at 0x{shown[0][0] - code.program.code[0].address:04x}"


def _general(finding: Finding) -> Because:
    words = "the finding itself: nothing in the report selects a more specific remedy"
    return Because("general", words, finding.evidence, finding.places)


def _because(decided: FindingFacts, spec: FactSpec) -> Because:
    inputs = decided.inputs
    answer = decided.answer(spec.id)
    places = _places(inputs, answer) if isinstance(answer, Sequence) else ()
    evidence = (
        *_of_unit(inputs, spec.id),
        *_measured(inputs.view, spec.metrics),
        *_executed(inputs, spec.opcodes),
    )
    if not evidence and not places and not _is_by_name(spec):
        evidence, places = inputs.finding.evidence, inputs.finding.places[:1]
    return Because(spec.id, decided.filled(spec.words), evidence, places)


def _is_by_name(spec: FactSpec) -> bool:
    """Whether the fact is shown by the name of the kernel or of its source file."""
    return spec.id in vars(kernel_origin) or spec.id.startswith("looks_like_")


def _of_unit(inputs: FactInputs, fact_id: str) -> Iterable[Evidence]:
    if fact_id in instruction_facts.PIPES:
        unit = instruction_facts.unit_of(inputs)
        reached = inputs.view.ceilings.reached(unit) if unit else None
        return () if reached is None else (reached,)
    return ()


def _measured(view: LaunchView, metric_ids: Iterable[str]) -> Iterable[Evidence]:
    found = (view.get(each) for each in metric_ids)
    return (piece for piece in found if piece is not None)


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
