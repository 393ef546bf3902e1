"""The page of `keet insights`: every insight, point and number is there, escaped once."""

from __future__ import annotations

import re
from dataclasses import replace as replaced
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from keet.documents.insights import InsightsDocument, UncheckedSentenceDocument, WrittenDocument
from keet.formats import page_text
from keet.formats.html.blocks import reader
from keet.formats.html.insights import letter
from keet.pages import insights as pages
from keet.pages.insights import NO_SWEEP, NOTHING, distinct_names, time_text
from keet.safe_text import one_line
from tests.insights_sets import finding, insights_of, launch, make_set, night, reports_in
from tests.page_blocks import texts_of
from tests.page_parts import PageParts, page_tree, table_rows, value_of, with_class, words
from tests.rows import mostly_slow

SWEEP = Path("kernels_samples/pair_reduce/sweep")
EVIL = "evil<script>alert(1)</script>&\"'\x1b[31m`|"


def insights_page(document: InsightsDocument) -> str:
    return page_text(lambda reader: pages.insights_page(document, reader), "html")


def of_class(page: PageParts, name: str) -> list[str]:
    return [tag for tag, given in page.elements if name in (given.get("class") or "").split()]


@cache
def samples() -> InsightsDocument:
    """Four points of a real sweep, between which the limiter changes three times."""
    reports = [SWEEP / f"BLOCK_{block}.ncu-repz" for block in ("0032", "0096", "0192", "1024")]
    with TemporaryDirectory() as folder:
        store = reports_in(Path(folder) / "store", reports)
        return replaced(insights_of(store), store="store")


def made(path: str, kernel: str, us: float, number: int = 0, **more: Any) -> Any:
    named = {"kernel": kernel, "kernel_full": f"{kernel}()", "duration_us": us, **more}
    return launch(f"{path}.ncu-rep", number, **named)


@cache
def every_kind() -> InsightsDocument:
    """Generated: a sweep with changes of the limiter, a cluster, a change over time, an outlier."""
    shares = {32: ("latency", 30.0, 20.0), 64: ("DRAM", 80.0, 40.0), 128: ("L2", 50.0, 81.0)}
    launches = [
        made(f"sweeps/BLOCK_{block}", EVIL, 100.0 + block, limiter=limiter, block=(block, 1, 1),
             kernel_full=EVIL, ceilings={"DRAM": dram, "L2": l2})
        for block, (limiter, dram, l2) in shares.items()
    ]  # fmt: skip
    launches += [
        made(f"nightly/{n:02}", "solve", 100.0 if n < 8 else 131.0, created=night(n))
        for n in range(14)
    ]
    launches += [
        made("many/run", "tick", 130.0 if n == 17 else 50.0 + n % 4 / 10, n) for n in range(30)
    ]
    small = [made(f"app/{name}", name, 300.0) for name in ("one", "two", "three")]
    found = [finding(each, "small_grid", 2.0) for each in small]
    with TemporaryDirectory() as folder:
        store = make_set(Path(folder) / "store", [*launches, *small], found)
        return replaced(insights_of(store), store="store")


@pytest.mark.slow
@pytest.mark.parametrize("document", mostly_slow([every_kind, samples], few=1))
def test_every_insight_is_on_the_page_with_its_texts(document) -> None:
    made = document()
    page = PageParts(insights_page(made))
    shown = squeezed(page.text)
    missing = [
        sentence
        for insight in made.insights
        for sentence in (insight.title, *insight.text, insight.adds)
        if squeezed(one_line(sentence)) not in shown
    ]
    assert made.insights
    assert missing == []
    assert {each.id for each in made.insights} <= set(page.ids)
    assert [name for each in made.insights for name in each.facts if name not in page.text] == []
    assert len(page.ids) == len(set(page.ids))
    assert [link for link in page.targets if link not in page.ids] == []
    assert "<script>alert" not in insights_page(made)
    assert "\x1b" not in insights_page(made)
    assert len(page.attributes("script")) == 1  # the page's own
    assert not re.search(r"<[^>]* style=", insights_page(made))


def percent(text: str | None) -> float:
    return float(text.removesuffix("%"))


def squeezed(text: str) -> str:
    """Without backticks and white space, which the page replaces by elements."""
    return re.sub(r"[\s`]", "", text)


