"""The casebook: measured pairs of kernels, before and after one or several fixes; and what `keet
finding` says of a finding with them.

Profiles and programs of the cases are in keet's repository; the index ships with keet. `make
casebook-import` writes it from measurements, never by hand, and with it two short files that
explanations read: `precedents` and `case_summaries` of the catalog.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from statistics import median
from typing import Any

from keet.catalog.measured_cases import CASE_SUMMARIES, CaseSummary, Precedents, precedents
from keet.documents.cases import (
    CaseDocument,
    CaseReferenceDocument,
    CaseStepDocument,
    FindingReferenceDocument,
    MovedDocument,
    ParameterDocument,
    RemedyDocument,
    SimilarDocument,
)
from keet.documents.document import LEFT_OUT
from keet.documents.finding import PrecedentsDocument
from keet.evidence import Sentence
from keet.findings import Condition, findings

_INDEX = CASE_SUMMARIES.with_name("cases.json.gz")
_PROFILE = "kernels_samples/casebook/families/{}/profiles/{}.{}.keet.json.zst"
"""In keet's repository: of a family, a problem and a side."""


@cache
def casebook() -> tuple[CaseDocument, ...]:
    index = json.loads(gzip.decompress(_INDEX.read_bytes()))
    return tuple(
        _case(index["usual"] | index["families"][row["family"]] | row, index["diffs"])
        for row in index["cases"]
    )


def _case(row: dict[str, Any], diffs: Mapping[str, str]) -> CaseDocument:
    family, sides = row["family"], (row.pop("before"), row.pop("after"))
    special = {
        "diff": diffs[":".join((family, *sides))],
        "moved": MovedDocument(**row["moved"]),
        "steps": [CaseStepDocument(**step) for step in row["steps"]] or LEFT_OUT,
        "profiles": tuple(_PROFILE.format(family, row["problem"], side) for side in sides),
        "counters": {name: (pair[0], pair[1]) for name, pair in row["counters"].items()},
    }
    return CaseDocument(**row | special)


def cases_named(name: str) -> list[CaseDocument]:
    """By the full id, or by the part after the family, which several may have."""
    return [case for case in casebook() if name in (case.id, case.id.partition("/")[2])]


def chosen_cases(
    finding: str | None, archetype: str | None, family: str | None = None, *, lookalikes: bool
) -> list[CaseDocument]:
    """Grouped by finding, the largest gain of that cause first. `lookalikes`: only those."""
    chosen = [
        case
        for case in casebook()
        if finding in (None, case.finding)
        and archetype in (None, case.archetype)
        and family in (None, case.family)
        and (case.lookalike or not lookalikes)
    ]
    return sorted(chosen, key=lambda case: (case.finding, case.lookalike, -case.gain))


# --- the short files


def precedents_text(cases: Iterable[CaseDocument]) -> str:
    """The file of precedents."""
    gains: dict[str, list[float]] = defaultdict(list)
    lookalikes: dict[str, int] = defaultdict(int)
    for case in cases:
        if case.lookalike:
            lookalikes[case.finding] += 1
        else:
            gains[case.finding].append(case.gain)
    rows = (
        f" {json.dumps(finding)}: {json.dumps(_row(gains[finding], lookalikes[finding]))}"
        for finding in sorted(gains)
    )
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _row(gains: list[float], lookalikes: int) -> dict[str, float]:
    summed_up = Precedents(len(gains), min(gains), median(gains), max(gains), lookalikes)
    return {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in summed_up._asdict().items()
    }


def summaries_text(cases: Iterable[CaseDocument]) -> str:
    """The file of summaries, one case per line."""
    gained = (_summary(case) for case in cases if not case.lookalike)
    rows = ",\n".join(f" {json.dumps(summary, ensure_ascii=False)}" for summary in gained)
    return f"[\n{rows}\n]\n"


def _summary(case: CaseDocument) -> CaseSummary:
    return CaseSummary(
        case.id,
        case.finding,
        case.archetype,
        case.language,
        round(case.gain, 2),
        tuple(dict.fromkeys((case.kernel, case.kernel_after))),
        telling_lines(case.diff),
    )


# --- the lines of a diff that tell most

_LONGEST = 110
"""Characters of a line."""
_SIMILAR = 0.5
"""Share of common words from which a line is the edited form of another."""
_SAYS_NOTHING = re.compile(
    r"__global__|__device__|<<<|^(?:template|static|inline|extern|void|using|#include|//|@|def )"
    r"|^else\b|^[\s{}();,]*$|^\w+\s+\w+\s*\(|__restrict__|^[\w:*&<>, ]+\)\s*\{$"
)
"""Heads of functions, calls of kernels, braces and comments: names differ there, not the code."""
_WORD = re.compile(r"\w+|[^\s\w]")
_TYPE = re.compile(r"(?:float|double|half|int|unsigned|char|short|long|__\w+|\d).*")


