"""Compares keet's first finding with diagnoses that people wrote after reading public reports."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from evals.analyst.first_answer import FirstAnswer, first_answer
from evals.analyst.report_sets import Source, kernels_by_time, profile_of
from evals.pages import Heading, Part, Prose, Table
from evals.public_reports import MANUALLY_READ
from keet.diagnosis.diagnosis import diagnose
from keet.profile import Profile

EXPECTED = Path(__file__).with_suffix(".toml")
LEAST_AGREE = 11

Verdict = Literal["agrees", "partly", "differs"]
"""`partly`: the finding agrees, but its text lacks what the notes say."""


class Expected(NamedTuple):
    """What limits a launch according to notes.md."""

    file: str
    launch: int | None
    """None: the longest launch of the kernel with the largest sum of times."""
    agrees: tuple[str, ...]
    words: str | None
    reason: str
    counts: bool = True
    """False for further launches of a report."""


class Compared(NamedTuple):
    expected: Expected
    kernel: str
    answer: FirstAnswer
    verdict: Verdict
    others: tuple[str, ...]
    """Findings after the first."""


def expected_answers() -> list[Expected]:
    rows: list[Expected] = []
    for report in tomllib.loads(EXPECTED.read_text(encoding="utf-8"))["report"]:
        rows.append(_expected(report["file"], report))
        for further in report.get("further", ()):
            rows.append(_expected(report["file"], further)._replace(counts=False))
    return rows


def _expected(file: str, row: dict[str, Any]) -> Expected:
    ids = tuple(row["agrees"])
    return Expected(file, row.get("launch"), ids, row.get("words"), row["reason"])


def compare_all(answers: Sequence[Expected], folder: Path = MANUALLY_READ) -> list[Compared]:
    """Missing reports are left out."""
    compared = []
    for expected in answers:
        path = folder / expected.file
        profile = profile_of(Source(folder.name, path.name, path)) if path.exists() else None
        if profile is not None:
            compared.append(compare(expected, profile))
    return compared


def compare(expected: Expected, profile: Profile) -> Compared:
    launches = profile.launches
    launch = kernels_by_time(launches)[0]
    if expected.launch is not None:
        launch = launches[expected.launch]
    said = diagnose(launch, [one for one in launches if one is not launch])
    answer = first_answer(said)
    words = f"{said.findings[0].text} {said.findings[0].action}" if said.findings else ""
    others = tuple(finding.id for finding in said.findings[1:])
    return Compared(expected, launch.kernel, answer, verdict_on(expected, answer, words), others)


def verdict_on(expected: Expected, answer: FirstAnswer, words: str) -> Verdict:
    if answer.id not in expected.agrees:
        return "differs"
    if expected.words and not re.search(expected.words, words, re.IGNORECASE):
        return "partly"
    return "agrees"


# --- the page


_HEAD = ("report", "launch", "notes", "keet's first answer", "verdict", "other findings", "reason")


def page_parts(rows: Sequence[Compared]) -> list[Part]:
    counted = [row for row in rows if row.expected.counts]
    return [
        Prose(_summary(counted)),
        Table([_HEAD, *map(_cells, counted)]),
        Heading("Further launches that the notes name"),
        Table([_HEAD, *(_cells(row) for row in rows if not row.expected.counts)]),
    ]


def agreeing(rows: Sequence[Compared]) -> int:
    return sum(row.verdict == "agrees" for row in rows if row.expected.counts)


def _summary(rows: Sequence[Compared]) -> str:
    agree, partly = agreeing(rows), sum(row.verdict == "partly" for row in rows)
    return (
        f"keet's first answer agrees with notes.md on {agree} of {len(rows)} reports "
        f"({'met' if agree >= LEAST_AGREE else 'NOT met'}: at least {LEAST_AGREE} of 13) and "
        f"partly on {partly}. Partly: the finding agrees, its text lacks what the notes say."
    )


def _cells(row: Compared) -> tuple[str, ...]:
    expected = row.expected
    return (
        expected.file,
        row.kernel,
        " or ".join(expected.agrees),
        str(row.answer),
        row.verdict if row.verdict == "agrees" else row.verdict.upper(),
        ", ".join(row.others) or "-",
        expected.reason,
    )
