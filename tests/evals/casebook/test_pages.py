"""The committed pages are of the work families, and of keet as it is: a few cases are scored again."""

from __future__ import annotations

import random
import re

import pytest

from evals.casebook import diagnosis, forecast
from evals.casebook.answers import Read, chosen_cases, read_case
from evals.tables import markdown_table
from kernels_samples.casebook.family import load_split
from tests.evals.committed import RESULTS

PAGES = {
    name: (RESULTS / f"casebook_{name}.md").read_text(encoding="utf-8")
    for name in ("diagnosis", "forecast")
}
WORK = chosen_cases()


@pytest.fixture(scope="module")
def some() -> list[Read]:
    return [read_case(case) for case in random.Random(3).sample(WORK, 10)]


def row_of(cells: tuple[str, ...]) -> str:
    return markdown_table([cells, cells])[0]


@pytest.mark.slow
def test_diagnosis_rows_are_those_of_the_page(some: list[Read]) -> None:
    page, scores = PAGES["diagnosis"], diagnosis.score_cases(some)
    for cause in scores.causes:
        row = row_of(diagnosis._miss_cells(cause))
        assert (row in page) == (cause.rank != 1), row
    for alarm in scores.alarms:
        assert row_of(diagnosis._alarm_cells(alarm)) in page


@pytest.mark.slow
def test_forecast_rows_are_those_of_the_page(some: list[Read]) -> None:
    for each in forecast.score_forecasts(some, []).forecasts:
        told, measured, said, error, nvidia, _ = forecast._cells(each)
        assert f"| {told} | {measured} | {said} | {error} | {nvidia} |" in PAGES["forecast"]


@pytest.mark.parametrize("name", PAGES)
def test_no_locked_family_is_on_a_page(name: str) -> None:
    locked = [family for family, kind in load_split().items() if kind == "locked"]
    assert not [family for family in locked if f"| {family}" in PAGES[name]]
    assert f"`keet eval {name} --on casebook --format markdown`" in PAGES[name]


def test_readme_and_results_page_have_the_numbers_of_the_committed_page() -> None:
    page = " ".join(PAGES["diagnosis"].split())
    told = re.search(
        r"first for (\d+ of \d+) cases from \d+ families, NVIDIA's rules for (\d+) by", page
    )
    root = RESULTS.parents[1]
    for path in (root / "README.md", root / "docs" / "results.md"):
        text = " ".join(path.read_text(encoding="utf-8").split())
        assert told[1] in text, path.name
        assert re.search(rf"\b{told[2]}\b", text), path.name


def test_every_work_case_with_a_fix_has_its_forecast_on_the_page() -> None:
    expected = sum(max(1, len(case.steps)) for case in WORK if not case.spec.lookalike)
    assert f"error of {expected} fixes" in " ".join(PAGES["forecast"].split())
