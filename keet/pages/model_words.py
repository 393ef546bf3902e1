"""What a model wrote about a launch: which parts belong where, and keet's words about them. Control
characters are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from keet.evidence import CONTRADICTED, UNCHECKED, Prose, Reference, Sentence, constant, counted
from keet.explanation.explanation_types import LaunchExplanation
from keet.findings import findings
from keet.formatting import capitalized
from keet.pages.blocks import Span, Words, joined, named_once
from keet.safe_text import flat

if TYPE_CHECKING:
    from keet.documents.model_explanation import (
        Authorship,
        CauseDocument,
        EditDocument,
        ModelExplanation,
        UsageDocument,
    )

OWN_WORDS = "The numbers in the model's text come from the report; the words are the model's."
_CHANGED = re.compile(r"(?:@@|[-+])")
_OUTCOMES = {"compiles": "compiles", "fails": "does not compile", "not checked": "was not compiled"}
_SAYS_OUTCOME = re.compile(r"^(?:compiles|does not compile|not compiled|is not valid)\b")
_TINY = 0.0001
"""US dollars: less is not counted."""


# --- texts


def model_words(
    text: Prose, *, with_reasons: bool = False, links: Mapping[str, str] | None = None
) -> Words:
    """Results of arithmetic without their computation. Unchecked sentences are marked, perhaps with
    the reason. `links`: anchors of numbers, by their ids or texts."""
    told: list[Words] = []
    for sentence in text.sentences:
        if not sentence.strip():
            continue
        words = flat(short(sentence)) if links is None else _linked(sentence, links)
        if sentence.problem:
            reason = f" ({reason_text(sentence.problem)})" if with_reasons else ""
            if sentence.fault == "contradicted":  # the mark has the reason
                reason = ""
            words = (Span(flat(sentence.mark), "warn"), " ", words, Span(reason, "muted"))
        told.append(words)
    return joined(told, " ")


def _linked(sentence: Sentence, links: Mapping[str, str]) -> Words:
    words: list[Words] = []
    for part in sentence.parts:
        if isinstance(part, str):
            # Blanks between words and a number stay.
            before, after = (" " * end.isspace() for end in (part[:1], part[-1:]))
            words.append(f"{before}{' '.join(part.split())}{after}")
        else:
            named = (links[each] for each in (part.text, *part.ids) if each in links)
            words.append(Span(flat(part.result or part.text), "cited", next(named, "")))
    return words


def first_sentences(text: Prose, most: int) -> Prose:
    """Whole sentences only."""
    sentences = [sentence for sentence in text.sentences if sentence.strip()]
    return Prose(sentences[:most])


def short(sentence: Sentence) -> Sentence:
    """With results only; `computations` returns how they were computed."""
    return sentence.with_parts(
        part if isinstance(part, str) else part._replace(text=part.result or part.text)
        for part in sentence.parts
    )


def computations(texts: Iterable[Prose]) -> dict[str, Reference]:
    """`DRAM bytes read 537 MB / (N 4,096 × 4 B)` and its result, in the order of the texts."""
    references = (
        ref for text in texts for sentence in text.sentences for ref in sentence.references
    )
    computed: dict[str, Reference] = {}
    for reference in references:
        if reference.result:  # the text is `RESULT (COMPUTATION)`
            how = flat(reference.text.removeprefix(reference.result))
            how = how[1:-1] if how[:1] == "(" and how[-1:] == ")" else how
            computed[how] = reference
    return computed


def computation_lines(text: Prose, printed: set[str]) -> list[str]:
    """`32,768 = DRAM bytes read 537 MB / (N 4,096 × 4 B)`.

    `printed`: computations already printed on the page; they are not repeated.
    """
    new = {how: ref for how, ref in computations([text]).items() if how not in printed}
    printed.update(new)
    return [f"{flat(reference.result)} = {how}" for how, reference in new.items()]


def reason_text(reason: str) -> str:
    """Without the advice to the model, which follows the first semicolon."""
    return flat(reason.partition(";")[0])


def label_of(finding: str) -> str:
    """The label of a finding; its id if keet does not know it."""
    spec = findings().get(finding)
    return spec.label if spec else flat(finding)


def title_of(finding: str) -> str:
    return capitalized(label_of(finding))


# --- causes


def those_about(causes: Iterable[CauseDocument], finding: str) -> list[CauseDocument]:
    return [cause for cause in causes if cause.finding == finding]


def those_beyond(causes: Iterable[CauseDocument], each: LaunchExplanation) -> list[CauseDocument]:
    """Those of findings that are not listed: causes have no forecast, and objections may be to
    consequences of another finding."""
    listed = {finding.id for finding in each.findings}
    return [cause for cause in causes if cause.finding not in listed]


def leading_causes(said: ModelExplanation, each: LaunchExplanation) -> Sequence[CauseDocument]:
    """Causes of the first finding; without findings, the model's first cause."""
    return those_about(said.causes, each.findings[0].id) if each.findings else said.causes[:1]


