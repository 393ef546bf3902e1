"""Checks a model's answer: resolves its references, places its edits, lists what to correct.

Causes and objections are checked against the account, and ranked with the findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, get_args

from keet.agent.answer_schemas import (
    Conclusion,
    Correction,
    RawCause,
    RawClaim,
    expressions_of,
    known_finding,
)
from keet.agent.edits.edit_placer import EditPlacer, PlacedEdit, sketch_of
from keet.agent.vocabulary import Vocabulary
from keet.analysis.time_model import TimeModel
from keet.diagnosis.claim import WorkClaim
from keet.diagnosis.claim_evaluation import (
    EvaluatedClaim,
    RankedCause,
    check_cause,
    evaluate_claims,
    rank_with_claims,
)
from keet.diagnosis.diagnosis import Diagnosis
from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.documents.model_explanation import (
    CauseDocument,
    EditDocument,
    ModelExplanation,
)
from keet.evidence import Prose, Reference, Sentence
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.headline import By, cause_and_line, verdict_of
from keet.explanation.ncu_rules import second_opinion
from keet.findings import ClaimKind, findings
from keet.profile.names import file_name
from keet.prose.expressions import UnitValue, ValueProblem, evaluate, has_influence, parse
from keet.prose.reading import unfounded
from keet.safe_text import code_lines
from keet.units import Quantity


class AnswerFault(NamedTuple):
    """A part of the answer that the model should correct."""

    text: str
    reason: str
    correct: Callable[[Correction], bool]
    """Applies the correction; False if it contains none."""

    def __str__(self) -> str:
        return f"{self.text}\n   ({self.reason})"


class AnswerTexts:
    """The texts of an answer, by their place: `summary`, `causes[0]`, `edits[1].risk`."""

    def __init__(self, words: Vocabulary) -> None:
        self._words = words
        self._prose: dict[str, Prose] = {}
        self._proposals: set[str] = set()

    def put(self, where: str, text: str, *, proposal: bool = False) -> None:
        if proposal:
            self._proposals.add(where)
        self._prose[where] = self._read(where, text)

    def _read(self, where: str, text: str) -> Prose:
        return self._words.read(text, is_proposal=where in self._proposals)

    def __getitem__(self, where: str) -> Prose:
        return self._prose.get(where, Prose())

    def faults(self) -> Iterator[AnswerFault]:
        # From the end: a correction of two sentences must not shift the sentences before it.
        for where, prose in self._prose.items():
            for at in reversed(range(len(prose.sentences))):
                sentence = prose.sentences[at]
                if sentence.problem and sentence.fault != "undecided":
                    yield AnswerFault(
                        sentence.written, sentence.problem, self._corrector(where, at)
                    )

    def _corrector(self, where: str, at: int) -> Callable[[Correction], bool]:
        def correct(rewritten: Correction) -> bool:
            if "text" not in rewritten.model_fields_set:
                return False
            # An empty text withdraws the sentence: the prompt offers that.
            new = self._read(where, rewritten.text)
            self._prose[where] = self._prose[where].replaced(at, new)
            return True

        return correct


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

    def faults(self) -> list[AnswerFault]:
        return [*self.texts.faults(), *self._wrong_facts(), *self._wrong_edits()]

    def _wrong_facts(self) -> Iterator[AnswerFault]:
        for where, facts in self._facts.items():
            if facts.problem:
                yield AnswerFault(
                    f"`because` of {where}", facts.problem, self._fact_corrector(where)
                )

    def _fact_corrector(self, where: str) -> Callable[[Correction], bool]:
        def correct(rewritten: Correction) -> bool:
            because = expressions_of(rewritten.text)
            if because:
                self._facts[where] = facts_of(because, self._words)
            return bool(because)

        return correct

    def _wrong_edits(self) -> Iterator[AnswerFault]:
        for i, placed in enumerate(self._edits):
            if placed.fault and self._said.edits[i].changes:
                what = f"edit {i + 1}: {self._said.edits[i].what[:120]}"
                yield AnswerFault(what, placed.fault, self._edit_corrector(i))

    def _edit_corrector(self, i: int) -> Callable[[Correction], bool]:
        def correct(rewritten: Correction) -> bool:
            if not rewritten.changes:
                return False
            placed = self._placer.place(rewritten.changes)
            if placed.patch or not self._edits[i].patch:
                self._edits[i] = placed
                edit = self._said.edits[i].model_copy(update={"changes": rewritten.changes})
                self._said.edits[i] = edit
            return placed.fault is None

        return correct

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

    def _final_edits(self) -> Iterator[EditDocument]:
        kept = [i for i in range(len(self._edits)) if self.texts[f"edits[{i}].what"]]
        numbers = {i + 1: number for number, i in enumerate(kept, 1)}
        for i in kept:
            said, placed, what = self._said.edits[i], self._edits[i], self.texts[f"edits[{i}].what"]
            patch = placed.patch
            yield EditDocument(
                finding=known_finding(said.finding),
                what=what,
                diff=patch.diff if patch else "",
                places=tuple(map(str, patch.places)) if patch else (),
                sketch="" if patch else sketch_of(said),
                problem=placed.problem,
                build=placed.build.outcome,
                build_text=placed.build.message,
                risk=self.texts[f"edits[{i}].risk"],
                check=self.texts[f"edits[{i}].check"],
                instead_of=numbers.get(said.instead_of or 0) if said.instead_of != i + 1 else None,
            )


class CheckedFacts(NamedTuple):
    """The facts that a cause names as its reasons: the true ones, and the problem of the others."""

    hold: tuple[Sentence, ...]
    """Includes facts that use only constants of the source."""
    problem: str | None

    @property
    def are_measured(self) -> bool:
        return any(fact.ids for fact in self.hold)


def facts_of(because: Iterable[str], words: Vocabulary) -> CheckedFacts:
    hold: list[Sentence] = []
    problems: list[str] = []
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
    return CheckedFacts(tuple(hold), problems[0] if problems else None)


class CauseJudge:
    """Checks causes against the account of one launch."""

    def __init__(self, each: LaunchExplanation, words: Vocabulary) -> None:
        self._each = each
        self._words = words
        self._model = TimeModel(each.view)

    def cause(self, said: RawCause, text: Prose, facts: CheckedFacts) -> CauseDocument | None:
        """None if it names no known finding."""
        finding = known_finding(said.finding)
        if finding is None:
            return None
        place = self._place(said)
        where = place.where if place else None
        problem = facts.problem
        if problem is None and (absent := check_cause(finding, self._model)):
            problem = absent[0]
        if problem is None and not facts.are_measured and not text.ids:
            problem = "it names no measured fact"
        claim = self._evaluated(said, finding, place) if problem is None else None
        return CauseDocument(
            finding=finding,
            text=text,
            because=facts.hold,
            where=where,
            problem=problem,
            claim=claim,
        )

    def objection(self, said: RawCause, text: Prose, facts: CheckedFacts) -> CauseDocument | None:
        finding = known_finding(said.finding)
        if finding is None:
            return None
        is_bare = not facts.are_measured and not text.ids
        problem = facts.problem or ("it names no measured fact" if is_bare else None)
        return CauseDocument(
            finding=finding, text=text, because=facts.hold, where=None, problem=problem, claim=None
        )

    def _evaluated(self, said: RawCause, finding: str, place: Place | None) -> EvaluatedClaim:
        bare = WorkClaim(finding, "cause", place=place)
        try:
            claims = [self._claim(claim, finding, place) for claim in said.claims] or [bare]
        except ValueProblem as problem:
            reason = Sentence("its amount has no value: {problem}", problem=str(problem))
            return EvaluatedClaim(claim=bare, supported=False, reason=reason)
        return evaluate_claims(claims, self._model, self._each.account)

    def _claim(self, said: RawClaim, finding: str, place: Place | None) -> WorkClaim:
        kind = said.kind.strip().lower()
        if kind not in get_args(ClaimKind):
            return WorkClaim(finding, "cause", place=place)
        needed, removed = self._amount(said.needed), self._amount(said.removed)
        return WorkClaim(
            finding,
            kind,  # type: ignore[arg-type]
            needed=_quantity(needed.value, kind, said.of) if needed else None,
            removed=_share(removed.value) if removed else None,
            of=said.of.strip(),
            place=place,
            is_derived=bool(removed and removed.is_derived),
        )

    def _amount(self, text: str) -> _Amount | None:
        """Raises ValueProblem."""
        plain = text.strip().strip("{}").strip()
        if not plain or plain.lower() in ("null", "none", "unknown"):
            return None
        node = parse(plain)
        result = evaluate(node, self._words.names.lookup)
        if result.is_comparison:
            raise ValueProblem(f"{plain} is a comparison, not an amount")
        return _Amount(result.value, has_influence(node, self._words.names.lookup))

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


class _Amount(NamedTuple):
    value: UnitValue
    is_derived: bool
    """It depends on measured numbers or constants of the source."""


def _share(value: UnitValue) -> float:
    if value.has_dimension:
        raise ValueProblem("`removed` must be a share from 0 to 1")
    return value.number


def _quantity(value: UnitValue, kind: str, of: str) -> Quantity:
    """In the unit of its kind: expressions often lose the unit of counted things."""
    if dict(value.dimensions) == {"byte": 1}:
        return Quantity(value.number, "byte")
    if value.has_dimension or value.is_percent or kind == "bytes":
        raise ValueProblem("`needed` must be an amount of bytes, instructions, blocks or warps")
    if kind == "parallelism":
        return Quantity(value.number, "warp" if "warp" in of else "block")
    return Quantity(value.number, value.counts if value.counts in ("op", "flop") else "inst")


# --- ranking


class RankedLaunch(NamedTuple):
    """A launch with a model's supported causes among its findings."""

    each: LaunchExplanation
    leads: bool
    """Whether the headline is a cause of the model."""


