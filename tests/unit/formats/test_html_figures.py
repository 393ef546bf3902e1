"""Figures of a page: the account as a bar that adds up, busy units, and the roofline."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from keet.analysis.account import UNKNOWN
from keet.analysis.roofline.launch_roofline import find_roofline
from keet.explanation.account_texts import AccountRow, account_rows
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.account import (
    OTHER,
    account_bar,
    draw_account,
    draw_tree,
    kind_of,
    segments_of,
)
from keet.formats.html.roofline import draw_roofline
from keet.formats.svg.roofline import SMALL, Plot
from keet.pages.blocks import AccountFigure, AccountTree, Anchors, RooflineFigure
from keet.profile import Launch, Profile
from tests.conftest import REPORTS
from tests.explained_reports import explained
from tests.page_parts import links_in, page_tree, table_rows, with_class, words
from tests.rows import each_row

ProfileOf = Callable[[str], Profile]

SAMPLES = Path("kernels_samples")
EVERY = sorted(path.parent.name for path in SAMPLES.glob("*/slow.ncu-rep*"))
STYLE = Path("keet/formats/html/assets/charts.css").read_text(encoding="ascii")


def launches_of(report: Path | str) -> Sequence[LaunchExplanation]:
    return explained(report, sass=False).launches


def sample(name: str) -> LaunchExplanation:
    return launches_of(name)[0]


def percent(text: str | None) -> float:
    assert text.endswith("%")
    return float(text[:-1])


def bar_of(name: str) -> ET.Element:
    return page_tree(account_bar(segments_of(rows_of(name)), name="x"))


def rows_of(name: str) -> Sequence[AccountRow]:
    return account_rows(sample(name).view, sample(name).account)


@each_row("name", EVERY[::2], few=6)
def test_the_bar_and_the_table_of_the_account(name: str) -> None:
    """A part begins where the previous one ends. None falls back to the colour of unknown ids, and
    each colour exists."""
    each, rows = sample(name), rows_of(name)
    segments = segments_of(rows)
    assert sum(segment.share for segment in segments) == pytest.approx(100, abs=0.06)
    marks = with_class(bar_of(name), "part")
    ends = [(percent(m.get("x")), percent(m.get("width"))) for m in marks]
    for (start, width), (following, _) in pairwise(ends):
        assert following == pytest.approx(start + width, abs=0.01)
    (table,) = with_class(page_tree(draw_account(AccountFigure(each))), "account-table")
    _, *shown, whole = ([*map(words, row)] for row in table.iter("tr"))
    assert shown == [[str(r.label), f"{r.share:.0f}", str(r.time)] for r in rows]
    assert whole == ["Whole launch", "100%", str(each.launch.get("duration"))]
    for part in each.account.all():
        kind = kind_of(part.id)
        assert kind != OTHER, part.id
        assert f".k-{kind} " in STYLE


def test_the_parts_of_an_account_and_the_busy_units() -> None:
    """Neither is drawn of a launch that was not judged."""
    each = sample("column_physics")
    fold = page_tree(draw_tree(AccountTree(each)) or "")
    rows = [words(row) for row in fold.iter("tr")]
    for part in each.account.all():
        assert any(part.part in row and part.percent.id in row for row in rows), part.id
    (units,) = with_class(page_tree(draw_account(AccountFigure(each))), "units")
    assert words(units).startswith("L282%busiest stage: Crossbar to L2")
    first = next(with_class(units, "fill"))
    assert percent(first.get("width")) == pytest.approx(82.3, abs=0.1)
    assert "near" in first.get("class", "")  # from 60 % of its peak
    each = replace(each, verdict=replace(each.verdict, not_judged=True))
    assert draw_account(AccountFigure(each)) == ""
    assert draw_tree(AccountTree(each)) is None


def test_a_part_has_the_same_colour_in_the_bar_and_in_both_tables() -> None:
    each = sample("matrix_flip")
    looks = [
        {
            words(row[0]): row[0][0].get("class", "")
            for row in page_tree(drawn).iter("tr")
            if len(row) > 2 and len(row[0]) and row[0][0].tag == "span"
        }
        for drawn in (draw_account(AccountFigure(each)), draw_tree(AccountTree(each)) or "")
    ]
    in_bar = {part.label: f"swatch {part.look}" for part in segments_of(rows_of("matrix_flip"))}
    shared = looks[0].keys() & looks[1].keys()
    assert sum("tint-" in looks[0][label] for label in shared) >= 2
    for label in shared:
        assert looks[0][label] == looks[1][label] == in_bar[label]


def test_unknown_parts_have_a_neutral_colour() -> None:
    assert kind_of("waiting_room.dram") == OTHER
    assert kind_of("waiting.busy.new_unit") == "pipe"
    assert kind_of("active.busy.dram") == kind_of("waiting.busy.dram") == "dram"
    assert kind_of("waiting.unknown") == kind_of("active.unknown") == UNKNOWN
    # The report has no warp states.
    (each, *_) = launches_of(REPORTS / "tour_basic.ncu-repz")
    for one, is_hatched in ((each, True), (sample("column_physics"), False)):
        drawn = page_tree(draw_account(AccountFigure(one)))
        assert bool([*with_class(drawn, "hatch")]) == is_hatched


def labels_at(bar: ET.Element, width: int) -> list[tuple[str, float]]:
    """Labels that the style shows on a bar of so many pixels, and the width available for each."""
    steps = [
        int(w) for w in re.findall(r"@container account \(min-width: (\d+)px\) \{ .acc", STYLE)
    ]
    passed = {step for step, least in enumerate(steps) if width >= least}
    found = []
    for holder in bar.iter("svg"):
        for text in holder.findall("text"):
            kinds = dict(name.split("-") for name in text.get("class", "").split())
            hidden = "until" in kinds and int(kinds["until"]) in passed
            if int(kinds["from"]) in passed and not hidden:
                found.append((text.text or "", percent(holder.get("width")) / 100 * width))
    return found


def test_labels_fit_into_their_parts(wording) -> None:
    """At 6.5 pixels per letter, as in a wide font of 12 pixels. Wider bars have longer labels."""
    for name in ("column_physics", "score_tiles", "half_dense", "xs_lookup"):
        bar = bar_of(name)
        for width in (330, 560, 1100, 1700):
            shown = labels_at(bar, width)
            assert shown
            assert all(6.5 * len(text) + 7 <= room for text, room in shown)
    bar = bar_of("column_physics")
    short, long = ({text for text, _ in labels_at(bar, width)} for width in (300, 1100))
    assert "63%" in short
    wording(long)


def drawn(
    launches: Sequence[Launch], anchors: Anchors | None = None, linked: Sequence[int] = ()
) -> ET.Element:
    return page_tree(draw_roofline(RooflineFigure(launches, anchors or Anchors(), linked)))


def test_the_roofline_says_what_it_is(profile_of: ProfileOf, wording) -> None:
    launches = profile_of("tour_full.ncu-repz").launches
    (wide,) = with_class(drawn(launches), "wide")
    titles = [title.text or "" for title in wide.iter("title")]
    (mark,) = (title for title in titles if title.startswith("#"))
    wording(mark)
    roofs = [title for title in titles if not title.startswith("#")]
    plot = Plot([find_roofline(launch) for launch in launches])
    assert len(roofs) == len(plot.flat) + len(plot.slopes)
    assert all("reached by #" in roof for roof in roofs)
    assert links_in(drawn(launches, Anchors("r"), [1])) == ["r-launch-1"]
    # The small chart stays in its frame.
    rooflines = [find_roofline(launch) for launch in profile_of("zoo.ncu-repz").launches]
    root = ET.fromstring(f"<svg>{Plot(rooflines, frame=SMALL).draw()}</svg>")
    for text in root.iter("text"):
        if (x := text.get("x")) is not None:
            assert 0 <= float(x) <= SMALL.width
            assert 0 <= float(text.get("y", "0")) <= SMALL.height
    # In the tour, cycles of SMs and of GPCs over one duration give 1.98 and 1.96 GHz: if peaks are
    # at another clock than the page's, it says so.
    for launch, is_other in ((sample("half_dense").launch, False), (launches[2], True)):
        told = words(drawn([launch]))
        assert f"SM clock {launch.get('sm_frequency')}" in told
        at_peak = told.partition("Peaks of arithmetic")[2]
        assert (f" at {launch.get('sm_clock')}" in at_peak) == bool(at_peak) == is_other


def test_a_roofline_without_its_numbers_is_no_empty_chart(profile_of: ProfileOf, wording) -> None:
    lacking = drawn(profile_of("tour_basic.ncu-repz").launches)
    assert "profile with: ncu --section SpeedOfLight_RooflineChart" in words(lacking)
    assert "FP64 operations" in words(lacking)
    nothing = drawn([sample("matrix_flip").launch])
    assert "No chart: " in words(nothing)
    assert not [*with_class(lacking, "wide"), *with_class(nothing, "wide")]
    # L2 is at 83 % on the same page: its busiest stage, not its bytes.
    (row,) = table_rows(nothing)
    wording(words(row["Nearest ceiling"]))
