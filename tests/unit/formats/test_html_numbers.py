"""Numbers on a page of `keet explain`: they match the JSON documents and the analysis."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from keet.analysis.roofline.launch_roofline import find_roofline
from keet.analysis.source_lines import source_lines
from keet.documents.explain import ExplainDocument, ProgramDocument
from keet.explanation.analyst import explain
from keet.explanation.explain_document import explain_document
from keet.explanation.explanation_types import Explanation
from keet.formats.html.roofline import draw_roofline
from keet.formatting import first_sentence, times_text
from keet.ingest import read_profile
from keet.pages.blocks import Anchors, Cell, Code, Fold, plain
from keet.pages.capture import capture_part, message_text, rules_blocks
from keet.pages.figures import RooflineFigure
from keet.profile import KernelRun, RunTable
from keet.profile.rules import SpeedupScope
from keet.profile.run_table import ProfiledLaunch
from tests.explain_pages import explain_html
from tests.many_launches import repeated
from tests.page_blocks import (
    every_block,
    explain_html_page,
    facts_of,
    links_of,
    part_of,
    table_of,
    texts_of,
)
from tests.page_parts import links_in, page_tree, table_rows, value_of, with_class, with_id, words
from tests.rows import each_row

SAMPLES = Path("kernels_samples")
REPORTS = Path("tests/data/reports")
FLIP = SAMPLES / "matrix_flip/slow.ncu-rep"
PHYSICS = SAMPLES / "column_physics/slow.ncu-repz"
DECAY = SAMPLES / "decay_ratios/slow.ncu-repz"
TOUR = REPORTS / "tour_full.ncu-repz"
ZOO = REPORTS / "zoo.ncu-repz"


@cache
def explained(path: Path, times: int = 1) -> Explanation:
    """`times`: how often each launch is repeated."""
    profile = read_profile(path)
    profile = repeated(profile, times) if times > 1 else profile
    return explain(profile, profile.launches, 5)


@cache
def document(path: Path, times: int = 1) -> ExplainDocument:
    return explain_document(explained(path, times))


def program(path: Path, times: int = 1) -> ProgramDocument:
    found = document(path, times).program
    assert found is not None
    return found


@cache
def page_of(path: Path) -> ET.Element:
    return page_tree(explain_html(explained(path), everything=True))


@each_row(("path", "times"), [(TOUR, 1), (ZOO, 3)], few=1)
def test_rows_of_the_program_sort_by_the_numbers_of_the_document(path: Path, times: int) -> None:
    page = explain_html_page(explained(path, times), everything=times == 1)
    rows, wanted = table_of(part_of(page, "program")), program(path, times).rows
    assert len(rows) == len(wanted) > 2
    for row, expected in zip(rows, wanted, strict=True):
        assert row["Kernel"].value == expected.kernel
        assert links_of(row["Kernel"].words) == [f"launch-{expected.representative}"]
        assert row["Share"].value == pytest.approx(100 * expected.share)
        assert row["Share"].share == pytest.approx(expected.share)
        assert row["Time"].value == pytest.approx(1000 * expected.us_total)
        assert row["Launches"].value == expected.count == int(plain(row["Launches"].words))
        gain = expected.gain.likely if expected.gain and expected.gain.likely >= 1.02 else None
        assert row["Gain"].value == (pytest.approx(gain) if gain else "")
        assert row["Gain"].words == (times_text(gain) if gain else "")
    shares = [each.share for each in wanted]
    assert sorted(shares, reverse=True) == shares
    assert len({*shares}) > 2
    # The button copies the prompt of the launch that takes most time.
    most = max(wanted, key=lambda row: row.us_total)
    assert page.copies[0] == f"launch-{most.representative}-context"
    codes = [block for block in every_block(page.blocks) if isinstance(block, Code)]
    (copied,) = [code for code in codes if code.anchor == page.copies[0]]
    assert most.kernel in "\n".join(copied.lines)
    assert len([code for code in codes if code.anchor.endswith("-context")]) > 1


def index_of(*explanations: Explanation) -> list[dict[str, Cell]]:
    return table_of(part_of(explain_html_page(*explanations, several=True), "reports"))


@pytest.mark.slow
def test_the_index_has_the_answer_the_time_and_the_gain_of_each_report() -> None:
    rows, paths = index_of(explained(FLIP), explained(TOUR)), (FLIP, TOUR)
    gains = (document(FLIP).launches[0].findings[0].forecast, program(TOUR).gain)
    for row, path, gain in zip(rows, paths, gains, strict=True):
        assert row["Gain"].value == pytest.approx(gain.likely)
        assert row["Gain"].words == times_text(gain.likely)
        total = sum(each.duration.value for each in document(path).launches if each.duration)
        assert row["Time"].value == pytest.approx(1000 * total)
    assert rows[0]["Answer"].words == document(FLIP).launches[0].verdict.headline


def test_a_gain_that_is_no_finding_is_not_printed() -> None:
    """As in the table of the program and on a terminal."""
    shown = {}
    for likely in (1.0, 1.02, 1.09, 1.1):
        (each,) = explained(FLIP).launches
        forecast = replace(each.findings[0].forecast, low=1.0, likely=likely)
        changed = replace(each, findings=(replace(each.findings[0], forecast=forecast),))
        (row,) = index_of(explained(FLIP)._replace(launches=(changed,)))
        shown[likely] = row["Gain"].words
    assert shown == {1.0: "", 1.02: "", 1.09: "", 1.1: times_text(1.1)}


@each_row("path", [FLIP, PHYSICS, TOUR], few=1)
def test_numbers_are_linked_to_those_they_were_computed_from(path: Path) -> None:
    followed = 0
    for each, expected in zip(explained(path).launches, document(path).launches, strict=True):
        values = {piece.id: str(piece) for piece in each.view.ledger}
        for finding in expected.findings:
            article = with_id(page_of(path), f"launch-{expected.id}-finding-{finding.rank}")
            rows = list(_evidence_rows(article))
            keys = {name: key for name, key, *_ in rows}
            assert {piece.id for piece in finding.evidence} <= {*keys}
            for name, _, value, links in rows:
                assert value == values[name]
                sources = expected.evidence[name].derived_from or []
                assert {*sources} <= {*keys}
                assert links == [keys[source] for source in dict.fromkeys(sources)]
                followed += len(links)
    assert followed > 5


def _evidence_rows(finding: ET.Element) -> Iterator[tuple[str, str, str, list[str]]]:
    """Ids of a number and of its row, its value, and where the row links to."""
    (fold,) = with_class(finding, "evidence")
    for row in next(fold.iter("tbody")).iter("tr"):
        value, what, source = row
        (name,) = what.iter("code")
        yield words(name), row.get("id", ""), words(value), links_in(source)


@pytest.mark.slow
def test_settings_that_differ_between_launches_are_ranges() -> None:
    found = explained(ZOO, 3)
    facts = facts_of([capture_part(found, found.launches, Anchors())])
    for name, metric in (("SM clock", "sm_frequency"), ("DRAM clock", "dram_frequency")):
        clocks = [clock for launch in found.profile.launches if (clock := launch.get(metric))]
        low, *_, high = sorted(clocks, key=lambda clock: clock.value)
        assert str(low) != str(high)
        assert facts[name].startswith(f"{low} to {high}")


RUN = RunTable(
    (KernelRun("tour::normalise", "tour::normalise", None, None, 100, 241e6, 241e6, 0.0),),
    recorder="cupti",
    profiled=(ProfiledLaunch(2, 40, 2_410_000.0),),
)
"""A kernel that takes 14.69 us under replay, and 2.41 ms in the run."""


def test_replay_gap_is_printed_before_the_answer() -> None:
    profile = replace(read_profile(TOUR), run=RUN)
    explanation = explain(profile, profile.launches, 5)
    page = explain_html_page(explanation, everything=True)
    for each in explanation.launches:
        told = texts_of([part_of(page, f"launch-{each.launch.id}")])
        before = "\n".join(told[: told.index(f"Limit {first_sentence(each.verdict.headline)[0]}")])
        assert (each.replay is not None) == ("2.41 ms" in before)
        if each.replay:
            assert each.replay.text in before
            assert each.replay.open_reasons
            assert all(reason.text[1:] in before for reason in each.replay.open_reasons)
    assert [each.launch.id for each in explanation.launches if each.replay] == [2]


@pytest.mark.slow
@each_row("path", [FLIP, PHYSICS, DECAY])
def test_places_of_a_finding_show_their_code(path: Path) -> None:
    """A closing brace is not informative on its own."""
    braces = 0
    for each in explained(path).launches:
        for number, finding in enumerate(each.findings, 1):
            article = with_id(page_of(path), f"launch-{each.launch.id}-finding-{number}")
            listed = [item for places in with_class(article, "places") for item in places]
            for place, item in zip(finding.locations, listed, strict=False):
                code = source_lines(each.launch)[place.file][place.line - 1].strip()
                (shown,) = item.iter("code")
                assert words(shown).startswith(" ".join(code.split()))
                braces += code == "}"
                assert code != "}" or len(words(shown)) > 20
    assert braces == (1 if path is DECAY else 0)


@each_row("path", [FLIP, PHYSICS, TOUR])
def test_rules_with_the_largest_estimate_come_first(path: Path) -> None:
    """Estimates for the whole launch come before estimates for a part."""
    for each in explained(path).launches:
        folds = [b for b in every_block(rules_blocks(each, Anchors())) if isinstance(b, Fold)]
        told = texts_of(folds[0].blocks)
        rules = {message_text(rule.message): rule.speedup for rule in each.launch.rules}
        order = []
        for title, text in pairwise(told):
            if text in rules:
                of = rules[text]
                assert of is None or f"{of.percent:.0f}%" in title
                is_global = of is not None and of.scope is SpeedupScope.GLOBAL
                order.append((is_global, of.percent if of else 0.0))
        assert order == sorted(order, key=lambda found: (not found[0], -found[1]))
        assert len({percent for is_global, percent in order if is_global}) > 1


@each_row("path", [TOUR, ZOO])
def test_the_roofline_is_sorted_by_the_numbers_of_the_document(path: Path) -> None:
    profile = read_profile(path)
    figure = page_tree(draw_roofline(RooflineFigure(profile.launches, Anchors())))
    launches = [find_roofline(launch) for launch in profile.launches]
    rows = {int(words(r["#"])): r for r in table_rows(figure)}
    assert {*rows} == {each.id for each in launches}
    for each in launches:
        row = rows[each.id]
        reached = {ceiling.id: ceiling.reached_pct for ceiling in each.ceilings}
        at_dram = [
            i.value for i in each.intensities if (i.arithmetic, i.level) == (each.lead, "dram")
        ]
        nearest = reached[each.nearest[0]] / 100 if each.nearest else None
        assert value_of(row["#"]) == each.id
        assert each.duration.unit == "ns"
        assert value_of(row["Time"]) == pytest.approx(each.duration.value)
        assert value_of(row["Arithmetic"]) == (
            pytest.approx(reached[each.lead] / 100) if each.lead else None
        )
        assert value_of(row["Per DRAM byte"]) == (pytest.approx(at_dram[0]) if at_dram else None)
        assert value_of(row["Nearest ceiling"]) == pytest.approx(nearest)
        assert words(row["Nearest ceiling"]).startswith(f"{100 * (nearest or 0):.0f}%")
