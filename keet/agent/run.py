"""Entry points of the agent: `explain_with_model` adds a model's part to an explanation, `ask`
answers a question, `shown_prompts` shows what they would send.

Source and evidence are sent together. Numbers in an answer are references. The faults of an answer
are sent back once, with the reasons. If the model fails, the analyst's explanation is still
returned.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

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
from keet.agent.edits.line_matching import EditPlacer
from keet.agent.edits.patches import with_patch
from keet.agent.model.messages import NEXT_CAN_SUCCEED, UNSENT, ModelFault
from keet.agent.model.settings import ModelOptions
from keet.agent.model.transcript import Transcript, check_replay, request_text
from keet.agent.open_model import ScriptedChat, ask_model, fault_from
from keet.agent.prompts import build_facts, prompt_version, shown_source
from keet.agent.redaction import Redactor
from keet.agent.session import ModelSession, Progress, Toolbox
from keet.agent.vocabulary import evidence_summary, overview, vocabulary
from keet.documents.explain import BY_MODEL
from keet.documents.finding import Place
from keet.documents.model_explanation import Authorship
from keet.errors import one_line
from keet.evidence import Evidence, Prose
from keet.explanation.analyst import AnsweredQuestion, cited_numbers
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formatting import count_noun

_SOURCE_TOKENS = 3000
"""Budget for the source, which is sent with every call of the conversation."""
EMPTY_ANSWER = "the model's answer is empty; ask again, or try another model"


# --- one conversation: ask, check the answer, correct once


def explain_launch(
    session: ModelSession, tool_input: ToolInput, *, compiles: bool, include: Sequence[str] = ()
) -> LaunchExplanation:
    """With the model's explanation, and its supported causes among the findings. Raises
    ModelFault."""
    each = tool_input.launch()
    launch = each.launch
    session.begin(f"#{launch.id} {launch.name.short}")
    session.tell("asking the model")
    placer = EditPlacer(
        launch,
        compiles=compiles and tool_input.show_source,
        include=include,
        quotes_source=tool_input.show_source,
    )
    evidence, source = evidence_summary(tool_input), _source(tool_input)

    def opening(rounds: int) -> str:
        return prompts.explain(
            what=f"{launch.name.short} on {launch.device.name or 'a GPU that is not named'}",
            build=", ".join(build_facts(launch)),
            source=source,
            evidence=evidence,
            rounds=rounds,
        )

    said = session.converse("explain", opening, Conclusion, Toolbox(tool_input, placer))
    changes = [change for edit in said.edits for change in edit.changes]
    code = [text for change in changes for text in (change.new, change.diff)]
    words = vocabulary(tool_input, code, of_focus=True)
    answer = CheckedAnswer(said, words, CauseJudge(each, words), placer)
    sent_back = repair(session, tool_input, list(answer.faults()))
    explained = answer.model_explanation(sent_back)
    told, leads = rank_with_causes(each, explained.causes, explained.objections)
    explained = explained.beside(finding.id for finding in told.findings)
    explained = with_patch(explained, (finding.id for finding in each.findings))
    if leads:
        explained = replace(explained, leads=True)
        verdict = replace(told.verdict, by=BY_MODEL, analyst_headline=each.verdict.headline)
        told = replace(told, verdict=verdict)
    # Evidence of other launches or reports that is cited becomes evidence of this launch.
    own = {piece.id for piece in each.view.ledger}
    for piece in tool_input.evidence():
        if piece.id in explained.ids and piece.id not in own:
            each.view.ledger.adopt(piece)
    return replace(told, model=explained)


def _source(tool_input: ToolInput) -> str:
    """The kernel and what decides its work; empty if there is no source that may be sent."""
    if not tool_input.show_source:
        return ""
    each = tool_input.launch()
    places: list[Place] = [place for finding in each.findings for place in finding.locations]
    return shown_source(each.launch, _SOURCE_TOKENS, places + list(each.view.sampled_places()))


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
        session.transcript.event("note", repair=str(problem) or "interrupted")
        return 0
    given = {correction.number: correction for correction in repaired.corrections}
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


# --- explain


def explain_with_model(
    explanation: Explanation,
    options: ModelOptions,
    progress: Progress,
    against: Explanation | None = None,
) -> Explanation:
    """`against`: an earlier version of the program, for the model to see what changed."""
    every = [explanation] if against is None else [explanation, against]
    launches = list(explanation.launches)

    def work(session: ModelSession) -> ModelFault | None:
        positions = _typical_launches(explanation, options.launches)
        if len(positions) < len(explanation.asked):
            progress(
                f"the model explains {len(positions)} of {len(explanation.asked):,} launches, one "
                "per kernel and shape; choose others with --launch or --kernel, more kernels with "
                "--model-launches"
            )
        first: ModelFault | None = None
        for position in positions:
            tool_input = _tool_input(every, session.redactor, position)
            launches[position], fault = _launch_result(session, tool_input, options)
            if fault and first is None:  # later faults may be consequences of the first
                name = f"#{launches[position].launch.id} {launches[position].launch.name.short}"
                of_one = len(positions) > 1 and fault.kind not in UNSENT
                first = ModelFault(fault.kind, one_line(f"{name}: {fault}")) if of_one else fault
            if fault and fault.kind not in NEXT_CAN_SUCCEED:
                break  # the server will fail for the next kernel, too
        return first

    author = _ask_about(every, None, options, progress, work)
    return explanation.attributed_to(author, launches)


def _launch_result(
    session: ModelSession, tool_input: ToolInput, options: ModelOptions
) -> tuple[LaunchExplanation, ModelFault | None]:
    """Without the model's part if it is empty, which is a fault."""
    try:
        explained = explain_launch(
            session, tool_input, compiles=options.compile, include=options.include
        )
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - the next launch may succeed
        return tool_input.launch(), fault_from(problem)
    fault = ModelFault("interrupted", "interrupted") if session.interrupted else None
    said = explained.model
    if said and any((said.summary, said.purpose, said.causes, said.objections, said.edits)):
        return explained, fault
    return tool_input.launch(), fault or ModelFault("answer", EMPTY_ANSWER)


