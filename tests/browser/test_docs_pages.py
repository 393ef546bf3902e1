"""The documentation site as it is built: its HTML, and some of its pages in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.checks import message_faults, sideways_faults
from tests.browser.driver import Browser, Opened
from tests.page_parts import PageParts

ROOT = Path(__file__).parent.parent.parent


def values(page: PageParts, tag: str, name: str) -> list[str]:
    return [each[name] or "" for each in page.attributes(tag) if name in each]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs"]
    command += ["-d", str(out.with_name("doctrees")), ".", str(out)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    """In the HTML: every target is a file of the site with that id, or an https address."""
    pages = {path: PageParts(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for href in (*values(page, "a", "href"), *values(page, "img", "src")):
            if href.startswith(("https://", "mailto:")):
                continue
            name, _, anchor = href.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_relative_to(site.resolve()), (path, href)
            assert target.is_file(), (path, href)
            assert not anchor or anchor in pages[target].ids, (path, href)


@pytest.mark.slow
def test_pages_load_nothing_foreign(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = PageParts(path.read_text(encoding="utf-8"))
        loaded = [
            *values(page, "script", "src"),
            *values(page, "link", "href"),
            *values(page, "img", "src"),
        ]
        assert [each for each in loaded if "//" in each] == []
    for path in (site / "_static").rglob("*.css"):
        assert not re.search(r"@import|url\(.?https?:", path.read_text(encoding="utf-8"))


LOOKED_AT = ["index", "getting_started", "metrics/speed_of_light", "commands/explain"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOKED_AT)
def test_pages_in_a_browser(browser: Browser, site: Path, name: str) -> None:
    """What depends on our pages; the theme's own parts are not judged here."""

    def faults(opened: Opened) -> list[str]:
        found: list[str] = []
        for width in (400, 1200, 1920):
            opened.again(width)
            foreign = [each for each in opened.requests if not each.startswith("file:")]
            found += [f"asks for {each}" for each in foreign]
            found += sideways_faults(opened) + message_faults(opened)
        return found

    assert browser.visit(site / "docs" / f"{name}.html", faults) == []


@pytest.mark.slow
def test_the_search_works_from_a_folder(browser: Browser, site: Path) -> None:
    def searched(opened: Opened) -> list[str]:
        opened.page.fill("input[name=q]", "bank conflict")
        opened.page.keyboard.press("Enter")
        opened.page.wait_for_selector("ul.search li a")
        return [
            link.get_attribute("href") for link in opened.page.query_selector_all("ul.search a")
        ]

    found = browser.visit(site / "docs" / "metrics" / "occupancy.html", searched)
    assert "docs/findings/shared_bank_conflict.html" in found[:5]


@pytest.mark.slow
def test_code_has_colours_and_copy_buttons(browser: Browser, site: Path) -> None:
    def counted(opened: Opened) -> tuple[int, int]:
        code = opened.page.locator("div.highlight")
        return code.count(), code.locator("button.copybtn").count()

    blocks, buttons = browser.visit(site / "docs" / "getting_started.html", counted)
    assert blocks == buttons > 4
    page = (site / "docs" / "python.html").read_text(encoding="utf-8")
    assert '<span class="kn">import</span>' in page
