"""What keet shows under a label of Nsight Compute's details page is the value shown there.

The tables in tests/data/details were printed by ncu itself; their first line says by which version
and from which file. Reports of strangers are compared where the corpus is at hand. Pages made of the
tables are read, too, and the catalog's labels held against the definitions of sections in reports.
"""

from __future__ import annotations

import csv
import hashlib
import lzma
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.public_reports import NOT_FOUND
from keet.catalog import details_labels, metric_named, metrics, sections
from keet.profile import Launch
from keet.report import read_profile
from keet.report.ncu_rep.reader import FileLaunch
from keet.report.printed.details_page import counts_in_rules, rule_result
from tests.conftest import CORPUS, REPORTS, TESTS
from tests.kept_reports import unpacked
from tests.printed_pages import Cell, Shown, csv_page, text_page
from tests.rows import each_row
from tests.unit.analysis.real_launches import profile_of

TOTAL = "memory_l2_theoretical_sectors_global"
EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"
IDEAL = "memory_l2_theoretical_sectors_global_ideal"


def message(excess: int, percent: int, total: int, what: str = "kernel") -> str:
    return (
        f"This {what} has uncoalesced global accesses resulting in a total of {excess} excessive "
        f"sectors ({percent}% of the total {total} sectors). Check the L2 Theoretical Sectors "
        "Global Excessive table for the primary source locations."
    )


def counts(*messages: str) -> dict[str, object]:
    rules = [rule_result("Source Counters", "OPT", each) for each in messages]
    return {name: metric.value for name, metric in counts_in_rules(rules).items()}


@given(st.integers(1, 10**15), st.integers(0, 10**15), st.sampled_from(["kernel", "workload"]))
def test_counts_are_read_from_ncus_messages(total: int, part: int, what: str) -> None:
    excess = min(part, total)
    found = counts(message(excess, round(100 * excess / total), total, what))
    assert found == {TOTAL: total, EXCESS: excess, IDEAL: total - excess}


@each_row("messages", [
    [],
    ["This kernel has uncoalesced global accesses resulting in a total of many sectors."],
    [message(30, 75, 100)],  # the share is not that of the counts
    [message(101, 101, 100)],
    [message(0, 0, 0)],
    [message(75, 75, 100), message(50, 50, 100)],  # which one?
    [message(75, 75, 100).replace("This kernel", "Perhaps this kernel")],
    [message(75, 75, 100).replace("global", "shared")],
])  # fmt: skip
def test_other_messages_have_no_counts(messages: list[str]) -> None:
    assert counts(*messages) == {}


@given(st.text(max_size=80))
def test_any_text_is_accepted(text: str) -> None:
    assert counts(text, f"{message(75, 75, 100)[:60]}{text}") == {}


def messages_of(launch: Launch) -> list[str]:
    return [rule.message for rule in launch.rules if rule.rule == "UncoalescedGlobalAccess"]


def test_counts_equal_the_metrics_of_the_report() -> None:
    compared = 0
    for launch in profile_of(REPORTS / "tour_full.ncu-repz").launches:
        for name, value in counts(*messages_of(launch)).items():
            found = launch.metric(name)
            assert found.value == value
            compared += 1
    assert compared >= 3


TABLES = sorted((TESTS / "data" / "details").glob("*.csv.xz"))


class Row(NamedTuple):
    launch: int
    section: str
    label: str
    unit: str
    value: str


def read_table(path: Path) -> tuple[str, str, list[Row]]:
    """The report's name, its sha256 (perhaps before it was compressed), and the rows."""
    first, *lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    _, name, _, digest, *_ = first.split(" ")
    rows = [Row(int(r["launch"]), *list(r.values())[1:]) for r in csv.DictReader(lines)]
    return name, digest.rstrip(":"), rows


def own_report(name: str) -> Path | None:
    """The report of the repository with that name, which may be compressed."""
    return next(filter(Path.exists, (REPORTS / name, REPORTS / f"{name}z")), None)


def test_at_least_six_gpus_are_compared() -> None:
    """Ours are all of one GPU, so most need the corpus."""
    own = {path.stem for path in TABLES if own_report(read_table(path)[0])}
    assert len({path.stem for path in TABLES} - own) >= 6
    assert own


# --- a page, read, has the values of the report that it was printed from

METRIC_NAME = re.compile(r"[a-z][a-z0-9]*__[a-z0-9_.]+")
OF_REPORTS = [*sorted(REPORTS.glob("*.ncu-rep*")), *sorted(CORPUS.glob("*.ncu-rep"))]


def launches_and_page(table: Path) -> tuple[list[Launch], list[Shown]]:
    """Launches of a report, and what ncu printed of them; a table may have only the first ones."""
    name, digest, rows = read_table(table)
    path = own_report(name) or CORPUS / name
    if not path.exists():
        pytest.skip(NOT_FOUND)
    digests = [hashlib.sha256(each).hexdigest() for each in (path.read_bytes(), unpacked(path))]
    assert digest in digests
    profile = read_profile(path)
    shown = [_shown(launch) for launch in profile.launches]
    for row in rows:
        shown[row.launch].cells.append(Cell(row.section, row.label, row.unit, row.value))
    launches = [x for x, each in zip(profile.launches, shown, strict=True) if each.cells]
    return launches, [each for each in shown if each.cells]


def _shown(launch: Launch) -> Shown:
    shape, version = (1, 1, 1), launch.device.compute_capability or "9.0"
    return Shown(launch.name.full, [], launch.grid or shape, launch.block or shape, version)


def assert_same(page: Sequence[Launch], report: Sequence[Launch]) -> int:
    """How many values of the catalog's metrics were compared."""
    compared, wrong = 0, []
    for ours, theirs in zip(page, report, strict=True):
        for spec in metrics().values():
            mine, other = ours.find(spec.id), theirs.find(spec.id)
            if mine is None or mine.value is None or not spec.total:
                continue
            assert other is not None, spec.id
            if isinstance(mine.value, str) or isinstance(other.value, str | None):
                same = mine.value == other.value
            else:  # half of the last digit that ncu printed
                within = 0.501 if isinstance(mine.value, int) else 0.00501
                same = mine.value == pytest.approx(other.value, rel=1e-9, abs=within, nan_ok=True)
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


def test_labels_that_keet_shows_are_those_of_the_same_metrics_on_the_page() -> None:
    shown = [spec for spec in metrics().values() if spec.section in sections()]
    for spec in shown:
        labels = details_labels().get(sections()[spec.section].title, {})
        name = {label.lower(): each for label, each in labels.items()}.get(spec.label.lower())
        assert name is None or name in spec.names, spec.id
    labels = details_labels()["Compute Workload Analysis"]
    assert not {"SM Busy", "Issue Slots Busy", "Max. Issued Slots Busy"} & set(labels)
    assert sum(map(len, details_labels().values())) > 300


@each_row("path", OF_REPORTS, ids=lambda path: path.name[:40], few=1)
def test_rules_are_recognised_by_their_first_words(path: Path) -> None:
    """Never as another rule; mostly as theirs."""
    rules = [rule for launch in read_profile(path).launches[:3] for rule in launch.rules]
    for rule in rules:
        title = sections()[rule.section].title if rule.section in sections() else ""
        plain = rule.message.split("@")[0]
        if len(plain) > 60:
            found = rule_result(title, "OPT", plain).rule
            assert found in (rule.rule, title), plain
