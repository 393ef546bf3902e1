"""The source listing in a browser: heat by a column, search, links to lines, the panel, keys, colours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from keet.formats.html.blocks import page as page_of
from keet.formats.html.markup import element
from tests.browser.driver import Browser, Opened
from tests.browser.sample_pages import SAMPLES, written

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

LINE = "launch-0-file-0-L"
SHOWN = ".panel-of-line .where b"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    report = SAMPLES / "column_physics" / "slow.ncu-repz"
    return written(tmp_path_factory.mktemp("listing"), "explain", "--no-model", report)


def texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_text_contents()]


def first_words(page: Page, selector: str) -> list[str]:
    return [text.split()[0].strip(">") for text in texts(page, selector)]


def is_in_window(page: Page, selector: str) -> bool:
    box = page.locator(selector).bounding_box()
    return box is not None and 0 <= box["y"] < 900


def test_search_counts_lines_and_opens_folded_ones(page: Page) -> None:
    """It also finds machine code and line numbers."""
    folded = f"#{LINE}5"  # constexpr float kFreezing = 273.15f;
    assert not page.is_visible(folded)
    page.fill(".tools input", "KFREEZING")
    seen = texts(page, ".tools [role=status]")
    for key in ("Enter", "Shift+Enter", "Enter"):
        page.press(".tools input", key)
        seen += texts(page, ".tools [role=status]")
    assert seen == ["3 lines", "1 of 3", "3 of 3", "1 of 3"]
    assert is_in_window(page, folded)
    assert page.locator(".hit").count() == 3
    for words in ("0x14d0", ":96"):
        page.fill(".tools input", words)
        hits = page.eval_on_selector_all(".hit", "(all) => all.map((each) => each.id)")
        assert hits == [f"{LINE}96"]
    page.fill(".tools input", "")
    assert page.locator(".hit").count() == 0


def test_the_chosen_column_changes_numbers_and_heat(page: Page) -> None:
    cell, seen = f"#{LINE}96 .share", list[object]()
    for column in ("samples", "sectors", "instructions", "samples"):
        page.select_option(".tools select", column)
        heat = page.get_attribute(cell, "class")
        count = page.get_attribute(f"#{LINE}96 .bar-of", "data-count")
        seen.append((*texts(page, cell), heat, count, *texts(page, ".heads .share")))
    samples = ("17.4%", "share heat-5", "", "samples")
    assert seen == [
        samples,
        ("18.6%", "share heat-5", "120M", "sectors"),
        ("6.9%", "share heat-4", "7.37M", "instructions"),
        samples,
    ]


def test_next_hottest_goes_through_lines_by_the_chosen_column(page: Page) -> None:
    for column, lines in (("samples", (109, 110)), ("sectors", (96, 110))):
        page.select_option(".tools select", column)
        for line in lines:
            page.click("text=Next hottest")
            page.wait_for_selector(f"{SHOWN} >> text=slow.cu:{line}")


def test_a_link_to_any_line_opens_its_fold_and_marks_it(page: Page, made: Path) -> None:
    for line in (5, 96):
        page.goto("about:blank")
        page.goto(f"{made.as_uri()}#{LINE}{line}")
        assert is_in_window(page, f"#{LINE}{line}:target")
        stop = f"li#{LINE}{line}, #{LINE}{line} > summary"
        colour = page.eval_on_selector(stop, "(e) => getComputedStyle(e).backgroundColor")
        assert colour == "rgb(255, 244, 184)"  # yellow
    page.click(f"#{LINE}56 .n")
    assert page.evaluate("location.hash") == f"#{LINE}56"
    assert page.locator(f"#{LINE}56:target").count() == 1


def test_a_line_opens_beside_the_code_and_its_wait_leads_to_the_other_end(page: Page) -> None:
    page.click(f"#{LINE}59 > summary code")
    page.wait_for_selector(f"{SHOWN} >> text=slow.cu:59")
    row = page.locator(f"#{LINE}59").bounding_box()
    panel = page.locator(".panel-of-line .sass").bounding_box()
    assert row is not None
    assert panel is not None
    assert panel["x"] >= row["x"] + row["width"]
    waiting = page.locator(".sass .i:visible", has_text="Scoreboard for the load").first
    awaited = (waiting.text_content() or "").rpartition(" at ")[2].partition(" ")[0]
    waiting.locator("a").click()
    page.wait_for_selector(f"{SHOWN} >> text=slow.cu:156")
    assert first_words(page, ".panel-of-line .i.at") == [awaited]
    assert is_in_window(page, f"#{LINE}156")
    assert page.locator("details.line[open]").count() == 1


def test_a_wait_within_a_line_points_at_its_producer(page: Page) -> None:
    """Line 96, which is open at first, waits for its own load."""
    waiting = page.locator(".panel-of-line .i", has_text="for the local load").first
    waiting.click(position={"x": 5, "y": 5})
    assert first_words(page, ".panel-of-line .i.at") == ["0x14d0"]
    assert first_words(page, ".panel-of-line .i.producer") == ["0x14c0"]
    waiting.locator("a").click()
    assert first_words(page, ".panel-of-line .i.at") == ["0x14c0"]
    assert first_words(page, ".panel-of-line .i.waiting") == ["0x14d0"]


def test_all_machine_code_and_the_lines_are_selected_together(page: Page) -> None:
    page.click("text=All SASS")
    offsets = [int(each, 16) for each in first_words(page, ".whole .i")[1:]]
    assert offsets == sorted(offsets)
    assert len(offsets) > 900
    assert first_words(page, ".whole .i.own")[:2] == ["0x1470", "0x14c0"]
    page.locator(".whole .i", has_text="(slow.cu:156)").first.locator("a").click()
    page.wait_for_selector(f"{SHOWN} >> text=slow.cu:156")
    assert [text.split()[-3] for text in texts(page, ".whole .i.at")] == ["LDG.E"]
    assert page.locator(".whole .i.waiting").count() > 0


@pytest.mark.parametrize("javascript", [True, False])
def test_on_a_phone_a_line_opens_below_itself(
    browser: Browser, made: Path, javascript: bool
) -> None:
    def opening(opened: Opened) -> None:
        opened.page.click(f"#{LINE}59 > summary code")
        assert opened.page.locator(f"#{LINE}59 > .inside").is_visible()
        assert opened.page.locator(".side").count() == 0
        assert opened.messages == []

    browser.visit(made, opening, width=420, javascript=javascript)


def test_keys_move_between_lines_and_open_them(page: Page) -> None:
    page.focus(f"#{LINE}59 > summary")
    for key, place, *shown in (
        ("ArrowDown", "60", "slow.cu:96"),
        ("ArrowUp", "59", "slow.cu:59"),
        ("Enter", "59"),
        ("ArrowUp", "58"),
        ("h", "109", "slow.cu:109"),
        ("/", "search", "slow.cu:109"),
    ):
        page.keyboard.press(key)
        page.wait_for_timeout(100)
        at = "document.activeElement.closest('.line')?.id ?? document.activeElement.type"
        assert (page.evaluate(at).removeprefix(LINE), texts(page, SHOWN)) == (place, shown), key


SOURCES = {
    "k.cu": [
        '#include "k.h"',
        "/* a comment of",
        'two lines with "quotes */ int x = 0x1f; // the "end',
        'const char *s = "// no comment \\" here"; float y = 1.5e-3f;',
        "</code><script>alert(1)</script> return y;",
    ],
    "k.py": ["@triton.jit", 'def f(x):  # why: "x"', '    """Two', "    lines # no comment", '    """', "    return 2 * x"],
}  # fmt: skip
COLOURED = {
    "comment": ["/* a comment of", 'two lines with "quotes */', '// the "end', '# why: "x"'],
    "string": ['"k.h"', '"// no comment \\" here"', '"""Two', "    lines # no comment", '    """'],
    "directive": ["#include", "@triton.jit"],
    "number": ["0x1f", "1.5e-3f", "1", "2"],
    "keyword": ["const", "return", "def", "return"],
    "type": ["int", "char", "float"],
}


def test_colours_are_ranges_of_the_text(browser: Browser, tmp_path: Path) -> None:
    """Of text that no sample has."""
    sections = [
        element(
            "section",
            element("h4", element("span", name, class_="mono")),
            element(
                "div",
                element("ol", [element("li", line) for line in lines], class_="text", start=1),
                class_="rows",
            ),
            class_="file",
            data_lines=f"{name}-L",
        )
        for name, lines in SOURCES.items()
    ]
    files = element("div", element("div", sections), class_="files")
    listing = element("div", files, class_="listing", data_columns="samples:1", data_steps="0.5")
    path = tmp_path / "page.html"
    path.write_text(page_of("Code", "", element("h1", "Code"), listing), encoding="utf-8")
    script = """Object.fromEntries([...CSS.highlights].map(([kind, ranges]) => [kind,
        [...ranges].map((r) => r.startContainer.data.slice(r.startOffset, r.endOffset))]))"""
    found = browser.visit(path, lambda opened: opened.page.evaluate(script))
    assert {kind: found[kind] for kind in COLOURED} == COLOURED
