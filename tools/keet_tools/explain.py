"""The tools `explain`, `context`, `diff`, `verify` and `what_if`: what limits kernels, what changed
between two reports, whether a text is right, and what a launch would gain if claims were true.

A claim is as in an answer of keet's agent: a finding, the kind of work, and how much of it is
needed or goes, as an expression over names of evidence, numbers, and constants of the caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from keet.analysis.time_model import TimeModel
from keet.diagnosis.claim import WorkClaim, read_claim
from keet.diagnosis.claim_evaluation import EvaluatedClaim, evaluate_claims, unused_document
from keet.documents.document import numbers_in
from keet.documents.explain import GroundingDocument
from keet.documents.shared_types import DeviceDocument
from keet.errors import UsageError, one_line
from keet.evidence import Evidence, Sentence, constant, finite
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.finding_notes import forecast_evidence, range_text
from keet.findings import findings
from keet.prose.reading import Names
from keet_tools.answers import Abstention
from keet_tools.calls import (
    ReadReport,
    Reports,
    ToolCall,
    ToolReply,
    about_launch,
    main_launch,
    page_of,
    paged_reply,
)
from keet_tools.results import (
    CodeLine,
    ContextArguments,
    ContextToolResult,
    DiffArguments,
    DiffToolResult,
    ExplainArguments,
    ExplainedLaunchEntry,
    ExplainToolResult,
    NotChecked,
    PairResult,
    ProgramLine,
    ProgramSummary,
    TimeRow,
    VerifyArguments,
    VerifyToolResult,
    WhatIfArguments,
    WhatIfFinding,
    WhatIfToolResult,
)

if TYPE_CHECKING:
    from keet.explanation.explanation_types import Explanation
    from keet.verification.verdicts import CheckedSentence


_PER_PAGE = 20
"""Launches."""
_ROWS = 8
"""Kernels listed in the program table, as in `keet explain`."""
_UNITS = 4
"""Hardware units per launch."""
_ESCAPED = 0.88
"""Length of a text / its length as JSON, at least."""


def explain(reports: Reports, asked: ExplainArguments, call: ToolCall) -> ToolReply:
    from keet.explanation.program import program_of
    from keet.pages.explain import explain_part, plans_of
    from keet.pages.program import shown_launches

    with reports.reading(asked.report, call, source=asked.source) as report:
        launches = report.chosen(asked.launch, asked.kernel)
        explanation = report.explained(launches, asked.top, call)
        call.begin("writing the result")
        program = program_of(explanation)
        everything = asked.launch is not None or asked.kernel is not None
        shown = shown_launches(explanation, program, everything=everything)
        rest = shown[asked.offset :]
        page = page_of(map(_entry, rest), len(shown), asked.offset, _PER_PAGE)

        def text_of(count: int) -> str:
            """In as much detail as there is room for."""
            here = rest[:count]
            text = ""
            for plan in plans_of(len(here)):
                make = partial(explain_part, explanation, here, plan, is_first=not asked.offset)
                text = call.page(make, "markdown")
                if len(text) <= call.most * _ESCAPED:
                    break
            return text

        summary = None
        if program and not asked.offset:
            rows = [ProgramLine.taken_from(row) for row in program.rows[:_ROWS]]
            summary = ProgramSummary.taken_from(program, rows=rows)
        hidden = _hidden(len(explanation.asked) - len(shown))
        return paged_reply(
            call,
            ExplainToolResult,
            page,
            "launch",
            text_of,
            notes=[*_notes(explanation), *hidden],
            end=hidden,
            report=report.name,
            device=DeviceDocument.taken_from(shown[0].launch.device),
            program=summary,
            grounding=lambda page: GroundingDocument.of(numbers_in(rest[: len(page.entries)])),
        )


def _notes(explanation: Explanation) -> Iterator[str]:
    from keet.analysis.coverage import profile_notes, report_cautions
    from keet.explanation.capture_hints import caution_about

    yield from report_cautions(explanation.profile)
    yield from profile_notes(explanation.profile)
    hints = explanation.capture_hints
    yield from map(" ".join, hints.commands)
    yield from filter(None, [caution_about(hints.command)])


def _hidden(rest: int) -> list[str]:
    if rest <= 0:
        return []
    text = "{rest} launch takes little time or repeats another: not listed; name it with launch."
    if rest > 1:
        text = (
            "{rest} launches take little time or repeat others: not listed; name one with launch, "
            "or several with kernel."
        )
    return [Sentence(text, rest=constant(rest, "", "launches"))]


def _entry(each: LaunchExplanation) -> ExplainedLaunchEntry:
    """A part of the launch in `keet explain --format json`."""
    from keet.explanation.account_texts import account_rows

    verdict, units = each.verdict, each.ceilings[:_UNITS]
    cited = [unit.evidence for unit in units]
    cited += [piece for finding in each.findings for piece in finding.evidence]
    return ExplainedLaunchEntry.taken_from(
        each,
        headline=verdict.headline,
        limiter=verdict.limiter,
        reached_pct=verdict.reached_pct,
        evidence={piece.id: piece for piece in cited},
        units=list(units),
        time=[
            TimeRow(part=row.label, share=row.share.value / 100, us=finite(row.us), depth=0)
            for row in account_rows(each.view, each.account)
        ],
        code=list(_code(each)),
        looks_good=[note.text for note in each.healthy],
        remarks=[
            *(note.text for note in each.notes),
            *filter(None, [each.second_opinion, each.replay and each.replay.text]),
        ],
        not_checked=list(map(NotChecked.taken_from, each.skipped)),
    )


def _code(each: LaunchExplanation) -> Iterator[CodeLine]:
    from keet.analysis.hotspots.source_lines import source_lines

    lines = source_lines(each.launch)
    places = ((place.file, place.line) for finding in each.findings for place in finding.locations)
    for file, number in dict.fromkeys(places):
        text = lines.get(file, ())
        if 0 < number <= len(text):
            yield CodeLine(file=file, line=number, text=text[number - 1].strip())


_CAUSES = 5
"""Findings that `keet context` has room for."""


def context(reports: Reports, asked: ContextArguments, call: ToolCall) -> ToolReply:
    from keet.explanation.capture_hints import caution_about
    from keet.pages.context import context_text

    with reports.reading(asked.report, call, source=asked.source) as report:
        launches = report.chosen(asked.launch, asked.kernel)
        launch = main_launch(report, launches)
        explanation = report.explained([launch], _CAUSES, call)
        text = context_text(explanation, asked.max_tokens, of=len(launches))
        command = explanation.capture_hints.command
        caution = caution_about(command) if one_line(command or "") in text else None
        result = ContextToolResult(
            **about_launch(report, launch),
            chosen_from=len(launches),
            context=text,
            notes=[caution] if caution else [],
        )
        return ToolReply(result, text)


_PAIRS = 10
"""Pairs of kernels per page."""
_IN_FULL = 5
"""Kernels that the text describes in full, as `keet diff` does."""


def diff(reports: Reports, asked: DiffArguments, call: ToolCall) -> ToolReply:
    from keet.pages.diff import diff_page

    if (asked.before_launch is None) != (asked.after_launch is None):
        raise UsageError("name a launch of both reports: before_launch and after_launch")
    with reports.reading_two(asked.before, asked.after, call) as (before, after):
        call.begin("comparing")
        difference = reports.difference_of((before, after), asked, call)
        call.begin("writing the result")
        rest = difference.pairs[asked.offset :]
        entries = map(PairResult.taken_from, rest)
        page = page_of(entries, len(difference.pairs), asked.offset, _PAIRS)

        def text_of(count: int) -> str:
            shown = rest[:count]
            make = partial(diff_page, difference, top=_IN_FULL, shown=shown)
            return call.page(make, "markdown")

        return paged_reply(
            call,
            DiffToolResult,
            page,
            "kernel",
            text_of,
            before=before.name,
            after=after.name,
            verdict=difference.verdict,
            comparability=difference.comparability,
            next=difference.next,
            evidence=lambda page: {
                piece.id: piece
                for pair in rest[: len(page.entries)]
                for each in pair.attribution
                for piece in each.evidence
            },
            grounding=difference.grounding,
        )


_CHECKS = 50
"""Checks per page."""
_WORST_FIRST = ("contradicted", "not_found", "confirmed")
_LONGEST_SENTENCE = 800
"""Characters; a longer sentence is cropped around the numbers on the page."""
_MOST_CHECKS = 20
"""In one sentence; one with more is cropped as well."""
_AROUND = 100
"""Characters that a cropped sentence keeps before and after the numbers."""
_ADVICE = {
    "contradicted": "wrong: correct the text; metrics has the values",
    "not_found": "?: name the metric and the launch next to the number; list_reports with this "
    "report says what was not collected",
}


def verify(reports: Reports, asked: VerifyArguments, call: ToolCall) -> ToolReply:
    if asked.before is None:
        with reports.reading(asked.report, call) as report:
            return _verified([report], asked, call)
    with reports.reading_two(asked.before, asked.report, call) as both:
        return _verified(both, asked, call)


def _verified(opened: Sequence[ReadReport], asked: VerifyArguments, call: ToolCall) -> ToolReply:
    from keet.pages.verify import verify_page
    from keet.verification.verify import verify_against

    call.begin("checking the text")
    profiles = [report.profile for report in opened]
    verified = verify_against(
        profiles,
        asked.text,
        [n for each in opened for n in each.chosen(asked.launch, asked.kernel)],
        on_launch=call.steps("explaining launch"),
        before_sentence=call.check,
    )

    def rank(checked: CheckedSentence) -> tuple[int, int]:
        """Sentences with something wrong first."""
        worst = min(map(_WORST_FIRST.index, checked.verdicts), default=len(_WORST_FIRST))
        return worst, checked.sentence.start

    # All checks of a sentence are on one page.
    checks = [
        (check, sentence)
        for sentence in sorted(verified.sentences, key=rank)
        for check in sorted(
            sentence.all, key=lambda each: (_WORST_FIRST.index(each.verdict), each.start)
        )
    ]
    entries = (  # with the same part of its sentence as the text has
        {**check.to_dict(), "sentence": _cropped(sentence, {check.start}).sentence.text}
        for check, sentence in checks[asked.offset :]
    )
    page = page_of(entries, len(checks), asked.offset, _CHECKS)

    def text_of(count: int) -> str:
        on_page: dict[CheckedSentence, set[int]] = {}
        for check, sentence in checks[asked.offset : asked.offset + count]:
            on_page.setdefault(sentence, set()).add(check.start)
        here = [_cropped(sentence, starts) for sentence, starts in on_page.items()]
        return call.page(lambda _: verify_page(verified, shown=here, advice=_ADVICE))

    return paged_reply(
        call,
        VerifyToolResult,
        page,
        "check",
        text_of,
        report=opened[-1].name,
        before=opened[0].name if len(opened) > 1 else None,
        summary=verified.summary,
        wrong=verified.is_wrong,
    )


def _cropped(checked: CheckedSentence, starts: set[int]) -> CheckedSentence:
    """A sentence that is too long for a page is cropped to the part with these checks."""
    sentence = checked.sentence
    if len(sentence.text) <= _LONGEST_SENTENCE and len(checked.verdicts) <= _MOST_CHECKS:
        return checked
    checks = tuple(check for check in checked.checks if check.start in starts)
    relations = tuple(relation for relation in checked.relations if relation.start in starts)
    first = max(min(starts) - sentence.start - _AROUND, 0)
    last = max(each.end for each in checked.all if each.start in starts)
    part = sentence.text[first : last - sentence.start + _AROUND]
    cropped = sentence._replace(text=part, start=sentence.start + first)
    return checked._replace(sentence=cropped, checks=checks, relations=relations)


_FIELDS = ("finding", "kind", "of", "needed", "removed")
_MOST_CLAIMS = 12


def what_if(reports: Reports, asked: WhatIfArguments, call: ToolCall) -> ToolReply:
    with reports.reading(asked.report, call) as report:
        launch = main_launch(report, report.chosen(asked.launch, asked.kernel))
        (each,) = report.explained([launch], 5, call).launches
        known = call.names.known.values() if call.names else ()
        names = names_of([*known, *each.view.ledger], each, _numbers(asked.constants))
        claimed = claimed_findings(each, _listed(asked.claims), names)
        result = WhatIfToolResult(**about_launch(report, launch), findings=claimed)
        lines = (call.words(line) for finding in claimed for line in finding.text)
        return ToolReply(result, "\n".join(lines))


def names_of(
    evidence: Iterable[Evidence], each: LaunchExplanation, constants: Mapping[str, float]
) -> Names:
    """What expressions may use: evidence by id, that of the launch also without the launch's
    number, and constants."""
    ledger = each.view.ledger
    named = {piece.id: piece for piece in evidence} | {piece.slug: piece for piece in ledger}
    values = {name: constant(value, "", f"`{name}`") for name, value in constants.items()}

    def find(name: str) -> Evidence | None:
        slug, _, scope = name.partition("#")
        return ledger.look_up(slug) if scope in ("", ledger.scope) else None

    return Names(named.items(), values, find=find)


def claimed_findings(
    each: LaunchExplanation, claims: Sequence[Mapping[str, Any]], names: Names
) -> list[WhatIfFinding]:
    """In the order in which they were claimed; claims of one finding count together. Raises
    Abstention for one without a known finding."""
    read = [_read(claim, names) for claim in claims[:_MOST_CLAIMS]]
    order = {claim.finding: place for place, claim in reversed([*enumerate(read)])}
    read.sort(key=lambda claim: order[claim.finding])
    model, results = TimeModel(each.view), list[WhatIfFinding]()
    for finding, some in groupby(read, key=lambda claim: claim.finding):
        group = [*some]
        result = evaluate_claims(group, model, each.account)
        text = tuple(_lines(each, group, result))
        pieces = {piece.id: piece for line in text for piece in line.evidence.values()}
        results.append(
            WhatIfFinding(
                finding=finding,
                claims=tuple(claim.written for claim in group),
                result=result,
                unused_claims=tuple(map(unused_document, result.unused)),
                text=text,
                evidence=tuple(pieces.values()),
            )
        )
    return results


def _read(claim: Mapping[str, Any], names: Names) -> WorkClaim:
    finding, kind, of, needed, removed = (str(claim.get(part) or "") for part in _FIELDS)
    if finding not in findings():
        kinds = {name: spec.claims for name, spec in findings().items() if spec.claims}
        fitting = [name for name, own in kinds.items() if kind in own] or [*kinds]
        raise Abstention(f"a claim needs a `finding`: {', '.join(fitting)}")
    return read_claim(finding, kind or "cause", of, needed, removed, names)


def _lines(
    each: LaunchExplanation, claims: Sequence[WorkClaim], result: EvaluatedClaim
) -> Iterator[Sentence]:
    ledger, label = each.view.ledger, findings()[result.claim.finding].label
    if len(result.unused) < len(claims):
        word = "supported" if result.supported else "not supported"
        text = "{label}: {word}. {reason}"
        yield Sentence(text, label=label, word=word, reason=result.reason)
    for unused in result.unused:
        said, why = unused.claim.written, unused.reason
        yield Sentence("{name}: claim not used: {said}: {why}", name=label, said=said, why=why)
    alone = Sentence("no estimate")
    if result.keet_alone is not None:
        gains = forecast_evidence(result.claim.finding, result.keet_alone, label, ledger)
        alone = range_text(result.claim.finding, *gains)
    if result.forecast is None:
        yield Sentence("keet alone: {alone}.", alone=alone)
        return
    name, what = f"{result.claim.finding}.claimed", f"{label}, with the claimed amounts"
    gains = forecast_evidence(name, result.forecast, what, ledger)
    claimed = range_text(result.claim.finding, *gains)
    whose = "with the claimed amounts" if result.amounts_by == "model" else "by keet's amounts"
    yield Sentence("{claimed} {whose}; keet alone: {own}.", claimed=claimed, whose=whose, own=alone)
    if result.least_time is not None:
        yield Sentence("The remaining work needs at least {time}.", time=result.least_time)
    if result.next_limiter:
        yield Sentence("Then it is limited by {next}.", next=result.next_limiter)


# --- what a model writes


def _listed(claims: str) -> list[Mapping[str, Any]]:
    try:
        read = json.loads(claims)
    except (ValueError, RecursionError):
        read = None
    listed = [read] if isinstance(read, dict) else read
    if not isinstance(listed, list) or not all(isinstance(claim, dict) for claim in listed):
        raise Abstention("`claims` has to be a JSON list of objects")
    if not listed:
        raise Abstention("there is no claim")
    return listed


def _numbers(constants: str) -> dict[str, float]:
    """`N=4096, TILE=32`."""
    pairs = (part.partition("=") for part in constants.split(",") if part.strip())
    try:
        return {name.strip(): float(value) for name, _, value in pairs}
    except ValueError:
        raise Abstention("`constants` are written as `N=4096, TILE=32`") from None
