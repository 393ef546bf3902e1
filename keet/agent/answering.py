"""Explains one launch with a model, or answers a question: ask, check the answer, correct once.

Source and evidence are sent together. Numbers in an answer are references. The faults of an answer
are sent back once, with the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from keet_tools.answers import ToolInput

from keet.agent import prompts
from keet.agent.answer_schemas import MOST_CORRECTIONS, Conclusion, Corrections, TextAnswer
from keet.agent.checked_answer import (
    AnswerFault,
    AnswerTexts,
    CauseJudge,
    CheckedAnswer,
    rank_with_causes,
)
from keet.agent.edits.edit_placer import EditPlacer
from keet.agent.edits.patches import with_patch
from keet.agent.model.messages import ModelFault
from keet.agent.session import ModelSession, Toolbox
from keet.agent.source_listing import build_facts, shown_source
from keet.agent.vocabulary import evidence_summary, overview, vocabulary
from keet.documents.explain import BY_MODEL
from keet.documents.finding import Place
from keet.evidence import Evidence, Prose
from keet.explanation.explanation_types import LaunchExplanation
from keet.formatting import count_noun

_SOURCE_TOKENS = 3000
"""Budget for the source, which is sent with every call of the conversation."""


def explain_launch(
    session: ModelSession, tool_input: ToolInput, *, compiles: bool, include: Sequence[str] = ()
) -> LaunchExplanation:
    """With the model's explanation, and its supported causes among the findings. Raises
    ModelFault."""
    each = tool_input.launch()
    session.begin(f"#{each.launch.id} {each.launch.name.short}")
    session.tell("asking the model")
    placer = EditPlacer(
        each.launch,
        compiles=compiles and tool_input.show_source,
        include=include,
        quotes_source=tool_input.show_source,
    )
    evidence, source = evidence_summary(tool_input), _source(tool_input)

    def opening(rounds: int) -> str:
        launch = each.launch
        return prompts.explain(
            what=f"{launch.name.short} on {launch.device.name or 'a GPU that is not named'}",
            build=", ".join(build_facts(launch)),
            source=source,
            evidence=evidence,
            rounds=rounds,
        )

    said = session.converse("explain", opening, Conclusion, Toolbox(tool_input, placer))
    return _explained(session, tool_input, placer, said)


def _source(tool_input: ToolInput) -> str:
    """The kernel and what decides its work; empty if there is no source that may be sent."""
    if not tool_input.show_source:
        return ""
    each = tool_input.launch()
    places: list[Place] = [place for finding in each.findings for place in finding.locations]
    return shown_source(each.launch, _SOURCE_TOKENS, places + list(each.view.sampled_places()))


def _explained(
    session: ModelSession, tool_input: ToolInput, placer: EditPlacer, said: Conclusion
) -> LaunchExplanation:
    each = tool_input.launch()
    changes = [change for edit in said.edits for change in edit.changes]
    code = [text for change in changes for text in (change.new, change.diff)]
    words = vocabulary(tool_input, code, of_focus=True)
    answer = CheckedAnswer(said, words, CauseJudge(each, words), placer)
    sent_back = repair(session, tool_input, answer.faults())
    explained = answer.model_explanation(sent_back)
    ranked = rank_with_causes(each, explained.causes, explained.objections)
    explained = explained.beside(finding.id for finding in ranked.each.findings)
    explained = with_patch(explained, (finding.id for finding in each.findings))
    told = ranked.each
    if ranked.leads:
        explained = replace(explained, leads=True)
        verdict = replace(told.verdict, by=BY_MODEL, analyst_headline=each.verdict.headline)
        told = replace(told, verdict=verdict)
    _adopt_evidence(tool_input, each, explained.ids)
    return replace(told, model=explained)


def _adopt_evidence(tool_input: ToolInput, each: LaunchExplanation, ids: tuple[str, ...]) -> None:
    """Adds cited evidence of other launches or reports to the evidence of this launch."""
    own = {piece.id for piece in each.view.ledger}
    for piece in tool_input.evidence():
        if piece.id in ids and piece.id not in own:
            each.view.ledger.adopt(piece)


def answer_question(session: ModelSession, tool_input: ToolInput, question: str) -> Prose:
    """Raises ModelFault."""
    session.begin("the question")
    session.tell("looking at the evidence")
    count = len(tool_input.explanations)
    what = f"{count} profiles of GPU kernels" if count > 1 else "a profile of GPU kernels"

    def opening(rounds: int) -> str:
        evidence = overview(tool_input)
        return prompts.ask(what=what, question=question, evidence=evidence, rounds=rounds)

    said = session.converse("ask", opening, TextAnswer, Toolbox(tool_input))
    texts = AnswerTexts(vocabulary(tool_input))
    texts.put("answer", said.answer)
    repair(session, tool_input, list(texts.faults()))
    return texts["answer"]


_OFFERED_NAMES = 16
"""Evidence names that the request offers."""


def repair(session: ModelSession, tool_input: ToolInput, faults: Sequence[AnswerFault]) -> int:
    """Returns how many parts were sent back. What is not corrected stays, marked as unchecked."""
    if not faults:
        return 0
    faults = faults[:MOST_CORRECTIONS]
    session.tell(f"asking the model to correct {count_noun(len(faults), 'part')}")
    prompt = prompts.repair([str(fault) for fault in faults], _names(tool_input, faults))
    try:
        repaired = session.converse("repair", lambda _: prompt, Corrections)
    except (ModelFault, KeyboardInterrupt) as problem:
        # The answer is kept without corrections; after Ctrl-C nothing more is asked.
        session.interrupted = isinstance(problem, KeyboardInterrupt)
        session.transcript.note(repair=str(problem) or "interrupted")
        return 0
    given = {each.number: each for each in repaired.corrections}
    for number, fault in enumerate(faults, 1):
        if number in given:
            fault.correct(given[number])
    return len(faults)


def _names(tool_input: ToolInput, faults: Sequence[AnswerFault]) -> str:
    """Evidence that may have been meant: named in the faults, or with similar words."""
    said = " ".join(map(str, faults))
    words = _words(" ".join(fault.text for fault in faults))

    def distance(piece: Evidence) -> tuple[bool, int]:
        return piece.slug not in said, -len(words & _words(f"{piece.label} {piece.slug}"))

    measured = (x for x in tool_input.evidence() if not x.slug.startswith("claimed_"))
    ranked = sorted(measured, key=distance)[:_OFFERED_NAMES]
    rows = (f"{{{piece.id}}} {piece.label} {piece}" for piece in ranked)
    return tool_input.with_short_names("\n".join(rows))


def _words(text: str) -> set[str]:
    """Lower-case words, without common ones."""
    common = "the is are of and at in on to for by it that per pct"
    return set(re.findall(r"[a-z][a-z0-9]+", text.lower())).difference(common.split())
