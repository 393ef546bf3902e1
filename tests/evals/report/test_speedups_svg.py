"""The drawing: well-formed, every mark in its place, failures told apart, names harmless."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from evals.commands import report as command
from evals.report.documents import OptimizeReport, RunDocument
from evals.report.optimize import document_of
from evals.report.speedups_svg import Mark, mark_of, speedups_svg
from tests.evals.report.synthetic import Outcomes, scored_run, scores
from tests.evals.report.test_report import printed
from tests.rows import each_row

SVG = "{http://www.w3.org/2000/svg}"
OUTCOMES: Outcomes = {
    "matrix_flip": {"none": [2.0, "INCORRECT"], "raw": [1.0, 1.0], "keet": [8.0, 4.0]},
    "key_count": {"none": ["COMPILE_ERROR", None], "raw": [0.5, 0.5], "agent": [16.0, 1.5]},
    "cell_update": {"none": [None, None], "keet": [2.0, 2.0]},
}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to tell an interval, and ten times as quick."""
    monkeypatch.setattr("evals.bootstrap.RESAMPLES", 400)


def report(outcomes: Outcomes = OUTCOMES, model: str = "test:model") -> OptimizeReport:
    return document_of(scores(outcomes, model=model), [RunDocument(path="run")], None)


def tree(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def told(drawing: str) -> list[str]:
    return [str(g.text) for g in tree(drawing).iterfind(f".//{SVG}g/{SVG}g/{SVG}title")]


def test_it_has_a_title_a_description_and_both_colour_schemes() -> None:
    drawing = speedups_svg(report())
    root = tree(drawing)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Speed-up by condition"
    assert "test:model, keet: " in str(root.findtext(f"{SVG}desc"))
    assert "prefers-color-scheme: dark" in drawing
    assert not re.search(r"(href|src|url\(|<script)", drawing)


def test_one_mark_for_each_sample_and_condition_that_was_scored() -> None:
    assert sorted(told(speedups_svg(report()))) == [
        "cell_update, keet: 2.00x, 0 of 2 failed",
        "key_count, agent: 4.90x, 0 of 2 failed",
        "key_count, none: 1.00x, 1 of 1 failed",
        "key_count, raw: 0.50x, 0 of 2 failed",
        "matrix_flip, keet: 5.66x, 0 of 2 failed",
        "matrix_flip, none: 1.41x, 1 of 2 failed",
        "matrix_flip, raw: 1.00x, 0 of 2 failed",
    ]


def test_failures_are_open_or_crossed() -> None:
    marks = tree(speedups_svg(report())).iterfind(f".//{SVG}g/{SVG}g")
    kinds = {m.findtext(f"{SVG}title"): m[1] for m in marks if m.find(f"{SVG}title") is not None}
    assert kinds["key_count, none: 1.00x, 1 of 1 failed"].tag == f"{SVG}path"
    assert kinds["matrix_flip, none: 1.41x, 1 of 2 failed"].get("class") == "mark none open"
    assert kinds["matrix_flip, raw: 1.00x, 0 of 2 failed"].get("class") == "mark raw"


def test_marks_stand_on_a_logarithmic_axis() -> None:
    even: Outcomes = {
        "matrix_flip": {"none": [1.0]},
        "row_norms": {"none": [2.0]},
        "scan_rows": {"none": [4.0]},
    }
    drawing = tree(speedups_svg(report(even)))
    places = [
        float(str(circle.get("cx")))
        for g in drawing.iterfind(f".//{SVG}g/{SVG}g")
        if g.find(f"{SVG}title") is not None
        for circle in g.iterfind(f"{SVG}circle")
    ]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)
    assert places[1] > places[0]


def test_nothing_is_drawn_outside_the_picture() -> None:
    root = tree(speedups_svg(report()))
    width, height = (float(str(root.get(name))) for name in ("width", "height"))
    for line in root.iter(f"{SVG}line"):
        if line.get("class") != "best" or float(str(line.get("y1"))) >= 0:
            assert all(0 <= float(str(line.get(x))) <= width for x in ("x1", "x2"))
            assert all(0 <= float(str(line.get(y))) <= height for y in ("y1", "y2"))


def test_a_condition_without_a_score_has_no_mean() -> None:
    drawing = speedups_svg(report({"matrix_flip": {"none": [None], "keet": [2.0, None]}}))
    assert "geomean, none" not in drawing
    assert "geomean, keet" in drawing
    assert "pass@1 1.00, 1 attempts not scored" in str(tree(drawing).findtext(f"{SVG}desc"))


def test_a_panel_for_each_model(wording) -> None:
    both = [*scores(OUTCOMES), *scores(OUTCOMES, model="b:b")]
    drawing = speedups_svg(document_of(both, [], None))
    titles = [t.text for t in tree(drawing).iter(f"{SVG}text") if t.get("class") == "title"]
    wording(titles)


def test_names_from_outside_are_harmless() -> None:
    drawing = speedups_svg(report(model='</text><script>x & "y"\x00'))
    assert "<script>" not in drawing
    tree(drawing)


@each_row(
    ("attempts", "mark"),
    [
        ((), None),
        (("unscored",), None),
        (("unscored", 4.0), Mark(4, 0, 1)),
        ((4.0, "TIMEOUT"), Mark(2, 1, 2)),
        (("CHEAT",), Mark(1, 1, 1)),
    ],
)
def test_what_a_mark_says(attempts: tuple[float | str, ...], mark: Mark | None) -> None:
    assert mark_of(attempts) == mark


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored_run(tmp_path / "run", scores(OUTCOMES))
    target = tmp_path / "out.svg"
    printed(capsys, run, "--svg", target)
    assert target.read_text() == speedups_svg(report())
    assert command.EXAMPLES.count("--svg") == 1