def rank_with_causes(
    each: LaunchExplanation, causes: Sequence[CauseDocument], objections: Sequence[CauseDocument]
) -> RankedLaunch:
    """Ranks by expected gain. A finding that the model objects to with true facts is ranked behind
    the model's own supported causes."""
    claims = [cause.claim for cause in causes if isinstance(cause.claim, EvaluatedClaim)]
    evaluated = [claim for claim in claims if claim.supported]
    diagnosis = _diagnosis(each)
    ranked = _reordered(rank_with_claims(diagnosis, evaluated), causes, objections)
    findings = tuple(_placed(entry, causes, each) for entry in ranked)
    again = second_opinion(each.view.ledger, findings, each.minor, each.account.unknown)
    told = each._replace(findings=findings, second_opinion=again)
    if not ranked or not ranked[0].leads:
        return RankedLaunch(_with_doubted(told, ranked), leads=False)
    first = each.findings[0].id if each.findings and not each.verdict.healthy else None
    leads = findings[0].id != first
    # Also if the model only moved one of keet's findings to the front: it chose the headline.
    by: By = "model, computed by keet" if leads else "keet"
    lines = [[place.where for place in f.places[:1]] for f in (*findings[:1], *each.findings[:1])]
    note = "" if leads or lines[0] == lines[1] else " (line by the model)"
    verdict = verdict_of(diagnosis._replace(findings=findings, healthy=None), note)
    return RankedLaunch(told._replace(verdict=verdict._replace(by=by)), leads)


