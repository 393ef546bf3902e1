"""What keet shows under a label of Nsight Compute's details page is the value shown there.

The tables in tests/data/details were printed by ncu itself; their first line says by which version
and from which file. Reports of strangers are compared where the corpus is at hand.
"""

from __future__ import annotations

import csv
import hashlib
import lzma
import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.public_reports import NOT_FOUND
from keet.catalog import MetricSpec, metrics, sections
from keet.ingest import read_profile
from keet.ingest.printed.details_page import counts_in_rules, rule_result
from keet.profile import Launch
from tests.conftest import CORPUS, REPORTS, TESTS
from tests.kept_reports import unpacked
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


@each_row(
    "messages",
    [
        [],
        ["This kernel has uncoalesced global accesses resulting in a total of many sectors."],
        [message(30, 75, 100)],  # the share is not that of the counts
        [message(101, 101, 100)],
        [message(0, 0, 0)],
        [message(75, 75, 100), message(50, 50, 100)],  # which one?
        [message(75, 75, 100).replace("This kernel", "Perhaps this kernel")],
        [message(75, 75, 100).replace("global", "shared")],
    ],
)
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
            assert found is not None
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


@cache
def section_titles() -> dict[str, str]:
    return {section.title: section.id for section in sections().values()}


@cache
def specs_labelled(label: str) -> list[MetricSpec]:
    return [spec for spec in metrics().values() if spec.label.lower() == label]


def spec_under(row: Row, counts: Counter[tuple[int, str]]) -> MetricSpec | None:
    """The catalog's metric under that label: of the section, or under that label alone."""
    same_label = specs_labelled(row.label.lower())
    of_section = [s for s in same_label if s.section == section_titles().get(row.section)]
    if of_section:
        return of_section[0]
    alone = len(same_label) == 1 and counts[row.launch, row.label] == 1
    return same_label[0] if alone else None


def agrees(ours: object, printed: str) -> bool:
    text = printed.replace(",", "")
    if isinstance(ours, str) or ours is None:
        return ours == printed
    if text == "nan":
        return isinstance(ours, float) and math.isnan(ours)
    tolerance = 0.00501 if "." in text else 0.501  # half of the last digit that ncu printed
    return abs(float(ours) - float(text)) <= tolerance + 1e-9 * abs(float(text))  # type: ignore[arg-type]


@pytest.mark.slow
@each_row("table", TABLES, ids=lambda path: path.name)
def test_values_equal_those_on_ncus_details_page(table: Path) -> None:
    name, digest, rows = read_table(table)
    path = own_report(name) or CORPUS / name
    if not path.exists():
        pytest.skip(NOT_FOUND)
    assert digest in {
        hashlib.sha256(each).hexdigest() for each in (path.read_bytes(), unpacked(path))
    }
    profile = read_profile(path)
    counts = Counter((row.launch, row.label) for row in rows)
    compared, wrong = 0, []
    for row in rows:
        spec = spec_under(row, counts)
        found = profile.launches[row.launch].find(spec.id) if spec and spec.total else None
        if spec is None or found is None:
            continue  # keet shows nothing under that label
        compared += 1
        if not agrees(found.value, row.value):
            wrong.append((row, found))
    assert wrong == []
    assert compared >= 20


def test_at_least_six_gpus_are_compared() -> None:
    """Six at least; ours are all of one GPU, so most need the corpus."""
    own = {path.stem for path in TABLES if own_report(read_table(path)[0])}
    assert len({path.stem for path in TABLES} - own) >= 6
    assert own
