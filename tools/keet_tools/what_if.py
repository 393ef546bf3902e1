"""The tool `what_if`: what a launch would gain if claims about its work were true.

A claim is as in an answer of keet's agent: a finding, the kind of work, and how much of it is
needed or goes, as an expression over names of evidence, numbers, and constants of the caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from keet.analysis.time_model import TimeModel
from keet.diagnosis.claim import WorkClaim, read_claim
from keet.diagnosis.claim_evaluation import EvaluatedClaim, evaluate_claims, unused_document
from keet.evidence import Evidence, Sentence, constant
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.gain_texts import forecast_evidence, range_text
from keet.findings import findings
from keet.prose.reading import Names
from keet_tools.answers import Abstention
from keet_tools.arguments import WhatIfArguments
from keet_tools.calls import ToolCall, ToolReply
from keet_tools.reports import Reports, about_launch, main_launch
from keet_tools.results import WhatIfFinding, WhatIfToolResult

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
