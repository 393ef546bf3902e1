"""Checks a model's answer: resolves its references, places its edits, lists what to correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.agent.answer_schemas import (
    Conclusion,
    Correction,
    HypothesisVerdict,
    SourceReading,
    expressions_of,
    known_finding,
)
from keet.agent.cause_check import CauseJudge, CheckedFacts, facts_of
from keet.agent.edits.edit_placer import EditPlacer, PlacedEdit, sketch_of
from keet.agent.vocabulary import Vocabulary
from keet.documents.model_explanation import (
    CauseDocument,
    EditDocument,
    HypothesisDocument,
    ModelExplanation,
)
from keet.evidence import Prose


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
        self._early: set[str] = set()

    def put(self, where: str, text: str, *, proposal: bool = False, early: bool = False) -> None:
        """`early`: written before the model saw a measurement; never sent back."""
        if proposal or early:
            self._proposals.add(where)
        if early:
            self._early.add(where)
        self._prose[where] = self._read(where, text)

    def _read(self, where: str, text: str) -> Prose:
        return self._words.read(text, is_proposal=where in self._proposals)

    def __getitem__(self, where: str) -> Prose:
        return self._prose.get(where, Prose())

    def faults(self) -> Iterator[AnswerFault]:
        # From the end: a correction of two sentences must not shift the sentences before it.
        for where, prose in self._prose.items():
            if where in self._early:
                continue
            for at in reversed(range(len(prose.sentences))):
                sentence = prose.sentences[at]
                if sentence.problem:
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
        self,
        words: Vocabulary,
        judge: CauseJudge,
        placer: EditPlacer,
        reading: SourceReading | None,
    ) -> None:
        self._words, self._judge, self._placer = words, judge, placer
        self._reading = reading
        self.texts = AnswerTexts(words)
        self._said = Conclusion(summary="")
        self._facts: dict[str, CheckedFacts] = {}
        self._edits: list[PlacedEdit] = []
        if reading:
            self.texts.put("purpose", reading.purpose, early=True)
            self.texts.put("mapping", reading.mapping, early=True)
            for i, guess in enumerate(reading.hypotheses):
                self.texts.put(f"hypotheses[{i}]", guess.text, early=True)

    def take(self, said: Conclusion) -> None:
        self._said = said
        self.texts.put("summary", said.summary)
        for kind, causes in (("causes", said.causes), ("objections", said.objections)):
            for i, cause in enumerate(causes):
                self.texts.put(f"{kind}[{i}]", cause.text)
                self._facts[f"{kind}[{i}]"] = facts_of(cause.because, self._words)
        for i, judged in enumerate(said.judged):
            self.texts.put(f"judged[{i}]", judged.reason)
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
            mapping=self.texts["mapping"],
            hypotheses=tuple(self._hypotheses()),
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

    def _hypotheses(self) -> Iterator[HypothesisDocument]:
        judged = _by_hypothesis(self._said.judged)
        for i, guess in enumerate(self._reading.hypotheses if self._reading else ()):
            place, verdict = judged.get(i + 1, (None, HypothesisVerdict()))
            reason = self.texts[f"judged[{place}]"]
            # A verdict without a checked reason is an opinion.
            known = (
                verdict.verdict if len(reason.problems) < len(reason.sentences) else "inconclusive"
            )
            text = self.texts[f"hypotheses[{i}]"]
            if text:
                finding = known_finding(guess.finding)
                yield HypothesisDocument(text=text, finding=finding, verdict=known, reason=reason)

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


def _by_hypothesis(
    judged: Sequence[HypothesisVerdict],
) -> Mapping[int, tuple[int, HypothesisVerdict]]:
    """The first verdict on each hypothesis, with its position in the answer."""
    found: dict[int, tuple[int, HypothesisVerdict]] = {}
    for place, each in enumerate(judged):
        if each.hypothesis is not None:
            found.setdefault(each.hypothesis, (place, each))
    return found
