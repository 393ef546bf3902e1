"""Checks that the longest kernel of every report gets an answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

from evals.analyst.first_answer import FirstAnswer, first_answer
from evals.analyst.perturbed import is_measured
from evals.analyst.report_sets import (
    ReportSet,
    Source,
    by_group,
    over,
    profile_of,
    report_set,
    subjects_in,
)
from evals.pages import Heading, Part, Points, Prose, Table
from keet.diagnosis.diagnosis import diagnose
from keet.explanation.analyst import explain
from keet.findings import findings
from keet.profile import Launch

ANSWERED = 0.9
"""Required share of the readable reports."""


_LEFT = re.compile(r"\b(left|only|at most)\b", re.IGNORECASE)


class Answered(NamedTuple):
    """The longest kernel of one report, and keet's answer."""

    group: str
    report: str
    kernel: str
    kind: ReportSet
    answer: FirstAnswer
    headline: str
    limiter: str
    raised: tuple[str, ...]
    """Findings on any kernel of the report."""

    @property
    def means(self) -> str:
        """`limit`: no cause is likely to gain 10 %, and the headline says which unit limits the
        launch and what is left to gain, or what would help. A ceiling alone is not an answer
        either."""
        is_limit = self.limiter not in ("latency", "unknown")
        if self.answer.kind == "ceiling" or (self.answer.kind == "nothing" and is_limit):
            said = "limit" if self.answer.kind == "nothing" else self.answer.kind
            return said if _LEFT.search(self.headline) else "nothing"
        return self.answer.kind

    @property
    def is_answered(self) -> bool:
        return self.means != "nothing"


class Unread(NamedTuple):
    """A file without an answer to score. It is not counted."""

    group: str
    report: str
    why: str


def coverage(sources: Sequence[Source], processes: int = 1) -> list[Answered | Unread]:
    return over(sources, of_source, processes)


def of_source(source: Source) -> Answered | Unread:
    profile = profile_of(source)
    if profile is None:
        return Unread(source.group, source.name, "keet does not read it, or it holds no launch")
    longest = subjects_in(profile, source)
    if not has_measurements(longest[0].launch):
        return Unread(source.group, source.name, "nothing was measured of its longest kernel")
    said = [diagnose(each.launch, each.beside) for each in longest]
    launch = longest[0].launch
    verdict = explain(profile, [launch], top=1).launches[0].verdict
    return Answered(
        source.group,
        source.name,
        launch.kernel,
        report_set(launch),
        first_answer(said[0]),
        verdict.headline,
        verdict.limiter or "unknown",
        tuple(dict.fromkeys(finding.id for each in said for finding in each.findings)),
    )


def has_measurements(launch: Launch) -> bool:
    """False for a launch that failed, or whose counters could not be collected."""
    found = (launch.metric(name) for name in launch.metric_names() if is_measured(name))
    return any(metric is not None and metric.quantity is not None for metric in found)


# --- the page


_NOTE = """\
The longest kernel of a report is the one with the largest sum of times, judged by its longest
launch. It is answered if it has a finding, or if a unit limits it (a ceiling is at least 80 % of
what the unit can do, a limit 70 %) and the headline says what is left or that only less work helps.
It is answered, too, if its code is a debug build: keet then asks for a profile of an optimised
build, and names only a cause that any build has. The code shows it: many of its instructions are
moves, or it has tables for a debugger. This page does not say whether the answer is right."""


def page_parts(rows: Sequence[Answered | Unread]) -> list[Part]:
    read = [row for row in rows if isinstance(row, Answered)]
    return [
        Prose(_summary(rows, read)),
        Table(list(_sums(read))),
        Prose(_NOTE),
        *(part for kind, title in _LISTED.items() for part in _listed(title, kind, read)),
        Heading("How often each finding is raised"),
        Table(_raised(read)),
        Heading("Not counted"),
        Points([f"{row.report}: {row.why}" for row in rows if isinstance(row, Unread)]),
    ]


def share(read: Sequence[Answered]) -> float:
    return sum(row.is_answered for row in read) / (len(read) or 1)


def _summary(rows: Sequence[Answered | Unread], read: Sequence[Answered]) -> str:
    reached = share(read)
    return (
        f"The longest kernel has an answer in {sum(row.is_answered for row in read)} of "
        f"{len(read)} readable reports, {reached:.0%} "
        f"({'met' if reached >= ANSWERED else 'NOT met'}: at least {ANSWERED:.0%}). "
        f"{len(rows) - len(read)} files are not counted: see the end."
    )


_KINDS = ("finding", "ceiling", "limit", "debug build", "nothing")
_LISTED = {
    "nothing": "Without an answer",
    "ceiling": "Answered by a ceiling",
    "limit": "Answered by the unit that limits it",
    "debug build": "Answered by asking for an optimised build",
    "finding": "Answered by a finding",
}


def _sums(read: Sequence[Answered]) -> Iterator[tuple[str, ...]]:
    yield "reports of", "reports", *_KINDS
    groups = by_group(read)
    every = groups.pop("all")
    sets = {f"{kind} set": [r for r in read if r.kind == kind] for kind in get_args(ReportSet)}
    for name, rows in {**groups, **sets, "all": every}.items():
        counts = Counter(row.means for row in rows)
        yield name, str(len(rows)), *(str(counts[kind]) for kind in _KINDS)


def _listed(title: str, kind: str, read: Sequence[Answered]) -> Iterator[Part]:
    yield Heading(title)
    rows = [("report", "kernel", "set", "first answer", "headline")]
    rows += [
        (row.report, row.kernel, row.kind, str(row.answer), row.headline)
        for row in read
        if row.means == kind
    ]
    yield Table(rows)


def _raised(read: Sequence[Answered]) -> list[tuple[str, ...]]:
    """Every id of the catalog; one that is never raised has a row of zeros."""
    first = Counter(row.answer.id for row in read)
    anywhere = Counter(id_ for row in read for id_ in row.raised)
    ids = sorted(findings(), key=lambda id_: (-first[id_], -anywhere[id_], id_))
    head = ("finding", "first answer of reports", "raised on any kernel of reports")
    raised = {id_: "-" if id_.startswith("at_") else str(anywhere[id_]) for id_ in ids}
    return [head, *((id_, str(first[id_]), raised[id_]) for id_ in ids)]
