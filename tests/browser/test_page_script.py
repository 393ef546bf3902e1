"""What the page's own script does: copying, filtering, sorting, tooltips, the theme, links into closed
parts, paper. And that a page is readable where scripts are switched off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from keet.formats.html.blocks import bar
from keet.formats.html.blocks import page as page_of
from keet.formats.html.markup import Html, element
from tests.browser.driver import Browser, Opened
from tests.browser.sample_pages import SLOW, one_launch
from tests.conftest import Keet

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

COPIED = 'first line\r\n\tsecond: <b> & "quotes" \u2192 \u20ac\n\n    last\n'
VALUES = ["5", "40", "", "300", "", "7"]
"""Of the rows of a table; an empty one is not known."""


def _row(number: int) -> Html:
    value = VALUES[number] if number < len(VALUES) else str(number)
    return element(
        "tr",
        element("th", f"kernel {number}", scope="row"),
        element("td", f"{value} us" if value else "-", class_="number", data_value=value),
    )


def _table(rows: int) -> Html:
    head = [element("th", "Kernel", data_first="ascending"), element("th", "Time", class_="number")]
    table = element(
        "table",
        element("thead", element("tr", head)),
        element("tbody", [_row(number) for number in range(rows)]),
        data_sortable=True,
        data_filter=True,
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label="Rows")


def _mark(key: str, words: str) -> Html:
    rect = element("rect", x="0", y="0", width="20", height="20")
    return element("g", element("title", words), rect, id=key)


def _far(key: str, *content: Html | str, **attributes: object) -> Html:
    """Behind a closed part in a closed part, below the window."""
    space = [element("p", f"line {number}") for number in range(100)]
    inner = element("details", element("summary", "inner"), *content, class_="inner", **attributes)
    return element("details", element("summary", "outer"), space, inner, id=key)


BODY = [
    element("h1", "A page"),
    element("a", "to the line", href="#far", id="link"),
    element("a", "to the plain part", href="#plain", id="plain-link"),
    element("button", "Copy", type="button", data_copy="text", hidden=True, id="copy"),
    element("pre", COPIED, id="text"),
    element("svg", _mark("mark", "L2\n83 % busy"), viewBox="0 0 100 30", role="img", aria_label="A chart"),
    _table(14),
    element("details", element("summary", "evidence"), "for paper", data_print=True, id="paper"),
    element("details", element("summary", "code"), "not for paper", id="code"),
    _far("outer", element("p", "the line", id="far")),
    element("p", "plain", id="plain"),
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "page.html"
    path.write_text(page_of("A page", bar("a page", [("plain", "Plain")]), *BODY), encoding="utf-8")
    return path


# --- copying

REFUSES = "navigator.clipboard.writeText = () => Promise.reject(new Error('no'));"


def copied(page: Page, before: str = "") -> tuple[str, str]:
    """What the clipboard has after a click, and what the button says. `before`: a script that the
    page finds when it is loaded."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.add_init_script(before)
    page.reload()
    page.click("#copy")
    page.wait_for_function("document.getElementById('copy').textContent !== 'Copy'")
    return pasted(page), page.inner_text("#copy")


