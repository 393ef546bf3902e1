"""A text and the structured part of a result have the same entries, on every page."""

import re
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from keet.serve.reports import AllowedFolders, ReportCache
from tests.conftest import REPORTS
from tests.kept_reports import unpacked
from tests.unit.serve.conftest import called

SAMPLES = Path(__file__).parents[3] / "kernels_samples"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> ReportCache:
    folder = tmp_path_factory.mktemp("pages")
    for path in (REPORTS / "zoo.ncu-repz", REPORTS / "pipeline_before.ncu-repz"):
        shutil.copy(path, folder)
    (folder / "norms.ncu-rep").write_bytes(unpacked(SAMPLES / "row_norms" / "slow.ncu-repz"))
    return ReportCache(AllowedFolders([folder]))


def pages(cache: ReportCache, tool: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    offset: int | None = 0
    while offset is not None:
        page = called(cache, tool, **arguments, offset=offset)
        assert page["offset"] == offset
        offset = page["next_offset"]
        end = f"call again with offset {offset}"
        assert (end in page["_text"]) == (offset is not None)
        told = re.sub(r"^```.*?^```", "", page["_text"], flags=re.DOTALL | re.MULTILINE)
        assert "--" not in re.sub(r"\bncu --.*|-{3,}|: ---|--- \|", "", told)
        yield page


def same(page: dict[str, Any], field: str, key: str, in_text: str) -> list[str]:
    """The key of each entry of the page: the text has the same ones."""
    found = [str(each[key]) for each in page[field]]
    assert re.findall(in_text, page["_text"], re.MULTILINE) == found
    return found


@pytest.mark.slow
def test_pages_of_explain(reports: ReportCache) -> None:
    every = list(pages(reports, "explain", report="zoo.ncu-repz", kernel="*", top=5))
    ids = [same(page, "launches", "id", r"^### Launch (\d+)") for page in every]
    assert sorted([*chain(*ids)]) == [str(n) for n in range(8)]
    assert len(every) > 1
    assert "8 kernels take" in every[0]["_text"]
    assert every[1]["program"] is None


def test_pages_of_explain_without_selection(reports: ReportCache) -> None:
    every = list(pages(reports, "explain", report="pipeline_before.ncu-repz"))
    told = [same(page, "launches", "id", r"^### Launch (\d+)") for page in every]
    assert sum(map(len, told)) == every[0]["total"] < 8
    hidden = 8 - every[0]["total"]
    for page in every:
        assert f"{hidden} launches take little time" in page["_text"]
        assert page["_text"].count("more launch") == (page["next_offset"] is not None)
        assert not any("are cut" in note for note in page["notes"])
    assert all(set(row) & {"launches"} == set() for row in every[0]["program"]["rows"])


def test_hottest_lines_and_the_instructions_of_one(reports: ReportCache) -> None:
    """Instructions have the offsets of the text."""
    every = list(pages(reports, "line", report="norms.ncu-rep"))
    lines = [same(page, "entries", "line", r"^ *[\d.]+%\s+\d+\s+\S+:(\d+)") for page in every]
    assert len(every) == 2
    assert sum(map(len, lines)) == every[0]["total"]
    for page in every:
        assert f"24 samples in {page['total']} source lines" in page["_text"]
    every = list(pages(reports, "line", report="norms.ncu-rep", line="slow.cu:58"))
    for page in every:
        same(page, "entries", "offset", r"^(0x[0-9a-f]{4}) ")
        assert "address':" not in str([*page["entries"], page["line"]["loops"]])
    assert len(every) == 2
    assert f"from {every[0]['line']['loops'][0]['offset']}, slow.cu:59" in every[0]["_text"]


@pytest.mark.slow
def test_metrics_and_launches(reports: ReportCache) -> None:
    every = list(pages(reports, "metrics", report="zoo.ncu-repz", launch=0, pattern="dram|lts"))
    assert len(every) > 1
    for page in every:
        text = "".join(page["_text"].split())  # long names are wrapped
        assert [each["name"] for each in page["metrics"] if each["name"] not in text] == []
    (page,) = pages(reports, "list_reports", report="zoo.ncu-repz")
    same(page, "entries", "id", r"^#(\d+) ")
    (page,) = pages(reports, "list_reports")
    same(page, "entries", "path", r"^(\S+)  [\d,]+ bytes$")


@pytest.mark.slow
def test_kernels_that_are_compared(reports: ReportCache) -> None:
    every = pages(reports, "diff", before="zoo.ncu-repz", after="zoo.ncu-repz")
    kernels = [same(page, "pairs", "kernel", r"^\|[^`]*\| `(\w+)`") for page in every]
    assert len([*chain(*kernels)]) == 8


@pytest.mark.slow
def test_checks(reports: ReportCache) -> None:
    text = "".join(f"The L2 hit rate is {number}.25 %.\n" for number in range(20, 120))
    every = list(pages(reports, "verify", report="norms.ncu-rep", text=text))
    assert len(every) > 1
    found = [same(page, "checks", "text", r"is ([\d.]+ %)\.") for page in every]
    assert sorted([*chain(*found)]) == sorted(f"{number}.25 %" for number in range(20, 120))
    for page in every:
        assert "100 numbers: " in page["_text"]
        assert "keet " not in page["_text"]


@pytest.mark.slow
def test_a_sentence_that_is_longer_than_a_page(reports: ReportCache) -> None:
    text = "The registers are " + ", ".join(f"{number} registers" for number in range(1000, 1900))
    page = called(reports, "verify", report="norms.ncu-rep", text=text)
    assert page["total"] == 900
    assert len(page["checks"]) > 10
    for check in page["checks"]:
        assert f"{check['text']}: {check['reason'][:20]}" in page["_text"]


@pytest.mark.slow
def test_cases_on_all_pages(reports: ReportCache) -> None:
    """What is said before the list is of all cases, not of the page."""
    every = list(pages(reports, "cases", finding="uncoalesced_global"))
    assert len(every) > 1
    name = r"^  ([a-z]\w*/\w+) "
    found = [same(page, "cases", "id", name) for page in every]
    assert len([*chain(*found)]) == every[0]["total"]
    alike = sum(each["lookalike"] for page in every for each in page["cases"])
    for page in every:
        assert f"{page['total']} measured cases from" in page["_text"]
        assert f"{alike} look-alike" in page["_text"]
        assert "keet finding CASE" not in page["_text"]
