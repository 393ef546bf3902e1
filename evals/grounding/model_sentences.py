"""Checks which false sentences of a model keet prints: `python -m evals.grounding.model_sentences`.

The sentences are in tests/attacks/false_sentences.toml. The other files there have sentences that
models write when a report contains planted instructions; these count as false, too.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from keet_tools.answers import ToolInput

from keet.agent.vocabulary import Vocabulary, vocabulary
from keet.evidence import Prose, Reference, Sentence
from keet.explanation.analyst import explain
from keet.prose.reading import NOT_MEASURED, Names
from keet.report import read_profile

ROOT = Path(__file__).resolve().parents[2]
ATTACKS = ROOT / "tests" / "attacks"
_PLANTED = ("instructions", "numbers", "outputs", "promises")
_ATTACKED = "kernels_samples/score_tiles/slow.ncu-repz"
"""The report that the scripted models of tests/test_attacks.py are asked about."""


class Verdict(StrEnum):
    REFUSED = "refused"
    """Printed, marked as unchecked."""
    VISIBLE = "visible"
    """Printed with keet's label or expression beside each number: a reader sees the error."""
    WORDS = "words"
    """Printed as the model's own words: it has no number, or only labelled numbers of keet."""
    PASSED = "passed as checked"


class FalseSentence(NamedTuple):
    report: str
    kind: str
    text: str
    in_words: bool
    """The false amount is in the words, not in a reference: printed unchanged, no reader would see
    that it is false."""
    is_proposal: bool = False


class FalseVerdict(NamedTuple):
    sentence: FalseSentence
    verdict: Verdict
    printed: str


class TrueSentence(NamedTuple):
    report: str
    text: str


class TrueVerdict(NamedTuple):
    sentence: TrueSentence
    problem: str | None
    """Why it was refused although it is true; None: it was not refused."""
    printed: str


# --- the sentences


def false_sentences() -> Iterator[FalseSentence]:
    for report in _reports():
        for each in report["false"]:
            yield FalseSentence(
                report["path"],
                each["kind"],
                each["text"],
                each["in"] == "words",
                each.get("proposal", False),
            )


def true_sentences() -> Iterator[TrueSentence]:
    for report in _reports():
        yield from (TrueSentence(report["path"], text) for text in report["true"])


def planted_sentences() -> Iterator[FalseSentence]:
    """Sentences of models that obey planted instructions."""
    for name in _PLANTED:
        for attack in _toml(f"{name}.toml")["attack"]:
            for text in attack.get("says", ()):
                yield FalseSentence(_ATTACKED, f"planted: {name}", text, in_words="{" not in text)


def _reports() -> list[dict]:  # type: ignore[type-arg]
    return _toml("false_sentences.toml")["report"]  # type: ignore[no-any-return]


def _toml(name: str) -> dict:  # type: ignore[type-arg]
    return tomllib.loads((ATTACKS / name).read_text("utf-8"))


# --- verdicts


def judge(sentence: FalseSentence) -> FalseVerdict:
    prose = words_of(sentence.report).read(sentence.text, is_proposal=sentence.is_proposal)
    return FalseVerdict(sentence, _verdict(prose, sentence), str(prose))


def _verdict(prose: Prose, sentence: FalseSentence) -> Verdict:
    if prose.problems:
        return Verdict.REFUSED
    names = words_of(sentence.report).names
    shown = [_is_labelled(each, at, names) for each in prose.sentences for at in _references(each)]
    if not all(shown):
        return Verdict.PASSED
    return Verdict.VISIBLE if shown and not sentence.in_words else Verdict.WORDS


def _references(sentence: Sentence) -> list[int]:
    return [at for at, part in enumerate(sentence.parts) if isinstance(part, Reference)]


def _is_labelled(sentence: Sentence, at: int, names: Names) -> bool:
    """An expression, a literal that is marked as such, or a value with its label beside it."""
    reference = sentence.parts[at]
    assert isinstance(reference, Reference)
    if not re.fullmatch(r"[\w@.:/#+-]+", reference.written) or NOT_MEASURED in reference.text:
        return reference.text != reference.written
    label = names.lookup(reference.written).label.lower()
    before = "".join(map(str, sentence.parts[max(0, at - 1) : at])).lower()
    after = "".join(map(str, sentence.parts[at + 1 : at + 2])).lower()
    return (
        label in f"{before[-len(label) - 20 :]} {reference.text.lower()} {after[: len(label) + 2]}"
    )


def keep(sentence: TrueSentence) -> TrueVerdict:
    prose = words_of(sentence.report).read(sentence.text)
    problems = [each.problem for each in prose.problems]
    return TrueVerdict(sentence, problems[0] if problems else None, str(prose))


@cache
def words_of(report: str) -> Vocabulary:
    profile = read_profile(ROOT / report)
    return vocabulary(ToolInput([explain(profile, profile.launches, 5)]))


# --- the table


def table(judged: Sequence[FalseVerdict]) -> Iterator[str]:
    kinds = list(dict.fromkeys(each.sentence.kind for each in judged))
    yield f"{'kind':<32} {'all':>4} {'refused':>8} {'visible':>8} {'words':>6} {'passed':>7}"
    for kind in (*kinds, "all"):
        counts = Counter(each.verdict for each in judged if kind in (each.sentence.kind, "all"))
        refused, visible, words, passed = (counts[verdict] for verdict in Verdict)
        total = counts.total()
        yield f"{kind:<32} {total:>4} {refused:>8} {visible:>8} {words:>6} {passed:>7}"


def report() -> Iterator[str]:
    judged = [judge(each) for each in [*false_sentences(), *planted_sentences()]]
    kept = [keep(each) for each in true_sentences()]
    refused = [each for each in kept if each.problem]
    yield "False sentences"
    yield from table(judged)
    yield ""
    yield f"True sentences: {len(kept)}, of which refused: {len(refused)}"
    for wrong in judged:
        if wrong.verdict is Verdict.PASSED:
            yield f"passed: {wrong.sentence.text!r} -> {wrong.printed!r}"
    for lost in refused:
        yield f"true but refused: {lost.sentence.text!r}: {lost.problem}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(report()) + "\n")
