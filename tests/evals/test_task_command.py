"""What the tasks without a model share: three forms of one result, bars, and exit codes."""

import json
import math
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from evals.diagnosis import task as diagnosis
from evals.forecast import task as forecast
from evals.grounding import task as grounding
from evals.pages import Heading, Points, Prose, Table
from evals.task_command import Reached, Result, Threshold, add_options, finish, printed
from keet.errors import NotAvailable

MET = Reached(Threshold("top-1", "at least", 0.9, "why not"), 0.95)
MISSED = Reached(Threshold("alarms", "at most", 0.0, "none at all"), 0.1)
PARTS = [Prose("Some."), Heading("Rows"), Table([("a", "b"), ("x", "1")]), Points([], "Nobody.")]


def a_result(*bars: Reached) -> Result:
    return Result("diagnosis", "A title", PARTS, {"rows": [1]}, bars)


def args(*words: str) -> Namespace:
    parser = ArgumentParser()
    add_options(parser)
    return parser.parse_args(words)


def test_text_and_markdown_say_the_same() -> None:
    text, markdown = (printed(a_result(MET), form) for form in ("terminal", "markdown"))
    assert text.startswith("A title\n-------\n\nSome.\n\nRows\n----\n\na  b\nx  1\n\n  Nobody.\n")
    assert markdown.startswith("# A title\n\nPrinted by `keet eval diagnosis --format markdown`;")
    assert "Some.\n\n## Rows\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n\nNobody.\n" in markdown
    assert "top-1    0.950  at least 0.9  yes  why not\n" in text
    assert "| top-1 | 0.950 | at least 0.9 | yes | why not |" in markdown


def test_json_has_the_thresholds() -> None:
    document = json.loads(printed(a_result(MET, MISSED), "json"))
    assert document["rows"] == [1]
    assert [(bar["value"], bar["met"]) for bar in document["bars"]] == [
        ("top-1", True),
        ("alarms", False),
    ]
    odd = a_result()._replace(document={"rows": [{"x": math.inf, "y": (math.nan, 1.5)}]})
    assert json.loads(printed(odd, "json"))["rows"] == [{"x": None, "y": [None, 1.5]}]


def test_without_reports_there_is_no_result() -> None:
    with pytest.raises(NotAvailable, match="make samples"):
        diagnosis.result_of(diagnosis.Scored([], [], [], []))
    with pytest.raises(NotAvailable, match="make samples"):
        forecast.result_of([])
    with pytest.raises(NotAvailable, match="make samples"):
        grounding.result_of(grounding.Grounded([], [], []))


def test_missed_thresholds_fail_only_with_check(
    capsys: pytest.CaptureFixture[str], wording
) -> None:
    assert finish(args(), a_result(MET, MISSED)) == 0
    assert capsys.readouterr().err == ""
    assert finish(args("--check"), a_result(MET)) == 0
    assert finish(args("--check"), a_result(MET, MISSED)) == 1
    wording(capsys.readouterr().err)


def test_a_file_gets_what_would_be_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.md"
    finish(args("--format", "markdown", "-o", str(path)), a_result(MET))
    assert path.read_text(encoding="utf-8") == printed(a_result(MET), "markdown")
    assert capsys.readouterr().out == ""


def test_every_threshold_has_a_reason() -> None:
    for task in (diagnosis, forecast, grounding):
        assert all(len(bar.why) > 10 for bar in task.THRESHOLDS)
        assert len({bar.value for bar in task.THRESHOLDS}) == len(task.THRESHOLDS)
