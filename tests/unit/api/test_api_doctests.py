"""Examples of the API's docstrings and of docs/python.md do what they say."""

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import keet
from tests.rows import each_row
from tests.unit.api.conftest import ROOT

MODULES = (
    "keet",
    *(f"keet.api.{name}" for name in ["corpus", "diff", "explain", "result", "views"]),
)
OPTIONS = doctest.REPORT_NDIFF
TUPLES = {"AccountPart", "LaunchVerdict"}
"""Rows that the examples of other classes show."""


def failures(test: doctest.DocTest) -> str:
    told: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS, verbose=False).run(test, out=told.append)
    return "".join(told)


@pytest.mark.slow
@each_row("name", MODULES)
def test_docstrings(name: str, in_clone: Path) -> None:
    tests = [each for each in doctest.DocTestFinder().find(import_module(name)) if each.examples]
    assert tests
    assert "".join(map(failures, tests)) == ""


@pytest.mark.slow
def test_the_page_about_python_and_the_docstring_of_a_store(with_store: Path) -> None:
    (test,) = doctest.DocTestFinder(recurse=False).find(keet.open_store)
    assert test.examples
    assert failures(test) == ""
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    without_fences = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(without_fences, {}, "python.md", "python.md", 0)
    assert len(test.examples) > 30
    assert failures(test) == ""


def test_all_that_is_public_has_an_example_and_is_on_the_page() -> None:
    for name in set(keet.__all__) - {"__version__"} - TUPLES:
        found = getattr(keet, name)
        assert inspect.getdoc(found), name
        if found.__module__.startswith("keet.api"):
            assert ">>>" in inspect.getdoc(found), name
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    functions = [name for name in keet.__all__ if inspect.isfunction(getattr(keet, name))]
    assert len(functions) == 10
    assert [name for name in functions if f"`keet.{name}(" not in page] == []