def test_kinds_of_insights() -> None:
    kinds = {each.kind for each in every_kind().insights}
    assert kinds == {"sweep", "cluster", "change", "outliers"}
    page = PageParts(insights_page(every_kind()))
    assert {f"kind-{kind}" for kind in kinds} <= {*page.ids}
    no_sweep = NO_SWEEP.partition("`")[0].strip()
    others = [each for each in every_kind().insights if not each.sweep]
    texts = [page.text]
    for insights in (others, []):
        texts.append(PageParts(insights_page(replaced(every_kind(), insights=insights))).text)
    assert [(no_sweep in text, NOTHING in text) for text in texts] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_a_chart_has_a_bar_and_a_tooltip_per_point_and_a_line_per_unit() -> None:
    (sweep,) = [each.sweep for each in samples().insights if each.sweep]
    html = insights_page(samples())
    page = PageParts(html)
    assert len(of_class(page, "time-bar")) == len(of_class(page, "column")) == len(sweep.points)
    units = {unit for point in sweep.points for unit in point.units}
    assert len(of_class(page, "unit")) == len(units)
    assert len(of_class(page, "best")) == 2  # a bar and its key
    point = sweep.points[sweep.best]
    (tip,) = [t for t in re.findall(r"<title>(.*?)</title>", html, re.S) if "BLOCK 1024" in t]
    expected = [f"BLOCK {point.shown} (best)", f"time {time_text(point.time_us)}"]
    expected += [f"limiter: {point.limiter}", f"BLOCK_1024.ncu-repz #{point.launch}", "DRAM 93%"]
    assert [words for words in expected if words not in tip] == []
    assert len(sweep.changes) == len(of_class(page, "change")) == 3
    for change in sweep.changes:
        between = f"between {change.after} and {change.until}: the limiter was {change.was}"
        assert between in page.text
    # A sweep of one point without units is drawn, too.
    alone = replaced(sweep.points[0], units={}, limiter=None)
    sweep = replaced(sweep, points=[alone], best=None, changes=[])
    insight = replaced(samples().insights[0], sweep=sweep)
    page = PageParts(insights_page(replaced(samples(), insights=[insight])))
    assert len(of_class(page, "column")) == 1
    assert of_class(page, "unit") == []
    assert "limiter: not known" in page.text
    assert len(of_class(page, "heading")) == 1  # of the times


def test_names() -> None:
    assert [letter(number) for number in (0, 25, 26, 53)] == ["A", "Z", "A1", "B2"]
    paths = ["/a/x/slow.ncu-rep", "/a/y/slow.ncu-rep", "/a/y/fast.ncu-rep", "slow.ncu-rep"]
    names = list(distinct_names(paths).values())
    assert sorted(names) == ["fast.ncu-rep", "slow.ncu-rep", "x/slow.ncu-rep", "y/slow.ncu-rep"]


@pytest.mark.slow
def test_many_insights_are_folded_but_complete() -> None:
    (one,) = [each for each in samples().insights if each.sweep]
    many = [replaced(one, id=f"sweep-{number}") for number in range(1, 21)]
    page = PageParts(insights_page(replaced(samples(), insights=many)))
    assert len(of_class(page, "folded")) == 14
    assert len(of_class(page, "time-bar")) == 20 * 4
    assert page.text.count(one.adds) == 2 * 20
    assert [link for link in page.targets if link not in page.ids] == []


def test_model_text_is_marked_and_its_problems_are_listed(wording) -> None:
    unchecked = UncheckedSentenceDocument(text="It takes 7 us.", reason="no fact has this number")
    written = WrittenDocument(text="[unchecked] It takes 7 us.", unchecked=[unchecked])
    document = replaced(
        samples(),
        insights=[replaced(samples().insights[0], written=written)],
        author="model:scripted:x",
        problem="the model timed out",
    )
    texts = texts_of(pages.insights_page(document, reader()).blocks)
    wording([text for text in texts if "unchecked" in text or "model" in text.lower()])


def test_meters_of_a_sweep_are_as_long_as_the_times() -> None:
    (sweep,) = [each.sweep for each in samples().insights if each.sweep]
    page = page_tree(insights_page(samples()))
    boxes = {node.get("aria-label", ""): node for node in with_class(page, "scroll")}
    (points,) = [name for name in boxes if name.startswith(f"Points of {sweep.kernel}")]
    rows = table_rows(boxes[points])
    assert sweep.work_unit is None
    longest = max(point.time_us for point in sweep.points)
    for row, point in zip(rows, sweep.points, strict=True):
        (mark,) = row["time"].iter("rect")
        assert value_of(row["time"]) == pytest.approx(point.time_us)
        assert value_of(row[sweep.knob]) == point.value
        share = 100 * point.time_us / longest
        assert percent(mark.get("width")) == pytest.approx(share, abs=0.06)
        units = {unit: value_of(row[unit]) for unit in point.units}
        assert units == pytest.approx(point.units)
    assert len({point.time_us for point in sweep.points}) > 2


def test_change_is_drawn_between_its_two_files() -> None:
    (change,) = [each.change for each in every_kind().insights if each.change]
    (drawing,) = with_class(page_tree(insights_page(every_kind())), "history-drawing")
    bars, (line,) = [*with_class(drawing, "time-bar")], with_class(drawing, "change")
    before, after = ([*with_class(drawing, "time-bar", side)] for side in ("before", "after"))
    assert bars == [*before, *after]
    ends = [percent(bar.get("x")) + percent(bar.get("width")) for bar in before]
    assert max(ends) <= percent(line.get("x1")) <= percent(after[0].get("x"))
    assert line.get("x1") == line.get("x2")
    last, first = change.history[change.last_before], change.history[change.last_before + 1]
    assert last.path in words(before[-1])
    assert first.path in words(after[0])
    heights = [float(bar.get("height", "")) for bar in (before[-1], after[0])]
    assert heights[0] / heights[1] == pytest.approx(last.time_us / first.time_us, rel=0.01)
