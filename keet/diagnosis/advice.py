"""Chooses the remedy for a finding, with the evidence for the choice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from keet.analysis.facts.fact import Fact
from keet.analysis.kernel.archetype import language_of
from keet.analysis.kernel.library import launched_by
from keet.analysis.launch_view import LaunchView
from keet.diagnosis.finding import HERE, Advice, Because, Finding
from keet.diagnosis.language_terms import in_language
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.findings import findings
from keet.units import Quantity

_MAX_PLACES = 3


def advice_for(finding: Finding, view: LaunchView) -> Advice:
    """The first remedy whose needed facts are all true, and whose excluding facts are not. The
    finding must already have its places."""
    chosen, text = next(
        (condition, text)
        for condition, text in findings()[finding.id].remedies.items()
        if all(fact.answer(view, finding) for fact in condition.needs)
        and not any(fact.answer(view, finding) for fact in condition.excludes)
    )
    library = launched_by(view.launch.name.full) or "the library"
    because = [_because(view, finding, fact, library) for fact in chosen.needs]
    if not because:
        words = "the finding itself: nothing in the report selects a more specific remedy"
        because = [Because("general", Sentence(words), finding.evidence, finding.places)]
    here = HERE if finding.places else _at_address(view, finding, chosen.needs)
    advice = in_language(Sentence(text, here=here, library=library), language_of(view.launch))
    return Advice(advice, tuple(because), chosen.name)


def _at_address(view: LaunchView, finding: Finding, facts: Sequence[Fact]) -> str:
    """` at 0x0a90`: the first instruction that shows a fact, in code without source lines."""
    answers = (fact.answer(view, finding) for fact in facts)
    first = next((answer[0] for answer in answers if isinstance(answer, Sequence)), None)
    if view.code is None or first is None or view.launch.locate([first]):
        return ""
    return f" at 0x{first - view.code.program.code[0].address:04x}"


def _because(view: LaunchView, finding: Finding, fact: Fact, library: str) -> Because:
    answer = fact.answer(view, finding)
    places = _places(view, answer) if isinstance(answer, Sequence) else ()
    measured = filter(None, map(view.get, fact.metrics))
    evidence = (*fact.evidence(view, finding), *measured, *_executed(view, fact.opcodes))
    if not evidence and not places and not fact.is_by_name:
        evidence, places = finding.evidence, finding.places[:1]
    return Because(fact.id, Sentence(fact.words, library=library), evidence, places)


def _executed(view: LaunchView, opcodes: Sequence[str]) -> Iterator[Evidence]:
    """Executed warp instructions by opcode, if any."""
    source = view.get("inst_by_opcode") if opcodes and view.opcodes else None
    for opcode in opcodes:
        count = view.count(opcode)
        if source is not None and count and math.isfinite(count):
            label = f"executed {opcode} instructions"
            amount = Quantity(int(count), "inst")
            yield view.ledger.derived(f"executed_{opcode}", amount, label, source)


def _places(view: LaunchView, addresses: Sequence[int]) -> tuple[Place, ...]:
    """Source lines of the instructions that show a fact, by number of instructions."""
    located = view.launch.locate(addresses)
    lines = Counter(located[address] for address in addresses if address in located)
    return tuple(
        Place(*line, count / len(addresses), "these instructions")
        for line, count in lines.most_common(_MAX_PLACES)
    )
