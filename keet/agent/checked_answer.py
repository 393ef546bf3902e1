"""Checks a model's answer: resolves its references, places its edits, lists what to correct.

Causes and objections are checked against the account, and ranked with the findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from keet.agent.answer_schemas import (
    Conclusion,
    Correction,
    RawCause,
    RawClaim,
    expressions_of,
    known_finding,
)
from keet.agent.edits.line_matching import EditPlacer, PlacedEdit, sketch_of
from keet.agent.vocabulary import Vocabulary
from keet.analysis.ledger import areas_of
from keet.analysis.time_model import TimeModel
from keet.diagnosis.claim import WorkClaim, read_claim
from keet.diagnosis.claim_evaluation import (
    EvaluatedClaim,
    RankedCause,
    check_cause,
    evaluate_claim,
    evaluate_claims,
    rank_with_claims,
    unused_document,
)
from keet.diagnosis.diagnosis import Diagnosis
from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.documents.model_explanation import CauseDocument, ModelEdit, ModelExplanation
from keet.evidence import Prose, Reference, Sentence, ids_of
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.finding_notes import listed
from keet.explanation.headline import verdict_of
from keet.explanation.ncu_rules import second_opinion
from keet.findings import findings
from keet.profile.launch import file_name
from keet.prose.expressions import ValueProblem, evaluate, is_telling, parse
from keet.prose.reading import unfounded
from keet.safe_text import code_lines


class AnswerFault(NamedTuple):
    """A part of the answer that the model should correct."""

    text: str
    reason: str
    correct: Callable[[Correction], None]
    """Applies the correction, if it contains one."""

    def __str__(self) -> str:
        return f"{self.text}\n   ({self.reason})"


class AnswerTexts:
    """The texts of an answer, by their place: `summary`, `causes[0]`, `edits[1].risk`."""

    def __init__(self, words: Vocabulary) -> None:
        self._words = words
        self._prose: dict[str, Prose] = {}
        self._read: dict[str, Callable[[str], Prose]] = {}

    def put(self, where: str, text: str, *, proposal: bool = False) -> None:
        self._read[where] = partial(self._words.read, is_proposal=proposal)
        self._prose[where] = self._read[where](text)

    def __getitem__(self, where: str) -> Prose:
        return self._prose.get(where, Prose())

    def faults(self) -> Iterator[AnswerFault]:
        # From the end: a correction of two sentences must not shift the sentences before it.
        for where, prose in self._prose.items():
            for at in reversed(range(len(prose.sentences))):
                sentence = prose.sentences[at]
                if sentence.problem and sentence.fault != "undecided":
                    correct = partial(self._correct, where, at)
                    yield AnswerFault(sentence.written, sentence.problem, correct)

    def _correct(self, where: str, at: int, rewritten: Correction) -> None:
        if "text" in rewritten.model_fields_set:
            # An empty text withdraws the sentence: the prompt offers that.
            new = self._read[where](rewritten.text)
            self._prose[where] = self._prose[where].replaced(at, new)


class CheckedAnswer:
    """A model's answer about one launch, with the faults found in it."""

    def __init__(
        self, said: Conclusion, words: Vocabulary, judge: CauseJudge, placer: EditPlacer
    ) -> None:
        self._words, self._judge, self._placer = words, judge, placer
        self.texts = AnswerTexts(words)
        self._said = said
        self._facts: dict[str, CheckedFacts] = {}
        self._edits: list[PlacedEdit] = []
        self.texts.put("summary", said.summary)
        # What the code does: it may name sizes of the source.
        self.texts.put("purpose", said.purpose, proposal=True)
        for kind, causes in (("causes", said.causes), ("objections", said.objections)):
            for i, cause in enumerate(causes):
                self.texts.put(f"{kind}[{i}]", cause.text)
                self._facts[f"{kind}[{i}]"] = facts_of(cause.because, self._words)
        for i, edit in enumerate(said.edits):
            for part in ("what", "risk", "check"):
                self.texts.put(f"edits[{i}].{part}", getattr(edit, part), proposal=True)
            self._edits.append(self._placer.place(edit.changes))

    # --- corrections

    def faults(self) -> Iterator[AnswerFault]:
        yield from self.texts.faults()
        said = dict(zip(self._facts, (*self._said.causes, *self._said.objections), strict=True))
        for where, facts in self._facts.items():
            is_cause = where.startswith("causes")
            problem = facts.problem or (self._judge.unrelated(said[where], facts.ids) * is_cause)
            if problem:
                correct = partial(self._correct_facts, where)
                yield AnswerFault(f"`because` of {where}", problem, correct)
        for i, cause in enumerate(self._said.causes):
            for claim, unused in self._judge.refused(cause):
                text = f"a claim of causes[{i}]: {unused.claim.written}"
                yield AnswerFault(text, unused.reason, partial(self._correct_claim, i, claim))
        for i, placed in enumerate(self._edits):
            if placed.fault and self._said.edits[i].changes:
                text = f"edit {i + 1}: {self._said.edits[i].what[:120]}"
                yield AnswerFault(text, placed.fault, partial(self._correct_edit, i))

    def _correct_facts(self, where: str, rewritten: Correction) -> None:
        if because := expressions_of(rewritten.text):
            self._facts[where] = facts_of(because, self._words)

    def _correct_claim(self, i: int, wrong: RawClaim, rewritten: Correction) -> None:
        if "claims" in rewritten.model_fields_set:
            cause = self._said.causes[i]
            kept = [claim for claim in cause.claims if claim is not wrong]
            claims = [*kept, *rewritten.claims]
            self._said.causes[i] = cause.model_copy(update={"claims": claims})

    def _correct_edit(self, i: int, rewritten: Correction) -> None:
        placed = self._placer.place(rewritten.changes) if rewritten.changes else None
        if placed and (placed.patch or not self._edits[i].patch):
            self._edits[i] = placed
            changes = {"changes": rewritten.changes}
            self._said.edits[i] = self._said.edits[i].model_copy(update=changes)

    # --- the result

    def model_explanation(self, sent_back: int) -> ModelExplanation:
        return ModelExplanation(
            summary=self.texts["summary"],
            purpose=self.texts["purpose"],
            causes=tuple(self._causes("causes", self._judge.cause)),
            objections=tuple(self._causes("objections", self._judge.objection)),
            edits=tuple(self._final_edits()),
            leads=False,
            sent_back=sent_back,
        )

    def _causes(
        self, kind: str, judged: Callable[..., CauseDocument | None]
    ) -> Iterator[CauseDocument]:
        for i, said in enumerate(getattr(self._said, kind)):
            where = f"{kind}[{i}]"
            cause = judged(said, self.texts[where], self._facts[where])
            if cause is not None and cause.text:
                yield cause

    def _final_edits(self) -> Iterator[ModelEdit]:
        kept = [i for i in range(len(self._edits)) if self.texts[f"edits[{i}].what"]]
        numbers = {i + 1: number for number, i in enumerate(kept, 1)}
        for i in kept:
            said, placed, what = self._said.edits[i], self._edits[i], self.texts[f"edits[{i}].what"]
            patch = placed.patch
            yield ModelEdit(
                finding=known_finding(said.finding),
                what=what,
                diff=patch.diff if patch else "",
                places=patch.places if patch else (),
                patch=patch,
                sketch="" if patch else sketch_of(said),
                problem=(placed.problem or "").partition("\n")[0] or None,
                build=placed.build.outcome,
                build_text=placed.build.message,
                warnings=placed.build.warnings,
                risk=self.texts[f"edits[{i}].risk"],
                check=self.texts[f"edits[{i}].check"],
                instead_of=numbers.get(said.instead_of or 0) if said.instead_of != i + 1 else None,
            )