def telling_lines(diff: str) -> tuple[str, ...]:
    """The edited line that keeps most of its words, before and after, and the longest new line;
    without an edited line, the longest removed one and two new ones."""
    removed, added = (list(_changed(diff, sign)) for sign in "-+")
    if not removed and not added:  # only the call or its template arguments differ
        removed, added = (list(_changed(diff, sign, every=True)) for sign in "-+")
    added = [line for line in added if not any(_is_renamed(old, line) for old in removed)]
    pairs = [(_likeness(one, other), one, other) for one in removed for other in added]
    likeness, old, new = max(pairs, default=(0.0, "", ""))
    if likeness < _SIMILAR:
        return (*_marked("-", _longest(removed, 1)), *_marked("+", _longest(added, 2)))
    others = [line for line in added if all(_likeness(x, line) < _SIMILAR for x in removed)]
    return (*_marked("-", [old]), *_marked("+", [new, *_longest(others, 1)]))


def _changed(diff: str, sign: str, *, every: bool = False) -> Iterator[str]:
    """Lines with this sign that the other side does not have. `every`: also heads and calls."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    kept = {line[1:].strip() for line in lines if line[:1] != sign}
    for line in lines:
        text = line[1:].strip()
        if line[:1] == sign and text not in kept and (every or not _SAYS_NOTHING.search(text)):
            yield text


def _likeness(one: str, other: str) -> float:
    """Share of common words."""
    words, others = ({*_WORD.findall(line)} for line in (one, other))
    return len(words & others) / len(words | others)


def _is_renamed(one: str, other: str) -> bool:
    """Whether only one name differs, and it is not a type or a number."""
    words, others = _WORD.findall(one), _WORD.findall(other)
    differ = {pair for pair in zip(words, others) if pair[0] != pair[1]}
    is_same = len(words) == len(others) and len(differ) <= 1
    return is_same and not any(_TYPE.fullmatch(word) for pair in differ for word in pair)


def _longest(lines: Sequence[str], most: int) -> list[str]:
    """In their order. Lines that do not fit are the last choice."""
    ranked = sorted(lines, key=lambda line: (len(line) > _LONGEST, -len(line)))[:most]
    return [line for line in lines if line in ranked][:most]


def _marked(sign: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{sign} {line if len(line) <= _LONGEST else line[: _LONGEST - 1] + '…'}"


_EXAMPLES = 3


def finding_reference(finding: str) -> FindingReferenceDocument:
    """`finding`: its id. Cases are only from work families: developers of keet must not see the
    locked ones."""
    spec = findings()[finding]
    own = [case for case in casebook() if case.finding == finding and case.split == "work"]
    own.sort(key=lambda case: case.gain, reverse=True)
    measured = precedents().get(finding)
    return FindingReferenceDocument(
        id=spec.id,
        label=spec.label,
        family=spec.family,
        meaning=spec.meaning,
        judged=spec.how,
        checks=[f"keet/findings/{spec.id}.py"] if spec.family != "healthy" else [],
        rules=list(spec.rules),
        parameters=[
            ParameterDocument(
                name=each.name, value=float(each), meaning=each.meaning, source=each.source
            )
            for each in spec.parameters
        ],
        similar=[
            SimilarDocument(id=other, label=findings()[other].label, difference=text)
            for other, text in spec.unlike.items()
        ],
        remedies=[
            RemedyDocument(
                name=condition.name,
                condition=_condition_text(condition),
                needs=[fact.id for fact in condition.needs],
                excludes=[fact.id for fact in condition.excludes],
                text=_without_values(text, library="the library"),
            )
            for condition, text in spec.remedies.items()
        ],
        precedents=PrecedentsDocument.taken_from(measured) if measured else None,
        best_cases=_examples(case for case in own if not case.lookalike),
        lookalike_cases=_examples(case for case in own if case.lookalike),
    )


def _condition_text(condition: Condition) -> Sentence:
    """The condition of a remedy, in the words of its facts."""
    holds = "; ".join(fact.words for fact in condition.needs)
    fails = [fact.negated or f"not: {fact.words}" for fact in condition.excludes]
    parts = [part for part in (holds, *fails) if part]
    return _without_values(", and ".join(parts) or "otherwise", library="a library")


def _without_values(text: str, library: str) -> Sentence:
    """The text without the values that a report fills in."""
    return Sentence(text, here="", library=library)


def _examples(cases: Iterable[CaseDocument]) -> list[CaseReferenceDocument]:
    first = list(cases)[:_EXAMPLES]
    return [CaseReferenceDocument(id=case.id, fix=case.fix, speedup=case.gain) for case in first]
