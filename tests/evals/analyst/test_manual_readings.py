"""keet's first answer beside a reading by hand: expectations, verdicts, and one real report."""

import pytest

from evals.analyst.first_answer import FirstAnswer
from evals.analyst.manual_readings import (
    Compared,
    Expected,
    compare,
    compare_all,
    expected_answers,
    page_parts,
    verdict_on,
)
from evals.analyst.report_sets import Source, profile_of
from evals.public_reports import MANUALLY_READ, NOT_FOUND
from keet.findings import findings
from tests.conftest import REPORTS
from tests.rows import each_row

ANSWERS = expected_answers()
FLIP = Expected("tour_full.ncu-repz", 0, ("uncoalesced_global",), "neighbouring|axis", "a reason")


def test_thirteen_reports_have_answers_of_the_catalog() -> None:
    counted = [each for each in ANSWERS if each.counts]
    assert len(counted) == len({each.file for each in counted}) == 13
    assert {id_ for each in ANSWERS for id_ in each.agrees} <= set(findings())
    assert all(each.agrees and each.reason for each in ANSWERS)


@each_row(("id_", "text", "verdict"), [
    ("uncoalesced_global", "swap the thread's axes: the Axis", "agrees"),
    ("uncoalesced_global", "something else", "partly"),
    ("tail_effect", "the axis", "differs"),
])  # fmt: skip
def test_verdicts(id_: str, text: str, verdict: str) -> None:
    assert verdict_on(FLIP, FirstAnswer("finding", id_, 2.0), text) == verdict


def test_the_launch_of_the_notes_is_compared() -> None:
    profile = profile_of(Source("test data", FLIP.file, REPORTS / FLIP.file))
    slow = next(each.id for each in profile.launches if each.kernel == "transpose_rows")
    row = compare(FLIP._replace(launch=slow, words=None), profile)
    assert (row.kernel, row.verdict) == ("transpose_rows", "agrees")
    other = next(each.id for each in profile.launches if each.kernel != "transpose_rows")
    assert compare(FLIP._replace(launch=other), profile).kernel != "transpose_rows"


def test_further_launches_are_not_counted(wording) -> None:
    answer = FirstAnswer("finding", "uncoalesced_global", 2.0)
    rows = [
        Compared(FLIP, "flip", answer, "agrees", ()),
        Compared(FLIP._replace(counts=False), "copy", answer, "agrees", ()),
        Compared(FLIP, "flop", answer, "partly", ("small_grid",)),
    ]
    summary, table, _, further = page_parts(rows)
    wording(summary.text)
    assert "flop" in str(table)
    assert "PARTLY" in str(table)
    assert "copy" in str(further)


@pytest.mark.skipif(not MANUALLY_READ.is_dir(), reason=NOT_FOUND)
def test_reports_that_are_there_are_compared() -> None:
    """Two without machine code, which is what takes long."""
    basic = [each for each in ANSWERS if each.file.startswith(("F-Sossi", "Prospect138"))]
    gone = basic[0]._replace(file="gone.ncu-rep")
    rows = compare_all([*basic, gone])
    assert [row.expected for row in rows] == basic
    assert [row.kernel for row in rows] == ["calculate", "simulate"]