def _with_doubted(each: LaunchExplanation, ranked: Sequence[RankedCause]) -> LaunchExplanation:
    """At a roofline, the headline mentions a claim that does not lead, if its amount was computed
    and is not a bare share."""
    claim = ranked[0].claim if ranked and ranked[0].origin == "model" else None
    if claim is None or (claim.claim.needed is None and not claim.claim.is_derived):
        return each
    headline = Sentence(
        "{headline} The model claims {cause}, which the report does not confirm.",
        headline=each.verdict.headline,
        cause=cause_and_line(each.findings[0]),
    )
    return each._replace(verdict=each.verdict._replace(headline=headline))


def _placed(
    entry: RankedCause, causes: Sequence[CauseDocument], each: LaunchExplanation
) -> Finding:
    """With the model's source line first: samples only show where warps wait, not why."""
    finding = replace(entry.finding, origin=entry.origin)
    own = (cause for cause in causes if cause.finding == finding.id and not cause.problem)
    claims = (cause.claim for cause in own if isinstance(cause.claim, EvaluatedClaim))
    place = next((evaluated.claim.place for evaluated in claims), None)
    if place is None or (finding.places and finding.places[0].where == place.where):
        return finding
    places = (place, *(known for known in finding.places if known.where != place.where))
    here = each.view.here(findings()[finding.id].memory, places)
    return replace(finding, places=places, here=here)


def _diagnosis(each: LaunchExplanation) -> Diagnosis:
    return Diagnosis(
        each.view,
        TimeModel(each.view),
        each.account,
        each.findings,
        each.all_fixed,
        each.order_reason,
        each.minor,
        each.verdict.healthy,
        each.judged_by,
    )


def _reordered(
    ranked: Sequence[RankedCause],
    causes: Sequence[CauseDocument],
    objections: Sequence[CauseDocument],
) -> list[RankedCause]:
    """Moves findings that the model objects to, with true facts, behind its own claims."""
    # If the model also names the finding as a cause, it objects to its place or remedy only.
    named = {cause.finding for cause in causes}
    disputed = {each.finding for each in objections if not each.problem} - named
    own = [entry for entry in ranked if entry.claim]
    if not own or ranked[0].finding.id not in disputed:
        return list(ranked)
    # At a roofline, a claim without measured support never leads.
    leads = ranked[0].leads or bool(own[0].claim and own[0].claim.is_backed)
    first = own[0]._replace(leads=leads)
    rest = [entry._replace(leads=False) for entry in ranked if entry is not own[0]]
    return [first, *sorted(rest, key=lambda entry: entry.finding.id in disputed)]