# --- ask


def ask(
    explanations: Sequence[Explanation], question: str, options: ModelOptions, progress: Progress
) -> AnsweredQuestion | Authorship:
    """The answer; without one, which model was asked and what went wrong."""
    tool_input = _tool_input(explanations, Redactor(explanations, options.redact))
    answer = Prose()

    def work(session: ModelSession) -> ModelFault | None:
        nonlocal answer
        answer = answer_question(session, tool_input, question)
        return None if answer else ModelFault("answer", EMPTY_ANSWER)

    author = _ask_about(explanations, question, options, progress, work)
    if not answer:
        return author
    pieces = {piece.id: piece for piece in tool_input.evidence()}
    cited = (pieces[evidence_id] for evidence_id in answer.ids if evidence_id in pieces)
    return AnsweredQuestion(
        question=question,
        answer=answer,
        evidence=cited_numbers(cited, explanations),
        followups=list(_followups(explanations)),
        explanations=explanations,
        authorship=author,
    )


def _followups(explanations: Sequence[Explanation]) -> Iterator[str]:
    """Commands for the reports that exist as files.

    A snapshot contains the path of its report, which its writer could choose freely: the path
    must not be taken for an option or a command."""
    for explanation in explanations:
        path = explanation.profile.provenance.path
        if path.isprintable() and os.path.isfile(path):  # noqa: PTH113 - Path's raises for long names
            yield f"keet explain {shlex.quote(f'./{path}' if path.startswith('-') else path)}"


# --- both


def _ask_about(
    explanations: Sequence[Explanation],
    question: str | None,
    options: ModelOptions,
    progress: Progress,
    work: Callable[[ModelSession], ModelFault | None],
) -> Authorship:
    """A replayed transcript must be of these reports; the author is the model recorded in it."""
    shas = [told.profile.provenance.sha256 for told in explanations]
    if options.replay is not None:
        model = check_replay(options.replay, shas, question)
        name = f"{model} (replayed)" if model else options.spec.name
        options = options._replace(spec=options.spec._replace(name=name))
    return ask_model(
        options,
        progress,
        work,
        redactor=Redactor(explanations, options.redact),
        name=re.sub(r"[^\w-]+", "_", Path(explanations[0].profile.provenance.path).stem)[:40],
        about="+".join(shas),
        base_url=options.spec.base_url,
        prompt_version=prompt_version(),
        reports=shas,
        question=question,
    )


def _tool_input(
    explanations: Sequence[Explanation], redactor: Redactor, position: int | None = None
) -> ToolInput:
    """`position`: of the launch in focus; None: the first of those to ask about."""
    if position is None:
        (position,) = _typical_launches(explanations[0], 1)
    return ToolInput(explanations, focus=position, show_source=not redactor.hides_source)


def _typical_launches(explanation: Explanation, most: int) -> list[int]:
    """Positions of the launches to ask about: one per kernel and shape, the representative, of
    those that take the most time. In the order of the report or run."""
    position = {each.launch.id: place for place, each in enumerate(explanation.launches)}
    ranked = explanation.profile.representatives(each.launch for each in explanation.launches)
    return sorted(position[launch.id] for launch in ranked[:most])


# --- what would be sent


def shown_prompts(
    explanations: Sequence[Explanation], options: ModelOptions, question: str | None = None
) -> str:
    """The first request about each launch, or the question; later ones depend on replies."""
    redactor = Redactor(explanations, options.redact)
    shown: list[str] = []
    if question is not None:
        tool_input = _tool_input(explanations, redactor)
        shown += _shown(options, redactor, lambda s: answer_question(s, tool_input, question))
    else:
        for position in _typical_launches(explanations[0], options.launches):
            launch = _tool_input(explanations, redactor, position)
            shown += _shown(options, redactor, lambda s: explain_launch(s, launch, compiles=False))  # noqa: B023
    return "\n\n".join(shown) + "\n"


def _shown(
    options: ModelOptions, redactor: Redactor, work: Callable[[ModelSession], object]
) -> Iterator[str]:
    """Runs a real session, so that the text is exactly what would be sent."""
    silent = ScriptedChat([], options.spec.name)
    session = ModelSession(
        silent,
        transcript=Transcript(None),
        redactor=redactor,
        progress=lambda _: None,
        limits=options.limits,
    )
    try:
        work(session)
    except ModelFault as fault:
        nothing = f"--- nothing more is sent ---\n{one_line(str(fault))}\n"
        yield request_text(silent.asked[0]) if silent.asked else nothing