class CheckedFacts(NamedTuple):
    """The facts that a cause names as its reasons: the true ones, and the problem of the others."""

    hold: tuple[Sentence, ...]
    """Includes facts that use only constants of the source."""
    problem: str | None
    compared: tuple[str, ...] = ()
    """Ids of the evidence in comparisons that could easily be false."""

    @property
    def ids(self) -> tuple[str, ...]:
        return ids_of(self.hold)


def facts_of(because: Iterable[str], words: Vocabulary) -> CheckedFacts:
    hold: list[Sentence] = []
    problems: list[str] = []
    compared: list[str] = []
    for text in because:
        try:
            node = parse(text)
            result = evaluate(node, words.names.lookup)
            empty = unfounded(node, result, words.names)
        except ValueProblem as problem:
            problems.append(f"{text}: {problem}")
            continue
        if result.is_comparison and not result.is_true:
            problems.append(f"{text} is false: {result.text}")
        elif empty:
            problems.append(f"{text}: {empty}")
        elif result.names:
            ids = dict.fromkeys(i for named in result.names for i in named.ids)
            hold.append(Sentence.of([Reference(result.text, tuple(ids), text)]))
            if result.is_comparison and is_telling(node, words.names.lookup):
                compared += ids
    return CheckedFacts(tuple(hold), problems[0] if problems else None, tuple(compared))


