"""The source listing in a browser: heat by a column, search, links to lines, the panel, keys, colours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keet.formats.html.markup import element
from keet.formats.html.page import page
from tests.browser.driver import Browser, Opened
from tests.browser.sample_pages import SAMPLES, written

pytestmark = pytest.mark.slow

LINE = "launch-0-file-0-L"
SHOWN = ".panel-of-line .where b"
Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    report = SAMPLES / "column_physics" / "slow.ncu-repz"
    return written(tmp_path_factory.mktemp("listing"), "explain", "--no-model", report)


@pytest.fixture
def visit(browser: Browser, made: Path) -> Visit:
    def visiting(do: Callable[[Opened], object], width: int = 1400, **how: Any) -> object:
        def checked(opened: Opened) -> object:
            result = do(opened)
            assert opened.messages == []
            return result

        return browser.visit(made, checked, width=width, **how)

    return visiting


def texts(opened: Opened, selector: str) -> list[str]:
    return [text.strip() for text in opened.page.locator(selector).all_text_contents()]


def is_in_window(opened: Opened, selector: str) -> bool:
    box = opened.page.locator(selector).bounding_box()
    return box is not None and 0 <= box["y"] < 900


def test_search_counts_lines_and_opens_folded_ones(visit: Visit) -> None:
    def searching(opened: Opened) -> list[object]:
        folded = f"#{LINE}5"  # constexpr float kFreezing = 273.15f;
        seen: list[object] = [opened.page.is_visible(folded)]
        opened.page.fill(".tools input", "KFREEZING")
        seen += texts(opened, ".tools [role=status]")
        for key in ("Enter", "Shift+Enter", "Enter"):
            opened.page.press(".tools input", key)
            seen += texts(opened, ".tools [role=status]")
        seen += [is_in_window(opened, folded), opened.page.locator(".hit").count()]
        opened.page.fill(".tools input", "")
        return [*seen, opened.page.locator(".hit").count()]

    assert visit(searching) == [False, "3 lines", "1 of 3", "3 of 3", "1 of 3", True, 3, 0]


def test_search_also_finds_machine_code_and_line_numbers(visit: Visit) -> None:
    def searching(opened: Opened) -> list[list[str]]:
        found = []
        for words in ("0x14d0", ":96"):
            opened.page.fill(".tools input", words)
            script = "(all) => all.map((each) => each.id)"
            found.append(list(opened.page.eval_on_selector_all(".hit", script)))
        return found

    assert visit(searching) == [[f"{LINE}96"], [f"{LINE}96"]]


def test_the_chosen_column_changes_numbers_and_heat(visit: Visit) -> None:
    def choosing(opened: Opened) -> list[object]:
        cell, seen = f"#{LINE}96 .share", list[object]()
        for column in ("samples", "sectors", "instructions", "samples"):
            opened.page.select_option(".tools select", column)
            heat = opened.page.get_attribute(cell, "class")
            count = opened.page.get_attribute(f"#{LINE}96 .bar-of", "data-count")
            seen.append((*texts(opened, cell), heat, count, *texts(opened, ".heads .share")))
        return seen

    samples = ("17.4%", "share heat-5", "", "samples")
    assert visit(choosing) == [
        samples,
        ("18.6%", "share heat-5", "120M", "sectors"),
        ("6.9%", "share heat-4", "7.37M", "instructions"),
        samples,
    ]


def test_next_hottest_goes_through_lines_by_the_chosen_column(visit: Visit) -> None:
    def going(opened: Opened) -> list[str]:
        seen = []
        for column in ("samples", "sectors"):
            opened.page.select_option(".tools select", column)
            for _ in range(2):
                opened.page.click("text=Next hottest")
                opened.page.wait_for_timeout(100)
                seen += texts(opened, SHOWN)
        return seen

    assert visit(going) == [f"slow.cu:{line}" for line in (109, 110, 96, 110)]


def test_a_link_to_any_line_opens_its_fold_and_marks_it(visit: Visit, made: Path) -> None:
    def opening(opened: Opened) -> list[object]:
        seen: list[object] = []
        for line in (5, 96):
            opened.page.goto("about:blank")
            opened.page.goto(f"{made.as_uri()}#{LINE}{line}")
            seen.append(is_in_window(opened, f"#{LINE}{line}:target"))
            stop = f"li#{LINE}{line}, #{LINE}{line} > summary"
            seen.append(
                opened.page.eval_on_selector(stop, "(e) => getComputedStyle(e).backgroundColor")
            )
        opened.page.click(f"#{LINE}56 .n")
        return [*seen, opened.page.evaluate("location.hash"), opened.page.locator(f"#{LINE}56:target").count()]  # fmt: skip

    yellow = "rgb(255, 244, 184)"
    assert visit(opening) == [True, yellow, True, yellow, f"#{LINE}56", 1]


def test_a_line_opens_beside_the_code_and_its_wait_leads_to_the_other_end(visit: Visit) -> None:
    def following(opened: Opened) -> list[object]:
        opened.page.click(f"#{LINE}59 > summary code")
        opened.page.wait_for_selector(f"{SHOWN} >> text=slow.cu:59")
        row, panel = (
            opened.page.locator(each).bounding_box()
            for each in (f"#{LINE}59", ".panel-of-line .sass")
        )
        assert row is not None
        assert panel is not None
        waiting = opened.page.locator(".sass .i:visible", has_text="Scoreboard for the load").first
        awaited = (waiting.text_content() or "").rpartition(" at ")[2].partition(" ")[0]
        waiting.locator("a").click()
        opened.page.wait_for_selector(f"{SHOWN} >> text=slow.cu:156")
        marked = texts(opened, ".panel-of-line .i.at")
        return [
            panel["x"] >= row["x"] + row["width"],
            [text.split()[0].strip(">") for text in marked] == [awaited],
            is_in_window(opened, f"#{LINE}156"),
            opened.page.locator("details.line[open]").count(),
        ]

    assert visit(following) == [True, True, True, 1]


def test_a_wait_within_a_line_points_at_its_producer(visit: Visit) -> None:
    """Line 96, which is open at first, waits for its own load."""

    def pointing(opened: Opened) -> list[list[str]]:
        waiting = opened.page.locator(".panel-of-line .i", has_text="for the local load").first
        waiting.click(position={"x": 5, "y": 5})
        ends = [texts(opened, f".panel-of-line .i.{end}") for end in ("at", "producer")]
        waiting.locator("a").click()
        ends += [texts(opened, f".panel-of-line .i.{end}") for end in ("at", "waiting")]
        return [[text.split()[0] for text in own] for own in ends]

    assert visit(pointing) == [["0x14d0"], ["0x14c0"], ["0x14c0"], ["0x14d0"]]


def test_all_machine_code_and_the_lines_are_selected_together(visit: Visit) -> None:
    def selecting(opened: Opened) -> list[object]:
        opened.page.click("text=All SASS")
        offsets = [text.split()[0] for text in texts(opened, ".whole .i")[1:]]
        own = [text.split()[0] for text in texts(opened, ".whole .i.own")]
        waiting = opened.page.locator(".whole .i", has_text="(slow.cu:156)").first
        waiting.locator("a").click()
        opened.page.wait_for_selector(f"{SHOWN} >> text=slow.cu:156")
        at = texts(opened, ".whole .i.at")
        return [
            offsets == sorted(offsets, key=lambda each: int(each, 16)) and len(offsets) > 900,
            own[:2],
            [text.split()[-3] for text in at],
            len(texts(opened, ".whole .i.waiting")) > 0,
        ]

    assert visit(selecting) == [True, ["0x1470", "0x14c0"], ["LDG.E"], True]


def test_on_a_phone_a_line_opens_below_itself(visit: Visit) -> None:
    def opening(opened: Opened) -> list[object]:
        opened.page.click(f"#{LINE}59 > summary code")
        inside = opened.page.locator(f"#{LINE}59 > .inside")
        return [inside.is_visible(), opened.page.locator(".side").count()]

    assert visit(opening, width=420) == [True, 0]
    assert visit(opening, width=420, javascript=False) == [True, 0]


def test_keys_move_between_lines_and_open_them(visit: Visit) -> None:
    def pressing(opened: Opened) -> list[object]:
        seen: list[object] = []
        opened.page.focus(f"#{LINE}59 > summary")
        for key in ("ArrowDown", "ArrowUp", "Enter", "ArrowUp", "h", "/"):
            opened.page.keyboard.press(key)
            opened.page.wait_for_timeout(100)
            at = "document.activeElement.closest('.line')?.id ?? document.activeElement.type"
            seen.append((str(opened.page.evaluate(at)).removeprefix(LINE), *texts(opened, SHOWN)))
        return seen

    assert visit(pressing) == [
        ("60", "slow.cu:96"),
        ("59", "slow.cu:59"),
        ("59",),
        ("58",),
        ("109", "slow.cu:109"),
        ("search", "slow.cu:109"),
    ]


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
    "k.cu": {
        "comment": ["/* a comment of", 'two lines with "quotes */', '// the "end'],
        "string": ['"k.h"', '"// no comment \\" here"'],
        "directive": ["#include"],
        "number": ["0x1f", "1.5e-3f", "1"],
        "keyword": ["const", "return"],
        "type": ["int", "char", "float"],
    },
    "k.py": {
        "comment": ['# why: "x"'],
        "string": ['"""Two', "    lines # no comment", '    """'],
        "directive": ["@triton.jit"],
        "number": ["2"],
        "keyword": ["def", "return"],
        "type": [],
    },
}


@pytest.mark.parametrize("name", SOURCES)
def test_colours_are_ranges_of_the_text(browser: Browser, tmp_path: Path, name: str) -> None:
    """Of text that no sample has."""
    lines = element("ol", [element("li", line) for line in SOURCES[name]], class_="text", start=1)
    file = element(
        "section",
        element("h4", element("span", name, class_="mono")),
        element("div", lines, class_="rows"),
        class_="file",
        data_lines="f-L",
    )
    files = element("div", element("div", file), class_="files")
    listing = element("div", files, class_="listing", data_columns="samples:1", data_steps="0.5")
    path = tmp_path / "page.html"
    path.write_text(page("Code", "", element("h1", "Code"), listing), encoding="utf-8")

    def colours(opened: Opened) -> object:
        return opened.page.evaluate(
            """Object.fromEntries([...CSS.highlights].map(([kind, ranges]) => [kind,
            [...ranges].map((r) => r.startContainer.data.slice(r.startOffset, r.endOffset))]))"""
        )

    found = browser.visit(path, colours)
    assert isinstance(found, dict)
    assert {kind: found.get(kind, []) for kind in COLOURED[name]} == COLOURED[name]