def pasted(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_a_button_copies_the_exact_text_and_says_so(browser: Browser, made: Path) -> None:
    """Also without the clipboard's interface; where nothing can be copied, the text is shown."""

    def copying(opened: Opened) -> None:
        page = opened.page
        page.clock.install()
        assert copied(page) == (COPIED, "Copied")
        page.clock.run_for(3000)
        assert page.inner_text("#copy") == "Copy"
        page.evaluate("navigator.clipboard.writeText('')")
        assert copied(page, REFUSES) == (COPIED, "Copied")
        _, said = copied(page, "document.execCommand = () => false;")
        assert said == "Not copied: select the text below"
        assert page.evaluate("document.activeElement.id") == "text"
        assert opened.messages == []

    browser.visit(made, copying)


def test_the_prompt_context_of_a_report(browser: Browser, tmp_path: Path, keet: Keet) -> None:
    wanted = keet("context", SLOW).out

    def copying(opened: Opened) -> str:
        opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        opened.page.click("text=Copy prompt context")
        opened.page.wait_for_selector("text=Copied")
        return pasted(opened.page)

    assert browser.visit(one_launch(tmp_path), copying) == wanted


# --- tables


def cells(page: Page, selector: str, value: str) -> list[str]:
    script = f"(cells) => cells.map((each) => each.{value})"
    return list(page.eval_on_selector_all(f"tbody {selector}", script))


def test_sorting(page: Page) -> None:
    """Unknown values stay last in either order; numbers in texts count as numbers."""
    known = sorted(int(value) for value in cells(page, "td", "dataset.value") if value)
    for order in (reversed(known), known):
        page.click("text=Time")
        assert cells(page, "td", "dataset.value") == [*map(str, order), "", ""]
    page.click("th >> text=Kernel")
    assert cells(page, "th", "textContent") == [f"kernel {number}" for number in range(14)]


def test_the_filter_takes_all_words_and_counts(page: Page) -> None:
    seen = []
    for words in ("KERNEL", "kernel us 1", "nothing like it", ""):
        page.fill("input[type=search]", words)
        shown = page.locator("tbody tr:visible").count()
        seen.append((shown, page.inner_text(".filter [role=status]").strip()))
    assert seen == [(14, "14 of 14"), (5, "5 of 14"), (0, "0 of 14"), (14, "")]


# --- tooltips


def test_tooltips_by_mouse_keyboard_and_escape(page: Page) -> None:
    acts: list[Callable[[], object]] = [
        lambda: None,
        lambda: page.hover("#mark"),
        lambda: page.mouse.move(0, 0),
        lambda: page.focus("#mark"),
        lambda: page.keyboard.press("Escape"),
        lambda: page.hover("#mark"),
        lambda: page.evaluate("scrollTo(0, 300)"),
    ]
    seen: list[str | None] = []
    for act in acts:
        act()
        page.evaluate("new Promise((done) => requestAnimationFrame(done))")
        tip = page.locator(".tip:visible")
        seen.append(tip.text_content() if tip.count() else None)
    words = "L2\n83 % busy"
    assert seen == [None, words, None, words, None, words, None]
    # For screen readers.
    assert [page.get_attribute("#mark", name) for name in ("aria-label", "role")] == [words, "img"]
    assert page.get_attribute("svg:has(#mark)", "role") == "group"


def test_a_tooltip_stays_inside_the_window(opened: Opened, page: Page) -> None:
    for width in (400, 1200):
        opened.again(width)
        page.focus("#mark")
        found = page.locator(".tip").bounding_box()
        assert found is not None
        assert 0 <= found["x"] <= width - found["width"]
        assert found["y"] >= 0


# --- the theme

LIGHT, DARK = ("rgb(247, 248, 250)", "Dark"), ("rgb(15, 20, 25)", "Light")
"""The background, and what the button offers."""
NO_STORAGE = (
    "Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused') } });"
)


@pytest.mark.parametrize(
    ("dark", "storage", "expected"),
    [
        (False, "", [LIGHT, DARK, DARK, LIGHT]),
        (True, "", [DARK, LIGHT, LIGHT, DARK]),
        (False, NO_STORAGE, [LIGHT, DARK, LIGHT, DARK]),
    ],
)
def test_the_theme_follows_the_system_and_then_the_reader(
    browser: Browser, made: Path, dark: bool, storage: str, expected: list[tuple[str, str]]
) -> None:
    def switching(opened: Opened) -> list[tuple[str, str]]:
        page, seen = opened.page, []
        page.add_init_script(storage)
        for act in (opened.load, lambda: page.click(".theme")) * 2:
            act()
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            seen.append((str(colour), page.inner_text(".theme")))
        assert opened.messages == []
        return seen

    assert browser.visit(made, switching, dark=dark) == expected


# --- links, parts, paper


def test_a_link_opens_what_its_target_is_in_also_the_second_time(page: Page) -> None:
    assert not page.is_visible("#far")
    for _ in range(2):
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = false })")
        page.evaluate("scrollTo(0, 0)")
        page.click("#link")
        page.wait_for_function("document.activeElement.id === 'far'")
        box = page.locator("#far").bounding_box()
        assert page.is_visible("#far")
        assert box is not None
        assert 0 <= box["y"] < 900
        page.evaluate("document.activeElement.blur()")


def test_an_address_with_a_fragment_opens_its_target(page: Page, made: Path) -> None:
    """Unknown ones are ignored, without a complaint."""
    for fragment in ("none", "%E0%A4%A", "%", "<b>", "a'b\"c", "far"):
        page.goto("about:blank")
        page.goto(f"{made.as_uri()}#{fragment}")
        assert page.is_visible("#far") == (fragment == "far")


def test_the_skip_link_leads_past_the_bar(page: Page) -> None:
    for key in ("Tab", "Enter", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.closest('.bar')") is None
    assert page.evaluate("scrollX") == 0


def test_paper_has_the_evidence_and_not_the_code(page: Page) -> None:
    """What the reader opened stays open."""

    def printed(event: str) -> list[bool]:
        page.evaluate("(name) => { dispatchEvent(new Event(name)) }", event)
        return list(page.eval_on_selector_all("#paper, #code", "(all) => all.map((e) => e.open)"))

    assert [printed("beforeprint"), printed("afterprint")] == [[True, False], [False, False]]
    page.click("#paper > summary")
    page.pdf()
    assert page.eval_on_selector("#paper", "(each) => each.open")


# --- without the script


def test_without_scripts_the_page_is_readable(browser: Browser, made: Path) -> None:
    def reading(opened: Opened) -> None:
        locate = opened.page.locator
        assert locate("button:visible").count() == 0
        assert locate("tbody tr:visible").count() == 14
        assert locate("#text").inner_text() == COPIED
        assert opened.messages == []

    browser.visit(made, reading, javascript=False)