_NOT_MEASURED = "it names no measured fact"


class CauseJudge:
    """Checks causes and objections against the account of one launch."""

    def __init__(self, each: LaunchExplanation, words: Vocabulary) -> None:
        self._each = each
        self._words = words
        self._model = TimeModel(each.view)

    def cause(self, said: RawCause, text: Prose, facts: CheckedFacts) -> CauseDocument | None:
        """None if it names no known finding."""
        finding = known_finding(said.finding)
        if finding is None:
            return None
        ids = facts.ids or text.ids
        absent = check_cause(finding, self._model) or ("",)
        problem = facts.problem or absent[0] or ("" if ids else _NOT_MEASURED)
        problem, claim = problem or self.unrelated(said, ids), None
        if not problem:
            claim = evaluate_claims(self._claims(said, finding), self._model, self._each.account)
        place = self._place(said)
        unused = claim.unused if claim and said.claims else ()
        return CauseDocument(
            finding=finding,
            text=text,
            because=facts.hold,
            where=place.where if place else None,
            problem=problem or None,
            claim=claim,
            unused_claims=tuple(map(unused_document, unused)),
        )

    def unrelated(self, said: RawCause, ids: Sequence[str]) -> str:
        """Why measured reasons are none for the cause; empty if they are, or if there are none.
        Numbers of keet's own lines of the finding are about it."""
        name = known_finding(said.finding)
        rests_on = findings()[name].rests_on if name else ()
        own = (finding.locations for finding in self._each.findings if finding.id == name)
        is_there = any(f"@{place.where}#" in i for places in own for place in places for i in ids)
        if not ids or not rests_on or is_there or areas_of(ids) & {*rests_on}:
            return ""
        return f"none of its facts is about what the finding rests on: {', '.join(rests_on)}"

    def objection(self, said: RawCause, text: Prose, facts: CheckedFacts) -> CauseDocument | None:
        """One that cites nothing that the finding rests on is an opinion, and so is one to a
        finding whose cause is certain."""
        finding = known_finding(said.finding)
        if finding is None:
            return None
        known = (*self._each.findings, *self._each.lesser)
        own = next((each for each in known if each.id == finding), None)
        problem = facts.problem
        if problem is None and not facts.ids and not text.ids:
            problem = _NOT_MEASURED
        elif problem is None and own and not self._compares(facts, own):
            problem = "it compares nothing that the finding rests on"
        elif problem is None and own and own.cause_certainty == "certain":
            is_refuted = check_cause(finding, self._model) is not None
            problem = None if is_refuted else "the report shows that cause with certainty"
        return CauseDocument(
            finding=finding, text=text, because=facts.hold, where=None, problem=problem, claim=None
        )

    def _compares(self, facts: CheckedFacts, own: Finding) -> bool:
        """Whether a fact is a comparison with the finding's evidence, or with what that was
        computed from."""
        ids = {piece.id for piece in own.evidence}
        ids |= {source for piece in own.evidence for source in piece.derived_from or ()}
        related = {name for name in ids if areas_of([name]) & {*own.spec.rests_on}}
        return bool(related & {*facts.compared})

    def refused(self, said: RawCause) -> list[tuple[RawClaim, EvaluatedClaim]]:
        """Claims of a cause that do not count, each with its reason. Empty where the report
        contradicts the cause itself."""
        finding = known_finding(said.finding)
        if finding is None or not said.claims or check_cause(finding, self._model):
            return []
        claims, account = self._claims(said, finding), self._each.account
        results = [evaluate_claim(claim, self._model, account) for claim in claims]
        pairs = zip(said.claims, results, strict=True)
        return [(claim, result) for claim, result in pairs if result.candidate is None]

    def _claims(self, said: RawCause, finding: str) -> list[WorkClaim]:
        place, names = self._place(said), self._words.names
        return [
            read_claim(finding, x.kind, x.of, x.needed, x.removed, names, place)
            for x in said.claims
        ] or [WorkClaim(finding, "cause", place=place)]

    def _place(self, said: RawCause) -> Place | None:
        """A line that the kernel's files have, with its share of the samples."""
        line = said.line or 0
        for path, text in self._each.launch.source_files.items():
            has_line = 1 <= line <= len(code_lines(text or ""))
            if has_line and file_name(path) == file_name(said.file):
                sampled = self._each.view.sampled_places()
                known = (place for place in sampled if place.at == (path, line))
                return next(known, Place(path, line, 0.0, "samples"))
        return None