def standing(cause: CauseDocument, each: LaunchExplanation) -> str:
    """keet's remarks on a cause; empty if it is a finding and nothing contradicts it."""
    return "; ".join(filter(None, (_standing(cause, each), *unused_notes(cause))))


def _standing(cause: CauseDocument, each: LaunchExplanation) -> str:
    if cause.problem:
        return not_confirmed(cause)
    if any(finding.id == cause.finding for finding in each.findings):
        return ""
    if cause.claim and not cause.claim.supported:  # of unused claims, the reasons follow
        return "" if cause.unused_claims else f"not confirmed: {flat(cause.claim.reason)}"
    if any(finding.id == cause.finding for finding in each.minor):
        return "according to keet's account, fixing it alone would gain less than 10 %"
    return "not among keet's findings: no forecast"


def not_confirmed(cause: CauseDocument) -> str:
    """keet's remark on an objection; empty if nothing contradicts it."""
    return f"not confirmed: {flat(cause.problem)}" if cause.problem else ""


def unused_notes(cause: CauseDocument) -> list[str]:
    """Claims that do not count, and why."""
    return [
        f"claim not used: {flat(claim.claim)}: {flat(claim.reason).rstrip('.')}"
        for claim in cause.unused_claims
    ]


def claim_notes(cause: CauseDocument) -> list[str]:
    """What keet computed from an amount that the model claimed."""
    from keet.diagnosis.claim_evaluation import EvaluatedClaim

    claim, notes = cause.claim, list[str]()
    if not isinstance(claim, EvaluatedClaim) or not claim.supported:
        return []
    if claim.least_time:
        notes.append(
            Sentence(
                "with the model's amounts, the rest takes at least {time}", time=claim.least_time
            )
        )
    if claim.next_limiter:
        notes.append(f"after the fix, the kernel is limited by {flat(claim.next_limiter)}")
    return notes


def next_limiter_text(each: LaunchExplanation) -> str:
    """A sentence about the limiter after the fix, if the headline is the model's; empty if it is
    not known."""
    if not (each.model and each.model.leads):
        return ""
    claims = [cause.claim for cause in leading_causes(each.model, each) if cause.claim]
    named = [claim.next_limiter for claim in claims if claim.supported and claim.next_limiter]
    return f"After the fix, the kernel is limited by {flat(named[0])}." if named else ""


# --- edits


def ranked_edits(each: LaunchExplanation) -> list[EditDocument]:
    """Edits whose cause is confirmed, then the others. The one that is printed in full comes first:
    preferably one for the first finding that applies and compiles."""
    edits = list(each.model.edits if each.model else ())
    first = each.findings[0].id if each.findings else None

    def rank(edit: EditDocument) -> tuple[bool, ...]:
        fails = edit.build == "fails"
        return not edit.cause_confirmed, edit.finding != first, not edit.diff, fails

    leading = min(edits, key=rank, default=None)
    others = [edit for edit in edits if edit is not leading]
    others.sort(key=lambda edit: not edit.cause_confirmed)
    return [leading, *others] if leading else []


def leading_edits(each: LaunchExplanation) -> list[EditDocument]:
    """The edit that the first screen prints in full, if the cause of one is confirmed."""
    return [edit for edit in ranked_edits(each)[:1] if edit.cause_confirmed]


def edit_replaces_advice(each: LaunchExplanation, finding: str) -> bool:
    """Whether the printed edit replaces keet's own advice, which may contradict it. For a cause
    that a model claims, that advice is general anyway."""
    claimed = any(listed.id == finding and listed.origin == "model" for listed in each.findings)
    return any(
        edit.finding == finding or (claimed and bool(edit.diff)) for edit in leading_edits(each)
    )


