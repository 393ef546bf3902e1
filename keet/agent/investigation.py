"""One launch explained by a model: read the source, inspect the evidence, be held to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from keet_tools.case import Case

from keet.agent import prompts
from keet.agent.answers import (
    Conclusion,
    Judged,
    Reading,
    SaidCause,
    SaidEdit,
    known_finding,
)
from keet.agent.digest import digest
from keet.agent.mending import mend
from keet.agent.session import Session
from keet.agent.slots import Slots
from keet.agent.source import excerpt, own_files, whole_source
from keet.agent.wire import Fault
from keet.analysis.findings import Place
from keet.explanation.analyst import LaunchExplanation
from keet.explanation.statement import Cause, Edit, Hypothesis, Statement
from keet.profile import Launch, shape_text
from keet.profile.names import file_name
from keet.verification.holding import Holder
from keet.verification.suggested_code import without_promises

_SOURCE_TOKENS = 4000
"""Of the source alone, at first: most kernels fit in whole."""
_EXCERPT_TOKENS = 2600
"""Of the source beside the evidence, which is read with each further call."""
_SILENCE = Conclusion(summary="")


def investigate(session: Session, case: Case) -> tuple[Statement | None, Fault | None]:
    """What could be had, and what came in between."""
    each = case.launch()
    session.begin(f"#{each.launch.id} {each.launch.name.short}", case)
    reading: Reading | None = None
    try:
        reading = _read(session, case, each)
        conclusion = _inspect(session, case, each, reading)
    except (Fault, KeyboardInterrupt) as problem:
        fault = problem if isinstance(problem, Fault) else Fault("interrupted", "interrupted")
        # What was said of the source is worth keeping without the rest.
        return (_held(session, case, reading, _SILENCE) if reading else None), fault
    statement = _held(session, case, reading, conclusion)
    return statement, Fault("interrupted", "interrupted") if session.interrupted else None


def _read(session: Session, case: Case, each: LaunchExplanation) -> Reading | None:
    """Hypotheses from the source alone; none where there is no source to be shown."""
    prompt = _read_prompt(case, each)
    if prompt is None:
        return None
    session.tell("reading the source")
    return session.converse("read", lambda _: prompt, Reading, None)


def _read_prompt(case: Case, each: LaunchExplanation) -> str | None:
    launch = each.launch
    if not case.show_source or not own_files(launch):
        return None
    source = whole_source(launch, _SOURCE_TOKENS)
    grid, block = (shape_text(size, "not recorded") for size in (launch.grid, launch.block))
    return prompts.read(source, _device(launch), grid, block)


def _inspect(
    session: Session, case: Case, each: LaunchExplanation, reading: Reading | None
) -> Conclusion:
    session.tell("looking at the evidence")

    def opening(rounds: int) -> str:
        return _inspect_prompt(case, each, reading, rounds)

    return session.converse("inspect", opening, Conclusion, case)


def _inspect_prompt(
    case: Case, each: LaunchExplanation, reading: Reading | None, rounds: int
) -> str:
    shown = excerpt(each.launch, _places(each), _EXCERPT_TOKENS) if case.show_source else ""
    return prompts.inspect(
        kernel=each.launch.name.short,
        device=_device(each.launch),
        reading=reading,
        evidence=digest(case),
        source=shown,
        rounds=rounds,
    )


def _places(each: LaunchExplanation) -> list[Place]:
    """Where the findings are, and where warps wait."""
    found = [place for finding in each.findings for place in finding.places]
    return found + list(each.view.sampled_places())


def _device(launch: Launch) -> str:
    return launch.device.name or "a GPU that is not named"


# --- held to the evidence


def _held(session: Session, case: Case, reading: Reading | None, said: Conclusion) -> Statement:
    each = case.launch()
    suggested = "\n".join(edit.code for edit in said.edits)
    files = {path: each.launch.source_files[path] or "" for path in own_files(each.launch)}
    evidence = {piece.id: piece for piece in case.evidence()}
    own = each.evidence if len(case.explanations) == 1 else tuple(evidence.values())
    holder = Holder(own, [each.launch], files, suggested)
    holder.learn(_texts(reading, said))
    slots = Slots(holder)
    _fill(slots, reading, said)
    mend(session, slots)
    statement = _statement(slots, reading, said, files)
    for cited in sorted(evidence.keys() & set(statement.cited)):
        each.view.ledger.adopt(evidence[cited])
    return statement


def _texts(reading: Reading | None, said: Conclusion) -> list[str]:
    guesses = [guess.text for guess in reading.hypotheses] if reading else []
    told = [reading.purpose, reading.mapping] if reading else []
    claims = [claim.text for claim in (*said.causes, *said.objections)]
    reasons = [judged.reason for judged in said.judged]
    edits = [text for edit in said.edits for text in (edit.what, edit.risk, edit.check)]
    return [*told, *guesses, said.summary, *reasons, *claims, *edits]


def _fill(slots: Slots, reading: Reading | None, said: Conclusion) -> None:
    if reading:
        slots.put("purpose", reading.purpose, stage="predicting")
        slots.put("mapping", reading.mapping, stage="predicting")
        for i, guess in enumerate(reading.hypotheses):
            slots.put(f"hypotheses[{i}].text", guess.text, stage="predicting")
    slots.put("summary", said.summary, _all_ids(said))
    for i, judged in enumerate(said.judged):
        slots.put(f"judged[{i}].reason", judged.reason, judged.evidence)
    for i, cause in enumerate(said.causes):
        slots.put(f"causes[{i}].text", cause.text, cause.evidence)
    for i, objection in enumerate(said.objections):
        slots.put(f"objections[{i}].text", objection.text, objection.evidence)
    for i, edit in enumerate(said.edits):
        for part in ("what", "risk", "check"):
            slots.put(f"edits[{i}].{part}", getattr(edit, part), _all_ids(said), "proposing")


def _all_ids(said: Conclusion) -> list[str]:
    """What the causes rest on: their summary may speak of it without citing it again."""
    return [found for cause in said.causes for found in cause.evidence]


def _statement(
    slots: Slots, reading: Reading | None, said: Conclusion, files: Mapping[str, str]
) -> Statement:
    hypotheses = tuple(_hypotheses(slots, reading, said.judged))
    causes = tuple(_causes(slots, "causes", said.causes))
    lengths = {file_name(path): len(text.splitlines()) for path, text in files.items()}
    edits = tuple(_edits(slots, said.edits, lengths))
    return Statement(
        purpose=slots.text("purpose"),
        mapping=slots.text("mapping"),
        hypotheses=hypotheses,
        summary=slots.text("summary"),
        causes=causes,
        objections=tuple(_causes(slots, "objections", said.objections)),
        edits=edits,
        dropped=slots.dropped,
        numbers=slots.numbers,
    )


def _hypotheses(
    slots: Slots, reading: Reading | None, judged: Sequence[Judged]
) -> Iterable[Hypothesis]:
    for i, guess in enumerate(reading.hypotheses if reading else ()):
        text = slots.text(f"hypotheses[{i}].text")
        if not text:
            continue
        position, verdict = next(
            ((n, j) for n, j in enumerate(judged) if j.hypothesis == i + 1), (None, Judged())
        )
        reason = slots.text(f"judged[{position}].reason")
        evidence = slots.ids(f"judged[{position}].reason")
        known = verdict.verdict if evidence and reason else "inconclusive"
        if known != verdict.verdict:
            slots.drop(f"judged[{position}]", verdict.verdict, "no evidence bears that out")
        yield Hypothesis(text, known_finding(guess.finding), known, reason, evidence)


def _causes(slots: Slots, kind: str, said: Sequence[SaidCause]) -> Iterable[Cause]:
    for i, cause in enumerate(said):
        where = f"{kind}[{i}].text"
        text, evidence, finding = slots.text(where), slots.ids(where), None
        finding = known_finding(cause.finding)
        if not text:
            continue
        if finding is None:
            slots.drop(where, text, f"{cause.finding[:40]!r} is no finding of keet's vocabulary")
        elif not evidence:
            slots.drop(where, text, "it cites no evidence")
        else:
            yield Cause(finding, text, evidence)


def _edits(slots: Slots, said: Sequence[SaidEdit], files: Mapping[str, int]) -> Iterable[Edit]:
    for i, edit in enumerate(said):
        what = slots.text(f"edits[{i}].what")
        if not what:
            continue
        name = file_name(edit.file)
        yield Edit(
            known_finding(edit.finding),
            name if name in files else None,
            edit.line if edit.line and edit.line <= files.get(name, 0) else None,
            what,
            without_promises(edit.code),
            slots.text(f"edits[{i}].risk"),
            slots.text(f"edits[{i}].check"),
        )