# --- ranking


def rank_with_causes(
    each: LaunchExplanation, causes: Sequence[CauseDocument], objections: Sequence[CauseDocument]
) -> tuple[LaunchExplanation, bool]:
    """The launch with a model's supported causes among its findings, and whether its headline is
    one of them. Ranks by expected gain. A finding that the model objects to with true facts is
    ranked behind the first of the model's own causes that has a supported amount."""
    claims = [cause.claim for cause in causes if isinstance(cause.claim, EvaluatedClaim)]
    evaluated = [claim for claim in claims if claim.supported]
    diagnosis = Diagnosis(
        each.view,
        TimeModel(each.view),
        each.account,
        each.findings,
        each.all_fixed,
        each.order_reason,
        each.lesser,
        each.verdict.healthy,
        each.judged_by,
    )
    ranked = _reordered(rank_with_claims(diagnosis, evaluated), causes, objections)
    placed = [_placed(entry, causes, each) for entry in ranked]
    findings = listed(placed, each.view, each.account)
    again = second_opinion(each.view.ledger, findings, each.lesser, each.account.unknown)
    # keet's reason for the order holds if its first finding is still first, and no forecast that
    # the reason may compare has changed.
    own = {finding.id: finding.forecast for finding in each.findings}
    is_kept = [f.id for f in findings[:1]] == [f.id for f in each.findings[:1]] and all(
        own.get(finding.id, finding.forecast) == finding.forecast for finding in findings
    )
    reason = each.order_reason if is_kept else None
    told = replace(each, findings=findings, second_opinion=again, order_reason=reason)
    if not ranked or not ranked[0].leads:
        return told, False
    first = each.findings[0].id if each.findings and not each.verdict.healthy else None
    # Also if the model only moved one of keet's findings to the front, or gave its amounts.
    leads = findings[0].id != first or findings[0].amounts_by == "model"
    lines = [
        [place.where for place in f.locations[:1]] for f in (*findings[:1], *each.findings[:1])
    ]
    note = "" if leads or lines[0] == lines[1] else " (line by the model)"
    verdict = verdict_of(diagnosis._replace(findings=findings, healthy=None), note)
    return replace(told, verdict=verdict), leads


def _placed(
    entry: RankedCause, causes: Sequence[CauseDocument], each: LaunchExplanation
) -> Finding:
    """With the model's source line: first, because samples only show where warps wait, not why;
    behind the line where keet counted what the finding is about, if the model's line has none."""
    is_models = entry.origin == "model"
    finding = replace(entry.finding, origin="model") if is_models else entry.finding
    own = (cause for cause in causes if cause.finding == finding.id and not cause.problem)
    claims = (cause.claim for cause in own if isinstance(cause.claim, EvaluatedClaim))
    place = next((evaluated.claim.place for evaluated in claims), None)
    if place is None:
        return finding
    counted = [known for known in each.findings if known.id == finding.id]
    places = [known for own in counted or [finding] for known in own.locations]
    named = next((known for known in places if known.where == place.where), None)
    others = [known for known in places if known is not named]
    if named or not others or others[0].of == place.of:
        ordered = (named or place, *others)
    else:
        ordered = (others[0], place, *others[1:])
    # keet's advice is about the lines where keet found something to change.
    advised = places if counted and not named else ordered
    here = each.view.here(findings()[finding.id].memory, advised)
    return replace(finding, locations=ordered, here=here)


def _reordered(
    ranked: Sequence[RankedCause],
    causes: Sequence[CauseDocument],
    objections: Sequence[CauseDocument],
) -> list[RankedCause]:
    """Moves a first finding that the model objects to, with true facts, right behind the first of
    its own causes that has a supported amount."""
    # If the model also names the finding as a cause, it objects to its place or remedy only.
    named = {cause.finding for cause in causes}
    disputed = {objection.finding for objection in objections if not objection.problem} - named
    own = [entry for entry in ranked if entry.claim and entry.claim.has_backed_amount]
    if not own or ranked[0].finding.id not in disputed:
        return list(ranked)
    first = own[0]._replace(leads=True)
    return [first, *(entry._replace(leads=False) for entry in ranked if entry is not own[0])]
