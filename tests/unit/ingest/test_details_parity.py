"""A details page, read, has the values of the report that it was printed from.

The pages are made of the tables in tests/data/details, which ncu printed. The catalog's labels are
also held against the definitions of sections that reports contain.
"""

import csv
import lzma
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from evals.public_reports import NOT_FOUND
from keet.catalog import details_labels, metric_named, metrics
from keet.ingest import read_profile
from keet.ingest.ncu_rep.reader import FileLaunch
from keet.ingest.printed.details_page import rule_result
from keet.profile import Launch
from tests.conftest import CORPUS, REPORTS, TESTS
from tests.printed_pages import Cell, Shown, csv_page, text_page
from tests.rows import each_row

METRIC_NAME = re.compile(r"[a-z][a-z0-9]*__[a-z0-9_.]+")
TABLES = sorted((TESTS / "data" / "details").glob("*.csv.xz"))
OF_REPORTS = [*sorted(REPORTS.glob("*.ncu-rep*")), *sorted(CORPUS.glob("*.ncu-rep"))]


def launches_and_page(table: Path) -> tuple[list[Launch], list[Shown]]:
    """Launches of a report, and what ncu printed of them; a table may have only the first ones."""
    first, *lines = lzma.decompress(table.read_bytes()).decode().splitlines()
    name = first.split(" ")[1]
    path = REPORTS / name if (REPORTS / name).exists() else CORPUS / name
    if not path.exists():
        pytest.skip(NOT_FOUND)
    profile = read_profile(path)
    shown = [_shown(launch) for launch in profile.launches]
    for row in csv.DictReader(lines):
        cell = Cell(row["section"], row["label"], row["unit"], row["value"])
        shown[int(row["launch"])].cells.append(cell)
    launches = [x for x, each in zip(profile.launches, shown, strict=True) if each.cells]
    return launches, [each for each in shown if each.cells]


def _shown(launch: Launch) -> Shown:
    return Shown(
        launch.name.full,
        [],
        launch.grid or (1, 1, 1),
        launch.block or (1, 1, 1),
        launch.device.compute_capability or "9.0",
    )


def assert_same(page: Sequence[Launch], report: Sequence[Launch]) -> int:
    """How many values of the catalog's metrics were compared."""
    compared, wrong = 0, []
    for ours, theirs in zip(page, report, strict=True):
        for spec in metrics().values():
            mine, other = ours.find(spec.id), theirs.find(spec.id)
            if mine is None or mine.value is None or not spec.total:
                continue
            if other is None or other.value is None or isinstance(other.value, str):
                same = other is not None and mine.value == other.value
            elif other.value != other.value:
                same = mine.value != mine.value
            else:
                same = mine.value == pytest.approx(other.value, rel=1e-9, abs=0.00501)
                same = same or (
                    abs(mine.value - other.value) <= 0.501 and isinstance(mine.value, int)
                )
            compared += 1
            if not same or mine.unit != other.unit:
                wrong.append((ours.id, spec.id, mine, other))
    assert wrong == []
    return compared


@each_row("table", TABLES, ids=lambda path: path.name, few=2)
def test_a_printed_page_gives_the_values_of_its_report(table: Path, tmp_path: Path) -> None:
    report, shown = launches_and_page(table)
    for name, text in (("page.csv", csv_page(shown)), ("page.txt", text_page(shown))):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        page = read_profile(path).launches
        assert assert_same(page, report) >= 20 * len(report)
        assert [x.kernel for x in page] == [x.kernel for x in report]


def _definitions(launch: FileLaunch) -> set[tuple[str, str, str]]:
    """Title, label and metric of what the details page has in the heads of its sections: also the
    metrics that take the place of one on some GPUs."""
    return {
        (section.text(2) or "", item.text(2) or "", name)
        for section in launch.decoded.message.messages(launch.decoded.where.sections)
        for head in section.messages(4)
        for item, raw in zip(head.messages(2), head.raws(2), strict=True)
        for name in METRIC_NAME.findall(raw.decode("latin-1"))
    }


@each_row("path", OF_REPORTS, ids=lambda path: path.name[:40], few=2)
def test_labels_equal_those_of_the_sections_in_a_report(path: Path) -> None:
    profile = read_profile(path)
    for launch in profile.launches[:1]:
        assert isinstance(launch.data, FileLaunch)
        for title, label, name in _definitions(launch.data):
            mapped = details_labels().get(title, {}).get(label)
            if mapped is not None:
                spec = metric_named(mapped)
                assert name == mapped or (spec and name in spec.names), (title, label)


def test_labels_that_changed_their_meaning_are_not_in_the_catalog() -> None:
    labels = details_labels()["Compute Workload Analysis"]
    assert not {"SM Busy", "Issue Slots Busy", "Max. Issued Slots Busy"} & set(labels)
    assert sum(map(len, details_labels().values())) > 300


@each_row("path", OF_REPORTS, ids=lambda path: path.name[:40], few=1)
def test_rules_are_recognised_by_their_first_words(path: Path) -> None:
    """Never as another rule; mostly as theirs."""
    from keet.catalog import sections

    rules = [rule for launch in read_profile(path).launches[:3] for rule in launch.rules]
    for rule in rules:
        title = sections()[rule.section].title if rule.section in sections() else ""
        plain = rule.message.split("@")[0]
        if len(plain) > 60:
            found = rule_result(title, "OPT", plain).rule
            assert found in (rule.rule, title), plain