def places_of(edit: EditDocument) -> str:
    """`slow.cu:5, 18-27`: each file is named once."""
    return ", ".join(named_once(map(flat, edit.places)))


def aim_of(edit: EditDocument, each: LaunchExplanation) -> str:
    """The finding that the edit is for, unless it is the first one."""
    first = each.findings[0].id if each.findings else None
    return f"for {label_of(edit.finding)}" if edit.finding and edit.finding != first else ""


def code_lines(code: str) -> list[str]:
    """Without leading and trailing blank lines; the indentation is kept."""
    return code.expandtabs(4).strip("\r\n").splitlines()


def is_diff(code: str) -> bool:
    return any(_CHANGED.match(line) for line in code_lines(code))


def edit_status(edit: EditDocument) -> str:
    """`The patch applies. It compiles: registers 32 → 40.`, or why there is no patch."""
    if not edit.diff:
        return f"A sketch, not a patch: {flat(edit.problem)}" if edit.problem else "Not a patch"
    text, outcome = flat(edit.build_text), _OUTCOMES[edit.build]
    if _SAYS_OUTCOME.search(text):  # most results of the compile step contain the outcome
        outcome = f"was {text}" if text.startswith("not compiled") else text
    elif text:
        outcome = f"{outcome}: {text}"
    left_out = edit.not_in_patch if edit.build != "fails" else None
    aside = f" --patch leaves it out: {flat(left_out)}." if left_out else ""
    return f"The patch applies. It {outcome.rstrip('.')}.{aside}"


# --- the closing lines


def problem_text(problem: str, part: str = "part", *, answered: bool) -> str:
    """`part`: what the model was to write. `answered`: whether it wrote some of it."""
    return f"The model's {part} is {'incomplete' if answered else 'missing'}: {flat(problem)}"


def marked_texts(texts: Iterable[str]) -> Iterator[Sentence]:
    """What the marks in printed texts mean, with how often each is there."""
    printed = "\n".join(texts)
    for mark, words in (
        (UNCHECKED, "keet could not check {number} marked [unchecked]."),
        (CONTRADICTED, "The report contradicts {number} marked [contradicted: …]."),
    ):
        if count := printed.count(mark):
            yield Sentence(words, number=counted(count, "sentence"))


def usage_text(author: Authorship) -> Sentence:
    """`openai:gpt-5: 3 calls (1 more from the cache), 8,214 tokens in, 1,022 out, $0.021, 12 s`"""
    parts = Sentence(", ").join(_used(author.usage))
    return Sentence("{model}: {parts}", model=flat(author.model), parts=parts)


def _used(usage: UsageDocument) -> Iterator[Sentence]:
    """Calls, tokens, price and time."""
    cached = constant(usage.cached, "", "replies from the cache")
    if usage.cached and not usage.calls:
        yield Sentence("no call ({cached} from the cache)", cached=cached)
    else:
        calls, noun = constant(usage.calls, "", "calls"), "call" if usage.calls == 1 else "calls"
        more = Sentence(" ({cached} more from the cache)", cached=cached) if usage.cached else ""
        yield Sentence("{calls} {noun}{more}", calls=calls, noun=noun, more=more)
    if usage.calls or usage.input_tokens or usage.output_tokens:
        into, out = (constant(n, "", "tokens") for n in (usage.input_tokens, usage.output_tokens))
        about, whose = ("about ", " (counted by keet)") if usage.estimated else ("", "")
        yield Sentence("{about}{into} tokens in", about=about, into=into)
        yield Sentence("{out} out{whose}", out=out, whose=whose)
    if isinstance(usage.cost, float | int):
        cost = usage.cost
        form = "${cost:.2f}" if cost >= 1 or not cost else "${cost:.2g}"
        if 0 < cost < _TINY:
            form, cost = "under ${cost:.4f}", _TINY
        yield Sentence(form, cost=constant(cost, "", "US dollars"))
    elif usage.calls:
        yield Sentence("price unknown")
    yield Sentence("{s}", s=constant(round(usage.seconds), "s", "time"))
