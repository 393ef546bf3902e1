"""What the page's own script does: copying, filtering, sorting, tooltips, the theme, links into closed
parts, paper. And that a page is readable where scripts are switched off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from keet.formats.html.markup import Html, element
from keet.formats.html.page import bar, page
from tests.browser.driver import Browser, Opened
from tests.browser.sample_pages import one_launch

pytestmark = pytest.mark.slow

Found = TypeVar("Found")
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
    path.write_text(page("A page", bar("a page", [("plain", "Plain")]), *BODY), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser: Browser, made: Path) -> Callable[[Callable[[Opened], Found]], Found]:
    """Do something with the page, and look that it did not complain."""

    def visiting(do: Callable[[Opened], Found], **how: Any) -> Found:
        def checked(opened: Opened) -> Found:
            found = do(opened)
            assert opened.messages == []
            return found

        return browser.visit(made, checked, **how)

    return visiting


Visit = Callable[..., Any]


def text_of(opened: Opened, selector: str) -> str:
    return opened.page.text_content(selector) or ""


def is_open(opened: Opened, selector: str) -> bool:
    return bool(opened.page.eval_on_selector(selector, "(each) => each.open"))


# --- copying


def pasted(opened: Opened) -> str:
    return str(opened.page.evaluate("navigator.clipboard.readText()"))


def copied(opened: Opened, before: str | None = None) -> tuple[str, str]:
    """What the clipboard has after a click, and what the button says. `before`: a script that the
    page finds when it is loaded."""
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    if before:
        opened.page.add_init_script(before)
        opened.load()
    opened.page.click("#copy")
    opened.page.wait_for_function("document.getElementById('copy').textContent !== 'Copy'")
    return pasted(opened), text_of(opened, "#copy")


def test_a_button_copies_the_exact_text_and_says_so(visit: Visit) -> None:
    assert visit(copied) == (COPIED, "Copied")


def test_copying_without_the_clipboard_interface(visit: Visit) -> None:
    refuses = "navigator.clipboard.writeText = () => Promise.reject(new Error('no'));"
    assert visit(lambda opened: copied(opened, refuses)) == (COPIED, "Copied")


def test_where_nothing_can_be_copied_the_text_is_shown(visit: Visit) -> None:
    refuses = (
        "navigator.clipboard.writeText = () => Promise.reject(new Error('no'));"
        "document.execCommand = () => false;"
    )

    def refused(opened: Opened) -> tuple[str, str]:
        _, said = copied(opened, refuses)
        return said, str(opened.page.evaluate("document.activeElement.id"))

    said, focused = visit(refused)
    assert said == "Not copied: select the text below"
    assert focused == "text"


def test_the_button_gets_its_name_back(visit: Visit) -> None:
    def later(opened: Opened) -> str:
        opened.page.clock.install()
        opened.load()
        copied(opened)
        opened.page.clock.run_for(3000)
        return text_of(opened, "#copy")

    assert visit(later) == "Copy"


def test_the_prompt_context_of_a_report(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from keet.cli import main
    from tests.browser.sample_pages import SLOW

    assert main(["context", str(SLOW)]) == 0
    wanted = capsys.readouterr().out

    def copying(opened: Opened) -> str:
        opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        opened.page.click("text=Copy prompt context")
        opened.page.wait_for_selector("text=Copied")
        return pasted(opened)

    assert browser.visit(one_launch(tmp_path), copying) == wanted


# --- tables


def column(opened: Opened) -> list[str]:
    script = "(cells) => cells.map((each) => each.dataset.value)"
    return list(opened.page.eval_on_selector_all("tbody td", script))


def test_unknown_values_stay_last_in_either_order(visit: Visit) -> None:
    def sorting(opened: Opened) -> list[list[str]]:
        orders = []
        for _ in range(2):
            opened.page.click("text=Time")
            orders.append(column(opened))
        return orders

    down, up = visit(sorting)
    known = sorted((int(value) for value in down if value), reverse=True)
    assert down == [*map(str, known), "", ""]
    assert up == [*map(str, reversed(known)), "", ""]


def test_text_is_sorted_with_numbers_in_it(visit: Visit) -> None:
    def sorting(opened: Opened) -> list[str]:
        opened.page.click("th >> text=Kernel")
        return list(opened.page.eval_on_selector_all("tbody th", "(all) => all.map((e) => e.textContent)"))  # fmt: skip

    assert visit(sorting) == [f"kernel {number}" for number in range(14)]


def test_the_filter_takes_all_words_and_counts(visit: Visit) -> None:
    def filtering(opened: Opened) -> list[tuple[int, str]]:
        seen = []
        for words in ("KERNEL", "kernel us 1", "nothing like it", ""):
            opened.page.fill("input[type=search]", words)
            shown = opened.page.locator("tbody tr:visible").count()
            seen.append((shown, text_of(opened, ".filter [role=status]").strip()))
        return seen

    assert visit(filtering) == [(14, "14 of 14"), (5, "5 of 14"), (0, "0 of 14"), (14, "")]


# --- tooltips


def tip(opened: Opened) -> str | None:
    shown = opened.page.locator(".tip:visible")
    return shown.text_content() if shown.count() else None


def test_tooltips_by_mouse_keyboard_and_escape(visit: Visit) -> None:
    def trying(opened: Opened) -> list[str | None]:
        seen, page = [tip(opened)], opened.page
        acts: list[Callable[[], object]] = [
            lambda: page.hover("#mark"),
            lambda: page.mouse.move(0, 0),
            lambda: page.focus("#mark"),
            lambda: page.keyboard.press("Escape"),
            lambda: page.hover("#mark"),
            lambda: page.evaluate("scrollTo(0, 300)"),
        ]
        for act in acts:
            act()
            page.evaluate("new Promise((done) => requestAnimationFrame(done))")
            seen.append(tip(opened))
        return seen

    words = "L2\n83 % busy"
    assert visit(trying) == [None, words, None, words, None, words, None]


def test_a_tooltip_stays_inside_the_window(visit: Visit) -> None:
    def box(opened: Opened) -> Any:
        opened.page.focus("#mark")
        return opened.page.locator(".tip").bounding_box()

    for width in (400, 1200):
        found = visit(box, width=width)
        assert found["x"] >= 0
        assert found["x"] + found["width"] <= width
        assert found["y"] >= 0


def test_a_mark_has_its_words_for_screen_readers(visit: Visit) -> None:
    def named(opened: Opened) -> list[str | None]:
        own = [opened.page.get_attribute("#mark", name) for name in ("aria-label", "role")]
        return [*own, opened.page.get_attribute("svg:has(#mark)", "role")]

    assert visit(named) == ["L2\n83 % busy", "img", "group"]


# --- the theme


def theme(opened: Opened) -> tuple[str, str]:
    """The background, and what the button offers."""
    colour = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return str(colour), text_of(opened, ".theme")


LIGHT, DARK = "rgb(247, 248, 250)", "rgb(15, 20, 25)"


def test_the_theme_follows_the_system_and_then_the_reader(visit: Visit) -> None:
    def switching(opened: Opened) -> list[tuple[str, str]]:
        seen = [theme(opened)]
        for act in (lambda: opened.page.click(".theme"), opened.load, lambda: opened.page.click(".theme")):  # fmt: skip
            act()
            seen.append(theme(opened))
        return seen

    light, dark = (LIGHT, "Dark"), (DARK, "Light")
    assert visit(switching) == [light, dark, dark, light]
    assert visit(switching, dark=True) == [dark, light, light, dark]


def test_the_theme_without_storage(visit: Visit) -> None:
    throws = (
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused') } });"
    )

    def switching(opened: Opened) -> list[tuple[str, str]]:
        opened.page.add_init_script(throws)
        opened.load()
        opened.page.click(".theme")
        seen = [theme(opened)]
        opened.load()
        return [*seen, theme(opened)]

    assert visit(switching) == [(DARK, "Light"), (LIGHT, "Dark")]


# --- links, parts, paper


def test_a_link_opens_what_its_target_is_in_also_the_second_time(visit: Visit) -> None:
    def following(opened: Opened) -> list[bool]:
        seen = [opened.page.is_visible("#far")]
        for _ in range(2):
            opened.page.evaluate(
                "document.querySelectorAll('details').forEach((e) => { e.open = false })"
            )
            opened.page.evaluate("scrollTo(0, 0)")
            opened.page.click("#link")
            opened.page.wait_for_function("document.activeElement.id === 'far'")
            box = opened.page.locator("#far").bounding_box()
            seen.append(opened.page.is_visible("#far") and box is not None and 0 <= box["y"] < 900)
            opened.page.evaluate("document.activeElement.blur()")
        return seen

    assert visit(following) == [False, True, True]


def test_an_address_with_a_fragment_opens_its_target(visit: Visit, made: Path) -> None:
    def opening(opened: Opened) -> bool:
        opened.page.goto("about:blank")
        opened.page.goto(f"{made.as_uri()}#far")
        return opened.page.is_visible("#far")

    assert visit(opening)


def test_unknown_fragments_are_ignored(visit: Visit, made: Path) -> None:
    def opening(opened: Opened) -> list[str]:
        for fragment in ("none", "%E0%A4%A", "%", "<b>", "a'b\"c"):
            opened.page.goto("about:blank")
            opened.page.goto(f"{made.as_uri()}#{fragment}")
        return opened.messages

    assert visit(opening) == []


def test_the_skip_link_leads_past_the_bar(visit: Visit) -> None:
    def skipping(opened: Opened) -> list[bool]:
        inside = "document.activeElement.closest('.bar') !== null"
        opened.page.keyboard.press("Tab")
        opened.page.keyboard.press("Enter")
        opened.page.keyboard.press("Tab")
        return [bool(opened.page.evaluate(inside)), bool(opened.page.evaluate("scrollX === 0"))]

    assert visit(skipping) == [False, True]


def test_paper_has_the_evidence_and_not_the_code(visit: Visit) -> None:
    parts = ("#paper", "#code")

    def printing(opened: Opened) -> list[list[bool]]:
        states = []
        for event in ("beforeprint", "afterprint"):
            opened.page.evaluate("(name) => { dispatchEvent(new Event(name)) }", event)
            states.append([is_open(opened, part) for part in parts])
        return states

    assert visit(printing) == [[True, False], [False, False]]


def test_what_the_reader_opened_stays_open_after_printing(visit: Visit) -> None:
    def printing(opened: Opened) -> bool:
        opened.page.click("#paper > summary")
        opened.page.pdf()
        return is_open(opened, "#paper")

    assert visit(printing)


# --- without the script


def test_without_scripts_the_page_is_readable(browser: Browser, made: Path) -> None:
    def reading(opened: Opened) -> dict[str, Any]:
        locate = opened.page.locator
        return {
            "buttons": locate("button:visible").count(),
            "rows": locate("tbody tr:visible").count(),
            "text": locate("#text").inner_text(),
            "messages": opened.messages,
        }

    seen = browser.visit(made, reading, javascript=False)
    assert seen == {"buttons": 0, "rows": 14, "text": COPIED, "messages": []}
