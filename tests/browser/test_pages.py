"""Pages of every kind in a browser: readable at every width, in light and dark, by mouse, by keyboard,
on paper and without JavaScript; and no larger than they may be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.checks import all_faults
from tests.browser.driver import Browser, Opened
from tests.browser.sample_pages import KINDS, SAMPLES, written
from tests.page_parts import PageParts

pytestmark = pytest.mark.slow

LARGEST = 1_500_000
"""Bytes of a page with up to five launches, beyond the text of its sources."""
LARGEST_OF_MANY = 6_000_000


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a kind, made once."""
    pages: dict[str, Path] = {}

    def get(kind: str) -> Path:
        if kind not in pages:
            pages[kind] = KINDS[kind](tmp_path_factory.mktemp("page"))
        return pages[kind]

    return get


@pytest.mark.parametrize("kind", KINDS)
def test_pages_have_no_fault(browser: Browser, made: Callable[[str], Path], kind: str) -> None:
    """At 400, 1200 and 1920 pixels; contrast in light, in dark and on paper."""
    assert all_faults(browser, made(kind)) == []


def test_the_kinds_are_what_they_are_called(made: Callable[[str], Path]) -> None:
    text = {kind: PageParts(made(kind).read_text(encoding="utf-8")) for kind in KINDS}
    assert "160 launches of 30 kernels" in text["many launches"].text
    assert len(text["many launches"].attributes("tr")) > 100
    assert "launch-0-source" in text["one launch"].ids
    sections = {kind: [key for key in page.ids if key.endswith("-source")] for kind, page in text.items()}  # fmt: skip
    assert len(sections["five launches"]) == 5
    assert "No line information: build with nvcc -lineinfo" in text["without source"].text
    assert "7.02x faster" in text["difference"].text
    assert "dot over BLOCK: fastest at 1024" in text["sweeps"].text


def test_sizes(made: Callable[[str], Path], tmp_path: Path) -> None:
    """The large kernel has 6,679 instructions, the most of any sample, with all of their code."""
    sizes = {kind: made(kind).stat().st_size for kind in KINDS}
    large = written(tmp_path, "explain", "--no-model", SAMPLES / "mechanism_rates/slow.ncu-repz")
    sizes["a large kernel"] = large.stat().st_size
    assert sizes.pop("many launches") <= LARGEST_OF_MANY
    assert {kind: size for kind, size in sizes.items() if size > LARGEST} == {}


# --- the page of explain

SEEN_FIRST = (".answer", "#launch-0-account svg", "#launch-0-memory svg", "#launch-0-roofline svg")
KERNELS = ".beside tbody tr:not([hidden]) th a"


def test_the_answer_and_the_pictures_are_above_the_fold(browser: Browser, tmp_path: Path) -> None:
    page = written(tmp_path, "explain", "--no-model", SAMPLES / "column_physics" / "slow.ncu-repz")

    def bottoms(opened: Opened) -> dict[str, float]:
        opened.page.set_viewport_size({"width": 1400, "height": 1000})
        boxes = {part: opened.page.locator(part).first.bounding_box() for part in SEEN_FIRST}
        return {part: box["y"] + box["height"] for part, box in boxes.items() if box}

    found = browser.visit(page, bottoms)
    assert set(found) == set(SEEN_FIRST)
    assert max(found.values()) <= 1000, found


def test_the_list_of_launches(browser: Browser, made: Callable[[str], Path]) -> None:
    """It has the order of the page, sorts and filters on request, and marks the launch in sight.
    Keys lead through the launches, but not in a text field."""

    def used(opened: Opened) -> None:
        page = opened.page
        names = page.locator(KERNELS)
        first = names.all_inner_texts()
        listed = [link.get_attribute("href") for link in names.all()]
        script = "(parts) => parts.map((each) => `#${each.id}`)"
        parts = page.eval_on_selector_all(".launch", script)
        assert parts == [link for link in listed if link in parts]
        starts = []
        for key in "jjk":
            page.keyboard.press(key)
            starts.append(page.evaluate("scrollY"))
        assert 0 < starts[0] < starts[1]
        assert starts[2] == starts[0]
        page.keyboard.press("?")
        assert page.is_visible("dialog")
        page.keyboard.press("Escape")
        assert not page.is_visible("dialog")
        page.click(".beside th:has-text('Kernel') button")
        assert names.all_inner_texts() == sorted(first, key=str.lower)
        page.keyboard.press("/")
        page.keyboard.type("jk?")
        assert page.evaluate("document.activeElement.value") == "jk?"
        assert not page.is_visible("dialog")
        page.fill("input[type=search]", first[0])
        assert names.all_inner_texts() == [first[0]]
        names.first.click()
        page.wait_for_selector(".beside a[aria-current]")
        assert page.inner_text(".beside a[aria-current]") == first[0]
        assert page.url.endswith(names.first.get_attribute("href") or "none")

    browser.visit(made("many launches"), used, width=1400)


@pytest.mark.parametrize("javascript", [True, False])
def test_the_list_is_folded_on_a_phone(
    browser: Browser, made: Callable[[str], Path], javascript: bool
) -> None:
    def state(opened: Opened) -> tuple[bool, bool]:
        is_sideways = opened.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        return opened.page.is_visible(".beside table"), is_sideways

    page = made("many launches")
    found = browser.visit(page, state, width=420, javascript=javascript)
    assert found == (not javascript, False)
